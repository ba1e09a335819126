"""The `albert` command: its subcommands are functions of `albert_cli/commands`.

Heavy imports wait until a command runs: `albert --help` and a mistyped flag answer at once.
"""

import difflib
import sys

import cyclopts
from cyclopts import App, Parameter
from rich.console import Console

from albert_cli.commands import data, formats, lab, predictions, training
from data_prep.errors import InputError, Preempted

# Flags have the original's names: --input_file, not --input-file; --nodo_train is absl's --do_train=false.
_FLAGS = Parameter(name_transform=lambda name: name, negative_bool="no", show_env_var=False)

app = App(
    name="albert",
    help="ALBERT from raw text to a SavedModel: vocab, tokenize, prepare, inspect, pretrain, finetune, "
    "predict, evaluate, ensemble, submission, plot, convert, export, lab.",
    default_parameter=_FLAGS,
    help_format="plaintext",
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
    return run(app, arguments)


def run(program: App, arguments: list[str] | None = None) -> int:
    """Runs a command line; 2 for the user's mistakes, told in one sentence, 130 for Ctrl-C, 143 for SIGTERM."""
    console = Console(stderr=True)
    try:
        program(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except (InputError, cyclopts.CycloptsError) as error:
        console.print(
            f"albert: {_message(error)}", style="bold red", markup=False, highlight=False, soft_wrap=True
        )
        return 2
    except KeyboardInterrupt:
        console.print("albert: interrupted", style="bold red")
        return 130
    except Preempted as stop:
        console.print(f"albert: {stop}", style="bold", markup=False, highlight=False, soft_wrap=True)
        return 143
    return 0


def _message(error: Exception) -> str:
    """What to tell of an error; a misspelt flag comes before the flags that are missing."""
    if isinstance(error, cyclopts.MissingArgumentError) and error.app and error.command_chain is not None:
        command = error.app
        known = [
            name
            for argument in command.assemble_argument_collection(default_parameter=_FLAGS)
            for name in argument.names
        ]
        for token in error.unused_tokens or ():
            flag = token.split("=")[0]
            if flag.startswith("--") and flag not in known:
                (nearest,) = difflib.get_close_matches(flag, known, n=1, cutoff=0.0)
                return f"Unknown option: {flag}. Did you mean {nearest}?"
    return str(error)


if __name__ == "__main__":
    sys.exit(main())
