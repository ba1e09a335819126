"""Measures what helps a model that trains for minutes: one change to a recipe at a time, with equally many tokens.

For example:

    python -m experiments.small_budgets --output=budgets --seeds 1 2 3 \\
        --train_file=demo/corpus/train.txt --heldout_file=demo/corpus/heldout.txt

`make demo` writes these two files. Every recipe runs through the `albert` command. The table that it prints and
writes to results.md has a row for each recipe; the same command resumes an interrupted experiment. Masked-LM
accuracies compare only between recipes with one vocabulary and one share of masked tokens; the loss of a character
also compares between vocabularies.
"""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from albert_cli import program
from albert_tf.config import AlbertConfig
from benchmarks.processes import albert
from benchmarks.report import markdown_table
from data_prep.errors import check_among
from data_prep.examples.manifest import MANIFEST
from data_prep.files import read_json_object, write_text
from data_prep.text.sources import expand_files
from experiments.conditions import check_conditions, facts_of
from experiments.metrics import evaluations, training_seconds


@dataclass(frozen=True)
class Recipe:
    """One way to train, under the names of the flags and of the configuration.

    Attributes:
      max_seq_length: T.
      train_batch_size: B.
      warmup_share: share of the steps.
    """

    num_hidden_layers: int = 3
    hidden_size: int = 128
    embedding_size: int = 128
    initializer_range: float = 0.05
    dropout: float = 0.0
    vocab_size: int = 4000
    max_seq_length: int = 32
    short_seq_prob: float = 0.1
    masked_lm_prob: float = 0.15
    ngram: int = 3
    do_whole_word_mask: bool = True
    masking: str = "static"
    train_batch_size: int = 64
    optimizer: str = "adamw"
    learning_rate: float = 0.002
    warmup_share: float = 0.1

    @property
    def config(self) -> AlbertConfig:
        """The model, whose heads are 32 wide."""
        return AlbertConfig(
            vocab_size=self.vocab_size,
            embedding_size=self.embedding_size,
            hidden_size=self.hidden_size,
            num_hidden_layers=self.num_hidden_layers,
            num_attention_heads=self.hidden_size // 32,
            intermediate_size=4 * self.hidden_size,
            max_position_embeddings=self.max_seq_length,
            hidden_dropout_prob=self.dropout,
            attention_probs_dropout_prob=self.dropout,
            initializer_range=self.initializer_range,
        )


_LAMB = {"optimizer": "lamb", "learning_rate": 0.01}
_WIDE = {"hidden_size": 256, "initializer_range": 0.04}
RECIPES: dict[str, dict[str, Any]] = {
    "base": {},
    "T=128": {"max_seq_length": 128, "train_batch_size": 16},
    "T=64": {"max_seq_length": 64, "train_batch_size": 32},
    "L=2": {"num_hidden_layers": 2},
    "L=6": {"num_hidden_layers": 6},
    "E=64": {"embedding_size": 64},
    "initializer .02": {"initializer_range": 0.02},
    "dropout .1": {"dropout": 0.1},
    "rate .001": {"learning_rate": 0.001},
    "rate .003": {"learning_rate": 0.003},
    "lamb .003": {"optimizer": "lamb", "learning_rate": 0.003},
    "lamb .005": {"optimizer": "lamb", "learning_rate": 0.005},
    "lamb .01": _LAMB,
    "lamb .02": {"optimizer": "lamb", "learning_rate": 0.02},
    "L=6 lamb .01": {"num_hidden_layers": 6, **_LAMB},
    "H=256 rate .001": {**_WIDE, "learning_rate": 0.001},
    "H=256 lamb .01": {**_WIDE, **_LAMB},
    "H=384 lamb .01": {"hidden_size": 384, "initializer_range": 0.03, **_LAMB},
    "B=32": {"train_batch_size": 32, "learning_rate": 0.0014},
    "B=128": {"train_batch_size": 128, "learning_rate": 0.003},
    "warm-up .02": {"warmup_share": 0.02},
    "warm-up .3": {"warmup_share": 0.3},
    "V=2000": {"vocab_size": 2000},
    "V=8000": {"vocab_size": 8000},
    "V=16000": {"vocab_size": 16000},
    "no short examples": {"short_seq_prob": 0.0},
    "half short examples": {"short_seq_prob": 0.5},
    "single words": {"ngram": 1},
    "single pieces": {"ngram": 1, "do_whole_word_mask": False},
    "masked .3": {"masked_lm_prob": 0.3},
    "dynamic": {"masking": "dynamic"},
}


@dataclass(frozen=True)
class BudgetSettings:
    """The flags.

    Attributes:
      train_file: text to train on, with one sentence per line.
      heldout_file: text of other documents to evaluate on.
      output: folder for vocabularies, examples, runs and results.md.
      recipes: names of recipes. Default: all.
      seeds: seeds of the training runs.
      tokens: number of tokens that each run reads, padding included.
      mixed_precision: "bfloat16" for activations. Default: float32.
    """

    train_file: str
    heldout_file: str
    output: Path
    recipes: list[str] = field(default_factory=lambda: [*RECIPES])
    seeds: list[int] = field(default_factory=lambda: [1])
    tokens: int = 6_000_000
    mixed_precision: Literal["bfloat16"] | None = None

    def __post_init__(self):
        check_among(RECIPES, "recipes", self.recipes)


