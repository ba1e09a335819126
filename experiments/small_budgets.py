"""Measures what helps a model that trains for minutes: one change to a recipe at a time, with equally many tokens.

For example:

    python -m experiments.small_budgets --output=budgets --seeds 1 2 3 \\
        --train_file=demo/corpus/train.txt --heldout_file=demo/corpus/heldout.txt

`make demo` writes these two files. Every recipe runs through the `albert` command. The table that it prints and
writes to results.md has a row for each recipe; the same command resumes an interrupted experiment. Masked-LM
accuracies compare only between recipes with one vocabulary and one share of masked tokens; the loss of a character
also compares between vocabularies.
"""

import dataclasses
import json
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from albert_cli import program
from albert_tf.config import AlbertConfig
from albert_tf.lab.pretraining_runs import evaluations, training_seconds
from data_prep.errors import check_among
from data_prep.files import write_text
from data_prep.text.sources import expand_files
from experiments.albert_command import albert
from experiments.conditions import check_conditions, facts_of


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


RECIPES = {
    "base": {},
    "T=128": {"max_seq_length": 128, "train_batch_size": 16},
    "T=64": {"max_seq_length": 64, "train_batch_size": 32},
    "L=2": {"num_hidden_layers": 2},
    "L=6": {"num_hidden_layers": 6},
    "H=256": {"hidden_size": 256, "initializer_range": 0.04, "learning_rate": 0.0015},
    "H=256 rate .001": {"hidden_size": 256, "initializer_range": 0.04, "learning_rate": 0.001},
    "E=64": {"embedding_size": 64},
    "initializer .02": {"initializer_range": 0.02},
    "dropout .1": {"dropout": 0.1},
    "rate .001": {"learning_rate": 0.001},
    "rate .003": {"learning_rate": 0.003},
    "lamb .003": {"optimizer": "lamb", "learning_rate": 0.003},
    "lamb .005": {"optimizer": "lamb", "learning_rate": 0.005},
    "lamb .01": {"optimizer": "lamb", "learning_rate": 0.01},
    "lamb .02": {"optimizer": "lamb", "learning_rate": 0.02},
    "L=6 rate .001": {"num_hidden_layers": 6, "learning_rate": 0.001},
    "L=6 lamb .01": {"num_hidden_layers": 6, "optimizer": "lamb", "learning_rate": 0.01},
    "H=256 lamb .01": {
        "hidden_size": 256,
        "initializer_range": 0.04,
        "optimizer": "lamb",
        "learning_rate": 0.01,
    },
    "H=256 L=6 lamb .01": {
        "hidden_size": 256,
        "num_hidden_layers": 6,
        "initializer_range": 0.04,
        "optimizer": "lamb",
        "learning_rate": 0.01,
    },
    "H=384 lamb .01": {
        "hidden_size": 384,
        "initializer_range": 0.03,
        "optimizer": "lamb",
        "learning_rate": 0.01,
    },
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
    check_same(settings)
    for seed in settings.seeds:
        for name in settings.recipes:
            recipe = Recipe(**RECIPES[name])
            run = run_folder(settings, name, seed)
            if not (run / "done").is_file():
                pretrain(settings, recipe, run, seed)
                write_text(run / "done", "")
            write_text(settings.output / "results.md", table(settings))
    print((settings.output / "results.md").read_text())


def check_same(settings: BudgetSettings) -> None:
    """Raises InputError if the folder has runs on other text, or in another precision."""
    texts = {name: facts_of(expand_files(getattr(settings, name))) for name in ("train_file", "heldout_file")}
    check_conditions(settings.output, "small_budgets", {**texts, "mixed_precision": settings.mixed_precision})


def run_folder(settings: BudgetSettings, name: str, seed: int) -> Path:
    """Where a recipe's run is."""
    return settings.output / "runs" / f"{name.replace(' ', '_')}-{settings.tokens}-{seed}"


def pretrain(settings: BudgetSettings, recipe: Recipe, run: Path, seed: int) -> None:
    """Prepares what the recipe needs, unless another one has, and trains it."""
    steps = settings.tokens // (recipe.train_batch_size * recipe.max_seq_length)
    albert(
        "pretrain",
        "--do_train",
        "--do_eval",
        **files(settings.output, settings.train_file, settings.heldout_file, recipe, run),
        train_batch_size=recipe.train_batch_size,
        num_train_steps=steps,
        num_warmup_steps=round(recipe.warmup_share * steps),
        optimizer=recipe.optimizer,
        learning_rate=recipe.learning_rate,
        seed=seed,
        save_checkpoints_steps=-(-steps // 2),
        keep_checkpoint_max=1,
        log_steps=-(-steps // 20),
        max_eval_steps=1000,
        mixed_precision=settings.mixed_precision,
    )


def files(output: Path, train_file: str, heldout_file: str, recipe: Recipe, run: Path) -> dict[str, Path]:
    """The flags of `albert pretrain` that name files, which are written unless another run has written them."""
    vocabulary = output / "vocabularies" / f"{recipe.vocab_size}.model"
    if not vocabulary.is_file():
        prefix = vocabulary.with_suffix("")
        albert("vocab", input_file=train_file, output_prefix=prefix, vocab_size=recipe.vocab_size)
    config = run.with_name(f"{run.name}.config.json")  # a recipe's name may have a dot
    config.parent.mkdir(parents=True, exist_ok=True)
    model_config(recipe).to_json_file(config)
    return {
        "input_file": prepare(output, recipe, "train", train_file, vocabulary),
        "eval_file": prepare(output, recipe, "heldout", heldout_file, vocabulary),
        "albert_config_file": config,
        "output_dir": run,
    }


def prepare(output: Path, recipe: Recipe, part: str, text: str, vocabulary: Path) -> Path:
    """Writes examples, unless there are any with these settings; returns their file."""
    flags = {
        name: getattr(recipe, name)
        for name in ("max_seq_length", "short_seq_prob", "masked_lm_prob", "ngram", "masking")
    }
    if part == "heldout":  # evaluated alike, whatever training does
        flags |= {"short_seq_prob": 0.1, "ngram": 3, "masking": "static"}
    whole = recipe.do_whole_word_mask or part == "heldout"
    folder = output / "examples" / "-".join(map(str, (part, recipe.vocab_size, *flags.values(), whole)))
    if not (folder / "manifest.json").is_file():
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


def model_config(recipe: Recipe) -> AlbertConfig:
    """The model, whose heads are 32 wide."""
    return AlbertConfig(
        vocab_size=recipe.vocab_size,
        embedding_size=recipe.embedding_size,
        hidden_size=recipe.hidden_size,
        num_hidden_layers=recipe.num_hidden_layers,
        num_attention_heads=recipe.hidden_size // 32,
        intermediate_size=4 * recipe.hidden_size,
        max_position_embeddings=recipe.max_seq_length,
        hidden_dropout_prob=recipe.dropout,
        attention_probs_dropout_prob=recipe.dropout,
        initializer_range=recipe.initializer_range,
    )


def table(settings: BudgetSettings) -> str:
    """The results of the finished runs, as Markdown."""
    lines = [
        f"{settings.tokens / 1e6:g} million tokens; base: {dataclasses.asdict(Recipe())}",
        "",
        "| recipe | runs | held-out MLM | loss a masked token | a character | SOP | tokens/s |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in settings.recipes:
        folders = [run_folder(settings, name, seed) for seed in settings.seeds]
        runs = [folder for folder in folders if (folder / "done").is_file()]
        if runs:
            lines.append(row(settings, name, runs))
    return "\n".join(lines) + "\n"


def row(settings: BudgetSettings, name: str, runs: list[Path]) -> str:
    """A recipe's row: medians, and the range of the accuracy over several runs."""
    last = [evaluations(run)[-1] for run in runs]
    accuracies = [line["eval_masked_lm_accuracy"] for line in last]
    loss = statistics.median(line["eval_masked_lm_loss"] for line in last)
    spread = f" ({min(accuracies):.3f} to {max(accuracies):.3f})" if len(runs) > 1 else ""
    speed = statistics.median(settings.tokens / training_seconds(run) for run in runs)
    characters = characters_per_token(settings.output / "vocabularies", Recipe(**RECIPES[name]).vocab_size)
    cells = (
        name,
        len(runs),
        f"{statistics.median(accuracies):.3f}{spread}",
        f"{loss:.3f}",
        f"{loss / characters:.3f}",
        f"{statistics.median(line['eval_sentence_order_accuracy'] for line in last):.3f}",
        f"{speed:,.0f}",
    )
    return f"| {' | '.join(map(str, cells))} |"


def characters_per_token(vocabularies: Path, vocab_size: int) -> float:
    """The characters of an average piece, from the vocabulary's report."""
    report = json.loads((vocabularies / f"{vocab_size}.report.json").read_text())
    return report["characters_per_piece"]


if __name__ == "__main__":
    raise SystemExit(program.run_with_settings(main, BudgetSettings, __doc__))
