"""GLUE's files, as its download has them: SST-2/train.tsv and so on."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from albert_tf.tasks.columns import Columns
from albert_tf.tasks.examples import Split, TextExample
from albert_tf.tasks.tables import TableRow, read_table
from albert_tf.tasks.task import Task
from albert_tf.tasks.texts.rows import TextColumns, text_examples
from data_prep.errors import InputError

_SENTENCE = TextColumns("sentence", None)
_SENTENCES = TextColumns("sentence1", "sentence2")
_COLUMNS = {
    "cola": _SENTENCE,
    "sst-2": _SENTENCE,
    "mrpc": TextColumns("#1 String", "#2 String", "Quality"),
    "sts-b": TextColumns("sentence1", "sentence2", "score"),
    "qqp": TextColumns("question1", "question2", "is_duplicate", "id"),
    "mnli": TextColumns("sentence1", "sentence2", "gold_label"),
    "qnli": TextColumns("question", "sentence"),
    "rte": _SENTENCES,
    "wnli": _SENTENCES,
    "ax": _SENTENCES,
}
_AX_WITH_LABELS = TextColumns("Premise", "Hypothesis", "Label")
# The columns of files without a header.
_UNNAMED = {
    "cola": ("source", "label", "star", "sentence"),
    "qqp": ("id", "qid1", "qid2", "question1", "question2", "is_duplicate"),
}


def read_glue(path: Path, split: Split) -> list[TextExample]:
    """The examples of one of GLUE's tasks.

    A test set has no labels, and all of its rows are kept, since each needs a prediction. Ids are the file's, else
    the row's number from 0, counting rows that are left out.

    Args:
      path: the folder of all tasks, the task's own folder, or one file.
      split: of one of GLUE's tasks.

    Raises:
      InputError: the file is missing or of another form.
    """
    task = split.task
    file = path if not path.is_dir() else _find_file(task, path, split.name)
    columns = _AX_WITH_LABELS if file.name == "diagnostic-full.tsv" else _COLUMNS[task.name]
    if file.name.startswith("msr_paraphrase"):
        rows = _original_mrpc(file, split)
    else:
        needed = [columns.text_a, *([columns.text_b] if columns.text_b else [])]
        rows = read_table(file, split.problems, needed=needed, columns=_UNNAMED.get(task.name))
    return text_examples(rows, columns, split)


def with_glue_names(columns: Columns, task: Task, names: Collection[str]) -> Columns:
    """The columns of a table of the user's own; texts and labels may have their names in GLUE's files.

    QNLI's texts are question and sentence, of which the usual names would find one.

    Args:
      columns: what the user names counts first.
      task: one of GLUE's.
      names: the columns that the table has.
    """
    known = _COLUMNS[task.name]
    if columns.label is None and known.label in names:
        columns = replace(columns, label=known.label)
    texts = [name for name in (known.text_a, known.text_b) if name]
    if columns.text_a or columns.text_b or not set(texts) <= set(names):
        return columns
    return replace(columns, text_a=known.text_a, text_b=known.text_b)


def has_pairs(task: Task) -> bool:
    """Whether the examples of one of GLUE's tasks are pairs of texts."""
    return _COLUMNS[task.name].text_b is not None


def _find_file(task: Task, folder: Path, split: str) -> Path:
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


def _original_mrpc(file: Path, split: Split) -> Iterator[TableRow]:
    """Microsoft's own files, which give the development set as a list of pairs of ids."""
    problems = split.problems
    rows = read_table(file, problems, needed=["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"])
    if split.is_test:
        for row in rows:
            del row.values["Quality"]
            yield row
        return
    held_out = {
        (row.values["1"], row.values["2"])
        for row in read_table(file.with_name("dev_ids.tsv"), problems, needed=["1", "2"], columns=["1", "2"])
    }
    for row in rows:
        if ((row.values["#1 ID"], row.values["#2 ID"]) in held_out) == (split.name == "dev"):
            yield row
