"""The folder of a fine-tuning run.

OUTPUT_DIR/results.json, and for each seed OUTPUT_DIR/seed_0/: settings.json, data.json (a hash of the training
examples), the vocabulary, metrics.jsonl, tensorboard/, checkpoints/ during training, model.keras (the best
weights), with LoRA adapters.safetensors (what it trained, not merged), training.json after training, results.json,
dev_... and test_... (predictions). OUTPUT_DIR/failed/ has the failed trainings that --restarts began again, and
OUTPUT_DIR/search/ those of --learning_rate=search; of these only settings, metrics and results are kept.
"""

import contextlib
import shutil
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from albert_tf.checkpoints.keras_models import MODEL_FILE
from albert_tf.checkpoints.open_model import open_model
from albert_tf.checkpoints.run_files import (
    CHECKPOINTS,
    METRICS_FILE,
    RESULTS_FILE,
    SETTINGS_FILE,
    check_same_flags,
)
from albert_tf.checkpoints.stored import read_optional_json
from albert_tf.finetuning.flags import FIXED, FinetuningFlags
from albert_tf.tasks.adapters import ADAPTERS_FILE, save_adapters
from albert_tf.tasks.open_task import task_model_of
from albert_tf.tasks.task_model import TaskModel
from albert_tf.training.device_flags import settings_json
from data_prep.errors import InputError
from data_prep.files import as_record, read_json_object, write_json, write_text
from data_prep.tokenizers.vocabulary import Vocabulary

_TRAINED_FILE = "training.json"
_DATA_FILE = "data.json"
_OF_INTEREST = (SETTINGS_FILE, METRICS_FILE, RESULTS_FILE, _TRAINED_FILE, _DATA_FILE)


@dataclass(frozen=True)
class SeedFolder:
    """The folder of one seed of a run."""

    path: Path

    @classmethod
    def of(cls, output_dir: str | Path, seed: int) -> "SeedFolder":
        """The folder of a seed in a run's folder."""
        return cls(Path(output_dir) / f"seed_{seed}")

    def check(self, settings: FinetuningFlags, examples_sha256: str) -> None:
        """Raises InputError if the folder cannot be one, or holds a run with other settings or examples."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError(
                f"--output_dir must have folders of seeds. Received {self.path}, which is a file."
            )
        if not (self.path / SETTINGS_FILE).exists():
            return
        check_same_flags(settings, self.path / SETTINGS_FILE, FIXED.split())
        if read_json_object(self.path / _DATA_FILE).get("examples_sha256") != examples_sha256:
            raise InputError(
                f"{self.path} holds a run that began with other training examples: texts or labels have changed "
                "since. Use another --output_dir for a new run."
            )

    def create(self, settings: FinetuningFlags, vocabulary: Vocabulary, examples_sha256: str) -> None:
        """Makes the folder, with the vocabulary, the hash of the training examples, and last the settings."""
        self.path.mkdir(parents=True, exist_ok=True)
        vocabulary.save(self.path)
        write_json(self.path / _DATA_FILE, {"examples_sha256": examples_sha256})
        write_text(self.path / SETTINGS_FILE, settings_json(settings))

    def warning_of_another_dev_set(self, flags: FinetuningFlags) -> str | None:
        """A line if `flags` evaluate on another dev set than the one that chose the weights; otherwise None."""
        stored = read_optional_json(self.path / SETTINGS_FILE)
        earlier = stored.get("dev_file") or stored.get("data_dir")
        given = flags.dev_file or flags.data_dir
        if not (flags.do_eval and stored.get("do_eval") and earlier and given):
            return None
        if Path(earlier).absolute() == Path(given).absolute():
            return None
        return (
            f"warning: the weights were chosen by the dev set {earlier}; results.json and the predictions of the "
            f"dev set are now those of {given}"
        )

    def read_settings(self) -> dict[str, Any]:
        """The settings that the model was trained with."""
        return read_json_object(self.path / SETTINGS_FILE)

    @property
    def is_trained(self) -> bool:
        """Whether training is over."""
        return (self.path / _TRAINED_FILE).exists()

    def finish_training(self, facts: Mapping[str, Any]) -> None:
        """Records that training is over, and deletes its checkpoints."""
        write_json(self.path / _TRAINED_FILE, facts)
        shutil.rmtree(self.path / CHECKPOINTS, ignore_errors=True)

    def read_results(self) -> dict[str, Any]:
        """The results so far: those of `write_results`, and the facts of `finish_training`.

        Raises:
          InputError: a file is damaged, or the metrics of a set are not an object.
        """
        files = (self.path / RESULTS_FILE, self.path / _TRAINED_FILE)
        results = {
            name: value for file in files if file.exists() for name, value in read_json_object(file).items()
        }
        for role in ("dev", "test"):
            as_record(dict[str, Any], results.get(role, {}), self.path / RESULTS_FILE)
        return results

    def write_results(self, results: Mapping[str, Any]) -> None:
        """Writes the seed's results.json."""
        write_json(self.path / RESULTS_FILE, results)

    def save_model(self, model: TaskModel) -> None:
        """Writes model.keras, and adapters of LoRA; an earlier file stays if that fails."""
        aside = self.path / ".unfinished-model"
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        try:
            with _only_the_model(model):
                model.save(aside / MODEL_FILE)
            (aside / MODEL_FILE).replace(self.path / MODEL_FILE)
            if model.encoder.lora_rank:
                save_adapters(model, self.path / ADAPTERS_FILE)
        finally:
            shutil.rmtree(aside, ignore_errors=True)

    def drop_model(self) -> None:
        """Deletes all but what says how the training went."""
        for path in self.path.iterdir():
            if path.name not in _OF_INTEREST:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    @property
    def failures(self) -> list[Path]:
        """The folders of the seed's failed trainings, in order."""
        found = (self.path.parent / "failed").glob(f"{self.path.name}_*")
        return sorted(found, key=lambda path: int(path.name.rpartition("_")[2]))

    def set_aside(self) -> None:
        """Moves a failed training into a folder of its own, so that another can begin in this one."""
        number = len(self.failures) + 1
        aside = SeedFolder(self.path.parent / "failed" / f"{self.path.name}_{number}")
        aside.path.parent.mkdir(exist_ok=True)
        self.path.rename(aside.path)
        aside.drop_model()

    def history(self) -> list[dict[str, Any]]:
        """Learning rate and reason of each failed training."""
        return [
            {
                "learning_rate": SeedFolder(path).read_settings()["learning_rate"],
                "failed": SeedFolder(path).read_results().get("failed"),
            }
            for path in self.failures
        ]

    @property
    def model_file(self) -> Path:
        """The file of the trained model; InputError if there is none."""
        path = self.path / MODEL_FILE
        if not path.exists():
            raise InputError(
                f"The folder of a fine-tuned model must hold {MODEL_FILE}. Received {self.path}, which does not; "
                "train with --do_train first."
            )
        return path

    def load_model(self) -> TaskModel:
        """Reads model.keras; call it under the devices' scope."""
        return task_model_of(open_model(self.model_file, quantized=True))


