"""GLUE's files in the layout of its original download: SST-2/train.tsv and so on."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from data_prep.errors import InputError
from data_prep.tasks.examples import TextExample
from data_prep.tasks.problems import Problems
from data_prep.tasks.tables import TableRow, read_table
from data_prep.tasks.task import Task
from data_prep.tasks.text_rows import TextColumns, text_examples


class _Layout(NamedTuple):
    """The columns of a task's files."""

    text_a: str
    text_b: str | None
    label: str = "label"
    id: str = "index"
    unnamed: tuple[str, ...] | None = None  # of a file without a header


_SENTENCES = _Layout("sentence1", "sentence2")
_LAYOUTS = {
    "cola": _Layout("sentence", None, unnamed=("source", "label", "star", "sentence")),
    "sst-2": _Layout("sentence", None),
    "mrpc": _Layout("#1 String", "#2 String", "Quality"),
    "sts-b": _Layout("sentence1", "sentence2", "score"),
    "qqp": _Layout(
        "question1",
        "question2",
        "is_duplicate",
        "id",
        ("id", "qid1", "qid2", "question1", "question2", "is_duplicate"),
    ),
    "mnli": _Layout("sentence1", "sentence2", "gold_label"),
    "qnli": _Layout("question", "sentence"),
    "rte": _SENTENCES,
    "wnli": _SENTENCES,
    "ax": _SENTENCES,
}
_AX_WITH_LABELS = _Layout("Premise", "Hypothesis", "Label")
GLUE_TASKS = tuple(_LAYOUTS)


def read_glue(task: Task, path: Path, split: str, problems: Problems) -> list[TextExample]:
    """The examples of one of GLUE's tasks.

    Rows of a test set have no label and all stay in, for a prediction is due for each. Ids are the file's, else
    the row's number from 0, left-out rows counted.

    Args:
      task: one of GLUE_TASKS.
      path: the folder of all tasks, the task's own folder, or one file.
      split: one of the task's splits.
      problems: collects rows that cannot be used.

    Raises:
      InputError: there is no such file, or it is another kind of file.
    """
    file = path if not path.is_dir() else _file_of(task, path, split)
    layout = _AX_WITH_LABELS if file.name == "diagnostic-full.tsv" else _LAYOUTS[task.name]
    if file.name.startswith("msr_paraphrase"):
        rows = _original_mrpc(file, split, problems)
    else:
        needed = [layout.text_a, *([layout.text_b] if layout.text_b else [])]
        rows = read_table(file, problems, needed=needed, columns=layout.unnamed)
    columns = TextColumns(layout.text_a, layout.text_b, layout.label, layout.id)
    return text_examples(rows, columns, task.kind, task.labels, problems, is_test=split.startswith("test"))


def _file_of(task: Task, folder: Path, split: str) -> Path:
    folders = [folder / task.folder, folder]
    names = [f"{split}.tsv"]
    if task.name == "ax":
        names = ["diagnostic.tsv"]
        folders += [folder / "AX"]
    if task.name == "mrpc":
        names += [f"msr_paraphrase_{'test' if split == 'test' else 'train'}.txt"]
    for place in folders:
        for name in names:
            if (place / name).is_file():
                return place / name
    raise InputError(
        f"{task.name} must have the file {folders[0] / names[0]} (or {folder / names[0]}). There is none; "
        "name the folder of GLUE's download with --data_dir."
    )


def _original_mrpc(file: Path, split: str, problems: Problems) -> Iterator[TableRow]:
    """Microsoft's own files, in which the development set is a list of pairs of ids."""
    rows = read_table(file, problems, needed=["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"])
    if split == "test":
        for row in rows:
            del row.values["Quality"]
            yield row
        return
    held_out = {
        (row.values["1"], row.values["2"])
        for row in read_table(file.with_name("dev_ids.tsv"), problems, needed=["1", "2"], columns=["1", "2"])
    }
    for row in rows:
        if ((row.values["#1 ID"], row.values["#2 ID"]) in held_out) == (split == "dev"):
            yield row
