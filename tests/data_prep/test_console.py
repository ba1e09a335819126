import io
import sys

import pytest

from data_prep.console import open_console


class Stream(io.StringIO):
    """What a program writes, to a terminal or a pipe."""

    def __init__(self, is_terminal):
        super().__init__()
        self.isatty = lambda: is_terminal


@pytest.mark.parametrize("stderr", [False, True])
@pytest.mark.parametrize("is_terminal", [False, True])
def test_only_terminals_get_colors(stderr, is_terminal, monkeypatch):
    """Jupyter sets FORCE_COLOR for the commands in a notebook, whose output is a pipe."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-color")
    stream = Stream(is_terminal)
    monkeypatch.setattr(sys, "stderr" if stderr else "stdout", stream)
    console = open_console(stderr=stderr)
    console.print("[red]loss[/red]")
    assert console.is_terminal == is_terminal
    assert ("\x1b[" in stream.getvalue()) == is_terminal
