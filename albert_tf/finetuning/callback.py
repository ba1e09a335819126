"""What Keras `fit` does at the end of a step: count, log, save, evaluate, stop."""

import math
import time
from collections.abc import Callable
from pathlib import Path

import keras

from albert_tf.finetuning.best import best_evaluation, evaluations_since_best
from albert_tf.finetuning.model_file import save_model
from albert_tf.finetuning.progress import FinetuningProgress
from albert_tf.finetuning.settings import FinetuningSettings
from albert_tf.finetuning.state import RunState
from albert_tf.training.metrics_file import read_metrics
from albert_tf.training.preemption import Preemption
from albert_tf.training.run_log import RunLog
from data_prep.errors import InputError


class RunCallback(keras.callbacks.Callback):
    """Keeps the folder of one run up to date while `fit` trains.

    Args:
      run: the folder of one seed.
      settings: resolved.
      state: what a run goes on from.
      evaluate: step -> metrics of the dev set, with names that begin with `eval_`; None for no evaluation.
      metric: the name among those that the best weights are chosen by.
      learning_rate: step -> rate, for the log.
      log: gets every logged step and every evaluation.
      progress: likewise.
      preemption: asked after every step whether to save and stop.
    """

    def __init__(
        self,
        run: Path,
        settings: FinetuningSettings,
        state: RunState,
        evaluate: Callable[[int], dict[str, float]] | None,
        metric: str,
        learning_rate: Callable,
        log: RunLog,
        progress: FinetuningProgress,
        preemption: Preemption,
    ):
        super().__init__()
        self._run, self._settings, self._state = run, settings, state
        self._evaluate, self._metric, self._learning_rate = evaluate, metric, learning_rate
        self._log, self._progress, self._preemption = log, progress, preemption
        self._step = self._logged = state.step
        self._began = time.monotonic()

    def make_up(self) -> None:
        """Evaluates where a kill came between a checkpoint and its evaluation."""
        step, every = self._step, self._settings.save_checkpoints_steps
        assert every
        due = step % every == 0 or step == self._settings.num_train_steps
        if step and due and not any(self._is_evaluation(line, step) for line in read_metrics(self._run)):
            self._evaluate_now()

    def on_train_begin(self, logs=None):
        """Starts the clock."""
        del logs
        self._began = time.monotonic()

    def on_train_batch_end(self, batch, logs=None):
        """Counts a step, and does what is due after it."""
        del batch
        settings, self._step = self._settings, self._step + 1
        step = self._step
        assert settings.save_checkpoints_steps and settings.log_steps, "resolved"
        self._progress.advance(step)
        stop, last = self._preemption.agreed(), step == settings.num_train_steps
        save = last or step % settings.save_checkpoints_steps == 0
        if save or stop or step % settings.log_steps == 0:
            self._write(logs)
        if save or stop:
            self._state.save()
        if save and not stop:
            self._evaluate_now()
        if save or stop:
            self._began = time.monotonic()
            self.model.stop_training = stop or self.is_over()

    def is_over(self) -> bool:
        """Whether all steps are taken, or early stopping says that it is enough."""
        patience = self._settings.early_stopping_patience
        if self._step >= (self._settings.num_train_steps or 0):
            return True
        return bool(patience and evaluations_since_best(self._lines_to_here(), self._metric) >= patience)

    def _write(self, logs: dict[str, float]) -> None:
        """Logs the means since the last logged step."""
        seconds, steps = time.monotonic() - self._began, self._step - self._logged
        loss = float(logs["loss"])
        if not math.isfinite(loss):
            raise InputError(
                f"Training diverged: the loss is {loss} before step {self._step}. Use a lower --learning_rate, "
                "and another --output_dir, or delete this one."
            )
        rate = float(self._learning_rate(self._step - 1))
        batch = self._settings.train_batch_size
        assert batch
        norm = self.model.optimizer.gradient_norm
        values = {
            "loss": loss,
            "learning_rate": rate,
            "gradient_norm": float(norm.result()),
            "examples_per_second": steps * batch / seconds,
        }
        norm.reset_state()
        self._log.write(self._step, values)
        left = (self._settings.num_train_steps or 0) - self._step
        self._progress.update(self._step, values, left * seconds / steps)
        self.model.reset_metrics()
        self._logged, self._began = self._step, time.monotonic()

    def _evaluate_now(self) -> None:
        """Evaluates; keeps the weights if they are the best so far, before the log says that they are."""
        if self._evaluate is None:
            return
        metrics = self._evaluate(self._step)
        best = best_evaluation(self._lines_to_here(), self._metric)
        new = {"step": self._step, **metrics}
        if best is None or best_evaluation([best, new], self._metric) is new:
            save_model(self.model, self._run)
        self._log.write(self._step, metrics)
        self._progress.say_evaluation(self._step, metrics)

    def _lines_to_here(self) -> list[dict]:
        return [line for line in read_metrics(self._run) if line["step"] <= self._step]

    def _is_evaluation(self, line: dict, step: int) -> bool:
        return line["step"] == step and self._metric in line