def main(settings: BudgetSettings) -> None:
    """Trains every recipe with every seed; writes the table after each run."""
    check_same(settings)
    for seed in settings.seeds:
        for name in settings.recipes:
            train(settings, name, seed)
            write_text(settings.output / "results.md", table(settings))
    print((settings.output / "results.md").read_text())


def check_same(settings: BudgetSettings) -> None:
    """Raises InputError if the folder has runs on other text, or in another precision."""
    texts = {name: facts_of(expand_files(getattr(settings, name))) for name in ("train_file", "heldout_file")}
    check_conditions(settings.output, "small_budgets", {**texts, "mixed_precision": settings.mixed_precision})


def train(settings: BudgetSettings, name: str, seed: int) -> Path:
    """Prepares what the recipe needs, unless another one has, and trains it; returns the run's folder."""
    recipe = Recipe(**RECIPES[name])
    run = settings.output / "runs" / f"{name.replace(' ', '_')}-{settings.tokens}-{seed}"
    steps = settings.tokens // (recipe.train_batch_size * recipe.max_seq_length)
    pretrain(
        settings,
        recipe,
        run,
        train_batch_size=recipe.train_batch_size,
        num_train_steps=steps,
        num_warmup_steps=round(recipe.warmup_share * steps),
        optimizer=recipe.optimizer,
        learning_rate=recipe.learning_rate,
        seed=seed,
        save_checkpoints_steps=-(-steps // 2),
        mixed_precision=settings.mixed_precision,
    )
    return run


def pretrain(texts: BudgetSettings, recipe: Recipe, run: Path, **flags: Any) -> None:
    """Runs `albert pretrain` unless that has been done; what other runs have prepared is not prepared again."""
    if (run / "done").is_file():
        return
    vocabulary = texts.output / "vocabularies" / f"{recipe.vocab_size}.model"
    if not vocabulary.is_file():
        prefix = vocabulary.with_suffix("")
        albert("vocab", input_file=texts.train_file, output_prefix=prefix, vocab_size=recipe.vocab_size)
    config = run.with_name(f"{run.name}.config.json")  # a recipe's name may have a dot
    config.parent.mkdir(parents=True, exist_ok=True)
    recipe.config.to_json_file(config)
    albert(
        "pretrain",
        "--do_train",
        "--do_eval",
        input_file=prepare(texts.output, recipe, "train", texts.train_file, vocabulary),
        eval_file=prepare(texts.output, recipe, "heldout", texts.heldout_file, vocabulary),
        albert_config_file=config,
        output_dir=run,
        keep_checkpoint_max=1,
        log_steps=-(-flags["num_train_steps"] // 20),
        max_eval_steps=1000,
        **flags,
    )
    write_text(run / "done", "")


def prepare(output: Path, recipe: Recipe, part: str, text: str, vocabulary: Path) -> Path:
    """Writes examples, unless there are any with these settings; returns their file."""
    names = ("max_seq_length", "short_seq_prob", "masked_lm_prob", "ngram", "masking")
    flags = {name: getattr(recipe, name) for name in names}
    if part == "heldout":  # evaluated alike, whatever training does
        flags |= {"short_seq_prob": 0.1, "ngram": 3, "masking": "static"}
    whole = recipe.do_whole_word_mask or part == "heldout"
    folder = output / "examples" / "-".join(map(str, (part, recipe.vocab_size, *flags.values(), whole)))
    if not (folder / MANIFEST).is_file():
        albert(
            "prepare",
            "--do_whole_word_mask" if whole else "--nodo_whole_word_mask",
            input_file=text,
            output_file=folder / "examples.tfrecord",
            spm_model_file=vocabulary,
            dupe_factor=4 if part == "train" and recipe.masking == "static" else 1,
            **flags,
        )
    return folder / "examples.tfrecord"


def table(settings: BudgetSettings) -> str:
    """The results of the finished runs, as Markdown: medians, and the range of the accuracy over several runs."""
    rows = []
    for name in settings.recipes:
        stem = f"{name.replace(' ', '_')}-{settings.tokens}"
        folders = [settings.output / "runs" / f"{stem}-{seed}" for seed in settings.seeds]
        runs = [folder for folder in folders if (folder / "done").is_file()]
        if not runs:
            continue
        last = [evaluations(run)[-1] for run in runs]
        loss = statistics.median(line["eval_masked_lm_loss"] for line in last)
        report = f"vocabularies/{Recipe(**RECIPES[name]).vocab_size}.report.json"
        characters = read_json_object(settings.output / report)["characters_per_piece"]
        rows.append(
            (
                name,
                len(runs),
                spread([line["eval_masked_lm_accuracy"] for line in last]),
                f"{loss:.3f}",
                f"{loss / characters:.3f}",
                f"{statistics.median(line['eval_sentence_order_accuracy'] for line in last):.3f}",
                f"{statistics.median(settings.tokens / training_seconds(run) for run in runs):,.0f}",
            )
        )
    title = f"{settings.tokens / 1e6:g} million tokens; base: {asdict(Recipe())}"
    header = ("recipe", "runs", "held-out MLM", "loss a masked token", "a character", "SOP", "tokens/s")
    return f"{title}\n\n{markdown_table(header, rows)}\n"


def spread(values: Sequence[float]) -> str:
    """The median, and the range of several values."""
    median = f"{statistics.median(values):.3f}"
    return f"{median} ({min(values):.3f} to {max(values):.3f})" if len(values) > 1 else median


if __name__ == "__main__":
    raise SystemExit(program.run_with_settings(main, BudgetSettings, __doc__))
