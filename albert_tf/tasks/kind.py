"""What a kind of task is: the protocol through which everything about tasks goes; a task, and a split of its data.

rows --examples--> examples --preprocessor--> arrays --model--> outputs --predictions--> predictions
    --measure--> metrics
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from albert_tf.checkpoints.heads import name_of_kind
from albert_tf.checkpoints.names import Use
from albert_tf.tasks.answering import Answering
from albert_tf.tasks.columns import Columns, TextColumns
from albert_tf.tasks.prediction_files import as_tsv
from albert_tf.tasks.preprocessor import Preprocessor
from albert_tf.tasks.probabilities import (
    Probabilities,
    average,
    probabilities_file,
    read_probabilities,
    softmax,
    write_probabilities,
)
from albert_tf.tasks.problems import Problems, shown
from albert_tf.tasks.splits import EncodedSplit, Example, mean_loss
from albert_tf.tasks.tables import TableRow
from data_prep.errors import InputError, needs_extra
from data_prep.files import write_json, write_text
from data_prep.tokenizers.vocabulary import Tokenizer

if TYPE_CHECKING:
    from albert_tf.tasks.served import FromIds, FromStrings
    from albert_tf.tasks.task_model import TaskModel

USUAL_SPLITS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"train": ("train",), "dev": ("dev",), "test": ("test",)}
)
# Which part of MNLI a split is, as in accuracy_m and accuracy_mm.
SPLIT_GROUPS: Mapping[str, str] = MappingProxyType({"dev_matched": "m", "dev_mismatched": "mm"})
_SHOWN_LABELS = 5
LOGITS = {"probabilities": "B, C", "logits": "B, C"}
Rows = Sequence[Mapping[str, np.ndarray]]  # a model's outputs for each of a split's features


class Labelled(Protocol):
    """What predictions need of a model: its classes, and for several labels of a text their thresholds."""

    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def thresholds(self) -> tuple[float, ...]: ...


class Kind(ABC):
    """A kind of task; `albert_tf.tasks.kinds` lists them. The methods are for examples that have a label each.

    Attributes:
      name: in .keras files; --task has hyphens in it.
      export: the value of --kind of `albert export`.
      metrics: of own data; the first one selects the best checkpoint.
      preprocessor: from strings and examples to arrays.
      has_classes: whether the model has an output for each of several named classes.
      has_one_class: whether each text has one of them.
      has_order: whether the classes have an order, which --label_order gives.
      takes_class_weights: whether each text, or word, has one of them.
      needs_gold: whether predictions that a run keeps are measured by a file with the correct answers.
      scores_in_percent: whether metrics are in percent already.
      texts: the columns that hold a text each, in the order of a line's fields.
      needed: those of the columns that examples must have.
      is_one_text: whether a text alone is an example.
      other_files: the formats of own data beside tables, the end of a message.
      usual_length: of sequences, in tokens, for own data.
      predictions_suffix: of the file of predictions: .tsv for GLUE's, .json for an object by id.
      input_rank: of the model's ids: (B, T), or (B, C, T) for options.
      export_options: the flags that only its exports have.
      call: Python that calls a `load_portable` model of it, named `model`.
      answering: from strings to the answers of an exported file, without TensorFlow.
      outputs: the dimensions of what an exported file computes from ids.
      output: the name of the one that the Keras model returns; "" if the file has the same names.
      has_thresholds: whether each label has a threshold of its own.
      needs_offsets: whether answers are cut out of texts by the tokenizer's offsets.
    """

    name: str
    export: str
    preprocessor: type[Preprocessor]
    metrics: tuple[str, ...] = ("accuracy",)
    has_classes = False
    has_one_class = False
    has_order = False
    takes_class_weights = False
    needs_gold = False
    scores_in_percent = False
    texts: tuple[str, ...] = ("text_a", "text_b")
    needed: tuple[str, ...] = ("text_a",)
    is_one_text = True
    other_files = ""
    usual_length = 128
    predictions_suffix: Literal[".tsv", ".json"] = ".tsv"
    input_rank = 2
    export_options: tuple[str, ...] = ()
    call = 'model(["The captain sailed past.", "A quiet neighbour."])'
    answering: type[Answering]
    outputs: Mapping[str, str] = MappingProxyType(LOGITS)
    output = "logits"
    has_thresholds = False
    needs_offsets = False

    def __repr__(self) -> str:
        return self.name

    @property
    def task_name(self) -> str:
        """The value of --task for own data."""
        return self.name.replace("_", "-")

    @property
    def words(self) -> str:
        """The name in words."""
        return name_of_kind(self.name)

    @property
    @abstractmethod
    def model(self) -> type[TaskModel]:
        """The class of its models, which imports Keras."""

    @property
    def use(self) -> Use | None:
        """What its heads are in the files of other libraries; None if they have none."""
        return self.model.use

    @property
    def pipeline(self) -> str:
        """The Hub's name of what its models do."""
        return self.use.pipeline if self.use else "text-classification"

    # Rows

    @abstractmethod
    def examples(self, rows: Iterable[TableRow], first: TableRow, split: Split) -> Iterable[Example]:
        """The examples in rows; `first` has all columns. Unusable rows are the split's problems."""

    def is_table(self, file: Path, suffix: str) -> bool:
        """Whether a file with the suffix of tables is one."""
        return True

    def read_file(self, file: Path, suffix: str, split: Split) -> Sequence[Example] | None:
        """The examples of a file in a format of this kind; None for a table."""
        return None

    def read_folder(self, folder: Path, split: Split) -> Sequence[Example] | None:
        """The examples of a folder in a layout of this kind; None for a folder of files."""
        return None

    def values(self, fields: Sequence[str], source: str) -> dict[str, Any]:
        """The columns of a line, whose fields are separated by tabs.

        Raises:
          InputError: there are too few or too many.
        """
        if not len(self.needed) <= len(fields) <= len(self.texts):
            raise InputError(
                f"A line must have {' and '.join(self.texts)}, with a tab between them, or be a JSON object. "
                f"Received {len(fields)} fields in {source}; --input_format=text treats tabs as text."
            )
        return dict(zip(self.texts, fields, strict=False))

    def label(self, example: Any) -> Any:
        """The correct label, as files of predictions have it; None if it is unknown."""
        return example.label

    def without_label(self, example: Any) -> Example:
        """An example that is only predicted: its label need not be one of the model's."""
        return dataclasses.replace(example, label=None)

    # Training

    def check_classes(self, labels: Sequence[str], order: Sequence[str]) -> None:  # noqa: B027 - usually nothing
        """Raises InputError if the classes of training data cannot be this kind's."""

    def check_metrics(self) -> None:
        """Raises InputError if a package is missing that computes the metrics."""
        with needs_extra("Computing metrics", "scikit-learn", "metrics"):
            import sklearn  # noqa: F401

    def has_answers(self, task: Task, splits: Sequence[EncodedSplit]) -> bool:
        """Whether splits have what a model is measured by."""
        return True

    def report_training(self, split: EncodedSplit, problems: Problems) -> None:  # noqa: B027 - usually nothing
        """Records the training examples whose labels are in no sequence."""

    def has_dropout(self, task: Task) -> bool:
        """Whether the head has dropout."""
        return True

    def model_arguments(self, task: Task, labels: Sequence[str], settings: Any) -> dict[str, Any]:
        """The arguments of the model's constructor that follow from the task, its classes and the flags."""
        dropout = {"classifier_dropout": settings.classifier_dropout}
        return {**dropout, "labels": labels} if self.has_classes else dropout

    # Predictions and metrics

    def predictions(
        self,
        split: EncodedSplit,
        rows: Rows,
        model: Labelled,
        max_answer_length: int = 30,
        n_best: int = 20,
    ) -> Any:
        """The predictions for each example of a split.

        Args:
          split: the model's inputs.
          rows: its outputs for each of the split's features, from `by_row`.
          model: the model, for its labels and thresholds.
          max_answer_length: of an answer to a question, in tokens.
          n_best: the number of answers to each question.
        """
        examples: Sequence[Any] = split.examples
        values = tuple(
            self.value(example, features, np.asarray(row["output"], np.float64), model.labels)
            for example, features, row in zip(examples, split.features, rows, strict=True)
        )
        labels = tuple(map(self.label, examples))
        return Probabilities(
            tuple(example.id for example in examples),
            self.predicted_classes(examples, model.labels),
            values,
            None if any(label is None for label in labels) else labels,
            self.groups(split),
            model.thresholds,
        )

    def value(
        self, example: Any, features: Mapping[str, np.ndarray], output: np.ndarray, labels: tuple[str, ...]
    ) -> np.ndarray:
        """The probabilities or numbers that the model's output means."""
        return self.probabilities(output)

    def predicted_classes(self, examples: Sequence[Any], labels: tuple[str, ...]) -> tuple[str, ...]:
        """What the probabilities are for; () for numbers."""
        return labels

    def groups(self, split: EncodedSplit) -> tuple[str, ...] | None:
        """The groups of a split's examples that also have metrics of their own; None without groups."""
        return None

    def measure(
        self, task: Task, splits: Sequence[EncodedSplit], predictions: Sequence[Any]
    ) -> dict[str, float]:
        """The metrics over all splits of a role, such as both dev sets of MNLI; {} if labels are unknown."""
        return self.measure_kept(task, predictions)

    def measure_with_loss(
        self, task: Task, splits: Sequence[EncodedSplit], predictions: Sequence[Any], rows: Rows
    ) -> dict[str, float]:
        """As `measure`; if labels are known, also the number of examples, and the loss if the outputs have it."""
        metrics = self.measure(task, splits, predictions)
        if not metrics:
            return metrics
        loss = {"loss": mean_loss(rows)} if all("loss" in row for row in rows) else {}
        return {**loss, **metrics, "examples": sum(len(split.examples) for split in splits)}

    def collapse(self, splits: Sequence[EncodedSplit], parts: Sequence[Any]) -> str:
        """How predictions show that the model has learned nothing: all are the same, although the labels differ.

        Args:
          splits: those of a role.
          parts: the predictions of each.

        Returns:
          A phrase such as "872 of 872 predictions are 'bad'"; "" if they differ, or labels do not or are unknown.
        """
        return ""

    def loss_of_guess(self, labels: Sequence[Any]) -> float:
        """The least loss of predictions that are the same for every example; infinite if it is unknown."""
        return math.inf

    def with_best_thresholds(self, parts: Sequence[Any]) -> tuple[list[Any], tuple[float, ...]]:
        """Predictions with the thresholds of the model's labels that are best for them, and these thresholds."""
        return list(parts), ()

    def measure_kept(
        self,
        task: Task,
        parts: Sequence[Any],
        answers: Mapping[str, Sequence[str]] | None = None,
        threshold: float | None = None,
    ) -> dict[str, float]:
        """The metrics of predictions of all splits as runs keep them; {} if labels are unknown.

        Args:
          task: theirs.
          parts: the predictions of each split.
          answers: the accepted answers of each question, if the kind `needs_gold`.
          threshold: null odds above which there is no answer.
        """
        if any(part.labels is None for part in parts):
            return {}
        predicted = [prediction for part in parts for prediction in part.predictions()]
        labels = [label for part in parts for label in part.labels]
        groups = [group for part in parts for group in part.groups or ()]
        return self.score(task, predicted, labels, groups, parts[0].classes)

    def score(
        self,
        task: Task,
        predictions: Sequence[Any],
        labels: Sequence[Any],
        groups: Sequence[str] = (),
        classes: Sequence[str] = (),
    ) -> dict[str, float]:
        """The metrics of predictions, as fractions of 1.

        Args:
          task: names the metrics.
          predictions: for each example, as `Probabilities.predictions` returns them.
          labels: likewise.
          groups: of each example, such as RACE's "middle" and "high" or MNLI's "m" and "mm".
          classes: in their order, if it matters and they are no numbers.
        """
        raise NotImplementedError

    def measure_file(
        self,
        task: Task,
        answers: Mapping[str, Sequence[str]],
        predictions: Path,
        null_odds: Path | None,
        na_prob_thresh: float,
    ) -> dict[str, float]:
        """The metrics of a file of predictions, of a kind that `needs_gold`.

        Args:
          task: theirs.
          answers: the accepted answers of each question.
          predictions: the file.
          null_odds: the file of null odds, if there is one.
          na_prob_thresh: null odds above which there is no answer.
        """
        raise NotImplementedError

    def warning(self, split: EncodedSplit, preprocessor: Preprocessor, labels: Sequence[str]) -> str | None:
        """What is to be said of a split that is predicted, if parts of it are not read."""
        return None

    def lines(
        self, examples: Sequence[Any], predictions: Any, null_threshold: float
    ) -> Iterator[dict[str, Any]]:
        """Yields the JSON object of each prediction.

        Args:
          examples: as read.
          predictions: for these examples.
          null_threshold: of a model that may find no answer, the null odds above which there is none.
        """
        for row in zip(examples, predictions.values, predictions.predictions(), strict=True):
            yield self.line(*row, predictions)

    def line(self, example: Any, value: np.ndarray, guess: Any, predictions: Probabilities) -> dict[str, Any]:
        """The JSON object of a prediction."""
        raise NotImplementedError

    # Exports

    def from_strings(
        self, model: TaskModel, tokenizer: Tokenizer, null_threshold: float, **options: int
    ) -> FromStrings:
        """The model with its tokenizer as functions of strings.

        Args:
          model: a fine-tuned model.
          tokenizer: that of its vocabulary.
          null_threshold: null odds above which there is no answer.
          **options: those of `export_options` that are given.
        """
        raise NotImplementedError  # of a kind that is exported as a pretrained model

    def from_ids(self, model: TaskModel, **options: int) -> FromIds:
        """The model as a function of ids, which returns `outputs`."""
        raise NotImplementedError

    def outputs_of(self, answerable: bool) -> Mapping[str, str]:
        """`outputs` of a model that may or may not find no answer."""
        return self.outputs

    def task_outputs(self, outputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs of an exported file under the names of the Keras model's."""
        return {"output": outputs[self.output]} if self.output else dict(outputs)

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        """The `probabilities` of an exported file."""
        return softmax(logits)

    # Files of predictions

    def keep(self, run: Path, split: str, predictions: Any, threshold: float | None) -> None:
        """Writes the predictions of a split into an existing folder: as they are, and as the benchmark takes them.

        Args:
          run: the folder.
          split: names the files.
          predictions: from `predictions`.
          threshold: null odds above which there is no answer.
        """
        write_probabilities(probabilities_file(run, split), predictions)
        path = run / f"{split}_predictions{self.predictions_suffix}"
        by_id = predictions.by_id()
        if self.predictions_suffix == ".json":
            write_json(path, by_id)
        else:
            write_text(path, as_tsv(by_id))

    def kept_file(self, run: Path, split: str) -> Path:
        """The file that `read_kept` reads."""
        return probabilities_file(run, split)

    def read_kept(self, run: Path, split: str) -> Any:
        """The predictions that `keep` wrote.

        Raises:
          InputError: the file is missing, truncated or of another form.
        """
        return read_probabilities(probabilities_file(run, split))

    def average(self, members: Mapping[str, Any]) -> Any:
        """The mean of several models' predictions for the same examples; InputError if they are for others."""
        return average(members)

    def threshold(
        self, predictions: Any, answers: Mapping[str, Sequence[str]] | None, given: float | None
    ) -> float | None:
        """The null odds above which there is no answer: the given ones, else the best for the correct answers."""
        return None

    def read_predictions(self, task: Task, path: Path) -> dict[str, Any]:
        """The predictions by id in a file as the benchmark takes them.

        Raises:
          InputError: the file is missing or of another form, or a prediction is not possible.
        """
        raise NotImplementedError

    def comparable(self, labels: Mapping[str, Any], found: Mapping[str, Any]) -> Mapping[str, Any]:
        """Predictions from a file, written as the correct labels are; InputError if they cannot be compared."""
        return found


@dataclass(frozen=True)
class Task:
    """A downstream task.

    Attributes:
      name: the value of `--task`.
      kind: the kind of model it needs.
      labels: the classes in the model's order; () if they are read from the data or there are none.
      metrics: the metrics of a benchmark's tables, whose mean is the task's score.
      download: the download whose layout its files have: "glue", "squad" or "race"; "" for own data.
      folder: its folder in that download; "" if it has none.
      tfds: its datasets in tensorflow-datasets, as NAME/CONFIG.
      splits: role ("train", "dev", "test") -> names of the splits in that role.
      answerable: whether a question may have no answer (SQuAD 2.0).
      columns: of the download's tables.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ("accuracy",)
    download: Literal["glue", "squad", "race", ""] = ""
    folder: str = ""
    tfds: tuple[str, ...] = ()
    splits: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: USUAL_SPLITS)
    answerable: bool = False
    columns: TextColumns | None = None

    @property
    def is_own_data(self) -> bool:
        """Whether it reads the user's own files rather than those of a benchmark."""
        return not self.download

    @property
    def main_metric(self) -> str:
        """The name of the metric that selects the best weights; higher is better."""
        return "best_f1" if self.answerable else self.metrics[0]


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

    def with_ids(
        self, rows: Iterable[TableRow], column: str | None, may_repeat: bool = True
    ) -> Iterator[tuple[str, TableRow]]:
        """Each row and its id, else its number from 0; a row whose id an earlier one has is a problem.

        Args:
          rows: of a table.
          column: that of the ids; None if there is none.
          may_repeat: whether training examples may share one. Predictions are told apart by ids.
        """
        seen: set[str] = set()
        for number, row in enumerate(rows):
            given = row.value(column)
            identity = str(number if given in (None, "") else given)
            if identity in seen and not (may_repeat and self.is_training):
                self.problems.add("id that another row has", row.source, f"received {shown(identity)}")
                continue
            seen.add(identity)
            yield identity, row


def check_no_odds(task: Task, null_odds: Path | None) -> None:
    """Raises InputError if null odds are given for a task whose questions have answers."""
    if null_odds:
        raise InputError(
            "--null_odds is for tasks whose questions may have no answer. Received it with "
            f"--task={task.name}; leave it out."
        )
