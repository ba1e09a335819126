"""Tasks from tensorflow-datasets instead of a folder: tfds:glue, tfds:squad/v1.1, tfds:race."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from albert_tf.tasks.benchmarks.race import passage_questions
from albert_tf.tasks.columns import TextColumns
from albert_tf.tasks.kind import Split, Task
from albert_tf.tasks.own_data import examples_of_rows
from albert_tf.tasks.spans.rows import QuestionExample, checked_question
from albert_tf.tasks.spans.squad_json import NOT_A_QUESTION, is_impossible
from albert_tf.tasks.splits import Example
from albert_tf.tasks.tables import TableRow
from albert_tf.tasks.texts.rows import text_examples
from data_prep.errors import InputError
from data_prep.text.tfds_rows import dataset_and_split, open_tfds, tfds_examples

_TEXTS = {
    "cola": ("sentence", None),
    "sst-2": ("sentence", None),
    "qqp": ("question1", "question2"),
    "mnli": ("premise", "hypothesis"),
    "ax": ("premise", "hypothesis"),
    "qnli": ("question", "sentence"),
}
_SPLITS = {"dev": ("validation", "dev", "val"), "train": ("train",), "test": ("test",)}


def read_tfds_examples(name: str, split: Split) -> list[Example]:
    """The examples of a split.

    Args:
      name: "tfds:NAME/CONFIG"; without CONFIG ("tfds:glue", "tfds:race") the task's own. A trailing ":SPLIT"
        selects a split or slice ("tfds:glue/sst2:train[:10%]").
      split: "dev" is a dataset's "validation"; the columns of own data are features.

    Raises:
      InputError: the dataset, configuration or split does not exist, or a feature is missing.
    """
    named, given_split = dataset_and_split(name)
    if not named:
        raise InputError(
            f'A dataset must be written "tfds:NAME/CONFIG", for example "tfds:glue". Received {name!r}.'
        )
    task = split.task
    datasets: tuple[str, ...] = (named,)
    if task.tfds and named == task.tfds[0].split("/")[0]:
        datasets = task.tfds
    examples: list[Example] = []
    for dataset in datasets:
        rows = _rows(dataset, given_split, split.name, task)
        examples += _examples(dataset, rows, split)
    return examples


def _rows(dataset: str, given_split: str | None, split: str, task: Task) -> Iterator[TableRow]:
    tfds, builder = open_tfds(dataset)
    read_split = given_split or _split_of(builder, split)
    classes = {
        key: _classes(feature)
        for key, feature in builder.info.features.items()
        if hasattr(getattr(feature, "feature", feature), "int2str")
    }
    for number, example in enumerate(tfds_examples(tfds, builder, read_split)):
        values = {
            key: _class_names(value, classes[key], task) if key in classes else _plain(value)
            for key, value in example.items()
        }
        yield TableRow(values, f"tfds:{dataset}:{read_split}, example {number}")


def _split_of(builder: Any, split: str) -> str:
    role, _, rest = split.partition("_")
    names = [name + (f"_{rest}" if rest else "") for name in _SPLITS[role]]
    return next((name for name in names if name in builder.info.splits), names[0])


def _classes(feature: Any) -> list[str]:
    return list(getattr(feature, "feature", feature).names)


def _class_names(value: Any, names: list[str], task: Task) -> Any:
    """Class numbers as names, or as text if the original's files have numbers. -1 means no label."""
    if np.ndim(value):
        return [_class_names(one, names, task) for one in value]
    if value < 0:
        return None
    return str(int(value)) if task.labels and not set(names) <= set(task.labels) else names[int(value)]


def _plain(value: Any) -> Any:
    """NumPy values as Python values, UTF-8 as text."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    if hasattr(value, "to_list"):  # ragged
        return _plain(value.to_list())
    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(part) for part in value]
    return value.item() if isinstance(value, np.generic) else value


def _examples(dataset: str, rows: Iterator[TableRow], split: Split) -> list[Example]:
    task = split.task
    if task.is_own_data:
        return examples_of_rows(rows, split, f"tfds:{dataset}")
    if task.download == "squad":
        return [example for row in rows for example in _question(row, split)]
    if task.download == "race":
        group = dataset.split(":")[0].rpartition("/")[2]
        return [
            example
            for row in rows
            for example in passage_questions(
                {**row.values, "id": row.values.get("example_id")}, group, split, row.source, row.source
            )
        ]
    text_a, text_b = _TEXTS.get(task.name, ("sentence1", "sentence2"))
    return list(text_examples(rows, TextColumns(text_a, text_b, "label", "idx"), split))


def _question(row: TableRow, split: Split) -> Iterator[QuestionExample]:
    values = row.values
    try:
        answers = tuple(values["answers"]["text"])
        example = QuestionExample(
            id=values["id"],
            question=values["question"],
            context=values["context"],
            answers=answers,
            answer_starts=tuple(values["answers"]["answer_start"]),
            is_impossible=is_impossible(values.get("is_impossible"), answers, split),
        )
    except ValueError as error:
        split.problems.add(NOT_A_QUESTION, row.source, str(error))
        return
    except (KeyError, TypeError) as error:
        raise InputError(
            f"{split.task.name} must have the features id, question, context and answers. "
            f"{row.source} lacks {error}."
        ) from None
    checked = checked_question(example, row.source, split)
    if checked is not None:
        yield checked
