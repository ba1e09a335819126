"""The paper's tables and figures with your text, your model sizes and your budget.

For example:

  python -m experiments list

  python -m experiments table5 --output=lab --input_file='books/*.txt'
"""

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from rich.table import Table

from albert_cli import program
from albert_cli.commands.terminal import import_tensorflow
from albert_cli.help_page import HelpPage
from albert_tf.parameter_tables import counted_models
from benchmarks.report import markdown_table
from data_prep.console import open_console
from experiments.paper.experiments import EXPERIMENTS, Experiment
from experiments.paper.figure1 import Figure1Settings, run_figure1
from experiments.paper.laboratory import LabSettings
from experiments.paper.leaderboards import (
    LEADERBOARDS,
    Leaderboard,
    LeaderboardSettings,
    run_leaderboard,
)
from experiments.paper.models import with_starts
from experiments.paper.results import MARKDOWN_FILE, Results, write_report

_SETTINGS = Parameter(name="*", negative_iterable=())  # no --empty-model

app = App(
    name="python -m experiments",
    help=__doc__,
    default_parameter=program.FLAGS,
    help_format="plaintext",
    help_formatter=HelpPage(),
    version_flags=[],
    suppress_keyboard_interrupt=False,
)


@app.command(name="list")
def list_() -> None:
    """List the experiments.

    For example:

      python -m experiments list
    """
    table = Table("python -m experiments", "in the paper", "question", "models to train")
    for experiment in EXPERIMENTS.values():
        variants = with_starts([row.variant for row in experiment.rows])
        table.add_row(experiment.name, experiment.paper, experiment.question, str(len(variants)))
    table.add_row("table1", "Table 1", "How many parameters exactly do the paper's models have?", "none")
    table.add_row("figure1", "Figure 1", "How far does each layer of a checkpoint move its input?", "none")
    for board in LEADERBOARDS.values():
        question = f"How good are fine-tuned runs and their ensemble on {board.title}?"
        table.add_row(board.name, board.name.replace("table", "Table "), question, "none")
    console = open_console()
    console.print(table)
    console.print(
        "Experiments with the same --output train each model that they share only once, by default with three "
        "seeds. With --scale=tiny, a training takes minutes on two cores.",
        highlight=False,
    )


@app.command
def table1() -> None:
    """Print Table 1: configurations and exact parameter counts. `albert params` also has those of Tables 3 and 4.

    For example:

      python -m experiments table1
    """
    header = ("", "Parameters (millions), paper", "Parameters", "Layers", "Hidden", "Embedding")
    models = [model for model in counted_models() if model.table == 1]
    rows = [
        (
            model.name,
            model.millions,
            f"{model.parameters:,}",
            model.config.num_hidden_layers,
            model.config.hidden_size,
            model.config.embedding_size,
        )
        for model in models
    ]
    print(markdown_table(header, rows))


def _command(experiment: Experiment) -> Callable:
    def command(*, settings: Annotated[LabSettings, _SETTINGS]) -> None:
        from experiments.paper.run import run_experiment

        _show(run_experiment(experiment, settings, command=_command_line()), settings.output)

    command.__doc__ = (
        f"Run {experiment.paper}: {experiment.question}\n\n"
        "The same command resumes an interrupted experiment; a higher --seeds adds seeds to the finished ones.\n\n"
        f"For example:\n\n  python -m experiments {experiment.name} --output=lab --input_file='books/*.txt'\n"
    )
    return command


for _experiment in EXPERIMENTS.values():
    app.command(_command(_experiment), name=_experiment.name)


@app.command
def figure1(*, settings: Annotated[Figure1Settings, _SETTINGS]) -> None:
    """Measure how far each layer of a model moves its input: L2 distance and cosine similarity.

    For example:

      python -m experiments figure1 --model=albert_large.tar.gz --model=BERT=runs/none \\
          --text=book.txt --output=lab
    """
    import_tensorflow()
    _show(run_figure1(settings, _command_line()), settings.output)


def _leaderboard(board: Leaderboard, example: str) -> Callable:
    def command(*runs: str, settings: Annotated[LeaderboardSettings, _SETTINGS]) -> None:
        _show(run_leaderboard(board, runs, settings, _command_line()), settings.output)

    command.__doc__ = (
        f"Compare fine-tuned models and their ensemble on {board.title} with the paper's.\n\n"
        f"For example:\n\n  python -m experiments {board.name} {example} --output=lab\n\n"
        "Args:\n  runs: folders of `albert finetune`, where one of several seeds stands for all of them. "
        "Runs from the same checkpoint share a row; NAME=FOLDER names the row.\n"
    )
    return command


for _board, _example in zip(
    LEADERBOARDS.values(), ("runs/rte base=runs/cola", "runs/squad2 runs/race"), strict=True
):
    app.command(_leaderboard(_board, _example), name=_board.name)


@app.command
def report(folder: Path, /) -> None:
    """Write the results of all experiments of a laboratory as one page of Markdown.

    For example:

      python -m experiments report lab

    Args:
      folder: folder of the laboratory (its --output); the page is report.md in it.
    """
    print(write_report(folder))


def _show(results: Results, output: Path) -> None:
    print(results.table())
    print(output / results.experiment / MARKDOWN_FILE)


def _command_line() -> str:
    """The command line, which the results record."""
    return shlex.join(["python", "-m", "experiments", *sys.argv[1:]])


def main(arguments: list[str] | None = None) -> int:
    """Runs a command line and returns the exit status."""
    return program.run(app, arguments)


if __name__ == "__main__":
    sys.exit(main())
