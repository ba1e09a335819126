"""Errors that are not defects of this library, and helpers for their messages."""

import contextlib
import errno
import os
import re
import signal
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Any

# The system's error numbers for full or faulty disks, exhausted limits and impossible paths, none of which is a
# defect of this library.
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_SYSTEM = (
    *_DISK_FULL,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EIO,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENAMETOOLONG,
    errno.ELOOP,
)


_SHORTENED = re.compile(r"\b(?!file:)([a-z][a-z0-9+.-]+:)/(?=[^/\s])")


class InputError(ValueError):
    """A mistake in the user's files, flags or configuration.

    The message is one or two sentences: the rule, what was received, what to do. Programs print it and
    exit with status 2; all other exceptions are defects of this library and show a traceback.

    >>> try:
    ...     AlbertConfig(hidden_size=770)
    ... except InputError as error:
    ...     print(error)
    `hidden_size` must be divisible by `num_attention_heads`. Received 770 and 12.
    """

    def __str__(self) -> str:
        """The message, in which s3:/bucket, as Path writes it, is s3://bucket again."""
        return _SHORTENED.sub(r"\1//", super().__str__())


class DiskFullError(InputError):
    """There is no space left on a disk of this machine."""


class Preempted(Exception):  # noqa: N818 - not an error
    """The process received a signal and has saved its state; programs exit with status 128 + `number`."""

    def __init__(self, message: str, number: signal.Signals = signal.SIGTERM):
        super().__init__(message)
        self.number = number


@contextlib.contextmanager
def needs_extra(what: str, package: str, extra: str) -> Iterator[None]:
    """Turns a failed import of a package, which an extra of this library installs, into an InputError.

    `what`, the feature that needs the package, begins the message.
    """
    try:
        yield
    except ImportError:
        raise InputError(
            f"{what} needs the package {package}, which is not installed. "
            f"Run `pip install '.[{extra}]'` in a copy of the repository."
        ) from None


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or the name of its type if the message is empty."""
    message = str(getattr(error, "message", error)).strip()
    return (message or type(error).__name__).splitlines()[0]


def disk_full(error: BaseException) -> str | None:
    """The system's message if the disk is full; None for all other errors."""
    return _system_words(error, _DISK_FULL)


def system_fault(error: BaseException) -> str | None:
    """The file and the reason, if the system caused the error, for instance with a read-only disk; or None."""
    words = _system_words(error, _SYSTEM)
    file = getattr(error, "filename", None)
    return f"{file}: {words}" if words and file else words


def _system_words(error: BaseException, numbers: tuple[int, ...]) -> str | None:
    if isinstance(error, OSError) and error.errno in numbers:
        return os.strerror(error.errno)
    # TensorFlow and HDF5 quote the system's message in errors of their own.
    return next((words for words in map(os.strerror, numbers) if words in str(error)), None)


def check_at_least(minimum: int, settings: Any, *names: str) -> None:
    """Raises InputError if one of the named flags of `settings` is below `minimum`; None is allowed."""
    for name in names:
        value = getattr(settings, name)
        if value is not None and value < minimum:
            raise InputError(f"--{name} must be at least {minimum}. Received {value}.")


def check_at_most(maximum: int, settings: Any, *names: str) -> None:
    """Raises InputError if one of the named flags of `settings` is above `maximum`; None is allowed."""
    for name in names:
        value = getattr(settings, name)
        if value is not None and value > maximum:
            raise InputError(f"--{name} must be at most {maximum:,}. Received {value}.")


def check_given_once(what: str, values: Iterable[Any]) -> None:
    """Raises InputError if a value occurs more than once. `what` names the argument in the message."""
    for value, count in Counter(values).items():
        if count > 1:
            raise InputError(f"A {what} may be given only once. Received {value} {count} times.")


def check_choice(choices: Collection[Any], flag: str, value: Any) -> None:
    """Raises InputError if the value of a flag, or of an argument of this name, is not one of its choices."""
    if value not in choices:
        raise InputError(f"--{flag} must be one of {', '.join(choices)}. Received {value!r}.")


def check_among(known: Collection[str], flag: str, names: Iterable[str]) -> None:
    """Raises InputError if a flag received an unknown name."""
    for name in names:
        if name not in known:
            raise InputError(f"--{flag} must be among {', '.join(known)}. Received {name!r}.")
