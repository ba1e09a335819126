"""The whole journey in minutes: text, vocabulary, examples, pretraining, evaluation, SavedModel, filled masks.

    make demo                          # on the docstrings of the installed packages
    make demo TEXT=path/to/files       # on your own .txt and .md files
    make demo BACKEND=jax              # trained with JAX, after pip install '.[jax]'

Steps 2 to 5 run the `albert` commands that they print.
docs/demo.md shows the output of a run on 2 CPU cores without a GPU.
"""

import itertools
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from cyclopts import App, Parameter

from albert_cli import cli, program
from albert_tf.config import AlbertConfig
from data_prep.console import NO_SUGGESTIONS, open_console
from data_prep.errors import InputError
from data_prep.files import check_is_folder, write_json
from data_prep.tokenizers.vocabulary_flags import VocabularySettings
from examples.demo.corpus import Corpus, read_user_text, write_corpus
from examples.demo.docstrings import docstring_documents

ROOT = Path(__file__).resolve().parents[2]
MARKER = "demo.json"
# A small model leaves the plateau of frequent pieces much sooner on short sequences (docs/pretrain.md).
SHORT, LONG = 32, 128  # T of the two phases
TOKENS_PER_STEP = 2048
# Sentence order is learned from long sequences; after more passes over them it is memorized (docs/recipes.md).
MOST_STEPS = {SHORT: 1400, LONG: 2100}
MOST_PASSES = {SHORT: 12, LONG: 8}  # over the text
EVALUATIONS, LOGS_PER_EVALUATION = 10, 5
MANY_PASSES = 10  # over the text; with more, dropout slows memorization down
HELDOUT_SHARE = 0.05
MANY_CHARACTERS = 1000  # as in Chinese and Japanese
SYMBOLS = 20  # of a vocabulary, about
# More text would take longer than a demo should, without making so small a model much better.
MAX_SENTENCES = 160_000
MOST_PLACES = 20
FEWEST_WORDS, MOST_WORDS = 6, 14  # of a held-out sentence to mask a word of, between spaces
Masking = Literal["dynamic", "static"]
STATIC_COPIES = 10  # of the text, each cut and masked differently
TRAINING_EXAMPLES = {
    "dynamic": "sentences for training, which cuts, swaps and masks them again in every epoch",
    "static": f"pairs for training, of {STATIC_COPIES} copies of the text",
}
MASKED = (
    "Returns the [MASK] of the array.",
    "If `True`, the result is a [MASK] of integers.",
    "Raises an [MASK] if the file does not exist.",
    "The default [MASK] is None.",
    "The shape of the input [MASK].",
)

console = open_console(highlight=False, soft_wrap=True)
app = App(
    help_format="plaintext",
    default_parameter=Parameter(name_transform=lambda name: name),
    suppress_keyboard_interrupt=False,
)


