"""A benchmark's settings class as a command line, and the commands that it calls."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from typing import Annotated, Any

import cyclopts

from albert_cli import cli


def run(main: Callable[[Any], Any], settings_class: type, help_text: str | None) -> int:
    """Makes flags of a dataclass, calls `main` with it and returns the exit status, as `albert` does."""
    app = cyclopts.App(
        default_parameter=cyclopts.Parameter(name_transform=lambda name: name, negative_bool="no"),
        help=help_text,
        help_format="plaintext",
    )

    def program(*, settings) -> None:
        main(settings)

    program.__annotations__["settings"] = Annotated[settings_class, cyclopts.Parameter(name="*")]
    if not any(field.default is field.default_factory for field in fields(settings_class)):  # both MISSING
        program.__kwdefaults__ = {"settings": settings_class()}
    app.default(program)
    return cli.run(app)


def albert(command: str, *arguments, **flags) -> None:
    """Shows and runs an `albert` command; what it refuses, it says itself, and its status ends the benchmark."""
    words = [command, *map(str, arguments), *(f"--{name}={value}" for name, value in flags.items())]
    print("$ albert", " ".join(word if len(word) < 200 else word[:200] + "..." for word in words), flush=True)
    status = subprocess.run([sys.executable, "-m", "albert_cli.cli", *words]).returncode
    if status:
        raise SystemExit(status)
