"""Compiles the training step with Google's TPU compiler, without a TPU; reports memory and FLOPs per device.

For example:

    pip install '.[tpu-compile]'
    python -m experiments.tpu_compile --preset=albert_xxlarge_v2 --topology=v5e:4x4 --batch_size=256 --remat

libtpu contains the compiler and compiles the step for a described topology, without hardware. With
KERAS_BACKEND=jax, it is the step of `--backend=jax` on all devices of the topology, with the all-reduce of the
gradients. Otherwise, it is TensorFlow's step on one device, without the all-reduce, which moves as many bytes as
the parameters have. Each device processes `batch_size` / devices examples; a device is a chip, and on v4 and TPU7x
half of one. `--largest` finds the largest batch that fits on a device; `--task=classification` compiles the step
of fine-tuning.
"""

import json
import math
import os
import re
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")  # this machine has no TPU to describe
os.environ.setdefault("TPU_ACCELERATOR_TYPE", "v5litepod-4")
os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")  # the lock protects chips, and there are none
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import tensorflow as tf

from albert_cli import program
from albert_tf import TextClassifier
from albert_tf.config import PRESETS, AlbertConfig, Remat
from albert_tf.flops import TPU_TFLOPS, training_flops
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.optimizers import AdamW, Lamb, WarmupPolynomialDecay
from albert_tf.pretraining.objective import PretrainingObjective
from albert_tf.tasks.objective import TaskObjective
from albert_tf.training.steps import Objective
from albert_tf.training.tensorflow_devices import TensorFlowDevices
from data_prep.errors import InputError, needs_extra
from data_prep.files import write_json

PAPER_BATCH, PAPER_STEPS = 4096, 125_000

# Of a chip, from the pages that `flops.TPU_TFLOPS` cites: GiB of memory; devices, if it is more than one; and GB/s
# that each link to another chip carries in one direction. For v4, the page has no such rate.
MEMORY = {"v4": 32, "v5e": 16, "v5p": 95, "v6e": 32, "tpu7x": 192}
DEVICES = {"v4": 2, "tpu7x": 2}
LINK = {"v5e": 50, "v5p": 100, "v6e": 100, "tpu7x": 100}

_COLLECTIVE = re.compile(
    r"= (.*?) (?:all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(?:-start)?\("
)


@dataclass(frozen=True)
class CompileSettings:
    """The flags.

    Attributes:
      task: training step to compile: that of pretraining, or of fine-tuning for a classification of texts in two
        classes.
      preset: preset of `AlbertConfig`; without a version, version 2.
      topology: generation and shape of the TPU, such as v5e:4x4.
      batch_size: number of examples per step, over all devices.
      max_seq_length: length of an example in tokens, T.
      max_predictions_per_seq: maximum number of masked tokens in an example, P. Default: 15% of T.
      remat: recompute activations in the backward pass instead of storing them. "activations" recomputes
        attention probabilities and gelu and costs a few percent of speed. "layers", or the flag without a value,
        recomputes everything inside each layer; it needs the least memory and costs about a third of the speed.
      scan_layers: compile layers that share their parameters once, as a loop. Training starts sooner, above all
        with XLA and on TPUs; without XLA the steps are no faster.
      mixed_precision: precision to compute in: "bfloat16" or "float32".
      gradient_accumulation_steps: number of micro-batches per step.
      largest: find the largest batch that fits on a device, up to --batch_size / devices.
      output: JSON file to write the results to.
    """

    task: Literal["pretraining", "classification"] = "pretraining"
    preset: str = "albert_base_v2"
    topology: str = "v5e:2x2"
    batch_size: int = 64
    max_seq_length: int = 512
    max_predictions_per_seq: int | None = None
    remat: Remat = False
    scan_layers: bool = False
    mixed_precision: Literal["bfloat16", "float32"] = "bfloat16"
    gradient_accumulation_steps: int = 1
    largest: bool = False
    output: Path | None = None


@dataclass(frozen=True)
class Compiled:
    """The compiler's statistics of one device's step.

    Attributes:
      batch_a_device: the number of examples.
      compiler_flops: FLOPs of the step with elementwise and recomputed operations; a loop's body counts once.
      arguments, temporaries, code: sizes in bytes. Weights and moments are updated in place, so they count once.
      seconds: the compilation time.
      fusions: number of operations that the compiler made of several.
      host_transfers: number of operations that exchange data with the host during a step.
      collectives, collective_bytes: number of operations that exchange data with other devices, and their results.
    """

    batch_a_device: int
    compiler_flops: float
    arguments: int
    temporaries: int
    code: int
    seconds: float
    fusions: int = 0
    host_transfers: int = 0
    collectives: int = 0
    collective_bytes: int = 0

    @property
    def memory(self) -> int:
        """The total size in bytes."""
        return self.arguments + self.temporaries + self.code


