"""The splits of a task, read and turned into batches of arrays."""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from albert_tf.checkpoints.checkpoint_files import say_on_stderr
from albert_tf.finetuning.flags import FinetuningFlags
from albert_tf.tasks.feature_cache import examples_hash
from albert_tf.tasks.kind import Task
from albert_tf.tasks.own_data import labels_of
from albert_tf.tasks.preprocessor import Preprocessor
from albert_tf.tasks.problems import Problems
from albert_tf.tasks.reading import read_examples
from albert_tf.tasks.splits import EncodedSplit, Example
from albert_tf.tasks.task import BENCHMARKS
from albert_tf.tasks.values import as_number
from data_prep.errors import InputError
from data_prep.storage.paths import file_size


@dataclass(frozen=True)
class TaskData:
    """What a command reads for its task.

    Attributes:
      splits: as arrays, by role: "train", "dev", "test".
      labels: the classes in the model's order.
      examples_sha256: a hash of the training examples; "" without them.
    """

    splits: Mapping[str, Sequence[EncodedSplit]]
    labels: tuple[str, ...]
    examples_sha256: str = ""

    @property
    def num_training_rows(self) -> int:
        """The number of training examples; of windows in question answering. 0 without training."""
        return sum(len(split.features) for split in self.splits.get("train", ()))


def read_data(
    flags: FinetuningFlags, task: Task, preprocessor: Preprocessor, labels: tuple[str, ...] = ()
) -> TaskData:
    """Reads the splits that the flags ask for; prints what they hold, and first which rows cannot be used.

    Args:
      flags: the flags.
      task: theirs.
      preprocessor: from examples to arrays.
      labels: the classes of a model that is trained; otherwise the training examples have them.

    Raises:
      InputError: files cannot be read or used, or there is a problem and --strict allows none.
    """
    problems, splits, sha256 = Problems(), dict[str, list[EncodedSplit]](), ""
    wanted = {"train": flags.do_train, "dev": flags.do_eval, "test": flags.do_predict}
    with _reported(problems, flags.strict):
        for role in (role for role in wanted if wanted[role]):
            read = read_split(task, flags, role, problems, labels)
            if role == "train":
                ((_, examples),) = read
                labels = classes_of(task, examples, flags.columns.label_order)
                sha256 = examples_hash(examples)
            splits[role] = []
            for name, examples in read:
                cache = Path(flags.cache_dir) / f"{task.name}-{name}" if flags.cache_dir else None
                splits[role].append(preprocessor.split(name, examples, labels, cache))
        if flags.do_train and flags.class_weights:
            (split,) = splits["train"]
            splits["train"] = [with_class_weights(split, task, flags.class_weights, labels)]
        if flags.do_eval and not task.kind.has_answers(task, splits["dev"]):
            raise InputError(
                "--do_eval needs a dev set with answers. Received one without any; leave --do_eval out."
            )
        for split in splits.get("train", ()):
            task.kind.report_training(split, problems)
    for split in (split for role in splits for split in splits[role]):
        say_on_stderr(str(split))
        if cut := preprocessor.count_cut(split, labels):
            longest = preprocessor.max_seq_length
            say_on_stderr(f"warning: {split.name}: {cut:,} examples are cut to --max_seq_length={longest}")
    return TaskData(splits, labels, sha256)


@contextlib.contextmanager
def _reported(problems: Problems, strict: bool) -> Iterator[None]:
    """Prints the problems that the block finds, also if it fails, but not those that its error names."""
    said = ""
    try:
        yield
        problems.check(strict=strict)
    except InputError as error:
        said = str(error)
        raise
    finally:
        for line in problems.lines():
            if line not in said:
                say_on_stderr(f"warning: {line}")


