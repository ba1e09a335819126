import io
import os
import pty
import subprocess
import sys

import pytest

from data_prep.console import no_clock, open_console, silenced_stderr, working


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


@pytest.mark.slow
def test_a_terminal_shows_what_goes_on_until_it_is_done(monkeypatch):
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as screen, os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr("sys.stderr", terminal)
        with working("exporting"):
            shown = screen.read(100)
            with no_clock():
                pass
        while not shown.endswith(b"\r\x1b[K" * 2):
            shown += screen.read(100)
    assert shown.startswith(b"\r\x1b[Kexporting ... 0:0")


def test_a_pipe_shows_no_clock(capfd):
    with working("exporting"):
        pass
    assert capfd.readouterr() == ("", "")


def test_silenced_stderr_silences_other_programs(capfd):
    with silenced_stderr():
        subprocess.run("echo message >&2", shell=True, check=True)
    print("later", file=sys.stderr)
    assert capfd.readouterr().err == "later\n"
