"""One model trained, resumed from its last checkpoint if training was interrupted."""

import contextlib
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import keras
import tensorflow as tf

from albert_tf.checkpoints.run_files import read_metrics
from albert_tf.finetuning.construction import rate_factors
from albert_tf.finetuning.recipes import ResolvedSettings
from albert_tf.finetuning.seed_folder import SeedFolder
from albert_tf.optimizers import AdamW, Lamb, WarmupPolynomialDecay
from albert_tf.tasks.objective import TaskObjective
from albert_tf.tasks.task_model import TaskModel
from albert_tf.training.checkpoints import RunCheckpoints
from albert_tf.training.interruptions import Preemption
from albert_tf.training.session import RunLog, RunSession, TrainingProgress
from albert_tf.training.step_loop import StepLoop, iterations_per_loop
from albert_tf.training.steps import OptimizerStep
from albert_tf.training.strategy import check_agreement, divide_batches, is_chief
from albert_tf.training.weights import by_position
from data_prep.errors import InputError

_KEPT = 2  # checkpoints: the newest, and one before it in case its files are damaged
_SECONDS_BETWEEN_LINES = 30  # of training steps, where there is no terminal
NOT_SHARED = (
    "--output_dir must be one folder that all workers share. Received {}, in which another worker finds another "
    "state."
)


