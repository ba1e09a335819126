"""Scores of pretrained models on those of the paper's five tasks whose data are given."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albert_tf.checkpoints.run_files import RESULTS_FILE
from albert_tf.finetuning.settings import FinetuningSettings
from albert_tf.lab.laboratory import Laboratory
from albert_tf.lab.paper import AVERAGED_TASKS
from albert_tf.tasks.benchmarks.race import split_folders
from albert_tf.tasks.scores import task_score
from albert_tf.tasks.task import find_task
from data_prep.errors import InputError
from data_prep.files import read_json_object

_FOLDER = "finetuned"  # in the pretraining run's folder
# Flag -> its tasks, at least one of which must have data, and the files that it must hold.
_DATA = {
    "glue_dir": (("sst-2", "mnli"), "SST-2/train.tsv or MNLI/train.tsv"),
    "squad_dir": (("squad1.1", "squad2.0"), "train-v1.1.json and dev-v1.1.json, or those of v2.0"),
    "race_dir": (("race",), "RACE as downloaded, with its folder train"),
}
_BATCH, _DROPOUT = 32, 0.1  # for small encoders, which Table 14 does not suit


@dataclass(frozen=True)
class Downstream:
    """Fine-tunes each pretraining run once per task, with the run's own seed."""

    lab: Laboratory

    @property
    def tasks(self) -> list[str]:
        """The tasks whose data are given."""
        return [task for task in AVERAGED_TASKS if self.data_of(task)]

    def data_of(self, task: str) -> dict[str, str] | None:
        """The flags of `albert finetune` that name a task's data; None without data."""
        settings = self.lab.settings
        if task.startswith("squad"):
            if not settings.squad_dir:
                return None
            version = task.removeprefix("squad")
            files = {
                f"{part}_file": Path(settings.squad_dir) / f"{part}-v{version}.json"
                for part in ("train", "dev")
            }
            exist = all(file.is_file() for file in files.values())
            return {name: str(file) for name, file in files.items()} if exist else None
        if task == "race":
            if not settings.race_dir:
                return None
            exists = any(folder.is_dir() for folder in split_folders(Path(settings.race_dir), "train"))
            return {"data_dir": settings.race_dir} if exists else None
        if not settings.glue_dir:
            return None
        folder = Path(settings.glue_dir) / find_task(task).folder
        return {"data_dir": str(folder)} if (folder / "train.tsv").is_file() else None

    def check(self) -> None:
        """Raises InputError if a flag names a folder without the data of its tasks."""
        for flag, (tasks, files) in _DATA.items():
            folder = getattr(self.lab.settings, flag)
            if folder and not any(self.data_of(task) for task in tasks):
                raise InputError(f"--{flag} must hold {files}. Received {folder}, which does not.")

    def score(self, task: str, run: Path, checkpoint: str, seed: int) -> float:
        """The task's score on its dev set in percent; fine-tunes unless that has been done.

        Args:
          task: one of `tasks`.
          run: the folder of the pretraining run, which keeps what is fine-tuned.
          checkpoint: the run's checkpoint to start from.
          seed: of the run and of fine-tuning.
        """
        output = run / _FOLDER / task
        results = output / RESULTS_FILE
        if not results.is_file():
            self.lab.programs.albert("finetune", self._settings(task, checkpoint, output, seed))
        metrics = read_json_object(results)["dev"]
        values = {name: spread["median"] for name, spread in metrics.items()}
        if task == "mnli":  # the paper's tables have only the matched part
            values = {"accuracy": values["accuracy_m"]}
        return task_score(find_task(task), values)

    def _settings(self, task: str, checkpoint: str, output: Path, seed: int) -> FinetuningSettings:
        data: dict[str, Any] = self.data_of(task) or {}
        settings = FinetuningSettings(
            task,
            str(output),
            **data,
            init_checkpoint=checkpoint,
            do_train=True,
            do_eval=True,
            seed=seed,
            tpu=self.lab.settings.tpu,
            strategy=self.lab.settings.strategy,
            num_devices=self.lab.settings.num_devices,
            mixed_precision=self.lab.settings.mixed_precision,
        )
        if self.lab.scale.finetuning is None:
            return settings  # the paper's Table 14
        epochs, rate = self.lab.scale.finetuning[task]
        return dataclasses.replace(
            settings,
            num_train_epochs=epochs,
            learning_rate=rate,
            train_batch_size=_BATCH,
            dropout=_DROPOUT,
            max_seq_length=self.lab.settings.max_seq_length,
        )
