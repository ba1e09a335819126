"""Errors that are not defects of this library, and helpers for their messages."""

from typing import Any


class InputError(ValueError):
    """A mistake in the user's files, flags or configuration.

    The message is one or two sentences: the rule, what was received, what to do. Programs print it and
    exit with status 2; all other exceptions are defects of this library and show a traceback.
    """


class Preempted(Exception):  # noqa: N818 - not an error
    """The process received SIGTERM and has saved its state; programs exit with status 143."""


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or the name of its type if the message is empty."""
    message = str(getattr(error, "message", error)).strip()
    return (message or type(error).__name__).splitlines()[0]


def check_at_least(minimum: int, settings: Any, *names: str) -> None:
    """Raises InputError if one of the named flags of `settings` is below `minimum`; None is allowed."""
    for name in names:
        value = getattr(settings, name)
        if value is not None and value < minimum:
            raise InputError(f"--{name} must be at least {minimum}. Received {value}.")
