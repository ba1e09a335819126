"""Files to submit: GLUE's zip of a TSV for each task, and what other benchmarks take.

The names of GLUE's files, their header and the names of labels are those that its server asks for: RTE, QNLI, MNLI
and the diagnostic set name the class, STS-B has numbers, all others 0 and 1.
"""

import zipfile
from collections.abc import Mapping
from pathlib import Path

from albert_tf.evaluation.prediction_files import table, write_table
from albert_tf.evaluation.probability_files import Probabilities, probabilities_file, read_probabilities
from data_prep.errors import InputError
from data_prep.files import write_json, written_aside

# Task -> split of the test set -> file.
GLUE_FILES: dict[str, dict[str, str]] = {
    "cola": {"test": "CoLA.tsv"},
    "sst-2": {"test": "SST-2.tsv"},
    "mrpc": {"test": "MRPC.tsv"},
    "sts-b": {"test": "STS-B.tsv"},
    "qqp": {"test": "QQP.tsv"},
    "mnli": {"test_matched": "MNLI-m.tsv", "test_mismatched": "MNLI-mm.tsv"},
    "qnli": {"test": "QNLI.tsv"},
    "rte": {"test": "RTE.tsv"},
    "wnli": {"test": "WNLI.tsv"},
    "ax": {"test": "AX.tsv"},
}
_DATE = (1980, 1, 1, 0, 0, 0)  # the same predictions make the same zip


def write_predictions(folder: Path, name: str, kind: str, probabilities: Probabilities) -> Path:
    """Writes a split's predictions as the task's benchmark takes them; whole or not at all.

    Args:
      folder: one that is there.
      name: of the file without its suffix.
      kind: the task's; multiple choice is a JSON object of letters, token classification one of lists of labels,
        all else a TSV.
      probabilities: what to predict from.

    Returns:
      The file.
    """
    predictions = dict(zip(probabilities.ids, probabilities.predictions(), strict=True))
    if kind in ("multiple_choice", "token_classification"):
        path = folder / f"{name}.json"
        write_json(path, predictions)
    else:
        path = folder / f"{name}.tsv"
        write_table(path, predictions)
    return path


def glue_files(task_name: str, run: Path) -> dict[str, str]:
    """The TSVs of a task's test sets, from a run's probabilities: name -> text.

    Raises:
      InputError: the task is none of GLUE's, or the run has not predicted its test sets.
    """
    if task_name not in GLUE_FILES:
        raise InputError(f"GLUE's tasks are {', '.join(GLUE_FILES)}. Received {task_name!r}.")
    texts = {}
    for split, name in GLUE_FILES[task_name].items():
        probabilities = read_probabilities(probabilities_file(run, split))
        texts[name] = table(dict(zip(probabilities.ids, probabilities.predictions(), strict=True)))
    return texts


def write_glue_zip(path: Path, runs: Mapping[str, Path]) -> list[str]:
    """Writes the zip that GLUE's server takes, whole or not at all.

    Args:
      path: the zip.
      runs: task -> a run that has predicted its test sets; MNLI's may be AX's too.

    Returns:
      The names of GLUE's files that the zip lacks; the server wants all of them.

    Raises:
      InputError: as `glue_files`; or nothing can be written there.
    """
    texts: dict[str, str] = {}
    for task_name, run in runs.items():
        texts |= glue_files(task_name, run)
    try:
        with written_aside(path) as aside, zipfile.ZipFile(aside, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in sorted(texts):
                archive.writestr(zipfile.ZipInfo(name, _DATE), texts[name], zipfile.ZIP_DEFLATED)
    except OSError as error:
        raise InputError(
            f"--output must name a zip in a folder that is there. Received {path}: {error.strerror}."
        ) from None
    return [name for files in GLUE_FILES.values() for name in files.values() if name not in texts]
