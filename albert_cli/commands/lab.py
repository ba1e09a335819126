"""albert lab: the paper's tables and figures as commands."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from rich.console import Console
from rich.table import Table

from albert_cli.commands import lab_reading
from albert_tf.lab.experiments import EXPERIMENTS, Experiment
from albert_tf.lab.settings import LabSettings
from albert_tf.lab.variants import with_starts

_SETTINGS = Parameter(name="*")
_HELP = """The paper's tables and figures as experiments that you can run on your text, your sizes, your budget.

For example:

  albert lab list

  albert lab table5 --output=lab --input_file='books/*.txt'
"""

app = App(name="lab", help=_HELP, help_format="plaintext")


@app.command(name="list")
def list_() -> None:
    """List the experiments.

    For example:

      albert lab list
    """
    from albert_tf.lab import table1

    table = Table("albert lab", "in the paper", "asks", "models to train")
    table.add_row(table1.NAME, table1.PAPER, table1.QUESTION, "none")
    for experiment in EXPERIMENTS.values():
        variants = with_starts([row.variant for row in experiment.rows])
        table.add_row(experiment.name, experiment.paper, experiment.question, str(len(variants)))
    for name, paper, question in lab_reading.READ:
        table.add_row(name, paper, question, "none")
    console = Console()
    console.print(table)
    console.print(
        "A model that several experiments have is trained once in a laboratory (--output), with three seeds by "
        "default. With --scale=tiny each training takes minutes on two cores.",
        highlight=False,
    )


@app.command
def table1(*, output: str) -> None:
    """Write Table 1: configurations and exact parameters. Nothing is trained.

    For example:

      albert lab table1 --output=lab

    Args:
      output: the laboratory's folder.
    """
    from albert_tf.lab.markdown import table
    from albert_tf.lab.running import write_results
    from albert_tf.lab.table1 import NAME
    from albert_tf.lab.table1 import table1 as make

    results = make(LabSettings(output))
    folder = Path(output) / NAME
    write_results(folder, results)
    print(table(results))
    print(folder / "results.json")


def _command(experiment: Experiment) -> Callable:
    def command(*, settings: Annotated[LabSettings, _SETTINGS]) -> None:
        from albert_tf.lab.markdown import MARKDOWN_FILE
        from albert_tf.lab.results import RESULTS_FILE
        from albert_tf.lab.running import run_experiment

        folder = run_experiment(experiment, settings)
        print((folder / MARKDOWN_FILE).read_text(encoding="utf-8"))
        print(folder / RESULTS_FILE)

    command.__doc__ = (
        f"Run {experiment.paper}: {experiment.question}\n\n"
        "The same command goes on with what was stopped; more --seeds are added to those that are there.\n\n"
        f"For example:\n\n  albert lab {experiment.name} --output=lab --input_file='books/*.txt'\n"
    )
    return command


for _experiment in EXPERIMENTS.values():
    app.command(_command(_experiment), name=_experiment.name)
lab_reading.register(app)
