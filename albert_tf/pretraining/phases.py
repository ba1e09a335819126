"""The phases of a run: each trains on files of one length, for instance on short sequences first."""

import dataclasses
import difflib
import shlex
from dataclasses import dataclass
from typing import Any

from data_prep.errors import InputError

_KEYS = ("input_file", "num_train_steps", "train_batch_size", "eval_file")
_DIGITS = 18  # of a number that fits into 64 bits


@dataclass(frozen=True)
class Phase:
    """One phase as the flags give it.

    Attributes:
      input_file: TFRecord files to train on; commas and globs.
      num_train_steps: steps of this phase.
      train_batch_size: examples per step.
      eval_file: TFRecord files to evaluate on.
      max_seq_length: T of the files. Default: read from the files.
      max_predictions_per_seq: P of the files. Default: read from the files.
    """

    input_file: str
    num_train_steps: int
    train_batch_size: int
    eval_file: str | None = None
    max_seq_length: int | None = None
    max_predictions_per_seq: int | None = None

    def resolve(
        self, T: int, P: int, start_step: int, *, num_examples: int, num_bytes: int
    ) -> "ResolvedPhase":
        """The phase with the lengths and sizes of its files, after `start_step` steps of earlier phases."""
        lengths = {"max_seq_length": T, "max_predictions_per_seq": P}
        sizes = {"num_examples": num_examples, "num_bytes": num_bytes}
        return ResolvedPhase(**{**dataclasses.asdict(self), **lengths, **sizes, "start_step": start_step})


@dataclass(frozen=True, kw_only=True)
class ResolvedPhase(Phase):
    """A phase with every default filled in.

    Attributes:
      start_step: steps of the run before this phase.
      num_examples: examples in its training files.
      num_bytes: size of these files.
    """

    max_seq_length: int
    max_predictions_per_seq: int
    start_step: int
    num_examples: int
    num_bytes: int

    @property
    def end_step(self) -> int:
        """Steps of the run up to the end of this phase."""
        return self.start_step + self.num_train_steps

    def __str__(self) -> str:
        return f"{self.num_train_steps:,} steps of {self.train_batch_size} at T={self.max_seq_length}"


def parse_phase(text: str, train_batch_size: int) -> Phase:
    """The value of one --phase, such as "input_file=data/train.tfrecord* num_train_steps=1000".

    Args:
      text: KEY=VALUE pairs, quoted as in a shell.
      train_batch_size: the batch if the phase gives none.

    Raises:
      InputError: a key is unknown, missing or given twice, or a number is not a whole number above 0.
    """
    values: dict[str, Any] = {}
    for word in _words(text):
        key, equals, value = word.partition("=")
        if key not in _KEYS or not equals:
            (nearest,) = difflib.get_close_matches(key, _KEYS, n=1, cutoff=0.0)
            raise _error(text, f"{word!r} is not one of these; did you mean {nearest}={value or '...'}?")
        if key in values:
            raise _error(text, f"{key} is there twice.")
        values[key] = _whole_number(text, key, value) if key.startswith(("num", "train")) else value
    for key in ("input_file", "num_train_steps"):
        if not values.get(key):
            raise _error(text, f"{key} is missing.")
    return Phase(**{"train_batch_size": train_batch_size, **values})


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise _error(text, f"{error}.") from None


def _whole_number(text: str, key: str, value: str) -> int:
    if not value.isdecimal() or len(value) > _DIGITS or int(value) < 1:
        raise _error(text, f"{key} must be a whole number of at least 1, with at most {_DIGITS} digits.")
    return int(value)


def _error(text: str, reason: str) -> InputError:
    return InputError(f"--phase must hold KEY=VALUE pairs of {', '.join(_KEYS)}. Received {text!r}: {reason}")
