"""The zip that GLUE's server takes: a TSV for each test set.

File names, header and labels are those of the server: RTE, QNLI, MNLI and the diagnostic set name the class, STS-B
has numbers, all others have 0 and 1.
"""

import zipfile
from collections.abc import Mapping
from pathlib import Path

from albert_tf.tasks.benchmarks.glue import GLUE_FILES
from albert_tf.tasks.prediction_files import as_tsv
from albert_tf.tasks.probabilities import probabilities_file, read_probabilities
from albert_tf.tasks.task import BENCHMARKS
from data_prep.errors import InputError
from data_prep.files import written_aside

_DATE = (1980, 1, 1, 0, 0, 0)  # equal predictions make equal zips


def write_glue_zip(path: Path, runs: Mapping[str, Path]) -> list[str]:
    """Writes the zip of a submission.

    Args:
      path: the zip.
      runs: task -> a run that has predicted its test sets; a run of MNLI may also stand for AX.

    Returns:
      The names of the files that the zip lacks; the server requires all of them.

    Raises:
      InputError: a task is not one of GLUE's, a run has not predicted its test sets, or the zip cannot be written.
    """
    texts: dict[str, str] = {}
    for task_name, run in runs.items():
        texts |= _glue_tsvs(task_name, run)
    try:
        with written_aside(path) as aside, zipfile.ZipFile(aside, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in sorted(texts):
                archive.writestr(zipfile.ZipInfo(name, _DATE), texts[name], zipfile.ZIP_DEFLATED)
    except OSError as error:
        raise InputError(
            f"--output must name a zip in an existing folder. Received {path}: {error.strerror}."
        ) from None
    return [name for names in GLUE_FILES.values() for name in names if name not in texts]


def _glue_tsvs(task_name: str, run: Path) -> dict[str, str]:
    """File name -> text for each of a task's test sets."""
    if task_name not in GLUE_FILES:
        raise InputError(f"GLUE's tasks are {', '.join(GLUE_FILES)}. Received {task_name!r}.")
    splits = BENCHMARKS[task_name].splits["test"]
    return {
        name: as_tsv(read_probabilities(probabilities_file(run, split)).by_id())
        for split, name in zip(splits, GLUE_FILES[task_name], strict=True)
    }