def main(settings: CompileSettings) -> dict:
    """Compiles the step and prints the report."""
    topology = Topology.named(settings.topology)
    if settings.batch_size % topology.devices:
        raise InputError(
            f"--batch_size must be a multiple of the number of devices. Received {settings.batch_size} for the "
            f"{topology.devices} devices of {settings.topology}."
        )
    a_device = settings.batch_size // topology.devices
    compiled = largest(settings, a_device) if settings.largest else compile_step(settings, a_device)
    if compiled is None:
        report: dict = {"fits": False}
    else:
        an_example = training_flops(
            preset_config(settings.preset), settings.max_seq_length, predictions(settings)
        )
        flops = an_example * compiled.batch_a_device
        report = {
            "fits": True,
            **asdict(compiled),
            "memory": compiled.memory,
            "of_the_devices_memory": round(compiled.memory / topology.memory, 3),
            "flops": flops,
            "step_at_peak_s": flops / topology.peak,
        }
        exchange = topology.all_reduce_seconds(compiled.collective_bytes)
        if is_jax() and exchange is not None:
            report["collectives_s"] = exchange
            report["share_of_collectives"] = round(exchange / (exchange + 2 * flops / topology.peak), 4)
        if settings.task == "pretraining":
            of_the_paper = an_example * PAPER_BATCH * PAPER_STEPS
            days = of_the_paper / (topology.devices * topology.peak / 2) / 86400
            report["the_papers_run_at_half_of_peak_days"] = round(days, 2)
    framework = keras.backend.backend()
    report = {
        "settings": {**asdict(settings), "output": None},
        "framework": framework,
        "devices": topology.devices,
        **report,
    }
    print(json.dumps(report, indent=2))
    if settings.output:
        settings.output.parent.mkdir(parents=True, exist_ok=True)
        write_json(settings.output, report)
    return report


@dataclass(frozen=True)
class Topology:
    """Chips of a TPU, such as the 16 of v5e:4x4.

    Attributes:
      generation: such as v5e.
      shape: the number of chips in each dimension.
    """

    generation: str
    shape: tuple[int, ...]

    @classmethod
    def named(cls, name: str) -> "Topology":
        """Reads a name."""
        matched = re.fullmatch(r"(\w+):(\d+(?:x\d+)+)", name)
        if not matched or matched[1] not in MEMORY:
            raise InputError(
                f"--topology must be one of {', '.join(MEMORY)} and a shape, such as v5e:4x4. Received {name!r}."
            )
        return cls(matched[1], tuple(map(int, matched[2].split("x"))))

    @property
    def devices(self) -> int:
        """Their number on all chips."""
        return math.prod(self.shape) * DEVICES.get(self.generation, 1)

    @property
    def memory(self) -> int:
        """One device's memory in bytes."""
        return (MEMORY[self.generation] << 30) // DEVICES.get(self.generation, 1)

    @property
    def peak(self) -> float:
        """One device's peak rate in bfloat16, in FLOP/s."""
        name = {"v5e": "v5litepod"}.get(self.generation, self.generation)
        return TPU_TFLOPS[name] * 1e12 / DEVICES.get(self.generation, 1)

    def all_reduce_seconds(self, size: int) -> float | None:
        """The least time of all-reduces of some bytes; None if the links' rate is unknown.

        Every chip sends and receives 2 (n - 1) / n times the bytes, n the number of chips, and the chips at the
        corners have one link in each dimension.
        """
        if self.generation not in LINK:
            return None
        chips, links = math.prod(self.shape), sum(length > 1 for length in self.shape)
        return 2 * (chips - 1) / chips * size / (links * LINK[self.generation] * 1e9) if links else 0.0


