"""The command that tries an object store: doctor."""

import os

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from albert_cli.commands.terminal import import_tensorflow
from data_prep.console import open_console
from data_prep.errors import InputError


def doctor(address: str, /) -> None:
    """Try a bucket, or a folder in one, as the other commands use it, and say what is missing.

    Lists, writes, reads and removes files, creates a file twice at the same time, takes a lock, and measures the
    transfer of 8 MB both ways; for gs:// also through TensorFlow, which reads it without this library. All files
    are in a new folder, which is removed at the end. The exit status is 2 if something does not work.

    For example:

      albert doctor gs://bucket/runs

      albert doctor s3://bucket

      AWS_ENDPOINT_URL=http://host:9000 albert doctor s3://bucket

    Args:
      address: the bucket or folder, with the scheme of any fsspec package that is installed: gs://BUCKET/FOLDER,
        s3://BUCKET/FOLDER and so on. The folder need not exist.
    """
    from data_prep.storage import doctor as checks
    from data_prep.storage.paths import address as address_of

    url = address_of(address)
    if url is None:
        raise InputError(f"An address has a scheme, as gs://bucket/folder has. Received {address}.")
    native = None
    if url.startswith("gs://"):
        os.environ.setdefault("GCS_RETRY_CONFIG_MAX_RETRIES", "3")  # of ten, which take minutes
        import_tensorflow()  # first, as Ctrl-C during it ends the process at once
        native = _read_natively
    console = open_console(stderr=True)
    columns = (TextColumn("trying {task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(url, total=checks.STEPS)
        findings = checks.examine(url, native, lambda: progress.advance(task))
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, works, detail in findings:
        words = "not tried" if works is None else ", ".join(filter(None, ("OK", detail))) if works else detail
        table.add_row(name, Text(words, style="" if works is None else "green" if works else "red"))
    open_console(highlight=False).print(table)
    if failed := [name for name, works, _ in findings if not works]:
        raise InputError(f"{url} must allow all of this. It does not: {', '.join(failed)}.")


def _read_natively(url: str) -> bytes:
    """The content of a file on Google Cloud Storage, read by TensorFlow's own file system."""
    import tensorflow as tf

    with tf.io.gfile.GFile(url, "rb") as file:
        return file.read()
