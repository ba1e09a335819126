"""A progress bar on standard error for the long steps of data preparation."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from data_prep.console import open_console
from data_prep.examples.manifest import ExampleCounts


class PrepareProgress:
    """Examples so far, sentences and examples per second, and the remaining time, unless `total_bytes` is 0.

    If standard error is not a terminal, there is no bar, only the last line.
    """

    def __init__(self, total_bytes: int, enabled: bool = True):
        self._console = open_console(stderr=True, quiet=not enabled)
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

    def show(self, counts: Counter) -> None:
        """Moves the bar to `counts["duplicate_bytes"]` and updates the rates."""
        self._progress.update(
            self._task, completed=counts["duplicate_bytes"], counts=self._summary(counts), refresh=True
        )

    def step(self, description: str) -> None:
        """Sets the bar's label."""
        self._progress.update(self._task, description=description)

    def done(
        self, counts: ExampleCounts, folder: Path | str, warning: str | None, notes: Iterable[str] = ()
    ) -> None:
        """Prints the last lines."""
        lines = [f"warning: {warning}"] if warning else []
        lines += notes
        documents = "1 document" if counts.documents == 1 else f"{counts.documents:,} documents"
        where = "the current folder" if str(folder) == "." else folder
        lines.append(f"Wrote {counts.examples:,} examples from {documents} to {where}")
        self._console.print("\n".join(lines), highlight=False, soft_wrap=True, markup=False)

    def _summary(self, counts: Counter) -> str:
        elapsed = self._progress.tasks[0].elapsed or 1e-6
        rates = (f"{counts[name] / elapsed:,.0f} {name}/s" for name in ("sentences", "examples"))
        return ", ".join((f"{counts['examples']:,} examples", *rates))