def largest(settings: CompileSettings, most: int) -> Compiled | None:
    """Finds the largest batch that fits on a device, to within 3%.

    The search approaches it from below, because the compiler needs many times as long, and tens of GB, for a step
    that does not fit.
    """
    memory = Topology.named(settings.topology).memory
    best = compile_step(settings, min(most, 4)) or compile_step(settings, 1)
    if best is None:
        return None
    an_example = best.temporaries / best.batch_a_device
    while True:
        guess = min(most, best.batch_a_device + int(0.98 * (memory - best.memory) / an_example))
        if guess < 1.03 * best.batch_a_device:
            return best
        found = compile_step(settings, guess)
        if found is None:
            most, an_example = guess - 1, 1.25 * an_example
        else:
            an_example = (found.memory - best.memory) / (guess - best.batch_a_device)
            best = found


def compile_step(settings: CompileSettings, batch_a_device: int) -> Compiled | None:
    """Compiles the step for one device; returns None if it does not fit into the device's memory."""
    with needs_extra("Compiling for TPUs", "jax", "tpu-compile"):
        import jax
        from jax.experimental import topologies

    began = time.monotonic()
    devices = topologies.get_topology_desc(topology_name=settings.topology, platform="tpu").devices
    try:
        executable = (jax_step if is_jax() else tensorflow_step)(settings, batch_a_device, devices)
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" in str(error):
            return None
        raise
    memory = executable.get_compiled_memory_stats()
    hlo = "".join(module.to_string() for module in executable.hlo_modules())
    number, size = collectives(hlo)
    return Compiled(
        batch_a_device=batch_a_device,
        compiler_flops=executable.cost_analysis()["flops"],
        arguments=memory.argument_size_in_bytes,
        temporaries=memory.temp_size_in_bytes,
        code=memory.generated_code_size_in_bytes,
        seconds=round(time.monotonic() - began, 1),
        fusions=len(re.findall(r" fusion\(", hlo)),
        host_transfers=len(re.findall(r" (?:infeed|outfeed|send|recv)\(", hlo)),
        collectives=number,
        collective_bytes=size,
    )


