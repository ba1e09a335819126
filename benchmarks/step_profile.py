"""Profiles a training step on a CPU: the time of its operations by purpose, on one thread.

For example:

    python -m benchmarks.step_profile --dtype=bfloat16 --shape 16 128 20
    python -m benchmarks.step_profile --init_checkpoint=albert_small_en --shape 32 128 20

The step is that of `albert pretrain` on a random batch.
"""

import collections
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tensorflow as tf

from albert_cli import program
from albert_tf import load_pretrained
from albert_tf.config import AlbertConfig
from benchmarks.batches import training_batch
from benchmarks.libraries.ours import make_training_step
from benchmarks.report import markdown_table

# Part of an operation type's name -> its purpose; the first match counts.
PURPOSES = {
    "BatchMatMul": "products of tokens with tokens",
    "MatMul": "matrix products with their biases",
    "XLA": "gelu, LayerNorm, cross-entropy and the gradient of softmax, compiled",
    "BiasAddGrad": "gradients of biases",
    "AddN": "sums of gradients",
    "Mul": "multiplications: LAMB",
    "Transpose": "transposes of heads",
    "Cast": "casts",
}
REST = "other passes: residuals, softmax, LAMB"


@dataclass(frozen=True)
class StepProfileSettings:
    """What is measured.

    Attributes:
      dtype: precision to compute in.
      shape: B, T and P of the batch.
      init_checkpoint: a pretrained model, whose sizes the profiled model has. Default: those of ALBERT-base.
    """

    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    shape: tuple[int, int, int] = (16, 128, 20)
    init_checkpoint: str = ""


def operation_seconds(step: Callable[[], float]) -> dict[str, float]:
    """Profiles one step and returns seconds by operation type, without the nested operations.

    Args:
      step: takes one step; already warmed up.
    """
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace()
    with tempfile.TemporaryDirectory() as folder:
        with tf.profiler.experimental.Profile(folder):
            step()
        (path,) = Path(folder).rglob("*.xplane.pb")
        space.ParseFromString(path.read_bytes())
    seconds: collections.Counter[str] = collections.Counter()
    for plane in space.planes:
        for line in plane.lines:
            inside: list[tuple[int, str]] = []  # the end and type of the enclosing operations
            for event in sorted(line.events, key=lambda event: (event.offset_ps, -event.duration_ps)):
                kind = operation(plane.event_metadata[event.metadata_id].name)
                if kind is None:
                    continue
                while inside and inside[-1][0] <= event.offset_ps:
                    inside.pop()
                if inside:
                    seconds[inside[-1][1]] -= event.duration_ps * 1e-12
                seconds[kind] += event.duration_ps * 1e-12
                inside.append((event.offset_ps + event.duration_ps, kind))
    return dict(seconds)


def operation(event: str) -> str | None:
    """The operation type of a profiler event.

    "model/query/MatMul:MatMul" -> "MatMul"; "CpuExecutable::ExecuteAsyncOnStream" -> "XLA"; None for other events,
    such as "ExecutorState::Process", which contain operations.
    """
    if event.endswith("::ExecuteAsyncOnStream"):
        return "XLA"
    matched = re.fullmatch(r"[^:\s]+:(\w+)", event)
    return matched and matched[1]


def by_purpose(seconds: dict[str, float]) -> dict[str, float]:
    """Adds up the seconds of operation types by `PURPOSES`."""
    totals: collections.Counter[str] = collections.Counter()
    for kind, spent in seconds.items():
        totals[next((what for part, what in PURPOSES.items() if part in kind), REST)] += spent
    return dict(totals.most_common())


def main(settings: StepProfileSettings) -> None:
    """Profiles a step; prints its time on one thread, and the shares as a Markdown table."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    source = settings.init_checkpoint
    config = load_pretrained(source).model.config if source else AlbertConfig()
    step = make_training_step(config, training_batch(*settings.shape, config.vocab_size), settings.dtype)
    for _ in range(2):
        step()
    totals = by_purpose(operation_seconds(step))
    total = sum(totals.values())
    rows = [(what, f"{spent / total:.1%}") for what, spent in totals.items()]
    print(f"{total:.2f} s\n\n{markdown_table(('', 'share'), rows)}")


if __name__ == "__main__":
    sys.exit(program.run_with_settings(main, StepProfileSettings, __doc__))
