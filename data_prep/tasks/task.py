"""The tasks: what each asks for, its labels in the model's order, and the names of its splits."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from data_prep.errors import InputError

Kind = Literal[
    "classification", "regression", "multiple_choice", "question_answering", "token_classification"
]
_USUAL_SPLITS = MappingProxyType({"train": ("train",), "dev": ("dev",), "test": ("test",)})
_MNLI_LABELS = ("contradiction", "entailment", "neutral")
_ENTAILMENT_LABELS = ("entailment", "not_entailment")


@dataclass(frozen=True)
class Task:
    """A downstream task.

    Attributes:
      name: what `--task` takes.
      kind: which model it needs.
      labels: the classes in the model's order; () where they are read from the data, or there are none.
      is_pair: whether its texts come in pairs; None where the data says so.
      folder: its folder in the original download; "" where that has none, and for own data.
      splits: role ("train", "dev", "test") -> names of the splits that play it; none where there is none.
      answerable: whether a question may have no answer (SQuAD 2.0).
    """

    name: str
    kind: Kind
    labels: tuple[str, ...] = ()
    is_pair: bool | None = None
    folder: str = ""
    splits: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _USUAL_SPLITS)
    answerable: bool = False

    @property
    def is_own_data(self) -> bool:
        """Whether it is a kind of task with the user's files, and not one of the paper's."""
        return self.name == self.kind.replace("_", "-")


TASKS: Mapping[str, Task] = MappingProxyType(
    {
        task.name: task
        for task in (
            Task("cola", "classification", ("0", "1"), False, "CoLA"),
            Task("sst-2", "classification", ("0", "1"), False, "SST-2"),
            Task("mrpc", "classification", ("0", "1"), True, "MRPC"),
            Task("sts-b", "regression", (), True, "STS-B"),
            Task("qqp", "classification", ("0", "1"), True, "QQP"),
            Task(
                "mnli",
                "classification",
                _MNLI_LABELS,
                True,
                "MNLI",
                MappingProxyType(
                    {
                        "train": ("train",),
                        "dev": ("dev_matched", "dev_mismatched"),
                        "test": ("test_matched", "test_mismatched"),
                    }
                ),
            ),
            Task("qnli", "classification", _ENTAILMENT_LABELS, True, "QNLI"),
            Task("rte", "classification", _ENTAILMENT_LABELS, True, "RTE"),
            Task("wnli", "classification", ("0", "1"), True, "WNLI"),
            # The diagnostic set: a model of MNLI predicts it.
            Task(
                "ax",
                "classification",
                _MNLI_LABELS,
                True,
                "diagnostic",
                MappingProxyType({"train": (), "dev": (), "test": ("test",)}),
            ),
            Task("squad1.1", "question_answering"),
            Task("squad2.0", "question_answering", answerable=True),
            Task("race", "multiple_choice", ("A", "B", "C", "D"), folder="RACE"),
            Task("classification", "classification"),
            Task("regression", "regression"),
            Task("multiple-choice", "multiple_choice"),
            Task("question-answering", "question_answering"),
            Task("token-classification", "token_classification"),
        )
    }
)


def find_task(name: str) -> Task:
    """The task of a name; capitals do not matter.

    Raises:
      InputError: there is none; names the nearest one.
    """
    task = TASKS.get(name.lower())
    if task is None:
        near = difflib.get_close_matches(name.lower(), TASKS, n=1, cutoff=0.5)
        advice = f" Did you mean {near[0]}?" if near else ""
        raise InputError(f"A task must be one of {', '.join(TASKS)}. Received {name!r}.{advice}")
    return task
