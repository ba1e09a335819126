"""The whole journey in minutes: text, vocabulary, examples, pretraining, evaluation, SavedModel, filled masks.

    make demo                          # on the docstrings of the installed packages
    make demo TEXT=path/to/files       # on your own .txt and .md files

Apart from the corpus and the last two steps, the demo runs the `albert` commands that it prints.
docs/demo.md shows the output of a run on 2 CPU cores without a GPU.
"""

import itertools
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from cyclopts import App, Parameter
from rich.console import Console

from albert_cli import cli, program
from albert_tf.config import AlbertConfig
from data_prep.errors import InputError
from data_prep.files import write_json
from examples.demo.corpus import Corpus, read_user_text, write_corpus
from examples.demo.docstrings import docstring_documents

MARKER = "demo.json"
BATCH = 16
T = 128
HELDOUT_SHARE = 0.05
# More text would take longer than a demo should, without making so small a model much better.
MAX_SENTENCES = 160_000
MOST_PLACES = 20
MASKED = (
    "Returns the [MASK] of the array.",
    "If `True`, the result is a [MASK] of integers.",
    "Raises an [MASK] if the file does not exist.",
)

console = Console(highlight=False, soft_wrap=True)
app = App(
    help_format="plaintext",
    default_parameter=Parameter(name_transform=lambda name: name),
    suppress_keyboard_interrupt=False,
)