def trained_seeds(output_dir: str | Path) -> list[int]:
    """The seeds of a run whose training is over, in order."""
    names = [path.name.removeprefix("seed_") for path in Path(output_dir).glob("seed_*")]
    seeds = sorted(int(name) for name in names if name.isdecimal())
    return [seed for seed in seeds if SeedFolder.of(output_dir, seed).is_trained]


def results_of_other_seeds(output_dir: Path, task: str, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """The results of seeds besides these that earlier commands trained in the same folder for the same task."""
    others = {
        seed: SeedFolder.of(output_dir, seed) for seed in trained_seeds(output_dir) if seed not in seeds
    }
    return [
        {"seed": seed, **folder.read_results()}
        for seed, folder in others.items()
        if folder.read_settings().get("task") == task
    ]


@contextlib.contextmanager
def _only_the_model(model: TaskModel) -> Iterator[None]:
    """Leaves out of a saved model what is only for training: `remat` and `scan_layers`."""
    encoder = model.encoder
    remat, scan_layers = encoder.remat, encoder.scan_layers
    encoder.remat, encoder.scan_layers = False, False
    try:
        yield
    finally:
        encoder.remat, encoder.scan_layers = remat, scan_layers


def run_results(task: str, metric: str, seeds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The content of OUTPUT_DIR/results.json.

    Args:
      task: the task's name.
      metric: the name of the dev metric by which the best weights and the best seed are chosen.
      seeds: for each seed "seed", "best_step", the metrics by role: "dev", "test", and if it failed why: "failed".

    Returns:
      "task", "metric", "best_seed", "seeds", and for each role that all seeds have the median, minimum and
      maximum of each metric. A failed seed is the best only if all have failed.
    """
    sound = [seed for seed in seeds if "failed" not in seed] or seeds
    evaluated = [seed for seed in sound if metric in seed.get("dev", {})]
    best = max(evaluated, key=lambda seed: seed["dev"][metric]) if evaluated else sound[0]
    content = {"task": task, "metric": metric, "best_seed": best["seed"], "seeds": list(seeds)}
    for role in ("dev", "test"):
        if all(role in seed for seed in seeds):
            content[role] = _spread([seed[role] for seed in seeds])
    return content


def results_table(results: Mapping[str, Any]) -> Table | None:
    """Median, minimum and maximum of each metric over the seeds; None without an evaluation."""
    several = len(results["seeds"]) > 1
    columns = ("median", "minimum", "maximum") if several else ("value",)
    title = f"{results['task']}, {len(results['seeds'])} seeds" if several else results["task"]
    caption = f"the best seed is {results['best_seed']}" if several else None
    if failed := [str(seed["seed"]) for seed in results["seeds"] if "failed" in seed]:
        are_all = "all seeds have failed" if several else "the seed has failed"
        caption = (
            f"{caption}, failed: {', '.join(failed)}" if len(failed) < len(results["seeds"]) else are_all
        )
    table = Table("split", "metric", *columns, title=title, caption=caption)
    for role in ("dev", "test"):
        for name, spread in results.get(role, {}).items():
            if name == "examples":
                continue
            values = [spread["median"], spread["min"], spread["max"]] if several else [spread["median"]]
            table.add_row(role, name, *(f"{value:.4f}" for value in values))
    return table if table.row_count else None


def _spread(metrics: Sequence[Mapping[str, float]]) -> dict[str, dict[str, float]]:
    spread = {}
    for name in metrics[0]:
        values = [seed_metrics[name] for seed_metrics in metrics if name in seed_metrics]
        spread[name] = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return spread
