"""What a filter reads and writes: standard input and output, or files, also at addresses."""

import contextlib
import sys
from collections.abc import Iterator
from typing import BinaryIO, cast

from data_prep.errors import InputError

_STANDARD = "-"


@contextlib.contextmanager
def input_stream(name: str) -> Iterator[BinaryIO]:
    """Opens a file, or the copy of one at an address; "-" is standard input."""
    if name == _STANDARD:
        yield sys.stdin.buffer
        return
    from data_prep.files import check_file
    from data_prep.storage.copies import fetched

    with fetched(name) as path:
        check_file(path)
        with path.open("rb") as file:
            yield cast(BinaryIO, file)


@contextlib.contextmanager
def output_stream(name: str) -> Iterator[BinaryIO]:
    """Writes a file, complete or not at all, perhaps at an address; "-" is standard output."""
    if name == _STANDARD:
        yield sys.stdout.buffer
        return
    from data_prep.files import written_aside
    from data_prep.storage.copies import pushed

    with contextlib.ExitStack() as stack:
        aside = stack.enter_context(written_aside(stack.enter_context(pushed(name))))
        try:
            file = stack.enter_context(aside.open("wb"))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise InputError(
                f"--output_file must name a file in an existing folder. Received {name}: {error.strerror}."
            ) from None
        yield cast(BinaryIO, file)
