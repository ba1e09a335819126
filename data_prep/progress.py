"""A progress bar on standard error for the long steps of data preparation."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

_T = TypeVar("_T")


class PrepareProgress:
    """Documents and examples so far, examples a second, and the time left by bytes done.

    Args:
      total_bytes: size of the input, times the duplicates.
      enabled: False for silence. Where standard error is no terminal there is no bar, only the last line.
    """

    def __init__(self, total_bytes: int, enabled: bool = True):
        self._console = Console(stderr=True, quiet=not enabled)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[counts]}"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=not (enabled and self._console.is_terminal),
        )
        self._task = self._progress.add_task("preparing", total=total_bytes, counts="")

    def __enter__(self) -> "PrepareProgress":
        self._progress.start()
        return self

    def __exit__(self, *exception) -> None:
        self._progress.stop()

    def watch(self, examples: Iterable[_T], counts: Counter) -> Iterator[_T]:
        """Passes examples on and moves the bar by `counts["duplicate_bytes"]`."""
        for number, example in enumerate(examples):
            if number % 100 == 0:
                done = counts["duplicate_bytes"]
                self._progress.update(self._task, completed=done, counts=self._summary(counts))
            yield example

    def step(self, description: str) -> None:
        """Names what is being done now."""
        self._progress.update(self._task, description=description)

    def done(self, line: str) -> None:
        """Writes the last line, terminal or not."""
        self._console.print(line, highlight=False, soft_wrap=True, markup=False)

    def _summary(self, counts: Counter) -> str:
        elapsed = self._progress.tasks[0].elapsed or 0.0
        rate = counts["examples"] / elapsed if elapsed else 0.0
        return f"{counts['documents']:,} documents, {counts['examples']:,} examples, {rate:,.0f}/s"
