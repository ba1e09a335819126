"""The log of a run, metrics.jsonl and TensorBoard, and what its terminal shows."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from albert_tf.checkpoints.run_files import METRICS_FILE, read_metrics
from albert_tf.training.trackers import Log
from data_prep.console import open_console
from data_prep.files import write_text

TENSORBOARD = "tensorboard"


class RunLog:
    """Writes each logged step to metrics.jsonl and TensorBoard, under the same names.

    Args:
      run: the run's folder.
      start_step: the step that training starts or resumes at. Later lines, from an interrupted run, are
        dropped, since their steps are taken again. None, for an evaluation alone, keeps all lines.
      tracked: gets each step and its values, too.
    """

    def __init__(self, run: Path, start_step: int | None, tracked: Log):
        self._path, self._tracked = run / METRICS_FILE, tracked
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
        self._tracked(step, values)

    def close(self) -> None:
        """Closes the file of events."""
        self._events.close()


@dataclass(frozen=True)
class Wording:
    """How a program words the lines of its progress.

    Attributes:
      step: the values of a logged step -> its figures.
      evaluation: step, metrics -> a line.
      seconds_between_steps: time without a line after which a logged step is shown where there is no terminal.
    """

    step: Callable[[dict[str, float]], str]
    evaluation: Callable[[int, dict[str, float]], str]
    seconds_between_steps: float = 0.0


class TrainingProgress:
    """A progress bar on a terminal, otherwise one line per logged step.

    Args:
      num_train_steps: the end of the bar.
      start_step: its start.
      wording: of the lines.
    """

    def __init__(self, num_train_steps: int, start_step: int, wording: Wording):
        self._total, self._wording = num_train_steps, wording
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
        self._last_line = time.monotonic()

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
        figures = self._wording.step(values)
        self._bar.update(self._task, completed=step, figures=figures)
        quiet = time.monotonic() - self._last_line
        if not self._console.is_terminal and quiet >= self._wording.seconds_between_steps:
            number = f"{step:>{len(str(self._total))}}/{self._total}"
            self.say(f"step {number}  {figures}  {_clock(seconds_left)} left")

    def say_evaluation(self, step: int, metrics: dict[str, float]) -> None:
        """Prints the figures of an evaluation."""
        self.say(self._wording.evaluation(step, metrics))

    def say(self, line: str) -> None:
        """Prints a line above the bar."""
        self._last_line = time.monotonic()
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
