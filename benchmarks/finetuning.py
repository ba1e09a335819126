"""Measures fine-tuning on single texts in this and other libraries: examples per second and memory.

For example:

    pip install '.[peers]'
    python -m benchmarks.finetuning --data_dir=SST-2 --spm_model_file=30k-clean.model --output=finetuning.json

All libraries train models of the same size on the same examples. Each runs in its own process, which is stopped
(SIGSTOP) except during its turns. Each makes its own batches: `albert_tf` those of `albert finetune`, of similar
lengths, and `albert_tf_fit` trains on the same through `fit`; `albert_tf_padded` and `keras_hub` make batches of
a fixed length; `hugging_face` pads B random examples to the longest; `hugging_face_grouped` groups similar
lengths. A turn is a sample of the training data with the same distribution of lengths. Batches of a fixed length
all cost the same, so a turn has one of them.
"""

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from albert_cli import program
from albert_tf.config import AlbertConfig
from benchmarks.peers import Library, PeerSettings
from benchmarks.processes import Peer
from benchmarks.report import compare, markdown_table
from data_prep.errors import InputError, check_at_least
from data_prep.files import write_json

LIBRARIES = {
    "albert_tf": Library("ours:finetuning"),
    "albert_tf_padded": Library("ours:finetuning", {"pad": True}),
    "albert_tf_fit": Library("ours:finetuning_with_fit"),
    "hugging_face": Library("hugging_face:finetuning", is_other=True),
    "hugging_face_compiled": Library("hugging_face:finetuning", {"compiled": True}, is_other=True),
    "hugging_face_grouped": Library("hugging_face:finetuning", {"grouped": True}, is_other=True),
    "keras_hub": Library("keras_hub:finetuning", is_other=True),
}
_PADDED_LENGTH = 512  # of `albert_tf_padded`, as in the original
_KERAS_HUB_LENGTH = 128  # of its examples; its preprocessor's default is 512
_POOL = 64  # the number of batches that `bucketed_batches` sorts together
_POOLS = 4  # pools of examples to read, from which each turn draws its own


@dataclass(frozen=True)
class FinetuningBenchmarkSettings(PeerSettings):
    """What is measured.

    Attributes:
      data_dir: folder of the task as downloaded.
      spm_model_file: SentencePiece model of the vocabulary.
      task: name of a task with one text and two classes.
      num_hidden_layers: number of layers in place of base's, for a quick look. `albert_tf` saves time in
        the last layer, which is a larger share of a shallow model.
      batch_size: number of examples per batch.
      turns: number of measured turns of each library; one more turn before them compiles and allocates.
      bucketed_batches: number of batches in a turn; Hugging Face trains on the same examples as `albert_tf`.
      padded_batch_size: number of examples per batch of `albert_tf_padded`, if --batch_size sequences of its
        length do not fit into memory.
    """

    data_dir: str
    spm_model_file: str
    task: str = "sst-2"
    num_hidden_layers: int | None = None
    peers: tuple[str, ...] = field(default=tuple(LIBRARIES), kw_only=True)
    batch_size: int = 32
    turns: int = 5
    bucketed_batches: int = 16
    padded_batch_size: int | None = None

    def __post_init__(self):
        self.check_peers(LIBRARIES)
        check_at_least(1, self, "batch_size", "turns", "padded_batch_size")
        if not 1 <= self.bucketed_batches <= _POOL:
            raise InputError(
                f"--bucketed_batches must be from 1 to {_POOL}. Received {self.bucketed_batches}."
            )


def main(settings: FinetuningBenchmarkSettings) -> dict[str, Any]:
    """Measures all libraries, prints a table for each dtype and returns the report."""
    layers = settings.num_hidden_layers or AlbertConfig().num_hidden_layers
    report = {**settings.report(), "num_hidden_layers": layers}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "examples.json")
        vocab_size = write_examples(settings, file)
        config = AlbertConfig(vocab_size=vocab_size, num_hidden_layers=layers)
        for dtype in settings.dtypes:
            rows = rows_of(measure(settings, file, config, dtype))
            report["runs"].append({"dtype": dtype, "peers": rows})
            settings.write(report)
            print(turn_table(report["runs"][-1]), flush=True)
    return report


