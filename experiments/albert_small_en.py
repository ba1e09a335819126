"""Trains the English model of the package, from text to a folder that `albert_tf.load_pretrained` reads.

For example:

    make demo                          # writes demo/corpus/train.txt, the docstrings of the installed packages
    python -m experiments.albert_small_en --books='books/*.md' --documents=demo/corpus/train.txt --output=small_en

One book in twenty is held out. Everything runs through the `albert` command, with sequences of 32, 128 and then
512 tokens in one run of `albert pretrain`, whose pairs and masks are redrawn in every epoch. It begins with the
documents alone, in which the order of sentences is easier to learn than in novels. The same command resumes an
interrupted training. The result is OUTPUT/albert_small_en, a Hugging Face directory with weights in
float16; the program prints its accuracies on the held-out books. To train it further, with a new warm-up and
mostly longer sequences:

    python -m experiments.albert_small_en --books='books/*.md' --documents=demo/corpus/train.txt \\
      --init_checkpoint=small_en/albert_small_en --short_share=0 --long_share=.2 --steps=20000 --output=small_en_2
"""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from albert_cli import program
from albert_tf.config import AlbertConfig
from benchmarks.processes import albert
from benchmarks.report import markdown_table
from data_prep.errors import InputError
from data_prep.examples.manifest import MANIFEST
from data_prep.inspection.example_stats import most_frequent_share
from data_prep.text.sources import expand_files
from experiments.conditions import check_conditions, facts_of
from experiments.metrics import evaluations
from experiments.texts import link_files, split_files

NAME = "albert_small_en"
LENGTHS = (32, 128, 512)  # T of the phases; the finished model is evaluated at each
VOCABULARY_FILE = "spiece.model"  # in the finished model's folder
_HEADER = ("T", "examples", "masked-LM accuracy", "most frequent piece", "sentence-order accuracy")
_ALL = 10**9  # evaluation steps
_FOLDERS = ("books", "documents", "output")  # flags that say where something is, not what it is


@dataclass(frozen=True)
class SmallModelSettings:
    """The flags.

    Attributes:
      books: text in prose, one book per file; globs and commas are allowed.
      documents: more text to train on, with one sentence per line and a blank line between documents.
      output: folder for the vocabulary, examples, run and model.
      init_checkpoint: folder of a model of this program to train further, whose vocabulary and sizes are kept.
      documents_share: share of the steps, the first, with 32 tokens of `documents` alone.
      short_share: share of the steps with 32 tokens of all text.
      long_share: share of the steps with 512 tokens; the others have 128.
      steps: number of training steps in all phases together.
      tokens_per_step: number of tokens per step, padding included; a multiple of 512.
      vocab_size: number of pieces in the vocabulary, V.
      embedding_size: embedding size, E.
      hidden_size: hidden size, H.
      num_hidden_layers: number of layers, L.
      num_attention_heads: number of attention heads, N.
      optimizer: adamw or lamb.
      learning_rate: peak learning rate.
      num_warmup_steps: number of warm-up steps; after a shorter warm-up the model stays on the plateau of
        frequent words.
      save_checkpoints_steps: number of steps between checkpoints, each of which is evaluated.
      seed: seed of the training.
    """

    books: str
    documents: str
    output: Path
    init_checkpoint: Path | None = None
    documents_share: float = 0.1
    short_share: float = 0.4
    long_share: float = 0.1
    steps: int = 70_000
    tokens_per_step: int = 4096
    vocab_size: int = 8000
    embedding_size: int = 128
    hidden_size: int = 256
    num_hidden_layers: int = 4
    num_attention_heads: int = 4
    optimizer: Literal["adamw", "lamb"] = "adamw"
    learning_rate: float = 0.0006
    num_warmup_steps: int = 1000
    save_checkpoints_steps: int = 1000
    seed: int = 12345

    def __post_init__(self):
        if self.init_checkpoint and not (self.init_checkpoint / VOCABULARY_FILE).is_file():
            raise InputError(
                f"--init_checkpoint must be a folder of this program's model, with its {VOCABULARY_FILE}. "
                f"Received {self.init_checkpoint}, which has none."
            )

    @property
    def what(self) -> dict[str, str | None]:
        """The flags that say what is trained."""
        flags = {name: value for name, value in vars(self).items() if name not in _FOLDERS}
        return {name: value if value is None else str(value) for name, value in flags.items()}

    @property
    def phases(self) -> list[tuple[int, str, float]]:
        """T, the text ("documents", or "*" for all) and the share of the steps of each phase."""
        first, short, long = self.documents_share, self.short_share, self.long_share
        T, longer, longest = LENGTHS
        planned = [
            (T, "documents", first),
            (T, "*", short),
            (longer, "*", 1 - first - short - long),
            (longest, "*", long),
        ]
        return [phase for phase in planned if phase[2] > 0]

    @property
    def config(self) -> AlbertConfig:
        """The model; narrow layers need larger initial weights than 0.02."""
        H = self.hidden_size
        return AlbertConfig(
            vocab_size=self.vocab_size,
            embedding_size=self.embedding_size,
            hidden_size=H,
            num_hidden_layers=self.num_hidden_layers,
            num_attention_heads=self.num_attention_heads,
            intermediate_size=4 * H,
            max_position_embeddings=LENGTHS[-1],
            initializer_range=round(0.6 * H**-0.5, 3),
        )

    def heldout_examples(self, T: int) -> Path:
        """The file of held-out examples of T tokens."""
        return self.output / "examples" / f"heldout{T}" / "books.tfrecord"