class Trainer:
    """Trains the model of one seed; logs, saves, evaluates and stops after the steps where it is due.

    All workers call the same methods at the same steps; the chief alone writes.

    Args:
      model: built under its strategy's scope, with its initial weights.
      settings: the run's.
      folder: of the seed; if it has a checkpoint, training resumes there.
      preemption: asked between steps whether to save and stop.
      metric: the name of the metric, among those of `evaluate`, that chooses the best weights; larger is better.
      evaluate: step -> metrics of the dev set with names that begin with `eval_`. None keeps the last weights.

    Attributes:
      step: how many steps have been taken.
    """

    def __init__(
        self,
        model: TaskModel,
        settings: ResolvedSettings,
        folder: SeedFolder,
        preemption: Preemption,
        metric: str,
        evaluate: Callable[[int], dict[str, float]] | None,
    ):
        self._model, self._settings, self._folder = model, settings, folder
        self._preemption, self._metric, self._evaluate = preemption, metric, evaluate
        self._strategy = model.distribute_strategy
        self._writes = is_chief(self._strategy)
        self._learning_rate = WarmupPolynomialDecay(
            settings.learning_rate, settings.num_train_steps, settings.num_warmup_steps
        )
        with self._strategy.scope():
            self._optimizer = {"adamw": AdamW, "lamb": Lamb}[settings.optimizer](
                self._learning_rate,
                rate_factors=rate_factors(model.encoder.config, settings.layer_decay),
                use_ema=settings.ema_decay is not None,
                ema_momentum=settings.ema_decay or 0.0,
            )
            self._optimizer.build(model.trainable_variables)
        self._checkpoints = RunCheckpoints(
            folder.path, model, self._optimizer, keep=_KEPT, content=by_position
        )
        self.step = self._checkpoints.restore_latest()
        self._lines = [line for line in read_metrics(folder.path) if line["step"] <= self.step]
        check_agreement(self._strategy, self.step, NOT_SHARED.format(folder.path))

    def train(self, batches: Callable[[], tf.data.Dataset]) -> dict[str, int]:
        """Trains to the end or to an early stop; model.keras then holds the best weights, or the last ones.

        Args:
          batches: returns an endless dataset that begins after the first `step` batches.

        Returns:
          "steps", and "best_step", whose weights are kept.

        Raises:
          Preempted: after SIGTERM or Ctrl-C; the state is saved.
          InputError: training diverged.
        """
        progress = FinetuningProgress(self._settings.num_train_steps, self.step)
        with self._logged_to() as folder, progress:
            log = RunLog(folder, self.step)
            self._session = RunSession(self._folder.path, log, progress, self._preemption)
            if self.step:
                progress.say(f"resuming at step {self.step} of {self._folder.path}")
            self._evaluate_if_missed()
            if not self._is_over():
                loop = self._make_loop(batches)
                # Until here Ctrl-C ends the run at once: all steps are saved.
                with self._preemption.or_ctrl_c():
                    self._take_steps(loop)
            best = best_evaluation(self._lines, self._metric) if self._evaluate else None
            gain = last_gain(self._lines, self._metric)
            if best and gain and self.step < self._settings.num_train_steps:
                progress.say(
                    f"stopped at step {self.step}: {self._settings.early_stopping_patience} evaluations without a "
                    f"better {self._metric.removeprefix('eval_')} than at step {gain['step']}"
                )
        if best is None:
            self._save_model()
        return {"steps": self.step, "best_step": best["step"] if best else self.step}

    @contextlib.contextmanager
    def _logged_to(self) -> Iterator[Path]:
        """The folder of the log; of other workers than the chief, a temporary one."""
        if self._writes:
            yield self._folder.path
            return
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)

    def _take_steps(self, loop: StepLoop) -> None:
        saved, stop = self.step, self._preemption.agreed()
        while not stop and not self._is_over():
            self.step, _, stop = loop.run(self.step, self._next_due_step())
            # The last evaluation takes place in any case: it ends the run, or stops with the state saved.
            stop = stop and not self._is_over()
            if self._is_evaluation_due():
                self._save_checkpoint()
                saved = self.step
                if not stop:
                    self._evaluate_now()
                    stop = self._preemption.agreed()
        if stop and not self._is_over():
            if saved != self.step:
                self._save_checkpoint()
            raise self._preemption.stop(self.step)

    def _make_loop(self, batches: Callable[[], tf.data.Dataset]) -> StepLoop:
        settings, strategy = self._settings, self._strategy
        step = OptimizerStep(
            TaskObjective(self._model),
            self._optimizer,
            strategy,
            accumulation_steps=settings.gradient_accumulation_steps,
        )
        return StepLoop(
            step,
            iter(divide_batches(strategy, batches, settings.train_batch_size)),
            self._figures,
            self._learning_rate,
            self._session,
            iterations_per_loop(settings.iterations_per_loop, strategy),
        )

    def _figures(self, sums: dict, steps: int, seconds: float) -> dict[str, float]:
        """The means of the steps since the last line of the log."""
        if float(sums["skipped_steps"]):
            raise InputError(
                "Training diverged: the loss or its gradient is not finite before step "
                f"{self.step + steps}. Use a lower --learning_rate, and another --output_dir, or delete this one."
            )
        return {
            "loss": float(sums["loss"] / sums["loss_weight"]),
            "gradient_norm": float(sums["gradient_norm"]) / steps,
            "examples_per_second": steps * self._settings.train_batch_size / seconds,
        }

    def _next_due_step(self) -> int:
        """The next step to log; every evaluation is logged too, so that a resumed run has the same means."""
        intervals = (self._settings.log_steps, self._settings.save_checkpoints_steps)
        return min(
            self._settings.num_train_steps,
            *((self.step // interval + 1) * interval for interval in intervals),
        )

    def _is_evaluation_due(self) -> bool:
        settings = self._settings
        return self.step == settings.num_train_steps or self.step % settings.save_checkpoints_steps == 0

    def _is_over(self) -> bool:
        """Whether all steps are taken, or early stopping ends the run."""
        patience = self._settings.early_stopping_patience
        if self.step >= self._settings.num_train_steps:
            return True
        return bool(patience and evaluations_since_gain(self._lines, self._metric) >= patience)

    def _save_checkpoint(self) -> None:
        if self._writes:
            self._checkpoints.save()

    def _evaluate_if_missed(self) -> None:
        """Evaluates the restored state if the run was killed between its checkpoint and its evaluation."""
        evaluated = [line["step"] for line in self._lines if self._metric in line]
        if self.step and self._is_evaluation_due() and self.step not in evaluated:
            self._evaluate_now()

    def _evaluate_now(self) -> None:
        """Evaluates; saves the weights if they are the best so far, and only then logs the evaluation."""
        if self._evaluate is None:
            return
        with self._averages():
            metrics = self._evaluate(self.step)
            new = {"step": self.step, **metrics}
            self._lines.append(new)
            if best_evaluation(self._lines, self._metric) is new:
                self._write_model()
        self._session.record_evaluation(self.step, metrics)

    def _save_model(self) -> None:
        with self._averages():
            self._write_model()

    def _write_model(self) -> None:
        if self._writes:
            self._folder.save_model(self._model)

    @contextlib.contextmanager
    def _averages(self) -> Iterator[None]:
        """Puts the moving averages, if the run has them, in the place of the weights within the context."""
        if not self._optimizer.use_ema:
            yield
            return
        variables = self._model.trainable_variables
        weights = [keras.ops.convert_to_numpy(variable) for variable in variables]
        self._optimizer.finalize_variable_values(variables)
        try:
            yield
        finally:
            for variable, weight in zip(variables, weights, strict=True):
                variable.assign(weight)


class FinetuningProgress(TrainingProgress):
    """The progress of fine-tuning, with the figures of one task.

    Evaluations show how a run goes, so a file that holds the output gets few lines of training steps between them.
    """

    def __init__(self, num_train_steps: int, start_step: int):
        super().__init__(num_train_steps, start_step)
        self._last_line = time.monotonic()

    def update(self, step: int, values: dict[str, float], seconds_left: float) -> None:
        if self._console.is_terminal or time.monotonic() - self._last_line > _SECONDS_BETWEEN_LINES:
            super().update(step, values, seconds_left)

    def say(self, line: str) -> None:
        self._last_line = time.monotonic()
        super().say(line)

    def _figures(self, values: dict[str, float]) -> str:
        return f"loss {values['loss']:.3f}  {values['examples_per_second']:,.1f} examples/s"

    def say_evaluation(self, step: int, metrics: dict[str, float]) -> None:
        """Prints the figures of an evaluation."""
        figures = "  ".join(
            f"{name.removeprefix('eval_')} {value:{',' if isinstance(value, int) else '.4f'}}"
            for name, value in metrics.items()
        )
        self.say(f"dev at step {step}: {figures}")


def best_evaluation(lines: Sequence[dict], metric: str) -> dict | None:
    """The line of the evaluation whose weights are kept; None if there is none.

    Among equals it is that with the lowest loss, then the first. The lines alone decide, so that a resumed run
    chooses as an uninterrupted one does.

    Args:
      lines: of metrics.jsonl.
      metric: the name of the metric to compare; larger is better, and every number is better than NaN.
    """

    def rank(line: dict) -> tuple[float, float]:
        return _or_worst(line[metric]), _or_worst(-line.get("eval_loss", math.inf))

    return max(_evaluations(lines, metric), key=rank, default=None)


def last_gain(lines: Sequence[dict], metric: str) -> dict | None:
    """The line of the first evaluation with the best metric, whatever its loss; None if there is none."""
    return max(_evaluations(lines, metric), key=lambda line: _or_worst(line[metric]), default=None)


def evaluations_since_gain(lines: Sequence[dict], metric: str) -> int:
    """How many evaluations follow `last_gain`."""
    gain = last_gain(lines, metric)
    return sum(line["step"] > gain["step"] for line in _evaluations(lines, metric)) if gain else 0


def _evaluations(lines: Sequence[dict], metric: str) -> list[dict]:
    return [line for line in lines if metric in line]


def _or_worst(value: float) -> float:
    return -math.inf if math.isnan(value) else value
