"""Where the time of a training step goes on a CPU: its operations on one thread, by what they are for.

    python -m benchmarks.step_profile --dtype=bfloat16 --shape 16 128 20

ALBERT-base, as `albert pretrain` trains it, on a random batch.
"""

import argparse
import collections
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.lab.training_step import make_training_step, random_training_batch

# What the types of operations are for; the first part of a name that fits decides.
PURPOSES = {
    "BatchMatMul": "products of tokens with tokens",
    "MatMul": "matrix products with their biases",
    "XLA": "gelu, LayerNorm and the gradient of softmax, compiled",
    "BiasAddGrad": "gradients of biases",
    "CrossEntropy": "cross-entropy",
    "AddN": "sums of gradients",
    "Mul": "multiplications: slope of gelu, LAMB",
    "Transpose": "transposes of heads",
    "Cast": "casts",
}
REST = "other passes: residuals, softmax, LAMB"


def operation_seconds(step: Callable[[], float]) -> dict[str, float]:
    """Seconds of one step by type of operation, each without the operations inside it.

    Args:
      step: takes one step and has taken some.
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
            inside: list[tuple[int, str]] = []  # the end and type of those that have not ended
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
    """The type of operation of a profiler's event.

    "model/query/MatMul:MatMul" -> "MatMul"; "CpuExecutable::ExecuteAsyncOnStream" -> "XLA"; others, such as
    "ExecutorState::Process", contain operations: None.
    """
    if event.endswith("::ExecuteAsyncOnStream"):
        return "XLA"
    matched = re.fullmatch(r"[^:\s]+:(\w+)", event)
    return matched and matched[1]


def by_purpose(seconds: dict[str, float]) -> dict[str, float]:
    """Seconds of operations added up by `PURPOSES`."""
    totals: collections.Counter[str] = collections.Counter()
    for kind, spent in seconds.items():
        totals[next((what for part, what in PURPOSES.items() if part in kind), REST)] += spent
    return dict(totals.most_common())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="bfloat16")
    parser.add_argument("--shape", type=int, nargs=3, metavar=("B", "T", "P"), default=(16, 128, 20))
    flags = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    config = AlbertConfig()
    step = make_training_step(config, random_training_batch(*flags.shape, config.vocab_size), flags.dtype)
    for _ in range(2):
        step()
    totals = by_purpose(operation_seconds(step))
    total = sum(totals.values())
    print(f"{total:.2f} s\n\n| | share |\n|---|---|")
    for what, spent in totals.items():
        print(f"| {what} | {spent / total:.1%} |")


if __name__ == "__main__":
    main()
