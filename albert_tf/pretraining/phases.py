"""The phases of a run: each trains on files of one length, for instance on short sequences first."""

import difflib
import shlex
from dataclasses import dataclass
from typing import Any

from albert_tf.pretraining.flags import PretrainingFlags
from data_prep.errors import InputError

_KEYS = ("input_file", "num_train_steps", "train_batch_size", "eval_file", "input_weights", "input_exponent")
# Flags that --phase replaces.
_REPLACED = (
    "input_file",
    "input_weights",
    "input_exponent",
    "eval_file",
    "num_train_steps",
    "max_seq_length",
    "max_predictions_per_seq",
)
_OPTIONAL = ("eval_file", "input_weights", "input_exponent")
_PAPER_STEPS = 125_000
_DIGITS = 18  # of a number that fits into 64 bits


@dataclass(frozen=True)
class Phase:
    """One phase of a plan.

    Attributes:
      input_file: TFRecord files to train on; commas and globs.
      num_train_steps: steps of this phase.
      train_batch_size: examples per step, no more than the files hold.
      eval_file: TFRecord files to evaluate on, None for no evaluation.
      max_seq_length: T of the files.
      max_predictions_per_seq: P of the files.
      start_step: steps of the run before this phase.
      num_examples: examples in the training files.
      num_bytes: size of these files.
      input_weights: weights of the patterns of `input_file`, None for none.
      input_exponent: of the numbers of examples, which gives weights; None for none.
    """

    input_file: str
    num_train_steps: int
    train_batch_size: int
    eval_file: str | None
    max_seq_length: int
    max_predictions_per_seq: int
    start_step: int
    num_examples: int
    num_bytes: int
    input_weights: str | None = None
    input_exponent: float | None = None

    @property
    def end_step(self) -> int:
        """Steps of the run up to the end of this phase."""
        return self.start_step + self.num_train_steps

    def __str__(self) -> str:
        return f"{self.num_train_steps:,} steps of {self.train_batch_size} at T={self.max_seq_length}"


def phases_in(flags: PretrainingFlags) -> list[dict[str, Any]]:
    """What the flags say about each phase: the values of --phase, or the whole run as one.

    Returns:
      The values of _KEYS for each.

    Raises:
      InputError: there is neither --phase nor a file of examples, or flags that exclude each other.
    """
    common = {"train_batch_size": flags.train_batch_size, **dict.fromkeys(_OPTIONAL)}
    if flags.phase:
        if both := [f"--{name}" for name in _REPLACED if getattr(flags, name) is not None]:
            given = ", ".join(both)
            raise InputError(
                f"--phase excludes {given}, because every phase has its own. Received both; omit {given}."
            )
        return [{**common, **parse_phase(text)} for text in flags.phase]
    input_file = flags.input_file or (None if flags.do_train else flags.eval_file)
    if input_file is None:
        raise InputError(
            "A run needs --input_file, the TFRecord files to train on, or --phase for each of several lengths. "
            "Received neither."
        )
    steps = flags.num_train_steps or _PAPER_STEPS
    own = {name: getattr(flags, name) for name in _OPTIONAL}
    return [{**common, **own, "input_file": input_file, "num_train_steps": steps}]


def parse_phase(text: str) -> dict[str, Any]:
    """The value of one --phase, such as "input_file=data/train.tfrecord* num_train_steps=1000".

    Args:
      text: KEY=VALUE pairs, quoted as in a shell.

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
            raise _error(text, f"{key} occurs twice.")
        values[key] = _whole_number(text, key, value) if key.startswith(("num", "train")) else value
        if key == "input_exponent":
            values[key] = _number(text, key, value)
    for key in ("input_file", "num_train_steps"):
        if not values.get(key):
            raise _error(text, f"{key} is missing.")
    return values


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise _error(text, f"{error}.") from None


def _whole_number(text: str, key: str, value: str) -> int:
    if not value.isdecimal() or len(value) > _DIGITS or int(value) < 1:
        raise _error(text, f"{key} must be a whole number of at least 1, with at most {_DIGITS} digits.")
    return int(value)


def _number(text: str, key: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise _error(text, f"{key} must be a number.") from None


def _error(text: str, reason: str) -> InputError:
    return InputError(f"--phase must hold KEY=VALUE pairs of {', '.join(_KEYS)}. Received {text!r}: {reason}")