def write_examples(settings: FinetuningBenchmarkSettings, file: Path) -> int:
    """Writes the examples of all turns to a file and returns the size of the vocabulary."""
    from albert_tf.tasks.problems import Problems
    from albert_tf.tasks.reading import read_examples
    from albert_tf.tasks.task import find_task
    from albert_tf.tasks.texts.features import text_features
    from albert_tf.tasks.texts.kind import CLASSES
    from data_prep.tokenizers.vocabulary import load_tokenizer

    task = find_task(settings.task)
    if task.kind is not CLASSES or len(task.labels) != 2:
        raise InputError(f"--task must have one text and two classes. Received {task.name}.")
    tokenizer = load_tokenizer(settings.spm_model_file, None, True)
    examples = read_examples(task, settings.data_dir, "train", Problems())
    chosen = np.random.default_rng(0).permutation(len(examples))[: _POOLS * _POOL * settings.batch_size]
    # All libraries get the texts truncated as KerasHub's length requires.
    texts = [examples[row] for row in chosen]
    features = text_features(texts, tokenizer, _KERAS_HUB_LENGTH, task.labels)
    lengths = np.array([len(arrays["input_ids"]) for arrays in features], np.int32)
    turns = [
        [
            {"input_ids": features[row]["input_ids"].tolist(), "label": int(features[row]["label"])}
            for row in sample(lengths, settings.batch_size, settings.bucketed_batches, turn)
        ]
        for turn in range(settings.turns + 1)
    ]
    write_json(file, turns)
    return tokenizer.vocab_size


def sample(lengths: np.ndarray, batch_size: int, batches: int, seed: int) -> np.ndarray:
    """Rows of a turn's examples, int32 [batches * batch_size].

    As many examples as `bucketed_batches` sorts together are sorted by length and cut into batches; one batch is
    drawn from each stretch of them. Sorting the drawn rows again gives the same batches, and their lengths are
    distributed as in training.

    Args:
      lengths: the lengths of all examples.
      batch_size: B.
      batches: the number of batches to draw.
      seed: the seed of the draw.
    """
    rng = np.random.default_rng(seed)
    pool = min(_POOL, len(lengths) // batch_size)
    if batches > pool:
        raise InputError(
            f"--bucketed_batches must not be more than the data allow. Received {batches} with {len(lengths)} "
            "examples."
        )
    rows = rng.permutation(len(lengths))[: pool * batch_size]
    in_order = rows[np.argsort(-lengths[rows], kind="stable")].reshape(pool, batch_size)
    bounds = np.arange(batches + 1) * pool // batches
    places = rng.integers(bounds[:-1], bounds[1:])
    return in_order[places].reshape(-1).astype(np.int32)


def measure(
    settings: FinetuningBenchmarkSettings, file: Path, config: AlbertConfig, dtype: str
) -> list[Peer]:
    """Makes all libraries train in turns; returns those that have taken all."""
    setup = {"file": str(file), "config": config.to_dict(), "dtype": dtype, "B": settings.batch_size}
    setup |= {"length": _PADDED_LENGTH, "batches": settings.bucketed_batches}
    padded = {"batches": 1, "B": settings.padded_batch_size or settings.batch_size}
    options = {"albert_tf_padded": padded, "keras_hub": {"batches": 1, "length": _KERAS_HUB_LENGTH}}
    libraries = {name: LIBRARIES[name] for name in settings.peers}
    first, *turns = ({"number": number} for number in range(settings.turns + 1))
    return settings.measure(libraries, setup, [first], turns, options)


def rows_of(peers: Sequence[Peer]) -> dict[str, dict[str, Any]]:
    """The libraries' figures."""
    others = [name for name, library in LIBRARIES.items() if library.is_other]
    rows = compare(peers, lambda peer: [reply["examples"] for reply in peer.replies], others)
    for peer in peers:
        examples = sum(reply["examples"] for reply in peer.replies)
        rows[peer.name] |= {
            "batch_size": examples / sum(reply["batches"] for reply in peer.replies),
            "tokens_per_example": sum(reply["padded_tokens"] for reply in peer.replies) / examples,
            "last_loss": peer.replies[-1]["loss"],
        }
    return rows


def turn_table(run: dict[str, Any]) -> str:
    """A run as a Markdown table."""

    def times(row: dict[str, Any], clock: str) -> str:
        low, high = row[f"range_of_times_by_{clock}"]
        return f"{row[f'albert_tf_times_by_{clock}']:.2f} ({low:.2f} to {high:.2f})"

    header = (
        "",
        "B",
        "tokens/example",
        "examples/s",
        "examples/core s",
        "albert_tf, times",
        "by core s",
        "MB",
    )
    rows = [
        (
            name,
            f"{row['batch_size']:.0f}",
            f"{row['tokens_per_example']:.1f}",
            f"{row['per_second']:.2f}",
            f"{row['per_user_second']:.2f}",
            times(row, "seconds"),
            times(row, "user_seconds"),
            f"{row['peak_megabytes']:.0f}",
        )
        for name, row in run["peers"].items()
    ]
    title = f"{run['dtype']}; albert_tf is how many times faster, with the range over the turns"
    return f"{title}\n\n{markdown_table(header, rows)}\n"


if __name__ == "__main__":
    sys.exit(program.run_with_settings(main, FinetuningBenchmarkSettings, __doc__))
