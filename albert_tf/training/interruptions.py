"""What interrupts a run from outside: SIGTERM, Ctrl-C, a full disk, a lost worker."""

import contextlib
import os
import re
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

import tensorflow as tf

from albert_tf.checkpoints.checkpoint_files import steps_in
from albert_tf.checkpoints.run_files import CHECKPOINTS
from albert_tf.training.devices import WORKER_LOST, Devices
from data_prep.errors import DiskFullError, InputError, Preempted, disk_full, first_line
from data_prep.files import cache_folder
from data_prep.signals import signal_handler
from data_prep.storage.cache import BYTES as CACHE_BYTES

# In TensorFlow's errors from its file system for Google Cloud Storage, also those that are of the class of a lost
# worker's: "All 10 retry attempts failed. The last failure: Error executing ... when reading gs://bucket/file".
_STORED = re.compile(r"gs://[^\s'\"\[]*")
_REQUEST = re.compile(r"Error executing an HTTP request.*")
# In its errors from a map function in Python: the last line of the traceback, with the error of this library.
_OURS = re.compile(r"^data_prep\.[\w.]+Error: (.+)$", re.MULTILINE)
_STOPPING = b"\nStopping, and saving the state. Ctrl-C again ends at once, without saving.\n"


class Preemption:
    """Records SIGTERM, by which schedulers reclaim a machine, instead of ending the process.

    Args:
      devices: with several processes, all stop when one receives a signal; otherwise the others would wait for it.

    Attributes:
      received: the signal that this process received; None if there was none.
    """

    def __init__(self, devices: Devices):
        self.received: signal.Signals | None = None
        self._devices = devices

    def __enter__(self):
        self._handled = signal_handler(self._remember, signal.SIGTERM)
        self._handled.__enter__()
        return self

    def __exit__(self, *exception):
        self._handled.__exit__(*exception)

    @contextlib.contextmanager
    def or_ctrl_c(self) -> Iterator[None]:
        """Also records a first Ctrl-C instead of ending the process; a second one acts as usual."""
        usual = signal.getsignal(signal.SIGINT)

        def remember(number: int, _) -> None:
            signal.signal(signal.SIGINT, usual)
            self._remember(number)
            with contextlib.suppress(OSError):  # standard error is closed
                os.write(2, _STOPPING)  # print may be what the signal interrupted

        if usual is signal.SIG_IGN:  # in the background processes of a shell
            yield
            return
        with signal_handler(remember, signal.SIGINT):
            yield

    def agreed(self) -> bool:
        """Whether any worker received a signal. All workers must call this together."""
        return any(self._devices.all_values(int(self.received is not None)))

    def stop(self, step: int) -> Preempted:
        """The exception to raise once the checkpoint of `step` is saved. All workers must call this together."""
        self.agreed()  # waits for the chief: other workers must not exit while it saves
        cause = f"received {self.received.name}" if self.received else "another worker was interrupted"
        saved = f"step {step} is saved, and the same command resumes the run from there"
        state = saved if step else "no step was taken yet"
        return Preempted(f"{cause}: {state}", self.received or signal.SIGTERM)

    def watched(self, batches: Iterable, step: int) -> Iterator:
        """Evaluation batches. With one worker a signal ends them, since the checkpoint of `step` is saved."""
        for batch in batches:
            if self.received and self._devices.processes == 1:
                raise self.stop(step)
            yield batch

    def _remember(self, number: int, *_) -> None:
        self.received = signal.Signals(number)


@contextlib.contextmanager
def as_input_errors(run: Path) -> Iterator[None]:
    """Turns a full disk, a store that fails, a lost worker, and a damaged or foreign record into an InputError.

    Args:
      run: the run's folder; the message names its last checkpoint.
    """
    try:
        yield
    except (OSError, tf.errors.OpError, UnicodeDecodeError) as error:
        if isinstance(error, tf.errors.OpError) and (ours := _OURS.search(str(error))):
            raise InputError(f"{ours[1]} {_state(run).capitalize()}.") from None
        if isinstance(error, tf.errors.NotFoundError) and str(cache_folder()) in str(error):
            raise InputError(
                "The cache must hold at least three files of the examples. It needed the place of one before it "
                f"was read; set {CACHE_BYTES} to a larger number. {_state(run).capitalize()}."
            ) from None
        if isinstance(error, tf.errors.OpError) and (address := _STORED.search(str(error))):
            request = _REQUEST.search(str(error))
            words = (request[0] if request else first_line(error)).rstrip(".")
            raise InputError(
                f"{address[0]} could not be read: {words}. Start again with the same command when the store "
                f"answers; {_state(run)}."
            ) from None
        if isinstance(error, WORKER_LOST):
            raise InputError(
                f"Another worker stopped, so this one stops too: {first_line(error)} Start all workers again with "
                f"the same command; {_state(run)}."
            ) from None
        if _is_parse_error(error):
            raise InputError(
                "Every record of the input files must be an example with the same features as the first. One is "
                f"not; `albert inspect FILES --verify` names it. Prepare that file again; {_state(run)}."
            ) from None
        if isinstance(error, tf.errors.DataLossError):
            raise InputError(
                "The input files must be intact. One is damaged; `albert inspect FILES --verify` names it. Copy "
                f"or prepare that file again; {_state(run)}."
            ) from None
        full = disk_full(error)
        if full is None:
            raise
        raise DiskFullError(
            f"The disk of {run} is full: {full}. Free some space and use the same command again; {_state(run)}."
        ) from None


def _is_parse_error(error: Exception) -> bool:
    """Whether TensorFlow could not parse a record. Its message quotes the record, which may not be text."""
    message = error.object if isinstance(error, UnicodeDecodeError) else str(error).encode("utf-8", "replace")
    return b"Could not parse example input" in message or b"ParseExample" in message


def _state(run: Path) -> str:
    steps = steps_in(run / CHECKPOINTS)
    return f"the run resumes at step {steps[0]}" if steps else "there is no checkpoint yet"
