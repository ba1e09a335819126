"""Compiles the training step with Google's TPU compiler, without a TPU; reports memory and FLOPs per chip.

For example:

    pip install '.[tpu-compile]'
    python -m experiments.tpu_compile --preset=albert_xxlarge_v2 --topology=v5e:4x4 --batch_size=256 --remat

TensorFlow lowers the step to HLO; libtpu contains the compiler and compiles it for a described topology, without
hardware. Each chip processes `batch_size` / chips examples. The all-reduce of the gradients is not included; it
moves as many bytes as the parameters have, once per step. `--largest` finds the largest batch that fits on a chip.
`--task=classification` compiles the step of fine-tuning. With KERAS_BACKEND=jax, JAX lowers the step of
Keras `fit` instead, for pretraining.
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
import numpy as np
import tensorflow as tf

from albert_cli import program
from albert_tf import TextClassifier
from albert_tf.config import PRESETS, AlbertConfig, Remat
from albert_tf.flops import TPU_TFLOPS, training_flops
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.optimizers import CLIP_NORM, AdamW, Lamb, WarmupPolynomialDecay
from albert_tf.pretraining.steps import PretrainingObjective
from albert_tf.tasks.objective import TaskObjective
from albert_tf.training.tensorflow_devices import TensorFlowDevices
from albert_tf.training.tensorflow_steps import TensorFlowStep
from benchmarks.libraries.ours_on_jax import pure_training_step
from data_prep.errors import InputError, needs_extra
from data_prep.files import write_json

PAPER_BATCH, PAPER_STEPS = 4096, 125_000

# GiB of memory per chip, from the pages that `flops.TPU_TFLOPS` cites.
MEMORY = {"v4": 32, "v5e": 16, "v5p": 95, "v6e": 32}


@dataclass(frozen=True)
class CompileSettings:
    """The flags.

    Attributes:
      task: training step to compile: that of pretraining, or of fine-tuning for a classification of texts in two
        classes.
      preset: preset of `AlbertConfig`; without a version, version 2.
      topology: generation and shape of the TPU, such as v5e:4x4.
      batch_size: number of examples per step, over all chips.
      max_seq_length: length of an example in tokens, T.
      max_predictions_per_seq: maximum number of masked tokens in an example, P. Default: 15% of T.
      remat: recompute activations in the backward pass instead of storing them. "activations" recomputes
        attention probabilities and gelu and costs a few percent of speed. "layers", or the flag without a value,
        recomputes everything inside each layer; it needs the least memory and costs about a third of the speed.
      scan_layers: compile layers that share their parameters once, as a loop. Training starts sooner, above all
        with XLA and on TPUs; without XLA the steps are no faster.
      mixed_precision: precision to compute in: "bfloat16" or "float32".
      gradient_accumulation_steps: number of micro-batches per step.
      largest: find the largest batch that fits on a chip, up to --batch_size / chips.
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
    """The compiler's statistics of one chip's step.

    Attributes:
      batch_a_chip: the number of examples.
      compiler_flops: FLOPs of the step with elementwise and recomputed operations; a loop's body counts once.
      arguments, temporaries, code: sizes in bytes. Weights and moments are updated in place, so they count once.
      seconds: the compilation time.
      fusions: number of operations that the compiler made of several.
      host_transfers: number of operations that exchange data with the host during a step.
    """

    batch_a_chip: int
    compiler_flops: float
    arguments: int
    temporaries: int
    code: int
    seconds: float
    fusions: int = 0
    host_transfers: int = 0

    @property
    def memory(self) -> int:
        """The total size in bytes."""
        return self.arguments + self.temporaries + self.code


