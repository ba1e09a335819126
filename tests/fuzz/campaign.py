"""Runs the cases of a reader: changes one file of a valid set, reads the set, and notes what happens."""

import dataclasses
import hashlib
import random
import resource
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import keras
import numpy as np

from data_prep.errors import InputError
from tests.fuzz.mutations import mutate
from tests.fuzz.readers import Reader

LONGEST = 30  # seconds of a case


class TooSlowError(BaseException):
    """A case takes longer than `LONGEST`."""


@dataclasses.dataclass
class Outcome:
    """What the cases of a reader came to.

    Attributes:
      refused, unchanged, changed: the number of cases that gave an InputError, the result of the valid files, or
        another result.
      failures: for each place of an unexpected exception the number of its cases.
      examples: for each of these places one case, and its traceback.
      slowest: seconds.
      memory: peak of the process, in MB.
    """

    refused: int = 0
    unchanged: int = 0
    changed: int = 0
    failures: Counter[str] = dataclasses.field(default_factory=Counter)
    examples: dict[str, tuple[int, str]] = dataclasses.field(default_factory=dict)
    slowest: float = 0.0
    memory: int = 0


def run(reader: Reader, cases: Sequence[int], seed: int) -> Outcome:
    """Runs these cases of a reader, each of which draws from a seed of its own."""
    outcome = Outcome()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "files")
        folder.mkdir()
        reader.write(folder)
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        kept = {path for pattern in reader.untouched for path in folder.rglob(pattern)}
        contents = {path: path.read_bytes() for path in files}
        expected = _digest(reader.read(folder))
        for case in cases:
            rng = random.Random(f"{seed}/{reader.name}/{case}")
            path = rng.choice([path for path in files if path not in kept])
            _change(path, contents, rng)
            if reader.seal:
                reader.seal(folder)
            begin = time.monotonic()
            _run_case(reader, folder, case, expected, outcome)
            outcome.slowest = max(outcome.slowest, time.monotonic() - begin)
            for changed in contents if reader.seal else (path,):
                changed.write_bytes(contents[changed])
            if case % 100 == 0:
                keras.backend.clear_session()
    outcome.memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return outcome


def _change(path: Path, contents: Mapping[Path, bytes], rng: random.Random) -> None:
    """Changes a file, or, rarely, deletes it."""
    if rng.random() < 0.02:
        path.unlink()
    else:
        path.write_bytes(mutate(contents[path], list(contents.values()), rng))


def _run_case(reader: Reader, folder: Path, case: int, expected: bytes, outcome: Outcome) -> None:
    try:
        with _time_limit(), redirect_stderr(StringIO()):
            found = _digest(reader.read(folder))
    except InputError:
        outcome.refused += 1
    except (Exception, TooSlowError) as error:
        frames = traceback.extract_tb(error.__traceback__)
        place = next((frame for frame in reversed(frames) if _is_ours(frame.filename)), frames[-1])
        name = f"{type(error).__name__} in {Path(place.filename).name}:{place.lineno}"
        outcome.failures[name] += 1
        outcome.examples.setdefault(name, (case, traceback.format_exc()))
    else:
        if found == expected:
            outcome.unchanged += 1
        else:
            outcome.changed += 1


def _is_ours(file: str) -> bool:
    return any(f"/{folder}/" in file for folder in ("albert_tf", "data_prep")) and "/tests/" not in file


@contextmanager
def _time_limit() -> Iterator[None]:
    def stop(number, frame):
        raise TooSlowError(f"longer than {LONGEST} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, LONGEST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _digest(value: Any) -> bytes:
    """A hash of a result, equal for equal ones; the paths in it do not count."""
    digest = hashlib.sha256()
    _add(value, digest.update)
    return digest.digest()


def _add(value: Any, add) -> None:
    if isinstance(value, Path) or (isinstance(value, str) and value.startswith(tempfile.gettempdir())):
        return
    if isinstance(value, keras.Model):
        _add(value.get_weights(), add)
    elif isinstance(value, np.ndarray):
        content = repr(value.tolist()).encode() if value.dtype == object else value.tobytes()
        add(f"{value.dtype}{value.shape}".encode() + content)
    elif dataclasses.is_dataclass(value):
        _add({field.name: getattr(value, field.name) for field in dataclasses.fields(value)}, add)
    elif isinstance(value, Mapping):
        for key, part in value.items():
            add(repr(key).encode("utf-8", "surrogatepass"))
            _add(part, add)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        add(str(len(value)).encode())
        for part in value:
            _add(part, add)
    elif type(value).__repr__ is not object.__repr__:
        add(repr(value).encode("utf-8", "surrogatepass"))
