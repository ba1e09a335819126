"""The README.md of a folder that `albert convert` or `albert export` wrote."""

import contextlib
import io
import re
from pathlib import Path


def card_of(folder: Path) -> str:
    return (folder / "README.md").read_text(encoding="utf-8")


def examples_of(folder: Path) -> list[str]:
    """The Python programs in it."""
    return re.findall(r"```python\n(.*?)```", card_of(folder), re.DOTALL)


def printed_by(example: str, folder: Path) -> str:
    """What a program prints that runs in the folder, in this process."""
    printed = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        exec(example, {})
    return printed.getvalue().strip()