def main(settings: CompileSettings) -> dict:
    """Compiles the step and prints the report."""
    chips = number_of_chips(settings.topology)
    memory, peak = memory_of(settings.topology), peak_of(settings.topology)
    if settings.batch_size % chips:
        raise InputError(
            f"--batch_size must be a multiple of the number of chips. Received {settings.batch_size} for the "
            f"{chips} chips of {settings.topology}."
        )
    if is_jax() and (settings.task == "classification" or settings.gradient_accumulation_steps > 1):
        raise InputError(
            "With KERAS_BACKEND=jax, only the step of pretraining is compiled, without micro-batches: leave out "
            "--task and --gradient_accumulation_steps."
        )
    a_chip = settings.batch_size // chips
    compiled = largest(settings, a_chip) if settings.largest else compile_step(settings, a_chip)
    if compiled is None:
        report: dict = {"fits": False}
    else:
        an_example = training_flops(
            preset_config(settings.preset), settings.max_seq_length, predictions(settings)
        )
        flops = an_example * compiled.batch_a_chip
        report = {
            "fits": True,
            **asdict(compiled),
            "memory": compiled.memory,
            "of_the_chips_memory": round(compiled.memory / memory, 3),
            "flops": flops,
            "step_at_peak_s": flops / peak,
        }
        if settings.task == "pretraining":
            of_the_paper = an_example * PAPER_BATCH * PAPER_STEPS
            days = of_the_paper / (chips * peak / 2) / 86400
            report["the_papers_run_at_half_of_peak_days"] = round(days, 2)
    framework = keras.backend.backend()
    report = {
        "settings": {**asdict(settings), "output": None},
        "framework": framework,
        "chips": chips,
        **report,
    }
    print(json.dumps(report, indent=2))
    if settings.output:
        settings.output.parent.mkdir(parents=True, exist_ok=True)
        write_json(settings.output, report)
    return report


def number_of_chips(topology: str) -> int:
    """The number of chips in a topology, such as 16 in v5e:4x4."""
    matched = re.fullmatch(r"(\w+):(\d+(?:x\d+)+)", topology)
    if not matched or matched[1] not in MEMORY:
        raise InputError(
            f"--topology must be one of {', '.join(MEMORY)} and a shape, such as v5e:4x4. Received {topology!r}."
        )
    return math.prod(map(int, matched[2].split("x")))


def memory_of(topology: str) -> int:
    """One chip's memory in bytes."""
    return MEMORY[topology.split(":")[0]] << 30


def peak_of(topology: str) -> float:
    """One chip's peak rate in bfloat16, in FLOP/s."""
    generation = topology.split(":")[0]
    return TPU_TFLOPS[{"v5e": "v5litepod"}.get(generation, generation)] * 1e12


def largest(settings: CompileSettings, most: int) -> Compiled | None:
    """Finds the largest batch that fits on a chip, to within 3%.

    The search approaches it from below, because the compiler needs many times as long, and tens of GB, for a step
    that does not fit.
    """
    memory = memory_of(settings.topology)
    best = compile_step(settings, min(most, 4)) or compile_step(settings, 1)
    if best is None:
        return None
    an_example = best.temporaries / best.batch_a_chip
    while True:
        guess = min(most, best.batch_a_chip + int(0.98 * (memory - best.memory) / an_example))
        if guess < 1.03 * best.batch_a_chip:
            return best
        found = compile_step(settings, guess)
        if found is None:
            most, an_example = guess - 1, 1.25 * an_example
        else:
            an_example = (found.memory - best.memory) / (guess - best.batch_a_chip)
            best = found


def compile_step(settings: CompileSettings, batch_a_chip: int) -> Compiled | None:
    """Compiles the step for one chip; returns None if it does not fit into the chip's memory."""
    began = time.monotonic()
    module = stable_hlo(settings, batch_a_chip)
    check_for_tpu(module)
    executable = compile_for(settings.topology, module)
    if executable is None:
        return None
    memory = executable.get_compiled_memory_stats()
    hlo = "".join(module.to_string() for module in executable.hlo_modules())
    return Compiled(
        batch_a_chip=batch_a_chip,
        compiler_flops=executable.cost_analysis()["flops"],
        arguments=memory.argument_size_in_bytes,
        temporaries=memory.temp_size_in_bytes,
        code=memory.generated_code_size_in_bytes,
        seconds=round(time.monotonic() - began, 1),
        fusions=len(re.findall(r" fusion\(", hlo)),
        host_transfers=len(re.findall(r" (?:infeed|outfeed|send|recv)\(", hlo)),
    )


def is_jax() -> bool:
    """Whether the step is that of Keras on JAX."""
    return keras.backend.backend() == "jax"