def main(settings: SmallModelSettings) -> None:
    """Trains the model and evaluates it."""
    texts = {name: facts_of(expand_files(getattr(settings, name))) for name in ("books", "documents")}
    check_conditions(settings.output, NAME, {**texts, **settings.what})
    split = zip(("train", "heldout"), split_files(expand_files(settings.books)), strict=True)
    books = {part: link_files(files, settings.output / "books" / part) for part, files in split}
    prepare_all(settings, books)
    pretrain(settings)
    model = settings.output / NAME
    if not model.is_dir():
        albert("convert", settings.output / "run", model, to="huggingface", dtype="float16")
    print(markdown_table(_HEADER, [evaluation(settings, T) for T in LENGTHS]))
    print(model)


def prepare_all(settings: SmallModelSettings, books: dict[str, str]) -> None:
    """Writes the vocabulary and the examples of all lengths, those to train on only if a phase reads them."""
    vocabulary = settings.output / "vocabulary.model"
    if settings.init_checkpoint:
        vocabulary = settings.init_checkpoint / VOCABULARY_FILE
    if not vocabulary.is_file():
        albert(
            "vocab",
            input_file=f"{books['train']},{settings.documents}",
            input_format="prose",
            output_prefix=vocabulary.with_suffix(""),
            vocab_size=settings.vocab_size,
        )
    for T in LENGTHS:
        common: dict[str, Any] = {"spm_model_file": vocabulary, "max_seq_length": T}
        if T in {length for length, _, _ in settings.phases}:
            train = settings.output / "examples" / f"train{T}"
            for name, text, input_format in (
                ("books", books["train"], "prose"),
                ("documents", settings.documents, "lines"),
            ):
                # Files are read one after the other, so small ones mix the two kinds of text.
                megabytes = num_bytes(expand_files(text)) / 1e6
                flags = {"input_format": input_format, "num_shards": max(1, round(megabytes))}
                prepare(text, train / name / f"{name}.tfrecord", masking="dynamic", **flags, **common)
        prepare(books["heldout"], settings.heldout_examples(T), input_format="prose", dupe_factor=1, **common)


def prepare(text: str, output: Path, **flags) -> None:
    """Writes examples unless they exist."""
    if not (output.parent / MANIFEST).is_file():
        albert("prepare", input_file=text, output_file=output, **flags)


def num_bytes(files: list[Path]) -> int:
    """Size of all files together."""
    return sum(path.stat().st_size for path in files)


def pretrain(settings: SmallModelSettings) -> None:
    """Starts or resumes the training."""
    source = {"init_checkpoint": settings.init_checkpoint}
    if not settings.init_checkpoint:
        source = {"albert_config_file": settings.output / "albert_config.json"}
        settings.config.to_json_file(settings.output / "albert_config.json")
    phases = [
        shlex.join(
            [
                f"input_file={settings.output}/examples/train{T}/{text}/*.tfrecord*",
                f"eval_file={settings.heldout_examples(T)}",
                f"num_train_steps={round(share * settings.steps)}",
                f"train_batch_size={settings.tokens_per_step // T}",
            ]
        )
        for T, text, share in settings.phases
    ]
    albert(
        "pretrain",
        "--do_train",
        "--do_eval",
        phase=phases,
        **source,
        output_dir=settings.output / "run",
        optimizer=settings.optimizer,
        learning_rate=settings.learning_rate,
        num_warmup_steps=settings.num_warmup_steps,
        mixed_precision="bfloat16",
        save_checkpoints_steps=settings.save_checkpoints_steps,
        keep_checkpoint_max=2,
        log_steps=settings.save_checkpoints_steps // 4,
        max_eval_steps=50,
        seed=settings.seed,
    )


def evaluation(settings: SmallModelSettings, T: int) -> tuple[str, ...]:
    """The finished model's metrics on all held-out examples of T tokens, and a trivial baseline."""
    run, examples = settings.output / f"evaluation{T}", settings.heldout_examples(T)
    if not evaluations(run):
        albert(
            "pretrain",
            "--do_eval",
            eval_file=examples,
            init_checkpoint=settings.output / NAME,
            output_dir=run,
            max_eval_steps=_ALL,
            eval_batch_size=settings.tokens_per_step // T,
        )
    found = evaluations(run)[-1]
    shares = (
        found["eval_masked_lm_accuracy"],
        most_frequent_share(examples),
        found["eval_sentence_order_accuracy"],
    )
    return (str(T), f"{found['eval_examples']:,}", *(f"{share:.3f}" for share in shares))


if __name__ == "__main__":
    raise SystemExit(program.run_with_settings(main, SmallModelSettings, __doc__))
