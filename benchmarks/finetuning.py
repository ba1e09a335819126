"""Measures fine-tuning on single texts in this and other libraries: examples per second and memory.

For example:

    pip install '.[peers]'
    python -m benchmarks.finetuning --data_dir=SST-2 --spm_model_file=30k-clean.model --output=finetuning.json

All libraries train models of the same size on the same examples. Each runs in its own process, which is stopped
(SIGSTOP) except during its turns. Each makes its own batches: `albert_tf` those of `albert finetune`, of similar
lengths, and `albert_tf_fit` trains on the same through `fit`; `albert_tf_padded` and `keras_hub` make batches of
a fixed length; `hugging_face` pads B random examples to the longest; `hugging_face_grouped` groups similar
lengths. A turn is a sample of the training data with the same distribution of lengths. Batches of a fixed length
all cost the same, so a few of them are enough.
"""

import dataclasses
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from albert_cli import program
from albert_tf.config import AlbertConfig
from albert_tf.lab.peer_processes import Peer
from benchmarks.finetuning_peers import PEERS, Examples
from benchmarks.peer_settings import OURS, PeerSettings, find_peer
from data_prep.errors import InputError, check_at_least

_POOL = 64  # the number of batches that `bucketed_batches` sorts together
_POOLS = 4  # pools of examples to read, from which each turn draws its own


@dataclass(frozen=True)
class FinetuningBenchmarkSettings(PeerSettings):
    """What is measured.

    Attributes:
      data_dir: folder of the task as downloaded.
      spm_model_file: SentencePiece model of the vocabulary.
      task: name of a task with one text and two classes.
      preset: preset of the model's size.
      num_hidden_layers: number of layers in place of the preset's, for a quick look. `albert_tf` saves time in
        the last layer, which is a larger share of a shallow model.
      batch_size: number of examples per batch.
      turns: number of measured turns of each library; one more turn before them compiles and allocates.
      bucketed_batches: number of batches in a turn; Hugging Face trains on the same examples as `albert_tf`.
      fixed_batches: number of batches of a fixed length in a turn, from the same examples.
      padded_batch_size: number of examples per batch of `albert_tf_padded`, if --batch_size sequences of its
        length do not fit into memory.
      padded_length: length of `albert_tf_padded`'s batches in tokens.
      keras_hub_length: length of KerasHub's batches in tokens. Its preprocessor's default is 512; its examples
        use 128.
    """

    data_dir: str
    spm_model_file: str
    task: str = "sst-2"
    preset: str = "albert_base_v2"
    num_hidden_layers: int | None = None
    peers: tuple[str, ...] = field(default=tuple(PEERS), kw_only=True)
    batch_size: int = 32
    turns: int = 5
    bucketed_batches: int = 16
    fixed_batches: int = 1
    padded_batch_size: int | None = None
    padded_length: int = 512
    keras_hub_length: int = 128
    logs: Path = field(default=Path("finetuning_logs"), kw_only=True)

    def __post_init__(self):
        self.check_peers(PEERS)
        check_at_least(1, self, "batch_size", "turns", "fixed_batches", "padded_batch_size")
        if not 1 <= self.bucketed_batches <= _POOL:
            raise InputError(
                f"--bucketed_batches must be from 1 to {_POOL}. Received {self.bucketed_batches}."
            )

    def batches_of(self, peer: str) -> int:
        """The number of a library's batches in a turn, at most what the turn's examples allow."""
        fixed = peer in ("albert_tf_padded", "keras_hub")
        return min(self.fixed_batches, self.bucketed_batches) if fixed else self.bucketed_batches

    def shape_of(self, peer: str) -> tuple[int, int]:
        """B, and the longest T."""
        if peer == "albert_tf_padded":
            return self.padded_batch_size or self.batch_size, self.padded_length
        return self.batch_size, self.keras_hub_length if peer == "keras_hub" else self.padded_length