def stable_hlo(settings: CompileSettings, batch_a_chip: int) -> str:
    """The training step as StableHLO text: forward, backward, clipping, update of the variables in place."""
    with needs_extra("Compiling for TPUs", "jax", "tpu-compile"):
        import jax
        from jax._src.lib import xla_client
        from jaxlib import _jax

    if is_jax():
        batch = zero_batch(batch_a_chip, settings.max_seq_length, predictions(settings))
        step, state = pure_training_step(*pretrainer_and_lamb(settings))
        traced = jax.jit(step, donate_argnums=(0, 1, 2)).trace(*state, jax.tree.map(np.asarray, batch))
        return traced.lower(lowering_platforms=("tpu",)).as_text()
    make_step = pretraining if settings.task == "pretraining" else classification
    train_step, batch = make_step(settings, batch_a_chip)
    step = tf.function(train_step.replica_step, jit_compile=True)
    hlo = step.experimental_get_compiler_ir(batch)(stage="hlo_serialized", platform_name="CPU")
    text = _jax.mlir.xla_computation_to_mlir_module(xla_client.XlaComputation(hlo))
    # The TPU compiler does not know mhlo.copy; a reshape to the same shape is equivalent.
    text = re.sub(r"= mhlo\.copy (%\S+) : (tensor<[^>]*>)", r"= stablehlo.reshape \1 : (\2) -> \2", text)
    return with_updates_in_place(text, len(batch))


def pretrainer_and_lamb(settings: CompileSettings) -> tuple[AlbertPretrainer, Lamb]:
    """The model and the optimizer of pretraining."""
    model = AlbertPretrainer(preset_config(settings.preset), **model_options(settings))
    schedule = WarmupPolynomialDecay(0.00176, 125_000, 3_125)
    # In our own loop, the step clips.
    return model, Lamb(schedule, global_clipnorm=CLIP_NORM if is_jax() else None)


def pretraining(settings: CompileSettings, batch_a_chip: int) -> tuple[TensorFlowStep, dict]:
    """The step of pretraining, with LAMB, and a batch."""
    model, optimizer = pretrainer_and_lamb(settings)
    optimizer.build(model.trainable_variables)
    step = TensorFlowDevices().optimizer_step(
        PretrainingObjective(model), optimizer, **step_options(settings)
    )
    return step, zero_batch(batch_a_chip, settings.max_seq_length, predictions(settings))


def classification(settings: CompileSettings, batch_a_chip: int) -> tuple[TensorFlowStep, dict]:
    """The step of fine-tuning a `TextClassifier`, with AdamW, and a batch."""
    model = TextClassifier(AlbertEncoder(preset_config(settings.preset), **model_options(settings)), "01")
    optimizer = AdamW(WarmupPolynomialDecay(3e-5, 10_000, 1_000))
    optimizer.build(model.trainable_variables)
    objective = TaskObjective(model)
    B, T = batch_a_chip, settings.max_seq_length
    batch = {
        **{name: tf.zeros((B, T), tf.int32) for name in ("input_ids", "input_mask", "token_type_ids")},
        "label": tf.zeros((B,), tf.int32),
        "sample_weight": tf.zeros((B,)),
    }
    return TensorFlowDevices().optimizer_step(objective, optimizer, **step_options(settings)), batch


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


def zero_batch(B: int, T: int, P: int) -> dict[str, tf.Tensor]:
    """A batch with the shapes and dtypes of the reader's batches."""
    return {
        **{name: tf.zeros((B, T), tf.int32) for name in ("input_ids", "input_mask", "token_type_ids")},
        **{name: tf.zeros((B, P), tf.int32) for name in ("masked_lm_positions", "masked_lm_ids")},
        "masked_lm_weights": tf.zeros((B, P)),
        "sentence_order": tf.zeros((B,), tf.int32),
        "sentence_order_weights": tf.zeros((B,)),
    }


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


def compile_for(topology: str, text: str):
    """Compiles for the first chip of a topology; returns None if the chip's memory is too small."""
    import jax
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jax._src.lib.mlir import ir
    from jax.experimental import topologies

    device = topologies.get_topology_desc(topology_name=topology, platform="tpu").devices[0]
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
    try:
        return device.client.compile(module, xla_client.DeviceList((device,)), xla_client.CompileOptions())
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" in str(error):
            return None
        raise


if __name__ == "__main__":
    raise SystemExit(program.run_with_settings(main, CompileSettings, __doc__))
