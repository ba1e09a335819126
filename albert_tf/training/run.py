"""One training in its folder: what pretraining and every seed of fine-tuning do alike.

restored -> steps -> logged -> saved -> evaluated -> steps ... -> over, or stopped by a signal with its state saved
"""

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import keras

from albert_tf.checkpoints.checkpoint_files import steps_in
from albert_tf.checkpoints.run_files import CHECKPOINTS, read_metrics
from albert_tf.training.checkpoints import Content, RunCheckpoints
from albert_tf.training.device_flags import Tracker
from albert_tf.training.devices import Devices, check_agreement
from albert_tf.training.guard import Guard
from albert_tf.training.held_out import MEMORIZATION, HeldOut
from albert_tf.training.interruptions import Preemption
from albert_tf.training.run_lock import locked_folder
from albert_tf.training.run_log import RunLog, TrainingProgress, Wording
from albert_tf.training.run_place import RunPlace
from albert_tf.training.step_loop import StepLoop
from albert_tf.training.trackers import tracked
from albert_tf.training.weights import by_name


@dataclass(frozen=True)
class Timetable:
    """When a run logs and saves.

    Attributes:
      log_steps: steps between logged ones.
      save_steps: steps between checkpoints, each of which is evaluated.
      ends: the last step of each phase.
      kept: steps whose checkpoints are saved, too, and never deleted.
    """

    log_steps: int
    save_steps: int
    ends: Sequence[int]
    kept: Sequence[int] = ()

    @property
    def num_train_steps(self) -> int:
        """The steps of the whole run."""
        return self.ends[-1]

    def phase_end(self, step: int) -> int:
        """The last step of the phase that takes the next step."""
        return next(end for end in self.ends if step < end)

    def next_logged(self, step: int) -> int:
        """The next step to log: a multiple of `log_steps`, a checkpoint, or the end of the phase.

        Checkpoints are logged too, so that the means of a resumed run cover the same steps.
        """
        multiples = ((step // each + 1) * each for each in (self.log_steps, self.save_steps))
        return min(self.phase_end(step), *multiples, *(kept for kept in self.kept if kept > step))

    def is_saved(self, step: int) -> bool:
        """Whether the run saves and evaluates a checkpoint of a step."""
        return step % self.save_steps == 0 or step in (*self.ends, *self.kept)


class Run:
    """A training that goes on where its folder's newest checkpoint is.

    All workers call the same methods at the same steps; the chief alone writes.

    Args:
      folder: the run's folder.
      model: built under the devices' scope, with its initial weights.
      optimizer: built for the model's trainable variables.
      devices: the devices.
      timetable: when to log and save.
      keep: the number of checkpoints to keep.
      content: as in `RunCheckpoints`.
      place: where the run is kept. Default: in the folder.
      log_to: the tracker that gets a copy of the log.

    Attributes:
      step: the steps taken.
      lines: those of metrics.jsonl up to this step, when the run was restored.
    """

    _log: RunLog
    _progress: TrainingProgress
    _preemption: Preemption
    _held_out: HeldOut
    _guard: Guard | None
    _evaluate: Callable[[int], dict[str, float]]
    _keep_best: Callable[[dict], None]

    def __init__(
        self,
        folder: Path,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        devices: Devices,
        timetable: Timetable,
        *,
        keep: int,
        content: Content = by_name,
        place: RunPlace | None = None,
        log_to: Tracker | None = None,
    ):
        self._place, self._log_to = place or RunPlace(folder), log_to
        self.folder, self.model, self.optimizer, self.devices = folder, model, optimizer, devices
        self.timetable, self.is_chief = timetable, devices.is_chief
        self.checkpoints = RunCheckpoints(
            folder, model, optimizer, keep, kept=timetable.kept, content=content
        )
        self.step = self.checkpoints.restore_latest()
        check_agreement(
            devices,
            self.step,
            f"--output_dir must be one folder that all workers share. Received {folder}, in which this worker "
            f"finds the checkpoint of step {self.step} and another worker a different one.",
        )
        self.lines = [line for line in read_metrics(folder) if line["step"] <= self.step]

    @contextlib.contextmanager
    def opened(
        self,
        preemption: Preemption,
        wording: Wording,
        held_out: HeldOut,
        evaluate: Callable[[int], dict[str, float]],
        keep_best: Callable[[dict], None],
        guard: Guard | None = None,
        *,
        trains: bool = True,
    ) -> Iterator[None]:
        """Within this context the run is logged, and its other methods may be called.

        Args:
          preemption: asked between steps whether to save and stop.
          wording: of what the terminal shows.
          held_out: decides which weights are the best and when to stop early.
          evaluate: step -> metrics of the weights, with names that begin with `eval_`; {} for no evaluation.
          keep_best: keeps the weights, whose evaluation this line is, as the best so far.
          guard: decides when to roll back.
          trains: if not, the log keeps lines of later steps, which a run that resumes takes again.
        """
        self._preemption, self._held_out, self._guard = preemption, held_out, guard
        self._evaluate, self._keep_best = evaluate, keep_best
        total = self.timetable.num_train_steps if trains else self.step
        with contextlib.ExitStack() as stack, TrainingProgress(total, self.step, wording) as self._progress:
            folder = self.folder if self.is_chief else stack.enter_context(tempfile.TemporaryDirectory())
            tracker = stack.enter_context(tracked(self._log_to if self.is_chief else None, self.folder))
            self._log = RunLog(Path(folder), self.step if trains else None, tracker)
            stack.callback(self._log.close)
            yield

    def say(self, line: str) -> None:
        """Prints a line."""
        self._progress.say(self._place.named(line))

    @property
    def is_over(self) -> bool:
        """Whether no step follows, because all are taken or early stopping ends the run."""
        return self.step >= self.timetable.num_train_steps or self._held_out.is_over

    def catch_up(self) -> None:
        """Evaluates the restored state if the run was killed between its checkpoint and its evaluation.

        A new run that goes on with another's optimizer also begins at a step that is not evaluated; it may
        become the best one.
        """
        if self.step and self.timetable.is_saved(self.step) and self.step not in self._held_out.evaluated:
            if self.step not in steps_in(self.folder / CHECKPOINTS):
                self._save()
            self.evaluate_checkpoint()

    def take_steps(self, loop: StepLoop, adopt: Callable[[int], None] = lambda step: None) -> None:
        """Takes the steps up to the end of the phase; logs, saves, evaluates and rolls back on the way.

        Args:
          loop: takes the steps after `step`.
          adopt: called after a roll-back with the step of the weights that the run goes on with.

        Raises:
          Preempted: the process received SIGTERM or Ctrl-C and has saved a checkpoint.
          InputError: there is no good checkpoint to roll back to, or there were too many roll-backs.
        """
        end, saved = self.timetable.phase_end(self.step), self.step
        with self._preemption.or_ctrl_c():  # until here Ctrl-C ends the run at once: all steps are saved
            stop = self._preemption.agreed()
            while self.step < end and not stop and not self.is_over:
                began, start = time.monotonic(), self.step
                self.step, values, stop = loop.run(start, self.timetable.next_logged(start), self._after_call)
                if values is None:
                    break
                self._record_step(values, (time.monotonic() - began) / (self.step - start))
                due = self.timetable.is_saved(self.step)
                if self._guard and self._guard.spiked({"step": self.step, **values}):
                    self._roll_back(self._guard, adopt)
                    saved = self.step
                elif due:
                    self._save()
                    saved = self.step
                # The last evaluation takes place in any case: it ends the run, or stops with the state saved.
                if due and (not stop or self.is_over):
                    self.evaluate_checkpoint()
                    stop = self._preemption.agreed()
            if stop and not self.is_over:
                if saved != self.step:
                    self._save(good=False)  # an uninterrupted run has none here to roll back to
                raise self._preemption.stop(self.step)

    def evaluate_checkpoint(self) -> None:
        """Evaluates the weights; keeps them if they are the best so far, and only then logs the evaluation.

        A run that is killed in between evaluates again.
        """
        memorized = self._held_out.memorizes
        with moving_averages(self.model, self.optimizer):
            metrics = self._evaluate(self.step)
            if not metrics:
                return
            line = {"step": self.step, **metrics}
            self._held_out.add(line)
            if self._held_out.best is line:
                self._keep_best(line)
        self.record_evaluation(metrics)
        if self._held_out.memorizes and not memorized:
            self.say(MEMORIZATION)
        if self._held_out.is_over and self.step < self.timetable.num_train_steps:
            self.say(f"stopped at step {self.step}: {self._held_out.reason}")

    def record_evaluation(self, metrics: dict[str, float]) -> None:
        """Logs and shows the metrics of an evaluation."""
        self._log.write(self.step, metrics)
        self._progress.say_evaluation(self.step, metrics)
        self._place.push()

    def _after_call(self, step: int) -> bool:
        """Moves the progress bar; returns whether to stop."""
        self._progress.advance(step)
        return self._preemption.agreed()

    def _record_step(self, values: dict[str, float], seconds_per_step: float) -> None:
        seconds_left = (self.timetable.num_train_steps - self.step) * seconds_per_step
        self._log.write(self.step, values)
        self._progress.update(self.step, values, seconds_left)
        self._held_out.add({"step": self.step, **values})

    def _save(self, *, good: bool | None = None) -> None:
        """Saves a checkpoint; the guard rolls back to `good` ones only. By default, good after a good interval."""
        if self.is_chief:
            self.checkpoints.save(good=(not self._guard or self._guard.is_stable) if good is None else good)
            self._place.push()

    def _roll_back(self, guard: Guard, adopt: Callable[[int], None]) -> None:
        """Restores the weights and moments of a good checkpoint and saves them as the checkpoint of `step`."""
        self._place.share(self.devices)
        source = guard.choose(self.checkpoints.good_steps())
        self.checkpoints.restore_values(source)
        adopt(source)
        check_agreement(
            self.devices, source, "All workers must see the same checkpoints. Another worker sees others."
        )
        # The line comes first: a run that is killed between the two resumes at an earlier checkpoint, without it.
        self._log.write(self.step, {"rolled_back_to": source})
        self._save(good=False)
        self.say(guard.rolled_back(source))


def locked_by_chief(folder: Path, devices: Devices) -> contextlib.AbstractContextManager:
    """`locked_folder`, in the one process that writes the folder."""
    return locked_folder(folder) if devices.is_chief else contextlib.nullcontext()


@contextlib.contextmanager
def moving_averages(model: keras.Model, optimizer: keras.optimizers.Optimizer) -> Iterator[None]:
    """Puts the optimizer's moving averages, if it has them, in the place of the weights within the context."""
    if not optimizer.use_ema:
        yield
        return
    variables = model.trainable_variables
    weights = [keras.ops.convert_to_numpy(variable) for variable in variables]
    optimizer.finalize_variable_values(variables)
    try:
        yield
    finally:
        for variable, weight in zip(variables, weights, strict=True):
            variable.assign(weight)
