"""The streams that people read: colors and progress bars on terminals only."""

import sys
from typing import Any

from rich.console import Console


def open_console(*, stderr: bool = False, **options: Any) -> Console:
    """Opens standard output or standard error.

    Rich takes a pipe for a terminal if FORCE_COLOR is set, as it is for the commands in a Jupyter notebook, and
    a progress bar then fills the page with thousands of lines.

    Args:
      stderr: standard error instead of standard output.
      **options: of `rich.console.Console`.
    """
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, force_terminal=None if stream.isatty() else False, **options)
