"""The table of tasks: the kind, labels, metrics and data of each."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from data_prep.errors import InputError

TaskKind = Literal[
    "classification",
    "ordinal_classification",
    "multi_label_classification",
    "regression",
    "multiple_choice",
    "question_answering",
    "token_classification",
]
_USUAL_SPLITS = MappingProxyType({"train": ("train",), "dev": ("dev",), "test": ("test",)})
_MNLI_SPLITS = MappingProxyType(
    {
        "train": ("train",),
        "dev": ("dev_matched", "dev_mismatched"),
        "test": ("test_matched", "test_mismatched"),
    }
)
# Which part of MNLI a split is, as in accuracy_m and accuracy_mm.
SPLIT_GROUPS: Mapping[str, str] = MappingProxyType({"dev_matched": "m", "dev_mismatched": "mm"})
_AX_SPLITS = MappingProxyType({"train": (), "dev": (), "test": ("test",)})
_MNLI_LABELS = ("contradiction", "entailment", "neutral")
_ENTAILMENT_LABELS = ("entailment", "not_entailment")


@dataclass(frozen=True)
class Task:
    """A downstream task.

    Attributes:
      name: the value of `--task`.
      kind: the kind of model it needs.
      labels: the classes in the model's order; () if they are read from the data or there are none.
      metrics: the metrics of a benchmark's tables, whose mean is the task's score. The first one selects the
        best checkpoint.
      download: the download whose layout its files have: "glue", "squad" or "race"; "" for own data.
      folder: its folder in that download; "" if it has none.
      tfds: its datasets in tensorflow-datasets, as NAME/CONFIG.
      splits: role ("train", "dev", "test") -> names of the splits in that role.
      answerable: whether a question may have no answer (SQuAD 2.0).
    """

    name: str
    kind: TaskKind
    labels: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ("accuracy",)
    download: Literal["glue", "squad", "race", ""] = ""
    folder: str = ""
    tfds: tuple[str, ...] = ()
    splits: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _USUAL_SPLITS)
    answerable: bool = False

    @property
    def is_own_data(self) -> bool:
        """Whether it reads the user's own files rather than those of a benchmark."""
        return not self.download

    @property
    def has_classes(self) -> bool:
        """Whether the model has an output for each of several named classes."""
        return self.kind.endswith("classification")

    @property
    def main_metric(self) -> str:
        """The name of the metric that selects the best checkpoint; higher is better."""
        return self.metrics[0]


def _glue(
    name: str,
    folder: str,
    labels: tuple[str, ...],
    *metrics: str,
    tfds: str = "",
    splits: Mapping[str, tuple[str, ...]] = _USUAL_SPLITS,
) -> Task:
    kind: TaskKind = "classification" if labels else "regression"
    config = f"glue/{tfds or name}"
    return Task(name, kind, labels, metrics or ("accuracy",), "glue", folder, (config,), splits)


_ALL = (
    _glue("cola", "CoLA", ("0", "1"), "matthews"),
    _glue("sst-2", "SST-2", ("0", "1"), tfds="sst2"),
    _glue("mrpc", "MRPC", ("0", "1"), "accuracy", "f1"),
    _glue("sts-b", "STS-B", (), "pearson", "spearman", tfds="stsb"),
    _glue("qqp", "QQP", ("0", "1"), "accuracy", "f1"),
    _glue("mnli", "MNLI", _MNLI_LABELS, splits=_MNLI_SPLITS),
    _glue("qnli", "QNLI", _ENTAILMENT_LABELS),
    _glue("rte", "RTE", _ENTAILMENT_LABELS),
    _glue("wnli", "WNLI", ("0", "1")),
    # The diagnostic set, which a model of MNLI predicts.
    _glue("ax", "diagnostic", _MNLI_LABELS, "matthews", splits=_AX_SPLITS),
    Task("squad1.1", "question_answering", (), ("f1", "exact_match"), "squad", tfds=("squad/v1.1",)),
    Task(
        "squad2.0",
        "question_answering",
        metrics=("f1", "exact"),
        download="squad",
        tfds=("squad/v2.0",),
        answerable=True,
    ),
    Task(
        "race",
        "multiple_choice",
        ("A", "B", "C", "D"),
        download="race",
        folder="RACE",
        tfds=("race/middle", "race/high"),
    ),
    Task("classification", "classification", metrics=("accuracy", "macro_f1")),
    Task("ordinal-classification", "ordinal_classification", metrics=("quadratic_kappa", "accuracy")),
    Task("multi-label-classification", "multi_label_classification", metrics=("micro_f1", "macro_f1")),
    Task("regression", "regression", metrics=("pearson", "spearman")),
    Task("multiple-choice", "multiple_choice"),
    Task("question-answering", "question_answering", metrics=("f1", "exact_match")),
    Task("token-classification", "token_classification", metrics=("f1",)),
)
TASKS: Mapping[str, Task] = MappingProxyType({task.name: task for task in _ALL})


def find_task(name: str) -> Task:
    """The task of a name, in upper or lower case, with hyphens or underscores.

    Raises:
      InputError: there is no such task; the message suggests the nearest name.
    """
    wanted = name.lower().replace("_", "-")
    task = TASKS.get(wanted)
    if task is None:
        near = difflib.get_close_matches(wanted, TASKS, n=1, cutoff=0.5)
        advice = f" Did you mean {near[0]}?" if near else ""
        raise InputError(f"A task must be one of {', '.join(TASKS)}. Received {name!r}.{advice}")
    return task


def own_data_task(kind: str, answerable: bool = False) -> Task:
    """The task for own data of a kind; in question answering SQuAD's, 2.0 if there may be no answer."""
    if answerable:
        return TASKS["squad2.0"]
    return find_task(kind)


def wrong_kind(wanted: str, source: object, found: str) -> InputError:
    """The error for a model of another kind than `--task` says."""
    return InputError(
        f"--task={find_task(wanted).name} must match the model. {source} holds one for {find_task(found).name}."
    )
