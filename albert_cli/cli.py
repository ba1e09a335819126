"""The `albert` command: its subcommands are the functions in `albert_cli/commands`.

A module of commands is imported when one of them runs, and commands import TensorFlow only then, so that
`albert --help` and a mistyped flag respond at once.
"""

import ast
import sys
from pathlib import Path

from cyclopts import App

import albert_tf
from albert_cli import program
from albert_cli.help_page import HelpPage

# The modules of albert_cli/commands and their commands.
COMMANDS = {
    "data": ("vocab", "tokenize", "prepare", "inspect"),
    "training": ("pretrain", "finetune", "plot", "params"),
    "predictions": ("predict", "evaluate", "ensemble", "submission"),
    "embeddings": ("embed",),
    "formats": ("export", "convert", "publish", "models"),
    "storage": ("doctor",),
}

app = App(
    name="albert",
    help="ALBERT from raw text to a SavedModel. `albert COMMAND --help` explains a command.",
    default_parameter=program.FLAGS,
    help_format="plaintext",
    help_formatter=HelpPage(),
    version=albert_tf.__version__,
    version_flags=["--version"],
    suppress_keyboard_interrupt=False,
)


def _descriptions(module: str) -> dict[str, str]:
    """The docstrings of a module's functions, without arguments; the module is read and not imported."""
    source = Path(__file__).parent.joinpath("commands", f"{module}.py").read_text(encoding="utf-8")
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    return {one.name: (ast.get_docstring(one) or "").partition("\n\nArgs:")[0] for one in functions}


for _module, _names in COMMANDS.items():
    _help = _descriptions(_module)
    for _name in _names:
        app.command(f"albert_cli.commands.{_module}:{_name}", name=_name, help=_help[_name])
app.register_install_completion_command(help="Let the shell complete commands and flags (bash, zsh, fish).")


def main(arguments: list[str] | None = None) -> int:
    """Runs the `albert` command and returns its exit status."""
    return program.run(app, arguments)


if __name__ == "__main__":
    sys.exit(main())