def read_split(
    task: Task, settings: FinetuningFlags, role: str, problems: Problems, labels: Sequence[str] = ()
) -> list[tuple[str, list[Example]]]:
    """Reads the splits of a role; returns their names and examples.

    Args:
      task: the task.
      settings: for the files or the folder of the data.
      role: "train", "dev" or "test".
      problems: collects rows that cannot be used.
      labels: the known classes of own data; any other label is a problem.

    Raises:
      InputError: there is no such data.
    """
    file = getattr(settings, f"{role}_file")
    source, names = (file, (role,)) if file else (settings.data_dir, task.splits[role])
    assert source, "checked by FinetuningFlags"
    read = [
        (name, read_examples(task, source, name, problems, columns=settings.columns, labels=labels))
        for name in names
    ]
    if settings.school:
        read = [(name, _of_school(examples, settings.school, source)) for name, examples in read]
    if task.name == "mnli" and role == "test" and not file and _has_diagnostic_set(Path(source)):
        read.append(("test", read_examples(BENCHMARKS["ax"], source, "test", problems)))
    return read


def _of_school(examples: Sequence[Example], school: str, source: str) -> list[Example]:
    """RACE's questions from one kind of school."""
    found = [one for one in examples if getattr(one, "group", "") == school]
    if not found:
        raise InputError(
            f"--{school}_only needs passages from {school} schools. Received {source} without any."
        )
    return found


def _has_diagnostic_set(folder: Path) -> bool:
    """Whether a folder holds AX, which models trained on MNLI predict."""
    places = (folder, folder / BENCHMARKS["ax"].folder, folder / "AX")
    return any(file_size(place / "diagnostic.tsv") is not None for place in places)


def classes_of(task: Task, train: Sequence[Example], order: Sequence[str] = ()) -> tuple[str, ...]:
    """The classes of a task in the model's order; for own data, those of the training examples.

    Args:
      task: the task.
      train: the training examples.
      order: ordered classes that are names, the lowest first.

    Raises:
      InputError: there are fewer than two, or ordered classes are neither numbers nor in `order`.
    """
    if task.labels or not task.kind.has_classes:
        return task.labels
    labels = labels_of(task.kind, train)
    if len(labels) < 2:
        raise InputError(
            f"{task.name} needs examples of two classes or more. Received {', '.join(labels) or 'none'} in the "
            "training data."
        )
    if missing := [label for label in labels if order and label not in order]:
        raise InputError(
            f"--label_order must have all classes. Received {', '.join(order)}; the training data also has "
            f"{', '.join(missing)}."
        )
    task.kind.check_classes(labels, order)
    return tuple(order) or labels


def with_class_weights(
    split: EncodedSplit, task: Task, class_weights: str, labels: Sequence[str]
) -> EncodedSplit:
    """A split whose examples, or words, are weighted in the loss by their class.

    Args:
      split: for training.
      task: one with a class for each text or word.
      class_weights: the flag.
      labels: the classes in the model's order.

    Raises:
      InputError: the task has no such classes, or the flag names an unknown one.
    """
    if not task.kind.takes_class_weights:
        raise InputError(
            f"--class_weights needs a task with one class for each text or word. Received --task={task.name}."
        )
    is_words = "label_weights" in split.features[0]
    numbers = np.concatenate(
        [np.ravel(f["label"])[f["label_weights"] > 0] if is_words else [f["label"]] for f in split.features]
    )
    weights = _class_weights(class_weights, labels, numbers.astype(np.int32))
    name = "label_weights" if is_words else "class_weight"
    return dataclasses.replace(
        split,
        features=[{**f, name: f.get(name, np.float32(1)) * weights[f["label"]]} for f in split.features],
    )


def _class_weights(given: str, labels: Sequence[str], numbers: np.ndarray) -> np.ndarray:
    """The weight of each class, float32 (C,)."""
    if given == "balanced":
        present, counts = np.unique(numbers, return_counts=True)
        weights = np.ones(len(labels), np.float32)
        weights[present] = len(numbers) / (len(present) * counts)
        return weights
    pairs = {
        name.strip(): as_number(weight) for name, _, weight in (p.rpartition(":") for p in given.split(","))
    }
    unknown = [name for name in pairs if name not in labels]
    if unknown or any(weight is None or weight < 0 for weight in pairs.values()):
        raise InputError(
            "--class_weights must be balanced or LABEL:WEIGHT,..., with weights of at least 0 and the labels "
            f"{', '.join(labels)}. Received {given!r}."
        )
    return np.array([pairs.get(label, 1.0) for label in labels], np.float32)