@app.default
def demo(*, output: Path, text: Path | None = None, steps: int = 8000) -> None:
    """Train a small model from text to filled-in masks, in one folder.

    For example:

      python -m examples.demo --output=demo --text=books/

    Args:
      output: a new folder, or the folder of an earlier demo, which is replaced.
      text: a .txt or .md file, or a folder of them. Default: the docstrings of the installed packages.
      steps: the number of training steps; fewer for a quicker look.
    """
    began = time.monotonic()
    paths = Paths(output)
    paths.check()
    say(1, f"Text: {text or 'the docstrings of the installed packages'}")
    corpus = make_corpus(text, paths.corpus)
    paths.start(text)
    console.print(
        f"{corpus.num_bytes / 1e6:.1f} MB, {corpus.sentences:,} sentences; {corpus.train_documents:,} documents "
        f"to train on; held out for evaluation: {heldout_places(corpus)}"
    )
    vocab_size = max(100, min(4000, corpus.num_bytes // 500))
    say(2, f"Vocabulary of {vocab_size:,} pieces")
    albert("vocab", input_file=corpus.train, output_prefix=paths.vocabulary, vocab_size=vocab_size)

    say(
        3,
        "Examples: sentences for training, which cuts, swaps and masks them anew in every epoch; held-out pairs",
    )
    spm_model_file = f"{paths.vocabulary}.model"
    common = {"spm_model_file": spm_model_file, "max_seq_length": T}
    albert(
        "prepare", input_file=corpus.train, output_file=paths.train, num_shards=4, masking="dynamic", **common
    )
    albert(
        "prepare",
        input_file=corpus.heldout,
        output_file=paths.heldout,
        dupe_factor=corpus.heldout_passes,
        **common,
    )

    say(4, f"Pretraining: {steps:,} steps of {BATCH} examples, LAMB")
    make_config(vocab_size).to_json_file(paths.config)
    albert(
        "pretrain",
        input_file=f"{paths.train}*",
        eval_file=paths.heldout,
        albert_config_file=paths.config,
        output_dir=paths.run,
        do_train=True,
        do_eval=True,
        train_batch_size=BATCH,
        num_train_steps=steps,
        num_warmup_steps=steps // 20,
        learning_rate=0.003,
        save_checkpoints_steps=-(-steps // 4),
        log_steps=-(-steps // 40),
        max_eval_steps=1000,
    )
    report_evaluation(paths)

    say(5, "SavedModel")
    albert("export", model_dir=paths.run, output=paths.saved_model)
    say(6, f"tf.saved_model.load({str(paths.saved_model)!r}) fills the masks")
    fill_masks(paths, spm_model_file, MASKED if text is None else heldout_masks(corpus.heldout))
    conclude(paths, spm_model_file, time.monotonic() - began)


class Paths:
    """The files and folders that the demo writes."""

    def __init__(self, root: Path):
        self.root = root
        self.corpus = root / "corpus"
        self.vocabulary = root / "vocabulary" / "spm"
        self.train = root / "examples" / "train" / "train.tfrecord"
        self.heldout = root / "examples" / "heldout" / "heldout.tfrecord"
        self.config = root / "albert_config.json"
        self.run = root / "run"
        self.saved_model = root / "saved_model"
        self.plot = root / "learning_curve.png"

    def check(self) -> None:
        """Refuses a folder that holds anything but an earlier demo."""
        if self.root.exists() and not self.root.is_dir():
            raise InputError(f"--output must be a folder. Received {self.root}, which is a file.")
        if self.root.exists() and any(self.root.iterdir()) and not (self.root / MARKER).exists():
            raise InputError(
                f"--output must be a new or empty folder, or the folder of an earlier demo. Received {self.root}, "
                "which holds other files."
            )

    def start(self, text: Path | None) -> None:
        """Marks the folder as a demo's and removes the results of an earlier demo."""
        write_json(self.root / MARKER, {"text": str(text) if text else None})
        for folder in ("vocabulary", "examples", "run", "saved_model"):
            shutil.rmtree(self.root / folder, ignore_errors=True)


def make_corpus(text: Path | None, folder: Path) -> Corpus:
    """Reads the user's text, or docstrings, and holds out some documents."""
    documents = docstring_documents(show_progress=True) if text is None else read_user_text(text)
    return write_corpus(at_most(MAX_SENTENCES, documents), folder, HELDOUT_SHARE)


def heldout_places(corpus: Corpus) -> str:
    """What is held out: the share, and where it is from if these are few places.

    >>> heldout_places(corpus)
    '9% of the text (book.txt, piece 3; book.txt, piece 17)'
    """
    sources = corpus.heldout_sources
    places = (
        "; ".join(Path(source).name for source in sources)
        if len(sources) <= MOST_PLACES
        else f"{len(sources)} documents"
    )
    return f"{corpus.heldout_share:.0%} of the text ({places})"


def at_most(limit: int, documents: Iterator) -> Iterator:
    """Yields documents of at most `limit` sentences in all; prints a line if there are more."""
    sentences = 0
    for document in documents:
        sentences += len(document.sentences)
        if sentences > limit:
            console.print(f"the demo stops reading after {limit:,} sentences")
            return
        yield document


def make_config(vocab_size: int) -> AlbertConfig:
    """A model that learns something in minutes; narrow layers need larger initial weights than 0.02."""
    return AlbertConfig(
        vocab_size=vocab_size,
        embedding_size=64,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=256,
        max_position_embeddings=T,
        initializer_range=0.07,
    )


def albert(command: str, **flags) -> None:
    """Runs an `albert` command in this process after printing it; a failure ends the demo."""
    words = [f"--{name}" if value is True else f"--{name}={value}" for name, value in flags.items()]
    quoted = [f"'{word}'" if "*" in word else word for word in words]
    console.print(f"$ albert {command} {' '.join(quoted)}", style="cyan", markup=False)
    status = cli.main([command, *words])
    if status:
        sys.exit(status)


def say(number: int, title: str) -> None:
    """Prints the heading of a stage."""
    console.print(f"\n[bold]{number}. [/bold]", end="")
    console.print(title, style="bold", markup=False)


def report_evaluation(paths: Paths) -> None:
    """Prints the last evaluation beside trivial baselines, and draws the learning curve."""
    from albert_tf.training.plot import plot_runs
    from albert_tf.training.run_files import read_metrics

    last = [line for line in read_metrics(paths.run) if "eval_loss" in line][-1]
    baseline = most_frequent_share(paths.heldout)
    accuracy, order = last["eval_masked_lm_accuracy"], last["eval_sentence_order_accuracy"]
    console.print(
        f"On {last['eval_examples']:,} pairs of held-out documents: masked-LM accuracy {accuracy:.3f}, "
        f"{accuracy / baseline:.1f} times the {baseline:.3f} of always predicting the most frequent piece; "
        f"sentence-order accuracy {order:.3f}, where chance is 0.5"
    )
    plot_runs([paths.run], paths.plot)


def most_frequent_share(examples: Path) -> float:
    """Masked-LM accuracy of always predicting the most frequent masked piece."""
    from data_prep.reading.dataset import pretraining_dataset
    from data_prep.reading.example_files import ExampleFiles

    counts = np.zeros(0)
    for batch in pretraining_dataset(ExampleFiles.read([examples]), batch_size=256, repeat=False):
        ids, weights = batch["masked_lm_ids"].numpy().ravel(), batch["masked_lm_weights"].numpy().ravel()
        more = np.bincount(ids, weights=weights, minlength=len(counts))
        more[: len(counts)] += counts
        counts = more
    return float(counts.max() / counts.sum())


def fill_masks(paths: Paths, spm_model_file: str, sentences) -> None:
    """Loads the export as an application would, and prints its five best pieces for each [MASK]."""
    import tensorflow as tf

    from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer

    encoder = tf.saved_model.load(str(paths.saved_model))
    tokenizer = AlbertTokenizer(spm_model_file)
    for sentence in sentences:
        before, after = sentence.split("[MASK]")
        left, right = tokenizer.encode(before), tokenizer.encode(after)
        ids = [tokenizer.cls_id, *left, tokenizer.mask_id, *right, tokenizer.sep_id]
        outputs = encoder.mlm(
            {
                "input_word_ids": tf.constant([ids]),
                "input_mask": tf.ones((1, len(ids)), tf.int32),
                "input_type_ids": tf.zeros((1, len(ids)), tf.int32),
                "masked_lm_positions": tf.constant([[len(left) + 1]]),
            }
        )
        probabilities = tf.nn.softmax(outputs["mlm_logits"][0, 0]).numpy()
        best = np.argsort(-probabilities)[:5]
        guesses = ", ".join(f"{tokenizer.pieces[i].lstrip('▁') or '▁'} {probabilities[i]:.0%}" for i in best)
        console.print(f"{sentence}\n   {guesses}", markup=False)


def heldout_masks(heldout: Path) -> Iterator[str]:
    """Three held-out sentences of a readable length, each with its middle word masked."""
    with heldout.open(encoding="utf-8") as file:
        words = (line.split() for line in file)
        chosen = [line for line in words if 6 <= len(line) <= 14 and "[MASK]" not in line]
    for line in itertools.islice(chosen[:: max(1, len(chosen) // 3)], 3):
        middle = len(line) // 2
        yield " ".join([*line[:middle], "[MASK]", *line[middle + 1 :]])


def conclude(paths: Paths, spm_model_file: str, seconds: float) -> None:
    """Prints the files, the duration and the next commands to try."""
    made = {
        paths.corpus: "the text, one sentence a line",
        Path(spm_model_file): "the vocabulary",
        paths.train.parent.parent: "the examples, with a manifest.json each",
        paths.run: "the run: configuration, checkpoints, metrics.jsonl, TensorBoard events",
        paths.plot: "the learning curve",
        paths.saved_model: "the SavedModel",
    }
    console.print(f"\n[bold]Made in {seconds / 60:.1f} minutes[/bold]")
    width = max(len(str(path)) for path in made)
    for path, what in made.items():
        console.print(f"  {path!s:{width}}  {what}", markup=False)
    console.print("\n[bold]What to type next[/bold]")
    for line in (
        f".venv/bin/tensorboard --logdir={paths.run}",
        f"make demo TEXT=path/to/your/files DEMO={paths.root}-mine",
        ".venv/bin/albert pretrain --help",
    ):
        console.print(f"  {line}", markup=False)


def main() -> int:
    """Runs the demo; reports the user's mistakes as `albert` does."""
    return program.run(app, sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
