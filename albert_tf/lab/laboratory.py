"""A laboratory: the folder, the text and the settings that a set of comparable experiments shares.

DIR/laboratory.json holds the settings; beside it are DIR/data, DIR/runs and a folder for each experiment.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albert_tf.lab.scales import Scale
from albert_tf.lab.settings import ResolvedLabSettings
from albert_tf.lab.subprocesses import ProgramRunner
from data_prep.errors import InputError
from data_prep.files import read_json_object, write_json

LABORATORY_FILE = "laboratory.json"
_FIXED = (
    "input_file",
    "heldout_file",
    "input_format",
    "language",
    "spm_model_file",
    "scale",
    "num_train_steps",
    "num_warmup_steps",
    "train_batch_size",
    "learning_rate",
    "max_seq_length",
    "vocab_size",
    "mixed_precision",
)


@dataclass(frozen=True)
class Laboratory:
    """What everything in a laboratory is made with.

    Attributes:
      settings: the flags.
      scale: the sizes behind the paper's names.
      programs: runs `albert` commands in their own processes.
    """

    settings: ResolvedLabSettings
    scale: Scale
    programs: ProgramRunner

    @property
    def folder(self) -> Path:
        """The laboratory's folder."""
        return self.settings.folder

    def fixed_settings(self, text: str) -> dict[str, Any]:
        """The settings that determine the numbers of all experiments; `text` is a hash of the files."""
        fixed = {**{name: getattr(self.settings, name) for name in _FIXED}, "text": text}
        if self.settings.spm_model_file:
            del fixed["vocab_size"]  # of a vocabulary that would be trained
        return fixed

    def open(self, text: str) -> None:
        """Creates the folder, or checks that what it holds was made with the same settings and text.

        Args:
          text: a hash of the files.

        Raises:
          InputError: the folder holds data or runs of other settings or text.
        """
        make_folder(self.folder)
        path, fixed = self.folder / LABORATORY_FILE, self.fixed_settings(text)
        if not path.exists() or not self._has_data():
            write_json(path, fixed)
            return
        kept = read_json_object(path)
        for name, value in fixed.items():
            if kept.get(name) == value:
                continue
            rule = f"{self.folder} is a laboratory, whose runs must be comparable"
            if name == "text":
                raise InputError(
                    f"{rule}. Its text files have changed; use the same files, or another --output."
                )
            raise InputError(f"{rule}: {_difference(name, kept.get(name), value)}, or use another --output.")

    def _has_data(self) -> bool:
        """Whether there is a vocabulary, an example file or a run; before that, settings may still change."""
        patterns = ("runs/*", "data/*.model", "data/*/*/*")
        return any(any(self.folder.glob(pattern)) for pattern in patterns)


def _difference(name: str, kept: Any, value: Any) -> str:
    """How the runs' value of a flag differs from the received one, and what to do."""
    if kept is None:
        return f"they were made without --{name}. Received {value}; leave it out"
    if value is None:
        return f"they have --{name}={kept}. Received none; add it"
    return f"they have --{name}={kept}. Received {value}; use the same value"


def make_folder(folder: Path) -> None:
    """Creates a folder unless it exists.

    Raises:
      InputError: it cannot be created.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"--output must be a writable folder. Received {folder}: {error.strerror}."
        ) from None
