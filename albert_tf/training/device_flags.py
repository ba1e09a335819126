"""The flags about devices and memory, which pretraining and fine-tuning share."""

import dataclasses
import json
import os
from dataclasses import dataclass, field
from typing import Literal

from albert_tf.config import Remat
from data_prep.errors import InputError, check_at_least

Tracker = Literal["mlflow", "wandb"]  # of albert_tf/training/trackers.py
NOT_STORED = {"stored": False}  # the metadata of a plan's field that settings.json does not hold


@dataclass(frozen=True, kw_only=True)
class DeviceFlags:
    """Where training runs, and how it fits there.

    Attributes:
      backend: library that computes the model. "jax" is for GPUs and for TPUs of all generations, "tensorflow" for
        TPUs up to v5e and for CPUs. A run may resume on the other one. Default: the environment variable
        KERAS_BACKEND if it names one of the two, or else tensorflow.
      tpu: TPU to train on with TensorFlow: its name, its grpc:// address, or "local" on the TPU's own machine. JAX
        finds the TPU of its machine by itself.
      strategy: how TensorFlow distributes training. "one" uses one device; "mirrored", all GPUs of this machine;
        "multi_worker", one process on each machine that TF_CONFIG lists, with --output_dir on a shared disk or at
        an address.
        "auto" uses all that is available.
      num_devices: number of GPUs to use, with JAX also of TPU chips; without accelerators, number of virtual
        devices to divide the CPU into. Default: all accelerators, or one CPU device.
      coordinator_address: HOST:PORT of the first of several processes that train together with JAX; the port must
        be free on that host. Not needed on Cloud TPU and under Slurm, which tell.
      num_processes: number of these processes.
      process_id: number of this process among them, from 0.
      deterministic_ops: use only deterministic operations, so that runs with the same flags on the same devices
        give the same results to the bit. GPUs become slower. The time spent waiting for input is not measured.
      gradient_accumulation_steps: number of micro-batches that each device divides its share of a batch into.
        More need less memory and give the same result.
      remat: recompute activations in the backward pass instead of storing them. "activations" recomputes
        attention probabilities and gelu and costs a few percent of speed. "layers", or the flag without a value,
        recomputes everything inside each layer; it needs the least memory and costs about a third of the speed.
      scan_layers: compile layers that share their parameters once, as a loop. Training starts sooner, above all
        with XLA and on TPUs; without XLA the steps are no faster.
      mixed_precision: "bfloat16" computes in bfloat16 and keeps weights, losses, LayerNorm and optimizer in
        float32. Use it on TPUs, recent GPUs, and CPUs with AMX or AVX512-BF16.
      iterations_per_loop: number of steps between checks for signals and updates of the progress bar. Default:
        as many as take about 2 seconds; 10 with several workers.
    """

    backend: Literal["tensorflow", "jax"] | None = None
    tpu: str | None = None
    strategy: Literal["auto", "one", "mirrored", "multi_worker"] = "auto"
    num_devices: int | None = None
    coordinator_address: str | None = field(default=None, metadata=NOT_STORED)
    num_processes: int | None = field(default=None, metadata=NOT_STORED)
    process_id: int | None = field(default=None, metadata=NOT_STORED)
    deterministic_ops: bool = False
    gradient_accumulation_steps: int = 1
    remat: Remat = False
    scan_layers: bool = False
    mixed_precision: Literal["bfloat16"] | None = None
    iterations_per_loop: int | None = None

    @property
    def chosen_backend(self) -> Literal["tensorflow", "jax"]:
        """What computes the model, by the flag or the environment."""
        return "jax" if (self.backend or os.environ.get("KERAS_BACKEND")) == "jax" else "tensorflow"

    @property
    def uses_jax(self) -> bool:
        """Whether JAX computes the model."""
        return self.chosen_backend == "jax"

    def _check_backend(self) -> None:
        """Raises InputError if a flag is of the other backend, or if processes are described in part."""
        tensorflow = {"tpu": self.tpu, "strategy": None if self.strategy == "auto" else self.strategy}
        processes = {
            name: getattr(self, name) for name in ("coordinator_address", "num_processes", "process_id")
        }
        for name, value in (tensorflow if self.uses_jax else processes).items():
            if value is not None:
                other = "tensorflow" if self.uses_jax else "jax"
                raise InputError(
                    f"--{name} is a flag of --backend={other}. Received {value} with "
                    f"--backend={self.chosen_backend}; omit it, or choose the other backend."
                )
        missing = [f"--{name}" for name, value in processes.items() if value is None]
        if 0 < len(missing) < len(processes):
            raise InputError(
                "--coordinator_address, --num_processes and --process_id describe several processes together. "
                f"Received no {' and no '.join(missing)}; give all three, or none under Slurm and on Cloud TPU."
            )
        host, _, port = (self.coordinator_address or "host:0").rpartition(":")
        if not (host and port.isdecimal()):
            raise InputError(
                "--coordinator_address must be HOST:PORT of the first process. Received "
                f"{self.coordinator_address}."
            )
        if self.num_processes is not None and not 0 <= (self.process_id or 0) < self.num_processes:
            raise InputError(
                f"--process_id must be a number from 0 to --num_processes - 1. Received {self.process_id} of "
                f"{self.num_processes}."
            )

    def check_devices(self) -> None:
        """Raises InputError if a number is below 1, or if flags choose devices in two ways."""
        check_at_least(1, self, "num_devices", "gradient_accumulation_steps", "iterations_per_loop")
        self._check_backend()
        if self.tpu and self.strategy != "auto":
            raise InputError(
                "--tpu and --strategy cannot be combined: both choose devices. Received "
                f"{self.tpu} and {self.strategy}; omit one."
            )
        if self.num_devices and (self.tpu or self.strategy in ("one", "multi_worker")):
            other = f"--tpu={self.tpu}" if self.tpu else f"--strategy={self.strategy}"
            raise num_devices_conflict(self.num_devices, other)


def num_devices_conflict(num_devices: int, other: str) -> InputError:
    """The error for --num_devices together with a flag `other` that chooses other devices."""
    return InputError(
        f"--num_devices is for several devices of one machine. Received {num_devices} with {other}; omit one."
    )


def at_most(examples: int, batch_size: int, shares: int) -> int:
    """A batch that is no larger than the data, but for what makes it divisible into `shares`."""
    return min(batch_size, -(-examples // shares) * shares)


def check_batch_divides(batch_size: int, replicas: int, parts: int) -> None:
    """Raises InputError if a training batch does not divide evenly over replicas and micro-batches."""
    shares = replicas * parts
    if batch_size % shares:
        raise InputError(
            "--train_batch_size must be divisible by the number of devices times --gradient_accumulation_steps. "
            f"Received {batch_size}, which is not divisible by {replicas} x {parts}; use for instance "
            f"{batch_size // shares * shares or shares}."
        )


def settings_json(plan: DeviceFlags) -> str:
    """The text of settings.json for a plan: its flags, those about devices last."""
    devices = {field.name for field in dataclasses.fields(DeviceFlags)}
    names = [field.name for field in dataclasses.fields(plan) if field.metadata.get("stored", True)]
    values = {name: getattr(plan, name) for name in sorted(names, key=lambda name: name in devices)}
    return json.dumps(values, indent=2, default=dataclasses.asdict) + "\n"