def collectives(hlo: str) -> tuple[int, int]:
    """How many operations of compiled HLO exchange data with other devices; the bytes of their results."""
    results = _COLLECTIVE.findall(hlo)
    arrays = [array for result in results for array in re.findall(r"[a-z]+(\d+)\[([\d,]*)\]", result)]
    size = sum(int(bits) // 8 * math.prod(int(n) for n in shape.split(",") if n) for bits, shape in arrays)
    return len(results), size


def is_jax() -> bool:
    """Whether the step is that of JAX."""
    return keras.backend.backend() == "jax"


def jax_step(settings: CompileSettings, batch_a_device: int, devices: list):
    """The step of JAX for all devices, compiled."""
    import jax

    from albert_tf.training.jax_replicas import Replicas
    from albert_tf.training.jax_steps import JaxStep

    objective, optimizer, batch = parts_of_step(settings, batch_a_device * len(devices))
    step = JaxStep(objective, optimizer, Replicas(devices), **step_options(settings))
    lowered = step.lower({name: jax.ShapeDtypeStruct(*array) for name, array in batch.items()})
    check_for_tpu(lowered.as_text())
    return lowered.compile().runtime_executable()


def tensorflow_step(settings: CompileSettings, batch_a_device: int, devices: list):
    """The step of TensorFlow for the first device, compiled."""
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jax._src.lib.mlir import ir

    text = stable_hlo(settings, batch_a_device)
    check_for_tpu(text)
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
    one = xla_client.DeviceList(tuple(devices[:1]))
    return devices[0].client.compile(module, one, xla_client.CompileOptions())


def stable_hlo(settings: CompileSettings, batch_size: int) -> str:
    """TensorFlow's step as StableHLO text: forward, backward, clipping, update of the variables in place."""
    from jax._src.lib import xla_client
    from jaxlib import _jax

    objective, optimizer, shapes = parts_of_step(settings, batch_size)
    batch = {name: tf.zeros(*array) for name, array in shapes.items()}
    train_step = TensorFlowDevices().optimizer_step(objective, optimizer, **step_options(settings))
    step = tf.function(train_step.replica_step, jit_compile=True)
    hlo = step.experimental_get_compiler_ir(batch)(stage="hlo_serialized", platform_name="CPU")
    text = _jax.mlir.xla_computation_to_mlir_module(xla_client.XlaComputation(hlo))
    # The TPU compiler does not know mhlo.copy; a reshape to the same shape is equivalent.
    text = re.sub(r"= mhlo\.copy (%\S+) : (tensor<[^>]*>)", r"= stablehlo.reshape \1 : (\2) -> \2", text)
    return with_updates_in_place(text, len(batch))


def parts_of_step(
    settings: CompileSettings, B: int
) -> tuple[Objective, keras.optimizers.Optimizer, dict[str, tuple]]:
    """What the step minimizes, its optimizer, and the shape and dtype of each array of a batch.

    Pretraining has LAMB, the fine-tuning of a `TextClassifier` AdamW.
    """
    T, P, options = settings.max_seq_length, predictions(settings), model_options(settings)
    batch: dict[str, tuple] = dict.fromkeys(("input_ids", "input_mask", "token_type_ids"), ((B, T), "int32"))
    objective: Objective
    optimizer: keras.optimizers.Optimizer
    if settings.task == "pretraining":
        objective = PretrainingObjective(AlbertPretrainer(preset_config(settings.preset), **options))
        optimizer = Lamb(WarmupPolynomialDecay(0.00176, 125_000, 3_125))
        batch |= dict.fromkeys(("masked_lm_positions", "masked_lm_ids"), ((B, P), "int32"))
        batch |= {"masked_lm_weights": ((B, P), "float32")}
        batch |= {"sentence_order": ((B,), "int32"), "sentence_order_weights": ((B,), "float32")}
    else:
        encoder = AlbertEncoder(preset_config(settings.preset), **options)
        objective = TaskObjective(TextClassifier(encoder, ["0", "1"]))
        optimizer = AdamW(WarmupPolynomialDecay(3e-5, 10_000, 1_000))
        batch |= {"label": ((B,), "int32"), "sample_weight": ((B,), "float32")}
    optimizer.build(objective.model.trainable_variables)
    return objective, optimizer, batch


def model_options(settings: CompileSettings) -> dict:
    """How the model computes."""
    dtype = "mixed_bfloat16" if settings.mixed_precision == "bfloat16" else "float32"
    return {"seed": 1, "dtype": dtype, "remat": settings.remat, "scan_layers": settings.scan_layers}


def step_options(settings: CompileSettings) -> dict:
    """How the step computes."""
    return {"accumulation_steps": settings.gradient_accumulation_steps}


def preset_config(preset: str) -> AlbertConfig:
    """The configuration of a preset; without a version, of version 2."""
    return AlbertConfig.from_preset(preset if preset in PRESETS else f"{preset}_v2")


def predictions(settings: CompileSettings) -> int:
    """P: --max_predictions_per_seq, or 15% of T; none in fine-tuning."""
    if settings.task == "classification":
        return 0
    return settings.max_predictions_per_seq or -(-settings.max_seq_length * 15 // 100)


def with_updates_in_place(text: str, arrays_in_batch: int) -> str:
    """Marks which results are the new values of which arguments, as TPUStrategy does for variables.

    The results are the sums, followed by the variables that changed, in the order of the arguments.
    """
    signature = re.search(r"func\.func @main\((.*?)\) -> \((.*?)\) ?(?:attributes.*?)?\{\n", text, re.S)
    assert signature
    arguments = re.findall(r"%arg\d+: (tensor<[^>]*>)", signature[1])
    results = re.findall(r"tensor<[^>]*>", signature[2])
    aliases: dict[int, int] = {}
    result = 1
    for number, kind in enumerate(arguments):
        is_batch = number < arrays_in_batch
        if not is_batch and result < len(results) and results[result] == kind:
            aliases[number] = result
            result += 1
    assert result == len(results), "all results but the sums are new values of variables"

    def donated(match: re.Match) -> str:
        alias = aliases.get(int(match[2]))
        return match[1] if alias is None else f"{match[1]} {{tf.aliasing_output = {alias} : i32}}"

    return text.replace(signature[1], re.sub(r"(%arg(\d+): tensor<[^>]*>)", donated, signature[1]), 1)


def check_for_tpu(text: str) -> None:
    """Raises ValueError if the step has unknown shapes or calls the host."""
    for problem, pattern in {
        "an unknown dimension": r"tensor<[^>]*\?",
        "a call to the host": r"callback|stablehlo\.(infeed|outfeed|send|recv)\b",
    }.items():
        found = re.search(pattern, text)
        if found:
            raise ValueError(f"The step must run on a TPU without the host. It has {problem}: {found[0]}.")


if __name__ == "__main__":
    raise SystemExit(program.run_with_settings(main, CompileSettings, __doc__))