def main(settings: FinetuningBenchmarkSettings) -> dict[str, Any]:
    """Measures all libraries, prints a table for each dtype and returns the report."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    config = AlbertConfig.from_preset(settings.preset)
    layers = settings.num_hidden_layers or config.num_hidden_layers
    report = settings.new_report()
    report |= {"preset": settings.preset, "num_hidden_layers": layers, "runs": []}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "examples.npz")
        config_file = Path(folder, "config.json")
        vocab_size = write_examples(settings, file)
        dataclasses.replace(config, vocab_size=vocab_size, num_hidden_layers=layers).to_json_file(config_file)
        for dtype in settings.dtypes:
            report["runs"].append({"dtype": dtype})
            for peers in measure(settings, file, config_file, dtype):
                report["runs"][-1]["peers"] = compare_with_ours(peers)
                settings.write(report)
            print(turn_table(report["runs"][-1]), flush=True)
    return report


def write_examples(settings: FinetuningBenchmarkSettings, file: Path) -> int:
    """Writes the examples of all turns to a file of arrays and returns the size of the vocabulary."""
    from albert_tf.tasks.examples import Problems
    from albert_tf.tasks.features import text_features
    from albert_tf.tasks.reading import read_examples
    from albert_tf.tasks.task import find_task
    from data_prep.tokenizers.vocabulary import load_tokenizer

    task = find_task(settings.task)
    if task.kind != "classification" or len(task.labels) != 2:
        raise InputError(f"--task must have one text and two classes. Received {task.name}.")
    tokenizer = load_tokenizer(settings.spm_model_file, None, True)
    examples = read_examples(task, settings.data_dir, "train", Problems())
    chosen = np.random.default_rng(0).permutation(len(examples))[: _POOLS * _POOL * settings.batch_size]
    # All libraries get the texts truncated as --keras_hub_length requires.
    longest = min(settings.padded_length, settings.keras_hub_length)
    features = text_features([examples[row] for row in chosen], tokenizer, longest, task.labels)
    lengths = np.array([len(arrays["input_ids"]) for arrays in features], np.int32)
    rows = [
        row
        for turn in range(settings.turns + 1)
        for row in sample(lengths, settings.batch_size, settings.bucketed_batches, turn)
    ]
    Examples(
        np.concatenate([features[row]["input_ids"] for row in rows]),
        lengths[rows],
        np.array([features[row]["label"] for row in rows], np.int32),
        per_turn=len(rows) // (settings.turns + 1),
    ).save(file)
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
    settings: FinetuningBenchmarkSettings, file: Path, config_file: Path, dtype: str
) -> Iterator[list[Peer]]:
    """Runs all libraries in turns; after each turn, yields those that still run."""
    peers = []
    for name in settings.peers:
        B, T = settings.shape_of(name)
        command = [
            settings.interpreter(name),
            "-m",
            "benchmarks.finetuning_peers",
            name,
            f"--examples={file}",
        ]
        command += [f"--dtype={dtype}", f"--config={config_file}", f"--batch_size={B}", f"--length={T}"]
        peer = Peer.start(name, command, settings.logs, f"0 {min(2, settings.batches_of(name))}")
        if peer:
            peer.steps.clear()
            peers.append(peer)
        elif name == OURS:
            raise InputError(f"{OURS} must run. Its error is in {settings.logs / f'{name}.log'}.")
    for turn in range(1, settings.turns + 1):
        peers = [peer for peer in peers if peer.step(f"{turn} {settings.batches_of(peer.name)}")]
        yield peers
    for peer in peers:
        peer.stop()


def compare_with_ours(peers: Sequence[Peer]) -> dict[str, dict]:
    """Medians over turns by the clock, and by user CPU time, which other work on the machine affects less."""
    ours = find_peer(peers)
    rows = {}
    for peer in peers:
        steps = peer.steps
        rows[peer.name] = {
            "batch_size": steps[0]["examples"] / steps[0]["batches"],
            "batches_a_turn": steps[0]["batches"],
            "tokens_per_example": sum(step["padded_tokens"] for step in steps)
            / sum(step["examples"] for step in steps),
            "peak_megabytes": max(step["peak_megabytes"] for step in steps),
            "first_turn_seconds": peer.first_step_seconds,
            "last_loss": steps[-1]["loss"],
        }
        for kind in ("seconds", "user_seconds"):
            rates = [step["examples"] / step[kind] for step in steps]
            our_rates = [step["examples"] / step[kind] for step in ours.steps]
            times = [mine / theirs for mine, theirs in zip(our_rates, rates, strict=True)]
            rows[peer.name][f"examples_per_{kind.removesuffix('s')}"] = statistics.median(rates)
            # The median of each turn's ratio, because within a turn the libraries run right after each other.
            rows[peer.name][f"albert_tf_times_by_{kind}"] = statistics.median(times)
            rows[peer.name][f"range_of_times_by_{kind}"] = [min(times), max(times)]
            rows[peer.name][kind] = [round(step[kind], 3) for step in steps]
    return rows


def turn_table(run: dict) -> str:
    """A run as a Markdown table."""
    lines = [
        f"{run['dtype']}; tokens with padding; how many times faster albert_tf is, with the range over the turns",
        "",
        "| | B | tokens/example | examples/s | examples/core s | albert_tf, times | by core s | MB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, row in run["peers"].items():
        times = [
            f"{row[f'albert_tf_times_by_{kind}']:.2f} ({low:.2f} to {high:.2f})"
            for kind in ("seconds", "user_seconds")
            for low, high in [row[f"range_of_times_by_{kind}"]]
        ]
        lines.append(
            f"| {name} | {row['batch_size']:.0f} | {row['tokens_per_example']:.1f} "
            f"| {row['examples_per_second']:.2f} | {row['examples_per_user_second']:.2f} "
            f"| {times[0]} | {times[1]} | {row['peak_megabytes']:.0f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(program.run_with_settings(main, FinetuningBenchmarkSettings, __doc__))
