"""Scores of pretrained models on the paper's five tasks, of which those are asked whose files are there."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albert_tf.evaluation.averages import task_score
from albert_tf.finetuning.settings import FinetuningSettings
from albert_tf.lab.paper import TASKS
from albert_tf.lab.programs import Programs
from albert_tf.lab.scales import Scale
from albert_tf.lab.settings import LabSettings
from data_prep.tasks.task import find_task

_FOLDER = "finetuned"  # in the pretraining run's
_BATCH, _DROPOUT = 32, 0.1  # at scales for whose small encoders Table 14 is not made


@dataclass(frozen=True)
class Downstream:
    """Fine-tunes each run once, with the run's own seed.

    Attributes:
      settings: resolved.
      scale: the laboratory's.
      programs: run it.
    """

    settings: LabSettings
    scale: Scale
    programs: Programs

    @property
    def tasks(self) -> list[str]:
        """Those whose files are there."""
        return [task for task in TASKS if self.data_of(task)]

    def data_of(self, task: str) -> dict[str, str] | None:
        """The flags of `albert finetune` that say where a task's data are; None where they are not."""
        if task.startswith("squad"):
            if not self.settings.squad_dir:
                return None
            version = task.removeprefix("squad")
            files = {
                f"{part}_file": Path(self.settings.squad_dir) / f"{part}-v{version}.json"
                for part in ("train", "dev")
            }
            there = all(file.is_file() for file in files.values())
            return {name: str(file) for name, file in files.items()} if there else None
        if task == "race":
            return {"data_dir": self.settings.race_dir} if self.settings.race_dir else None
        if not self.settings.glue_dir:
            return None
        folder = Path(self.settings.glue_dir) / find_task(task).folder
        return {"data_dir": str(folder)} if (folder / "train.tsv").is_file() else None

    def score(self, task: str, run: Path, seed: int) -> float:
        """The task's score on its dev set in percent, fine-tuned unless that has been done."""
        output = run / _FOLDER / task
        results = output / "results.json"
        if not results.is_file():
            self.programs.albert("finetune", self._settings(task, run, output, seed))
        metrics = json.loads(results.read_text(encoding="utf-8"))["dev"]
        values = {name: spread["median"] for name, spread in metrics.items()}
        if task == "mnli":  # the paper's tables have the matched part alone
            values = {"accuracy": values["accuracy_m"]}
        return task_score(task, values)

    def _settings(self, task: str, run: Path, output: Path, seed: int) -> FinetuningSettings:
        data: dict[str, Any] = self.data_of(task) or {}
        settings = FinetuningSettings(
            task,
            str(output),
            **data,
            init_checkpoint=str(run),
            do_train=True,
            do_eval=True,
            seed=seed,
            num_devices=self.settings.num_devices,
            mixed_precision=self.settings.mixed_precision,
        )
        if self.scale.finetuning is None:
            return settings  # the paper's Table 14
        epochs, rate = self.scale.finetuning[task]
        T = self.settings.max_seq_length
        assert T, "it is resolved"
        settings = dataclasses.replace(
            settings,
            num_train_epochs=epochs,
            learning_rate=rate,
            train_batch_size=_BATCH,
            dropout=_DROPOUT,
            max_seq_length=T,
        )
        if task.startswith("squad"):
            return dataclasses.replace(settings, max_query_length=T // 4, doc_stride=T // 3)
        return settings
