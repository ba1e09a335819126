"""What a run's evaluations decide: which checkpoint is the best, when to stop early, when the model memorizes."""

import math
from pathlib import Path

from albert_tf.checkpoints.run_files import SETTINGS_FILE, read_metrics
from albert_tf.pretraining.flags import PretrainingPlan
from data_prep.files import read_json_object

# In the line of an evaluation without training, which may be of other text: it decides nothing.
ALONE = "evaluation_alone"


def is_of_run(line: dict) -> bool:
    """Whether a line of metrics.jsonl is an evaluation by the run itself."""
    return "eval_loss" in line and ALONE not in line


class HeldOut:
    """The held-out loss of the run's last phase; earlier phases are evaluated on other lengths.

    Args:
      settings: for the phases and `early_stopping_patience`.
      lines: the run's metrics so far. All decisions follow from them, so that a resumed run decides like one that
        was never interrupted.

    Attributes:
      memorizes: whether the loss has ever risen for two evaluations in a row while the training loss fell.
    """

    def __init__(self, settings: PretrainingPlan, lines: list[dict]):
        self._start = settings.phases[-1].start_step
        self._patience = settings.early_stopping_patience
        self._training_loss = math.nan
        self._losses: dict[int, tuple[float, float]] = {}  # step -> held out, in training
        self.memorizes = False
        for line in lines:
            self.add(line)

    def add(self, line: dict) -> None:
        """Takes in a line of metrics.jsonl; of several evaluations of one step only the first counts."""
        step = line["step"]
        self._training_loss = line.get("loss", self._training_loss)
        if not is_of_run(line) or step <= self._start or step in self._losses:
            return
        self._losses[step] = line["eval_loss"], self._training_loss
        last = list(self._losses.values())[-3:]
        if len(last) == 3:
            (first, before), (second, _), (third, after) = last
            self.memorizes |= first < second < third and after < before

    @property
    def best_step(self) -> int | None:
        """The step of the lowest loss, the first among equals; None before the first evaluation."""
        losses = {step: math.inf if math.isnan(loss) else loss for step, (loss, _) in self._losses.items()}
        return min(losses, key=lambda step: losses[step], default=None)

    @property
    def best_loss(self) -> float:
        """The lowest loss, NaN if there is none."""
        return self._losses[self.best_step][0] if self.best_step is not None else math.nan

    @property
    def is_over(self) -> bool:
        """Whether early stopping ends the run: as many evaluations as `early_stopping_patience` since the best."""
        best = self.best_step
        if not self._patience or best is None:
            return False
        return sum(step > best for step in self._losses) >= self._patience


def notes_on_earlier_evaluations(settings: PretrainingPlan, folder: Path) -> list[str]:
    """Whether the run in a folder was evaluated on other text so far, or is no longer evaluated."""
    file, now = folder / SETTINGS_FILE, (settings.phases[-1].eval_file, settings.max_eval_steps)
    best = HeldOut(settings, read_metrics(folder)).best_step
    if not settings.do_train or best is None:
        return []
    if not settings.do_eval or not now[0]:
        return [
            f"warning: this run is no longer evaluated, so commands that read {folder} go on using the checkpoint "
            f"of step {best}, the best one so far; give --do_eval and --eval_file, or name the checkpoint there"
        ]
    if not file.exists():
        return []
    earlier = read_json_object(file)
    phase = (earlier.get("phases") or [earlier])[-1]  # runs of earlier versions are one phase
    before = phase.get("eval_file"), earlier.get("max_eval_steps")
    if before == now:
        return []
    return [
        f"warning: this run was evaluated with --eval_file={before[0]} and --max_eval_steps={before[1]}, so "
        "its earlier held-out losses are not comparable with the next ones, and the best checkpoint may be "
        "the best on the earlier text; use another --output_dir to start over"
    ]
