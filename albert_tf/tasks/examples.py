"""The examples of downstream tasks, independent of files, and the problems of unusable rows."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from albert_tf.tasks.columns import Columns
from albert_tf.tasks.task import Task
from data_prep.errors import InputError

_SHOWN_ROWS = 3  # of each kind of problem
_SHOWN_CHARACTERS = 60
_SHOWN_LABELS = 5


@dataclass(frozen=True)
class TextExample:
    """A text or a pair of texts with a class, several classes or a number.

    Attributes:
      id: the file's, else the row's number from 0.
      text_a: the first text.
      text_b: the second text; None for tasks on single texts.
      label: a class's name, a tuple of names in multi-label classification, or a number in regression; None if
        unknown, as in a test set.
    """

    id: str
    text_a: str
    text_b: str | None = None
    label: str | float | tuple[str, ...] | None = None


@dataclass(frozen=True)
class ChoiceExample:
    """A passage, a question about it and several options, as in RACE.

    Attributes:
      id: unique in its set.
      passage: what the question is about.
      question: the question; an option replaces the "_" in it, or several in a row.
      options: the possible answers.
      label: the number of the correct option, from 0; None if unknown.
      group: "middle" or "high" in RACE, else "".
    """

    id: str
    passage: str
    question: str
    options: tuple[str, ...]
    label: int | None = None
    group: str = ""


@dataclass(frozen=True)
class QuestionExample:
    """A question whose answer is a span of its context, as in SQuAD.

    Attributes:
      id: the file's.
      question: the question.
      context: the text that contains the answer.
      answers: all accepted answers; empty if there is no answer, and in a test set.
      answer_starts: the character (code point) of `context` at which each answer begins.
      is_impossible: whether the file marks the question as unanswerable (SQuAD 2.0).
    """

    id: str
    question: str
    context: str
    answers: tuple[str, ...] = ()
    answer_starts: tuple[int, ...] = ()
    is_impossible: bool = False


@dataclass(frozen=True)
class WordsExample:
    """A sentence as words with one label each, as in named-entity recognition.

    Attributes:
      id: the sentence's number from 0.
      words: at least one.
      labels: one for each word; None if unknown.
    """

    id: str
    words: tuple[str, ...]
    labels: tuple[str, ...] | None = None


Example = TextExample | ChoiceExample | QuestionExample | WordsExample


class Problems:
    """Collects the rows that a reader cannot use, so that none is dropped silently.

    >>> problems = Problems()
    >>> problems.add("label outside the set", "train.tsv:17", "received 'maybe'")
    >>> problems.lines()
    ["1 row: label outside the set, left out (train.tsv:17: received 'maybe')"]
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._first: dict[str, list[str]] = {}

    def add(self, kind: str, where: str, detail: str, *, outcome: str = "left out") -> None:
        """Records a row.

        Args:
          kind: what is wrong, in the same words for all rows of a kind.
          where: file and line, or file and id.
          detail: what was received.
          outcome: what was done with the row.
        """
        kind = f"{kind}, {outcome}"
        self.counts[kind] += 1
        first = self._first.setdefault(kind, [])
        if len(first) < _SHOWN_ROWS:
            first.append(f"{where}: {detail}")

    def lines(self) -> list[str]:
        """One line for each kind of problem: its count and its first rows."""
        return [
            f"{count:,} {'row' if count == 1 else 'rows'}: {kind} ({'; '.join(self._first[kind])}"
            f"{'; ...' if count > len(self._first[kind]) else ''})"
            for kind, count in self.counts.items()
        ]

    def check(self, *, strict: bool) -> None:
        """Raises InputError if `strict` is set and there are problems."""
        if strict and self.counts:
            raise InputError(f"--strict allows no problem in the data. Received {'; '.join(self.lines())}.")


@dataclass(frozen=True)
class Split:
    """A split of a task's data, as the readers of all formats need it.

    Attributes:
      task: its kind determines the type of the examples.
      name: one of the task's splits. Labels and answers are optional in "test", "test_matched" and so on.
      problems: collects unusable rows.
      columns: the names of the columns of own data.
      labels: the allowed labels; () allows any.
    """

    task: Task
    name: str
    problems: Problems
    columns: Columns = field(default_factory=Columns)
    labels: Sequence[str] = ()

    @property
    def is_test(self) -> bool:
        """Whether labels are optional and rows with empty texts are kept, since each needs a prediction."""
        return self.name.startswith("test")

    @property
    def is_training(self) -> bool:
        """Whether examples that cannot be learned from are left out."""
        return self.name == "train"

    @property
    def label_outcome(self) -> str:
        """What is done with a row whose label cannot be used."""
        return "label ignored" if self.is_test else "left out"

    @property
    def text_outcome(self) -> str:
        """What is done with a row whose text is empty."""
        return "kept for prediction" if self.is_test else "left out"

    def add_label_outside(self, label: Any, source: str, allowed: Sequence[str]) -> None:
        """Records a row whose label is not an allowed one."""
        names = ", ".join(allowed[:_SHOWN_LABELS]) + (", ..." if len(allowed) > _SHOWN_LABELS else "")
        detail = f"received {shown(label)}, allowed {names}"
        self.problems.add("label outside the set", source, detail, outcome=self.label_outcome)


def shown(value: Any) -> str:
    """A value as messages show it: its `repr`, truncated."""
    try:
        text = repr(value)
    except RecursionError:
        text = f"a {type(value).__name__} that is nested too deeply"
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 4] + " ..."