@app.default
def demo(
    *,
    output: Path,
    text: Path | None = None,
    steps: int | None = None,
    masking: Masking = "dynamic",
    backend: Literal["tensorflow", "jax"] = "tensorflow",
) -> None:
    """Train a small model from text to filled-in masks, in one folder.

    For example:

      python -m examples.demo --output=demo --text=books/

    Args:
      output: a new folder, or the folder of an earlier demo, which is replaced.
      text: a .txt or .md file, or a folder of them. Default: the docstrings of the installed packages.
      steps: the number of training steps. Default: 3,500, fewer for little text.
      masking: "dynamic" draws pairs and masks anew in every epoch; "static" draws them once, so that a model
        memorizes little text sooner.
      backend: what computes the training; "jax" is installed with `pip install '.[jax]'`.
    """
    began = time.monotonic()
    if steps is not None and steps < len(MOST_STEPS):  # one for each length
        raise InputError(f"--steps must be at least {len(MOST_STEPS)}. Received {steps}.")
    paths = Paths(output)
    paths.check()
    say(1, f"Text: {text or 'the docstrings of the installed packages'}")
    corpus = make_corpus(text, paths)
    console.print(
        f"{corpus.num_bytes / 1e6:.1f} MB, {corpus.sentences:,} sentences; {corpus.train_documents:,} documents "
        f"to train on; held out for evaluation: {heldout_places(corpus)}",
        markup=False,
    )
    vocab_size, coverage = vocabulary_flags(corpus)
    say(2, f"Vocabulary of {vocab_size:,} pieces")
    albert(
        "vocab", input_file=corpus.train, output_prefix=paths.vocabulary, vocab_size=vocab_size, **coverage
    )
    say(3, f"Examples: {TRAINING_EXAMPLES[masking]}; held-out pairs")
    for T in (SHORT, LONG):
        prepare(paths, corpus, T, masking)
    pretrain(paths, vocab_size, steps, backend)
    report_evaluation(paths)
    say(5, "SavedModel")
    albert("export", kind="fill-mask", model_dir=paths.run, output=paths.saved_model)
    say(6, f"tf.saved_model.load({str(paths.saved_model)!r}) fills the masks")
    fill_masks(paths, [*(MASKED if text is None else heldout_masks(corpus.heldout))])
    conclude(paths, time.monotonic() - began)


class Paths:
    """The files and folders that the demo writes."""

    def __init__(self, root: Path):
        self.root = root
        self.corpus = root / "corpus"
        self.vocabulary = root / "vocabulary" / "spm"
        self.spm_model_file = Path(f"{self.vocabulary}.model")
        self.examples = root / "examples"
        self.config = root / "albert_config.json"
        self.run = root / "run"
        self.saved_model = root / "saved_model"
        self.plot = root / "learning_curve.png"

    def train(self, T: int) -> Path:
        """The training examples of T tokens."""
        return self.examples / f"train{T}" / "train.tfrecord"

    def heldout(self, T: int) -> Path:
        """The held-out examples of T tokens."""
        return self.examples / f"heldout{T}" / "heldout.tfrecord"

    def check(self) -> None:
        """Refuses a folder that holds anything but an earlier demo, and a name that is a pattern."""
        if any(character in str(self.root) for character in ",*?["):
            raise InputError(
                "--output must have none of the characters , * ? and [, because they make a name a pattern. "
                f"Received {self.root}; use another name."
            )
        check_is_folder("output", self.root)
        if self.root.exists() and any(self.root.iterdir()) and not (self.root / MARKER).exists():
            raise InputError(
                f"--output must be a new or empty folder, or the folder of an earlier demo. Received {self.root}, "
                "which holds other files."
            )

    def start(self, text: Path | None) -> None:
        """Marks the folder as a demo's and removes the results of an earlier demo."""
        self.root.mkdir(parents=True, exist_ok=True)
        write_json(self.root / MARKER, {"text": str(text) if text else None})
        for folder in ("vocabulary", "examples", "run", "saved_model"):
            shutil.rmtree(self.root / folder, ignore_errors=True)


def make_corpus(text: Path | None, paths: Paths) -> Corpus:
    """Reads the user's text, or docstrings, and holds out some documents.

    The folder is marked as a demo's before the corpus is written, so that it is accepted after an interruption.
    """
    documents = docstring_documents(show_progress=True) if text is None else read_user_text(text)
    return write_corpus(
        at_most(MAX_SENTENCES, documents),
        paths.corpus,
        HELDOUT_SHARE,
        before_writing=lambda: paths.start(text),
    )


