"""GLUE: its tasks, and its files as its download has them, SST-2/train.tsv and so on."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from albert_tf.tasks.columns import TextColumns
from albert_tf.tasks.kind import USUAL_SPLITS, Split, Task
from albert_tf.tasks.tables import TableRow, read_table
from albert_tf.tasks.texts.kind import CLASSES, NUMBERS
from albert_tf.tasks.texts.rows import TextExample, text_examples
from data_prep.errors import InputError

_TRUE = ("0", "1")
_NLI = ("contradiction", "entailment", "neutral")
_ENTAILMENT = ("entailment", "not_entailment")
_SENTENCE = TextColumns("sentence", None)
_SENTENCES = TextColumns("sentence1", "sentence2")
_PARTS_OF_MNLI = MappingProxyType(
    {
        "train": ("train",),
        "dev": ("dev_matched", "dev_mismatched"),
        "test": ("test_matched", "test_mismatched"),
    }
)
_ONLY_TEST = MappingProxyType({"train": (), "dev": (), "test": ("test",)})


def _task(
    name: str,
    folder: str,
    labels: tuple[str, ...],
    columns: TextColumns,
    *metrics: str,
    tfds: str = "",
    splits: Mapping[str, tuple[str, ...]] = USUAL_SPLITS,
) -> Task:
    return Task(
        name,
        CLASSES if labels else NUMBERS,
        labels,
        metrics or ("accuracy",),
        "glue",
        folder,
        (f"glue/{tfds or name}",),
        splits,
        columns=columns,
    )


GLUE = (
    _task("cola", "CoLA", _TRUE, _SENTENCE, "matthews"),
    _task("sst-2", "SST-2", _TRUE, _SENTENCE, tfds="sst2"),
    _task("mrpc", "MRPC", _TRUE, TextColumns("#1 String", "#2 String", "Quality"), "accuracy", "f1"),
    _task(
        "sts-b",
        "STS-B",
        (),
        TextColumns("sentence1", "sentence2", "score"),
        "pearson",
        "spearman",
        tfds="stsb",
    ),
    _task("qqp", "QQP", _TRUE, TextColumns("question1", "question2", "is_duplicate", "id"), "accuracy", "f1"),
    _task("mnli", "MNLI", _NLI, TextColumns("sentence1", "sentence2", "gold_label"), splits=_PARTS_OF_MNLI),
    _task("qnli", "QNLI", _ENTAILMENT, TextColumns("question", "sentence")),
    _task("rte", "RTE", _ENTAILMENT, _SENTENCES),
    _task("wnli", "WNLI", _TRUE, _SENTENCES),
    # The diagnostic set, which a model of MNLI predicts.
    _task("ax", "diagnostic", _NLI, _SENTENCES, "matthews", splits=_ONLY_TEST),
)
# The files of a submission, in the order of a task's test splits.
GLUE_FILES: dict[str, tuple[str, ...]] = {
    "cola": ("CoLA.tsv",),
    "sst-2": ("SST-2.tsv",),
    "mrpc": ("MRPC.tsv",),
    "sts-b": ("STS-B.tsv",),
    "qqp": ("QQP.tsv",),
    "mnli": ("MNLI-m.tsv", "MNLI-mm.tsv"),
    "qnli": ("QNLI.tsv",),
    "rte": ("RTE.tsv",),
    "wnli": ("WNLI.tsv",),
    "ax": ("AX.tsv",),
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
    columns = _AX_WITH_LABELS if file.name == "diagnostic-full.tsv" else task.columns
    assert columns, "all of GLUE's tasks have some"
    if file.name.startswith("msr_paraphrase"):
        rows = _original_mrpc(file, split)
    else:
        needed = [columns.text_a, *([columns.text_b] if columns.text_b else [])]
        rows = read_table(file, split.problems, needed=needed, columns=_UNNAMED.get(task.name))
    return text_examples(rows, columns, split)


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
