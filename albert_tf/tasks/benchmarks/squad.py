"""SQuAD 1.1 and 2.0: the tasks, and the files of their downloads."""

from pathlib import Path

from albert_tf.tasks.kind import Split, Task
from albert_tf.tasks.spans.kind import SPANS
from albert_tf.tasks.spans.rows import QuestionExample
from albert_tf.tasks.spans.squad_json import read_squad_file
from data_prep.errors import InputError

SQUAD = (
    Task("squad1.1", SPANS, (), ("f1", "exact_match"), "squad", tfds=("squad/v1.1",)),
    Task("squad2.0", SPANS, (), ("f1", "exact"), "squad", tfds=("squad/v2.0",), answerable=True),
)


def read_squad(path: Path, split: Split) -> list[QuestionExample]:
    """The questions of a file, or of the file of a split in the folder of a download.

    Raises:
      InputError: as `read_squad_file`, or the folder has no such file.
    """
    return read_squad_file(squad_file(split.task, path, split.name) if path.is_dir() else path, split)


def squad_file(task: Task, folder: Path, split: str) -> Path:
    """The file of a split in the folder of a download.

    Raises:
      InputError: there is none.
    """
    name = f"{split}-v{'2.0' if task.answerable else '1.1'}.json"
    for file in (folder / name, folder / f"{split}.json", folder / f"{name}.gz"):
        if file.is_file():
            return file
    raise InputError(
        f"{task.name} must have the file {folder / name} (or {split}.json). There is none; name the folder of the "
        "download, or the file itself."
    )
