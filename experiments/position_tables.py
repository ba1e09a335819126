"""Measures how a longer position table starts best: from the learned rows repeated ("tile") or from random rows.

For example:

    python -m experiments.position_tables --output=budgets \\
        --train_file=demo/corpus/train.txt --heldout_file=demo/corpus/heldout.txt

`make demo` writes these two files. The model and the first training, with 32 tokens, are the base recipe of
experiments/small_budgets.py. For each seed the run is continued with 128 tokens, once with each value of
--resize_positions, and the tiled one with 512 tokens in the same way. The table that it prints and writes to
positions.md has the held-out accuracies in the course of each continued run; the same command resumes an
interrupted experiment.
"""

import itertools
from dataclasses import dataclass, field
from pathlib import Path

from albert_cli import program
from benchmarks.report import markdown_table
from data_prep.errors import check_at_least
from data_prep.files import write_text
from experiments import small_budgets
from experiments.conditions import check_conditions
from experiments.metrics import evaluations
from experiments.small_budgets import BudgetSettings, Recipe, spread

METHODS = ("tile", "fresh")
LENGTHS = (32, 128, 512)  # the first is that of the base recipe
_TOKENS_PER_STEP = 2048
_EVALUATIONS = 4  # of each continued run, the last at its end


@dataclass(frozen=True)
class PositionSettings:
    """The flags.

    Attributes:
      train_file: text to train on, with one sentence per line.
      heldout_file: text of other documents to evaluate on.
      output: folder for the vocabulary, examples, runs and positions.md; may be that of small_budgets.
      seeds: seeds of the training runs.
      first_tokens: number of tokens that a run reads at the first length, padding included.
      tokens: number of tokens that it reads at each further length.
      learning_rate: peak learning rate of AdamW at the further lengths.
    """

    train_file: str
    heldout_file: str
    output: Path
    seeds: list[int] = field(default_factory=lambda: [1, 2, 3])
    first_tokens: int = 6_000_000
    tokens: int = 2_000_000
    learning_rate: float = 0.001

    def __post_init__(self):
        check_at_least(10 * _TOKENS_PER_STEP, self, "tokens")  # for so many evaluations


def main(settings: PositionSettings) -> None:
    """Trains all runs; writes the table after each."""
    files = settings.train_file, settings.heldout_file, settings.output
    first = BudgetSettings(*files, ["base"], tokens=settings.first_tokens)
    small_budgets.check_same(first)
    flags = {"first_tokens": settings.first_tokens, "learning_rate": settings.learning_rate}
    check_conditions(settings.output, "position_tables", flags)
    steps = settings.tokens // _TOKENS_PER_STEP
    for seed in settings.seeds:
        source = small_budgets.train(first, "base", seed)
        for T in LENGTHS[1:]:
            for method in METHODS:
                small_budgets.pretrain(
                    first,
                    Recipe(max_seq_length=T),
                    run_folder(settings, T, method, seed),
                    init_checkpoint=source,
                    resize_positions=method,
                    train_batch_size=_TOKENS_PER_STEP // T,
                    num_train_steps=steps,
                    num_warmup_steps=steps // 10,
                    optimizer="adamw",
                    learning_rate=settings.learning_rate,
                    seed=seed,
                    save_checkpoints_steps=-(-steps // _EVALUATIONS),
                )
                write_text(settings.output / "positions.md", table(settings))
            source = run_folder(settings, T, METHODS[0], seed)
    print((settings.output / "positions.md").read_text())


def run_folder(settings: PositionSettings, T: int, method: str, seed: int) -> Path:
    """Where a continued run is."""
    return settings.output / "positions" / f"{T}-{method}-{settings.tokens}-{seed}"


def table(settings: PositionSettings) -> str:
    """The held-out accuracies of the finished runs, as Markdown: medians, and the range over several seeds."""
    rows = []
    for (shorter, T), method in itertools.product(itertools.pairwise(LENGTHS), METHODS):
        folders = [run_folder(settings, T, method, seed) for seed in settings.seeds]
        curves = [evaluations(folder) for folder in folders if (folder / "done").is_file()]
        if curves:
            accuracies = [
                spread([line["eval_masked_lm_accuracy"] for line in lines])
                for lines in zip(*curves, strict=True)
            ]
            order = spread([curve[-1]["eval_sentence_order_accuracy"] for curve in curves])
            rows.append((f"{shorter} to {T}", method, len(curves), *accuracies, order))
    tokens = [f"{settings.tokens * (i + 1) / _EVALUATIONS / 1e6:g}" for i in range(_EVALUATIONS)]
    columns = [f"masked-LM accuracy after {count} million tokens" for count in tokens]
    return markdown_table(("T", "--resize_positions", "runs", *columns, "sentence order"), rows) + "\n"


if __name__ == "__main__":
    raise SystemExit(program.run_with_settings(main, PositionSettings, __doc__))
