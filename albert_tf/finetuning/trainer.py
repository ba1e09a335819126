"""One model trained with Keras `fit`, resumed from its last checkpoint if training was interrupted."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence

import keras
import tensorflow as tf

from albert_tf.finetuning.construction import rate_factors
from albert_tf.finetuning.recipes import ResolvedSettings
from albert_tf.finetuning.replicas import ClippedAdamW, ClippedLamb
from albert_tf.finetuning.run_folder import SeedFolder
from albert_tf.finetuning.task_model import TaskModel
from albert_tf.optimizers import WarmupPolynomialDecay
from albert_tf.training.checkpoints import RunCheckpoints
from albert_tf.training.interruptions import Preemption
from albert_tf.training.run_files import read_metrics
from albert_tf.training.session import RunLog, RunSession, TrainingProgress
from albert_tf.training.weights import by_position
from data_prep.errors import InputError

_KEPT = 2  # checkpoints: the newest, and one before it in case its files are damaged
_SECONDS_BETWEEN_LINES = 30  # of training steps, where there is no terminal


class Trainer(keras.callbacks.Callback):
    """Trains the model of one seed, and logs, saves, evaluates and stops after the steps where it is due.

    Args:
      model: built under its strategy's scope, with its initial weights.
      settings: the run's.
      folder: of the seed; if it has a checkpoint, training resumes there.
      preemption: asked after every step whether to save and stop.
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
        super().__init__()
        self.set_model(model)
        self._settings, self._folder = settings, folder
        self._metric, self._evaluate = metric, evaluate
        self._learning_rate = WarmupPolynomialDecay(
            settings.learning_rate, settings.num_train_steps, settings.num_warmup_steps
        )
        with model.distribute_strategy.scope():
            kind = {"adamw": ClippedAdamW, "lamb": ClippedLamb}[settings.optimizer]
            self._optimizer = kind(
                self._learning_rate,
                rate_factors=rate_factors(model.encoder.config, settings.layer_decay),
                use_ema=settings.ema_decay is not None,
                ema_momentum=settings.ema_decay or 0.0,
            )
            self._optimizer.build(model.trainable_variables)
            model.gradient_accumulation_steps = settings.gradient_accumulation_steps
            model.compile(optimizer=self._optimizer, jit_compile=False)
        self._checkpoints = RunCheckpoints(
            folder.path, model, self._optimizer, keep=_KEPT, content=by_position
        )
        self.step = self._checkpoints.restore_latest()
        self._session = RunSession(
            folder.path,
            RunLog(folder.path, self.step),
            FinetuningProgress(settings.num_train_steps, self.step),
            preemption,
        )

    def train(self, batches: tf.data.Dataset) -> dict[str, int]:
        """Trains to the end or to an early stop; model.keras then holds the best weights, or the last ones.

        Args:
          batches: an endless dataset that begins after the first `step` batches.

        Returns:
          "steps", and "best_step", whose weights are kept.

        Raises:
          Preempted: after a SIGTERM; the state is saved.
          InputError: training diverged.
        """
        with self._session.progress as progress:
            if self.step:
                progress.say(f"resuming at step {self.step} of {self._folder.path}")
            self._evaluate_if_missed()
            if not self._is_over():
                self.model.fit(
                    batches,
                    steps_per_epoch=self._settings.num_train_steps - self.step,
                    callbacks=[self],
                    shuffle=False,  # the dataset is shuffled
                    verbose=0,
                )
            if self._session.preemption.requested and not self._is_over():
                raise self._session.preemption.stop(self.step)
        if self._evaluate is None:
            with self._averages():
                self._folder.save_model(self.model)
        best = best_evaluation(self._lines(), self._metric)
        return {"steps": self.step, "best_step": best["step"] if best else self.step}

    def on_train_begin(self, logs=None):
        """Starts the clock."""
        self._began, self._timed_from = time.monotonic(), self.step

    def on_train_batch_end(self, batch, logs=None):
        """Counts a step, and does what is due after it."""
        settings = self._settings
        self.step += 1
        if batch == 0:  # the first step took long, because TensorFlow traced it
            self._began, self._timed_from = time.monotonic(), self.step
        self._session.progress.advance(self.step)
        stop = self._session.preemption.agreed()
        save = self._is_evaluation_due()
        if save or stop or self.step % settings.log_steps == 0:
            self._log_means(logs["loss"])
        if save or stop:
            self._checkpoints.save()
        if save and not stop:
            self._evaluate_now()
        if save or stop:
            self._began, self._timed_from = time.monotonic(), self.step
            self.model.stop_training = stop or self._is_over()

    def _is_evaluation_due(self) -> bool:
        settings = self._settings
        return self.step == settings.num_train_steps or self.step % settings.save_checkpoints_steps == 0

    def _is_over(self) -> bool:
        """Whether all steps are taken, or early stopping ends the run."""
        patience = self._settings.early_stopping_patience
        if self.step >= self._settings.num_train_steps:
            return True
        return bool(patience and evaluations_since_best(self._lines(), self._metric) >= patience)

    def _log_means(self, loss) -> None:
        """Logs the means since the last logged step."""
        seconds, steps = time.monotonic() - self._began, self.step - self._timed_from
        loss = float(loss)
        if not math.isfinite(loss):
            raise InputError(
                f"Training diverged: the loss is {loss} before step {self.step}. Use a lower --learning_rate, "
                "and another --output_dir, or delete this one."
            )
        norm = self._optimizer.gradient_norm
        values = {
            "loss": loss,
            "learning_rate": float(self._learning_rate(self.step - 1)),
            "gradient_norm": float(norm.result()),
        }
        seconds_left = None
        if steps:
            values["examples_per_second"] = steps * self._settings.train_batch_size / seconds
            seconds_left = (self._settings.num_train_steps - self.step) * seconds / steps
        norm.reset_state()
        self._session.record_step(self.step, values, seconds_left)
        self.model.reset_metrics()
        self._began, self._timed_from = time.monotonic(), self.step

    def _evaluate_if_missed(self) -> None:
        """Evaluates the restored state if the run was killed between its checkpoint and its evaluation."""
        evaluated = [line["step"] for line in self._lines() if self._metric in line]
        if self.step and self._is_evaluation_due() and self.step not in evaluated:
            self._evaluate_now()

    def _evaluate_now(self) -> None:
        """Evaluates; saves the weights if they are the best so far, and only then logs the evaluation."""
        if self._evaluate is None:
            return
        with self._averages():
            metrics = self._evaluate(self.step)
            new = {"step": self.step, **metrics}
            if best_evaluation([*self._lines(), new], self._metric) is new:
                self._folder.save_model(self.model)
        self._session.record_evaluation(self.step, metrics)

    @contextlib.contextmanager
    def _averages(self) -> Iterator[None]:
        """Puts the moving averages, if the run has them, in the place of the weights within the context."""
        if not self._optimizer.use_ema:
            yield
            return
        variables = self.model.trainable_variables
        weights = [keras.ops.convert_to_numpy(variable) for variable in variables]
        self._optimizer.finalize_variable_values(variables)
        try:
            yield
        finally:
            for variable, weight in zip(variables, weights, strict=True):
                variable.assign(weight)

    def _lines(self) -> list[dict]:
        """The lines of metrics.jsonl up to the present step."""
        return [line for line in read_metrics(self._folder.path) if line["step"] <= self.step]


