"""The examples of any task, from a download, own files or tensorflow-datasets.

folder, file or tfds:NAME --read_examples--> examples, with unusable rows collected in a Problems
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from albert_tf.tasks.benchmarks.glue import read_glue
from albert_tf.tasks.benchmarks.race import read_race
from albert_tf.tasks.benchmarks.squad import read_squad
from albert_tf.tasks.benchmarks.tfds_examples import read_tfds_examples
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.kind import Split, Task
from albert_tf.tasks.own_data import examples_of_rows
from albert_tf.tasks.problems import Problems
from albert_tf.tasks.splits import Example
from albert_tf.tasks.tables import read_table, table_suffix
from data_prep.errors import InputError
from data_prep.storage.copies import fetched
from data_prep.text.tfds_rows import is_tfds

_SPLIT_NAMES = {
    "train": ("train", "training"),
    "dev": ("dev", "valid", "validation", "val"),
    "test": ("test",),
}
_TABLE_SUFFIXES = (".tsv", ".csv", ".jsonl", ".ndjson", ".json", ".parquet")
_SUFFIXES = (*_TABLE_SUFFIXES, ".conll", ".txt", ".conllu", ".bio", ".iob")
_READERS: dict[str, Callable[[Path, Split], Sequence[Example]]] = {
    "glue": read_glue,
    "squad": read_squad,
    "race": read_race,
}
# The suffixes of the download's own files; other tables may stand in for them.
_DOWNLOADED = {"glue": (".tsv",), "race": (".json",)}


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
        or "tfds:NAME/CONFIG" for a dataset of tensorflow-datasets; or the address of a file or folder.
      split: one of the task's splits; for a single file, the role it plays.
      problems: collects unusable rows, with their lines.
      columns: the columns of own data.
      labels: for own data, the training split's classes from `labels_of`; other labels are a problem.

    Returns:
      At least one example.

    Raises:
      InputError: the file or dataset is missing or of another form, or no row is usable.
    """
    known = [name for names in task.splits.values() for name in names]
    if split not in known and not (split in _SPLIT_NAMES and not Path(data).is_dir()):
        raise InputError(f"A split of {task.name} must be one of {', '.join(known)}. Received {split!r}.")
    read = Split(task, split, problems, columns or Columns(), task.labels or labels)
    if is_tfds(os.fspath(data)):
        examples = read_tfds_examples(os.fspath(data), read)
    else:
        with fetched(data) as path:
            examples = _read_files(path, read)
            problems.rename(str(path), os.fspath(data))
    if not examples:
        reason = "; ".join(problems.lines()) or "the file has none"
        raise InputError(
            f"The {split} split of {task.name} must have examples. {data} has none to use: {reason}."
        )
    return examples


def is_own_table(path: Path, task: Task) -> bool:
    """Whether a file is a table of the user's own rather than a file of the task's download."""
    suffix = table_suffix(path)
    if not path.is_file() or suffix not in _TABLE_SUFFIXES:
        return False
    return task.kind.is_table(path, suffix) and suffix not in _DOWNLOADED.get(task.download, ())


def _read_files(path: Path, split: Split) -> list[Example]:
    task = split.task
    if not path.exists():
        raise InputError(f"There is no file or folder {path} with the {split.name} split of {task.name}.")
    if task.download and not is_own_table(path, task):
        return list(_READERS[task.download](path, split))
    if path.is_dir() and (found := task.kind.read_folder(path, split)) is not None:
        return list(found)
    file = _own_file(path, split.name) if path.is_dir() else path
    suffix = table_suffix(file)
    if (found := task.kind.read_file(file, suffix, split)) is not None:
        return list(found)
    if suffix not in _TABLE_SUFFIXES:
        raise InputError(
            f"Own data must be a .csv, .tsv, .json, .jsonl or .parquet file{task.kind.other_files}. Received "
            f"{file}."
        )
    return examples_of_rows(read_table(file, split.problems, quoted=True), split, str(file))


def _own_file(folder: Path, split: str) -> Path:
    names = [name + suffix for name in _SPLIT_NAMES[split] for suffix in _SUFFIXES]
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise InputError(
        f"The folder {folder} must have a file for the {split} split, for example {names[0]}, {split}.csv or "
        f"{split}.jsonl. It has none; name the file itself."
    )
