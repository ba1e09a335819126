"""A benchmark's settings class as a command line."""

from collections.abc import Callable
from dataclasses import fields
from typing import Annotated, Any

import cyclopts

from albert_tf import cli


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