def vocabulary_flags(corpus: Corpus) -> tuple[int, dict[str, float]]:
    """The size of the vocabulary, and the flag of `albert vocab` that a text of thousands of characters needs.

    A piece for every 500 bytes, at most 4,000; but at least a third more than the characters with their own piece.
    """
    coverage = {}
    characters = most_frequent(corpus.characters, VocabularySettings.character_coverage)
    if characters > MANY_CHARACTERS:
        coverage = {"character_coverage": 0.9995}  # docs/languages.md
        characters = most_frequent(corpus.characters, **coverage)
    return max(100, min(4000, corpus.num_bytes // 500), SYMBOLS + characters * 4 // 3), coverage


def most_frequent(characters: Counter[str], character_coverage: float) -> int:
    """The number of most frequent characters that make up this share of a text."""
    sums = itertools.accumulate(count for _, count in characters.most_common())
    return sum(covered < character_coverage * characters.total() for covered in sums) + 1


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


def prepare(paths: Paths, corpus: Corpus, T: int, masking: Masking) -> None:
    """Examples of T tokens; with dynamic masking, training redraws pairs and masks in every epoch."""
    common = {"spm_model_file": paths.spm_model_file, "max_seq_length": T}
    copies = {"dupe_factor": STATIC_COPIES} if masking == "static" else {}
    albert(
        "prepare", input_file=corpus.train, output_file=paths.train(T), masking=masking, **copies, **common
    )
    albert(
        "prepare",
        input_file=corpus.heldout,
        output_file=paths.heldout(T),
        dupe_factor=corpus.heldout_passes,
        **common,
    )


def count_tokens(paths: Paths) -> int:
    """The tokens of the training text, each counted once."""
    from data_prep.examples.manifest import manifests_of

    (manifest,) = manifests_of([paths.train(LONG)]).values()
    return manifest.counts.tokens


def pretrain(paths: Paths, vocab_size: int, steps: int | None, backend: str) -> None:
    """Trains on short sequences first, then on long ones, with one learning-rate schedule."""
    tokens = count_tokens(paths)
    steps_of = phase_steps(tokens, steps)
    steps = sum(steps_of.values())
    passes = steps * TOKENS_PER_STEP / tokens
    say(4, f"Pretraining: {steps:,} steps, first on sequences of {SHORT} tokens, then of {LONG}")
    make_config(vocab_size, dropout=0.1 if passes > MANY_PASSES else 0.0).to_json_file(paths.config)
    log_steps = -(-steps // (EVALUATIONS * LOGS_PER_EVALUATION))
    albert(
        "pretrain",
        phase=[
            shlex.join(
                [
                    f"input_file={paths.train(T)}",
                    f"eval_file={paths.heldout(T)}",
                    f"num_train_steps={steps_of[T]}",
                    f"train_batch_size={TOKENS_PER_STEP // T}",
                ]
            )
            for T in (SHORT, LONG)
        ],
        albert_config_file=paths.config,
        output_dir=paths.run,
        do_train=True,
        do_eval=True,
        optimizer="lamb",  # leaves the plateau where AdamW may stay there (docs/recipes.md)
        learning_rate=0.01,
        poly_power=0.5,  # the rate is still high when the long sequences begin
        num_warmup_steps=min(300, steps // 5),
        save_checkpoints_steps=LOGS_PER_EVALUATION * log_steps,
        log_steps=log_steps,
        max_eval_steps=1000,
        **({"backend": backend} if backend == "jax" else {}),
    )


def phase_steps(tokens: int, steps: int | None) -> dict[int, int]:
    """The steps with sequences of SHORT and of LONG tokens: `steps` in all, or as many as suit the text."""
    suited = {
        T: max(50, min(most, MOST_PASSES[T] * tokens // TOKENS_PER_STEP)) for T, most in MOST_STEPS.items()
    }
    if steps is None:
        return suited
    short = round(steps * suited[SHORT] / sum(suited.values()))
    return {SHORT: short, LONG: steps - short}


def make_config(vocab_size: int, dropout: float) -> AlbertConfig:
    """A model that learns something in minutes; narrow layers need larger initial weights than 0.02."""
    return AlbertConfig(
        vocab_size=vocab_size,
        embedding_size=128,
        hidden_size=128,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=512,
        max_position_embeddings=LONG,
        initializer_range=0.05,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )


def albert(command: str, **flags) -> None:
    """Runs an `albert` command after printing it; a failure ends the demo.

    It runs in this process, unless it needs another backend than Keras has started with.
    """
    words = [
        f"--{name}" if value is True else f"--{name}={value}"
        for name, values in flags.items()
        for value in (values if isinstance(values, list) else [values])
    ]
    console.print(f"$ albert {command} {shlex.join(words)}", style="cyan", markup=False)
    if "backend" in flags:
        status = subprocess.run([sys.executable, ROOT / "run_pretraining.py", *words], check=False).returncode
    else:
        status = cli.main([command, *words])
    if status:
        sys.exit(status)


def say(number: int, title: str) -> None:
    """Prints the heading of a stage."""
    console.print(f"\n[bold]{number}. [/bold]", end="")
    console.print(title, style="bold", markup=False)


def report_evaluation(paths: Paths) -> None:
    """Prints the last evaluation beside trivial baselines, and draws the learning curve."""
    from albert_tf.checkpoints.run_files import read_metrics
    from albert_tf.training.plot import plot_runs
    from data_prep.inspection.example_stats import most_frequent_share

    last = [line for line in read_metrics(paths.run) if "eval_loss" in line][-1]
    baseline = most_frequent_share(paths.heldout(LONG))
    accuracy, order = last["eval_masked_lm_accuracy"], last["eval_sentence_order_accuracy"]
    console.print(
        f"On {last['eval_examples']:,} pairs of held-out documents: masked-LM accuracy {accuracy:.3f}, "
        f"{accuracy / baseline:.1f} times the {baseline:.3f} of always predicting the most frequent piece; "
        f"sentence-order accuracy {order:.3f}, where chance is 0.5"
    )
    plot_runs([paths.run], paths.plot)


def fill_masks(paths: Paths, sentences: list[str]) -> None:
    """Loads the export as an application would, and prints its best pieces for each [MASK]."""
    if not sentences:
        console.print(f"no held-out sentence has {FEWEST_WORDS} to {MOST_WORDS} words, so none is shown")
        return
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  registers the tokenizer's operations

    fill_mask = tf.saved_model.load(str(paths.saved_model))
    outputs = fill_mask(tf.constant(sentences))
    for sentence, pieces, probabilities in zip(
        sentences, outputs["pieces"].numpy(), outputs["probabilities"].numpy(), strict=True
    ):
        guesses = (
            f"{piece.decode().lstrip('▁') or '▁'} {probability:.0%}"
            for piece, probability in zip(pieces[0], probabilities[0], strict=True)
        )
        console.print(f"{sentence}\n   {', '.join(guesses)}", markup=False)


def heldout_masks(heldout: Path) -> Iterator[str]:
    """Five held-out sentences of a readable length, each with its middle word masked."""
    with heldout.open(encoding="utf-8") as file:
        words = (line.split() for line in file)
        chosen = [line for line in words if FEWEST_WORDS <= len(line) <= MOST_WORDS and "[MASK]" not in line]
    for line in itertools.islice(chosen[:: max(1, len(chosen) // 5)], 5):
        middle = len(line) // 2
        yield " ".join([*line[:middle], "[MASK]", *line[middle + 1 :]])


def conclude(paths: Paths, seconds: float) -> None:
    """Prints the files, the duration and the next commands to try."""
    made = {
        paths.corpus: "the text, one sentence per line",
        paths.spm_model_file: "the vocabulary",
        paths.examples: "the examples, with a manifest.json each",
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
        f"make demo TEXT=path/to/your/files DEMO={paths.root}-mine",
        f".venv/bin/albert finetune --init_checkpoint={paths.run} --help",
        ".venv/bin/albert pretrain --help",
    ):
        console.print(f"  {line}", markup=False)


def main() -> int:
    """Runs the demo; reports the user's mistakes as `albert` does."""
    os.environ[NO_SUGGESTIONS] = "1"
    return program.run(app, sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
