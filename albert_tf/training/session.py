"""An open run: its log, its progress bar, and what may interrupt it."""

import contextlib
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from albert_tf.checkpoints.run_files import METRICS_FILE, read_metrics
from albert_tf.training.interruptions import Preemption, as_input_errors
from albert_tf.training.strategy import is_chief
from data_prep.console import open_console
from data_prep.files import write_text

TENSORBOARD = "tensorboard"


class RunLog:
    """Writes each logged step to metrics.jsonl and TensorBoard, under the same names.

    Args:
      run: the run's folder.
      start_step: the step that training starts or resumes at. Later lines, from an interrupted run, are
        dropped, since their steps are taken again. None, for an evaluation alone, keeps all lines.
    """

    def __init__(self, run: Path, start_step: int | None):
        self._path = run / METRICS_FILE
        if self._path.exists():
            lines = read_metrics(run)  # without a last one that is incomplete
            kept = [line for line in lines if start_step is None or line["step"] <= start_step]
            write_text(self._path, "".join(json.dumps(line) + "\n" for line in kept))
        self._events = tf.summary.create_file_writer(str(run / TENSORBOARD))

    def write(self, step: int, values: dict[str, float]) -> None:
        """Adds one line and one set of events; both are on disk when this returns."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, **values}) + "\n")
        with self._events.as_default(step=step):
            for name, value in values.items():
                tf.summary.scalar(name, value)
        self._events.flush()


class TrainingProgress:
    """A progress bar on a terminal, otherwise one line per logged step.

    Args:
      num_train_steps: the end of the bar.
      start_step: its start.
    """

    def __init__(self, num_train_steps: int, start_step: int):
        self._total = num_train_steps
        self._console = open_console(stderr=True)
        self._bar = Progress(
            TextColumn("step"),
            MofNCompleteColumn(),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[figures]}"),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("", total=num_train_steps, completed=start_step, figures="")

    def __enter__(self):
        self._bar.start()
        return self

    def __exit__(self, *_):
        self._bar.stop()

    def advance(self, step: int) -> None:
        """Moves the bar."""
        self._bar.update(self._task, completed=step)

    def update(self, step: int, values: dict[str, float], seconds_left: float) -> None:
        """Shows the figures of a logged step and the time left."""
        figures = self._figures(values)
        self._bar.update(self._task, completed=step, figures=figures)
        if not self._console.is_terminal:
            number = f"{step:>{len(str(self._total))}}/{self._total}"
            self.say(f"step {number}  {figures}  {_clock(seconds_left)} left")

    def _figures(self, values: dict[str, float]) -> str:
        speed = f"{values['tokens_per_second']:,.0f} tokens/s"
        if "loss" not in values:
            return f"all {values['skipped_steps']} steps skipped: the loss or gradient is not finite  {speed}"
        return (
            f"loss {values['loss']:.3f}  MLM {values['masked_lm_accuracy']:.3f}  "
            f"SOP {values['sentence_order_accuracy']:.3f}  {speed}"
        )

    def say_evaluation(self, step: int, metrics: dict[str, float]) -> None:
        """Prints the figures of an evaluation."""
        loss, masked_lm, order = (
            metrics[f"eval_{name}"] for name in ("loss", "masked_lm_accuracy", "sentence_order_accuracy")
        )
        self.say(
            f"held out at step {step}: loss {loss:.3f}  MLM {masked_lm:.3f}  SOP {order:.3f}"
            f"  on {metrics['eval_examples']:,} examples"
        )

    def say(self, line: str) -> None:
        """Prints a line above the bar."""
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


@dataclass(frozen=True)
class RunSession:
    """What belongs to an open run.

    Attributes:
      folder: the run's folder.
      log: metrics.jsonl and TensorBoard.
      progress: the progress bar.
      preemption: whether the process received a signal to stop.
    """

    folder: Path
    log: RunLog
    progress: TrainingProgress
    preemption: Preemption

    def record_step(self, step: int, values: dict[str, float], seconds_left: float) -> None:
        """Logs and shows the figures of a training step."""
        self.log.write(step, values)
        self.progress.update(step, values, seconds_left)

    def record_evaluation(self, step: int, metrics: dict[str, float]) -> None:
        """Logs and shows the metrics of an evaluation."""
        self.log.write(step, metrics)
        self.progress.say_evaluation(step, metrics)


@contextlib.contextmanager
def open_session(
    folder: Path, strategy: tf.distribute.Strategy, num_train_steps: int, start_step: int, *, trains: bool
) -> Iterator[RunSession]:
    """Opens a run that is at `start_step`; a full disk and a lost worker become an InputError.

    If it `trains`, it resumes there: later lines of its log are dropped.

    The chief worker alone writes to the run's folder; the others log to a temporary folder.
    """
    with (
        as_input_errors(folder),
        contextlib.ExitStack() as stack,
        TrainingProgress(num_train_steps, start_step) as progress,
        Preemption(strategy) as preemption,
    ):
        logged_to = folder if is_chief(strategy) else Path(stack.enter_context(tempfile.TemporaryDirectory()))
        yield RunSession(folder, RunLog(logged_to, start_step if trains else None), progress, preemption)
