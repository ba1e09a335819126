"""The examples of any task, from whatever holds them.

folder, file or tfds:NAME --read_examples--> examples, and a Problems that knows what was wrong
"""

import os
from collections.abc import Sequence
from pathlib import Path

from data_prep.errors import InputError
from data_prep.tasks.columns import Columns
from data_prep.tasks.conll import read_conll
from data_prep.tasks.examples import Example
from data_prep.tasks.glue import GLUE_TASKS, read_glue
from data_prep.tasks.own_data import examples_of_rows
from data_prep.tasks.problems import Problems
from data_prep.tasks.race import read_race
from data_prep.tasks.squad import read_squad
from data_prep.tasks.tables import read_table, table_suffix
from data_prep.tasks.task import Task
from data_prep.tasks.tfds_examples import read_tfds_examples
from data_prep.text.tfds_rows import is_tfds

_SPLIT_NAMES = {
    "train": ("train", "training"),
    "dev": ("dev", "valid", "validation", "val"),
    "test": ("test",),
}
_SUFFIXES = (".tsv", ".csv", ".jsonl", ".ndjson", ".json", ".conll", ".txt")
_CONLL_SUFFIXES = ("", ".conll", ".conllu", ".txt", ".bio", ".iob", ".tsv")


def read_examples(
    task: Task,
    data: str | os.PathLike,
    split: str,
    problems: Problems,
    *,
    columns: Columns | None = None,
    labels: Sequence[str] = (),
) -> list[Example]:
    """The examples of a split.

    Args:
      task: from `find_task`.
      data: the folder of the original download or of own files (train.tsv, dev.csv, test.jsonl, ...), one file,
        or "tfds:NAME/CONFIG" for a dataset of tensorflow-datasets.
      split: one of the task's splits; for a file, what it is used as.
      problems: collects rows that cannot be used, with their lines.
      columns: of own data, which columns are what.
      labels: of own data, the training split's classes from `labels_of`; a label outside them is a problem.

    Returns:
      At least one example.

    Raises:
      InputError: there is no such file or dataset, it is another kind of file, or no row can be used.
    """
    known = [name for names in task.splits.values() for name in names]
    if split not in known and not (split in _SPLIT_NAMES and not Path(data).is_dir()):
        raise InputError(f"A split of {task.name} must be one of {', '.join(known)}. Received {split!r}.")
    columns = columns or Columns()
    labels = task.labels or labels
    examples = _read(task, data, split, problems, columns, labels)
    if not examples:
        told = "; ".join(problems.lines()) or "the file has none"
        raise InputError(
            f"The {split} split of {task.name} must have examples. {data} has none to use: {told}."
        )
    return examples


def _read(
    task: Task,
    data: str | os.PathLike,
    split: str,
    problems: Problems,
    columns: Columns,
    labels: Sequence[str],
) -> list[Example]:
    if is_tfds(os.fspath(data)):
        return read_tfds_examples(task, os.fspath(data), split, problems, columns, labels)
    path = Path(data)
    if not path.exists():
        raise InputError(f"There is no file or folder {path} with the {split} split of {task.name}.")
    if task.name in GLUE_TASKS and table_suffix(path) not in (".csv", ".jsonl", ".ndjson"):
        return list(read_glue(task, path, split, problems))
    if task.name in ("squad1.1", "squad2.0") and table_suffix(path) not in (
        ".csv",
        ".tsv",
        ".jsonl",
        ".ndjson",
    ):
        return list(read_squad(task, path, split, problems))
    if task.name == "race" and table_suffix(path) not in (".csv", ".tsv", ".jsonl", ".ndjson"):
        return list(read_race(path, split, problems))
    file = _own_file(path, split) if path.is_dir() else path
    suffix = table_suffix(file)
    if task.kind == "question_answering" and suffix == ".json":
        return list(read_squad(task, file, split, problems))
    if task.kind == "token_classification" and suffix in _CONLL_SUFFIXES:
        return list(read_conll(file, problems, labels=labels, is_test=split == "test"))
    if suffix not in (".tsv", ".csv", ".jsonl", ".ndjson"):
        raise InputError(f"Own data must be a .csv, .tsv or .jsonl file. Received {file}.")
    rows = read_table(file, problems, quoted=True)
    return examples_of_rows(task, rows, columns, split, labels, problems)


def _own_file(folder: Path, split: str) -> Path:
    names = [name + suffix for name in _SPLIT_NAMES[split] for suffix in _SUFFIXES]
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise InputError(
        f"The folder {folder} must have a file for the {split} split, {names[0]}, {split}.csv or {split}.jsonl "
        "for instance. It has none; name the file itself."
    )
