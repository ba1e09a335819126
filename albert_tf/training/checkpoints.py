"""The checkpoints of a run, pretraining or fine-tuning: saved, and restored bit for bit."""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

import keras
import tensorflow as tf

from albert_tf.checkpoints.checkpoint_files import (
    files_of_this_process,
    intact_checkpoints,
    is_good,
    newest_intact,
    prune,
    remove_unfinished,
    say_on_stderr,
    steps_in,
    write_checkpoint,
)
from albert_tf.checkpoints.run_files import BEST_FILE, CHECKPOINTS, read_best_step
from albert_tf.training.weights import by_name
from data_prep.errors import InputError, first_line
from data_prep.files import write_json

# Gives variables the names under which a checkpoint stores them.
Content = Callable[[list[keras.Variable]], dict[str, keras.Variable]]


class RunCheckpoints:
    """The checkpoints of one run: weights, optimizer, step and dropout state.

    The position in the input is a function of the step.

    Args:
      run: the run's folder.
      model: the model to save, built.
      optimizer: built for the model's trainable variables.
      keep: the number of checkpoints to keep; older ones are deleted, but never the last good one and the one
        with the best held-out loss.
      kept: steps whose checkpoints are not deleted either.
      content: gives the variables of model and optimizer the names under which a checkpoint stores them.
    """

    def __init__(
        self,
        run: Path,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        keep: int = 5,
        kept: Sequence[int] = (),
        content: Content = by_name,
    ):
        self._run, self._folder = run, run / CHECKPOINTS
        self._optimizer, self._keep, self._kept = optimizer, keep, kept
        self._values = StoredValues(weights=content(model.variables), optimizer=content(optimizer.variables))
        self._last_good = -1

    def save(self, *, good: bool = True) -> str:
        """Saves the current state; returns the checkpoint's path prefix.

        Args:
          good: whether training goes well, so that the guard may roll back to this checkpoint.
        """
        if self._folder.exists():
            remove_unfinished(self._folder)
        prefix = write_checkpoint(self._values.checkpoint(), self._folder, self.step, good=good)
        if good:
            self._last_good = self.step
        prune(self._folder, self._keep, needed=[self._last_good, read_best_step(self._run), *self._kept])
        return prefix

    def record_best(self, step: int, held_out_loss: float) -> None:
        """Records the checkpoint of `step`, if it exists, as the one that readers of the run's folder take."""
        if step in steps_in(self._folder):
            write_json(self._run / BEST_FILE, {"step": step, "eval_loss": held_out_loss})

    def restore_latest(self) -> int:
        """Restores the newest intact checkpoint, if any; returns the optimizer's step.

        Raises:
          InputError: there are checkpoints, but none is intact.
        """
        newest = newest_intact(self._folder, say_on_stderr)
        if newest:
            self._restore(newest[1])
            self._last_good = max(
                (step for step in steps_in(self._folder) if self._is_good(step)), default=-1
            )
        return self.step

    def good_steps(self) -> list[int]:
        """Steps of the intact checkpoints that were saved while training went well, newest first."""
        return [step for step, prefix in intact_checkpoints(self._folder, say_on_stderr) if is_good(prefix)]

    def restore_values(self, step: int) -> None:
        """Restores the weights and moments of the checkpoint of `step`, but not its step."""
        current = self.step
        self._restore(str(self._folder / f"ckpt-{step}"))
        self._optimizer.iterations.assign(current)

    @property
    def step(self) -> int:
        """The number of optimizer steps taken."""
        return int(keras.ops.convert_to_numpy(self._optimizer.iterations))

    def _restore(self, prefix: str) -> None:
        try:
            self._values.read(prefix)
        except (AssertionError, ValueError) as error:
            raise InputError(
                f"The checkpoint {prefix} does not fit this configuration: {first_line(error)}"
            ) from None

    def _is_good(self, step: int) -> bool:
        with contextlib.suppress(InputError):  # damaged: skipped when it is restored
            return is_good(self._folder / f"ckpt-{step}")
        return False


class StoredValues:
    """The values of Keras variables in files of TensorFlow, the same on every backend.

    Args:
      **groups: variables by their names in the group.
    """

    def __init__(self, **groups: dict[str, keras.Variable]):
        self._groups = groups
        self._is_tensorflow = keras.backend.backend() == "tensorflow"

    def checkpoint(self) -> tf.train.Checkpoint:
        """The present values, to be written."""
        # A variable that several names have, such as a head's dropout state, is stored once.
        stored = {
            id(variable): variable.value if self._is_tensorflow else _copy(variable)
            for group in self._groups.values()
            for variable in group.values()
        }
        return tf.train.Checkpoint(
            **{
                name: {key: stored[id(variable)] for key, variable in group.items()}
                for name, group in self._groups.items()
            }
        )

    def read(self, prefix: str) -> None:
        """Sets the variables; ValueError or AssertionError if the files hold others, or other shapes."""
        checkpoint = self.checkpoint()
        checkpoint.read(prefix, files_of_this_process()).assert_consumed()
        if not self._is_tensorflow:
            for name, group in self._groups.items():
                for key, variable in group.items():
                    variable.assign(getattr(checkpoint, name)[key].numpy().astype(variable.dtype))


def _copy(variable: keras.Variable) -> tf.Variable:
    """A variable of TensorFlow; integers have its types, which differ from those of other backends."""
    array = keras.ops.convert_to_numpy(variable)
    with tf.device("CPU:0"):
        return tf.Variable(array if keras.backend.is_float_dtype(variable.dtype) else array.astype("int64"))
