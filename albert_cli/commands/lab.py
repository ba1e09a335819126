"""albert lab: the paper's tables and figures as commands."""

import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from rich.table import Table

from albert_cli.commands.terminal import import_tensorflow, print_message, print_next, print_notes
from albert_tf.lab import parameter_tables
from albert_tf.lab.experiments import EXPERIMENTS, Experiment
from albert_tf.lab.settings import Figure1Settings, LabSettings
from albert_tf.lab.variants import with_starts
from data_prep.console import open_console

_SETTINGS = Parameter(name="*")
_REPEATED = Parameter(negative="")  # no --empty-model
# Commands that read checkpoints and runs: name, place in the paper, question.
_READERS = (
    ("figure1", "Figure 1", "How far does each layer of a checkpoint move its input?"),
    ("table9", "Table 9", "How good are fine-tuned runs and their ensemble on GLUE?"),
    ("table10", "Table 10", "How good are fine-tuned runs and their ensemble on SQuAD and RACE?"),
)

app = App(name="lab", help_format="plaintext")


@app.command(name="list")
def list_() -> None:
    """List the experiments.

    For example:

      albert lab list
    """
    table = Table("albert lab", "in the paper", "question", "models to train")
    table.add_row(parameter_tables.COMMAND, "Table 1", parameter_tables.QUESTION, "none")
    for experiment in EXPERIMENTS.values():
        variants = with_starts([row.variant for row in experiment.rows])
        table.add_row(experiment.name, experiment.paper, experiment.question, str(len(variants)))
    for reader in _READERS:
        table.add_row(*reader, "none")
    console = open_console()
    console.print(table)
    console.print(
        "Experiments with the same --output train each model that they share only once, by default with three "
        "seeds. With --scale=tiny, a training takes minutes on two cores.",
        highlight=False,
    )


@app.command
def table1(*, output: str) -> None:
    """Write Table 1: configurations and exact parameter counts. Nothing is trained.

    For example:

      albert lab table1 --output=lab

    Args:
      output: folder of the laboratory; the results are written to its folder table1.
    """
    from albert_tf.lab.results import LAB_RESULTS_FILE
    from albert_tf.lab.tables import results_table, write_results

    results = parameter_tables.table_1(LabSettings(output))
    folder = Path(output) / results.experiment
    write_results(folder, results)
    print(results_table(results))
    print(folder / LAB_RESULTS_FILE)
    print_next(f"albert lab report {output}")


def _command(experiment: Experiment) -> Callable:
    def command(*, settings: Annotated[LabSettings, _SETTINGS]) -> None:
        from albert_tf.lab.results import LAB_RESULTS_FILE
        from albert_tf.lab.run import run_experiment
        from albert_tf.lab.tables import MARKDOWN_FILE

        folder = run_experiment(experiment, settings)
        print((folder / MARKDOWN_FILE).read_text(encoding="utf-8"))
        print(folder / LAB_RESULTS_FILE)
        print_next(f"albert lab report {settings.output}")

    command.__doc__ = (
        f"Run {experiment.paper}: {experiment.question}\n\n"
        "The same command resumes an interrupted experiment; a higher --seeds adds seeds to the finished ones.\n\n"
        f"For example:\n\n  albert lab {experiment.name} --output=lab --input_file='books/*.txt'\n"
    )
    return command


for _experiment in EXPERIMENTS.values():
    app.command(_command(_experiment), name=_experiment.name)


@app.command
def figure1(
    *,
    model: Annotated[list[str], _REPEATED],
    text: str,
    settings: Annotated[Figure1Settings, _SETTINGS],
) -> None:
    """Measure how far each layer of a model moves its input: L2 distance and cosine similarity.

    For example:

      albert lab figure1 --model=albert_large.tar.gz --model=BERT=runs/none \\
          --text=book.txt --output=lab

    Args:
      model: PATH or NAME=PATH of any model that `albert convert` reads; give the flag once per model. A folder
        that holds seed-1, seed-2 and so on stands for all of them, as do several paths with the same name.
      text: text to read, as --input_file of `albert prepare`.
      settings: the other flags.
    """
    import_tensorflow()
    from albert_tf.lab.figure1 import run_figure1

    results = run_figure1(model, text, settings, command=_command_line(), log=print_message)
    print(Path(settings.output) / results.experiment)
    print_next(f"albert lab report {settings.output}")


@app.command
def table9(*runs: str, output: str) -> None:
    """Compare fine-tuned models and their ensemble on GLUE with the paper's, from their predictions.

    For example:

      albert lab table9 runs/rte runs/mrpc base=runs/cola_base --output=lab

    Args:
      runs: folders of `albert finetune`, where a folder with several seeds stands for all of them. Runs from the
        same checkpoint share a row; NAME=FOLDER names the row.
      output: folder of the laboratory; the results are written to its folder table9.
    """
    _leaderboard("table9", runs, output, [])


@app.command
def table10(*runs: str, output: str, gold: Annotated[list[str] | None, _REPEATED] = None) -> None:
    """Compare fine-tuned models and their ensemble on SQuAD and RACE with the paper's, from their predictions.

    For example:

      albert lab table10 runs/squad2 runs/race --gold=squad2.0=dev-v2.0.json \\
          --output=lab

    Args:
      runs: folders of `albert finetune`, where a folder with several seeds stands for all of them. Runs from the
        same checkpoint share a row; NAME=FOLDER names the row.
      output: folder of the laboratory; the results are written to its folder table10.
      gold: SQuAD's JSON file with the correct answers, as squad1.1=FILE or squad2.0=FILE. Default: the file that
        the runs were evaluated on, if it is at its recorded path.
    """
    _leaderboard("table10", runs, output, gold or [])


@app.command
def report(folder: str, /) -> None:
    """Write all experiments of a laboratory as one self-contained HTML page: tables, plots and how they were made.

    For example:

      albert lab report lab

    Args:
      folder: folder of the laboratory (its --output); the page is report.html in it.
    """
    from albert_tf.lab.report import write_report

    print(write_report(Path(folder)))


def _leaderboard(name: str, runs: Sequence[str], output: str, gold: Sequence[str]) -> None:
    from albert_tf.lab.leaderboards import TABLE_9, TABLE_10, leaderboard, parse_gold

    table = {board.name: board for board in (TABLE_9, TABLE_10)}[name]
    results = leaderboard(table, runs, Path(output), gold=parse_gold(gold), command=_command_line())
    print_notes(results.notes)
    print(Path(output) / results.experiment)
    print_next(f"albert lab report {output}")


def _command_line() -> str:
    """The command line, which the results record."""
    return shlex.join(["albert", *sys.argv[1:]])