class FinetuningProgress(TrainingProgress):
    """The progress of fine-tuning, with the figures of one task.

    Evaluations show how a run goes, so a file that holds the output gets few lines of training steps between them.
    """

    def __init__(self, num_train_steps: int, start_step: int):
        super().__init__(num_train_steps, start_step)
        self._last_line = time.monotonic()

    def update(self, step: int, values: dict[str, float], seconds_left: float | None) -> None:
        if self._console.is_terminal or time.monotonic() - self._last_line > _SECONDS_BETWEEN_LINES:
            super().update(step, values, seconds_left)

    def say(self, line: str) -> None:
        self._last_line = time.monotonic()
        super().say(line)

    def _figures(self, values: dict[str, float]) -> str:
        speed = values.get("examples_per_second")  # of the first step, none
        return f"loss {values['loss']:.3f}" + (f"  {speed:,.1f} examples/s" if speed else "")

    def say_evaluation(self, step: int, metrics: dict[str, float]) -> None:
        """Prints the figures of an evaluation."""
        figures = "  ".join(
            f"{name.removeprefix('eval_')} {value:{',' if isinstance(value, int) else '.4f'}}"
            for name, value in metrics.items()
        )
        self.say(f"dev at step {step}: {figures}")


def best_evaluation(lines: Sequence[dict], metric: str) -> dict | None:
    """The line of the best evaluation, the first among equals; None if there is none.

    The lines alone decide, so that a resumed run chooses as an uninterrupted one does.

    Args:
      lines: of metrics.jsonl.
      metric: the name of the metric to compare; larger is better, and every number is better than NaN.
    """
    evaluations = [line for line in lines if metric in line]
    if not evaluations:
        return None
    return max(evaluations, key=lambda line: -math.inf if math.isnan(line[metric]) else line[metric])


def evaluations_since_best(lines: Sequence[dict], metric: str) -> int:
    """How many evaluations follow the best one."""
    best = best_evaluation(lines, metric)
    return sum(metric in line and line["step"] > best["step"] for line in lines) if best else 0
