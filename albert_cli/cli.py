"""The `albert` command: its subcommands are the functions in `albert_cli/commands`.

Commands import TensorFlow only when they run, so that `albert --help` and a mistyped flag respond at once.
"""

import sys

from cyclopts import App

import albert_tf
from albert_cli import program
from albert_cli.commands import data, formats, lab, predictions, training

app = App(
    name="albert",
    help="ALBERT from raw text to a SavedModel: vocab, tokenize, prepare, inspect, pretrain, finetune, "
    "predict, evaluate, ensemble, submission, plot, convert, publish, models, export, lab.",
    default_parameter=program.FLAGS,
    help_format="plaintext",
    version=albert_tf.__version__,
    version_flags=["--version"],
    suppress_keyboard_interrupt=False,
)
COMMANDS = (
    data.vocab,
    data.tokenize,
    data.prepare,
    data.inspect,
    training.pretrain,
    training.finetune,
    predictions.predict,
    training.plot,
    formats.export,
    formats.convert,
    formats.publish,
    formats.models,
    predictions.evaluate,
    predictions.ensemble,
    predictions.submission,
    training.params,
)
for command in COMMANDS:
    app.command(command)
app.command(lab.app)


def main(arguments: list[str] | None = None) -> int:
    """Runs the `albert` command and returns its exit status."""
    return program.run(app, arguments)


if __name__ == "__main__":
    sys.exit(main())
