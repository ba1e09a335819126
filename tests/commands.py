"""`albert` in this process, as its users see it."""

import json
from typing import Any

from albert_cli import cli


def run(capfd, *arguments) -> tuple[int, str, str]:
    """Status, standard output and standard error of a command."""
    capfd.readouterr()
    status = cli.main([str(argument) for argument in arguments])
    return status, *capfd.readouterr()


def report(capfd, *arguments) -> Any:
    """The JSON that a command prints."""
    status, out, error = run(capfd, *arguments)
    assert status == 0, error
    return json.loads(out)


def answers(capfd, standard_input, lines: str | bytes, *flags) -> list[dict]:
    """What `albert predict` answers to lines."""
    standard_input(lines.encode() if isinstance(lines, str) else lines)
    status, out, error = run(capfd, "predict", *flags)
    assert status == 0, error
    return [json.loads(line) for line in out.splitlines()]


def refused(capfd, *arguments) -> str:
    """What is printed about a user's mistake: status 2, one line at the end, no traceback."""
    status, _, error = run(capfd, *arguments)
    assert status == 2
    assert "Traceback" not in error
    assert error.splitlines()[-1].startswith("albert: ")
    return error
