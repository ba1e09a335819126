"""What an interrupted fine-tuning run goes on from."""

from pathlib import Path

import keras
import tensorflow as tf

from albert_tf.training.checkpoint_files import (
    newest_whole,
    prune,
    remove_unfinished,
    say_on_stderr,
    write_checkpoint,
)
from albert_tf.training.run_files import CHECKPOINTS
from data_prep.errors import InputError

_KEPT = 2  # the newest one, and one before it should its files be damaged


class RunState:
    """Weights, moments, step and dropout states of one run, saved and found again to the bit.

    Values are stored by their place among the model's variables: the names that Keras gives to the dropout of
    a head count up with every model that a process builds.

    Args:
      run: the folder of one seed.
      model: built.
      optimizer: built for the model's trainable variables.
    """

    def __init__(self, run: Path, model: keras.Model, optimizer: keras.optimizers.Optimizer):
        self._folder, self._optimizer = run / CHECKPOINTS, optimizer
        self._checkpoint = tf.train.Checkpoint(
            model=_by_place(model.variables), optimizer=_by_place(optimizer.variables)
        )

    @property
    def step(self) -> int:
        """How many steps have been taken."""
        return int(keras.ops.convert_to_numpy(self._optimizer.iterations))

    def save(self) -> None:
        """Writes the present state, and deletes the states before the last two."""
        if self._folder.exists():
            remove_unfinished(self._folder)
        write_checkpoint(self._checkpoint, self._folder, self.step, good=True)
        prune(self._folder, _KEPT, needed=self.step)

    def restore_latest(self) -> int:
        """Restores the newest state that is whole, if there is one; returns the step, 0 for a fresh run.

        Raises:
          InputError: there are states, and none is whole, or it is of another model.
        """
        newest = newest_whole(self._folder, say_on_stderr)
        if newest:
            try:
                self._checkpoint.read(newest[1]).assert_consumed()
            except (AssertionError, ValueError) as error:
                reason = str(error).strip().splitlines()[0]
                raise InputError(f"The checkpoint {newest[1]} is of another model: {reason}") from None
        return self.step


def _by_place(variables: list[keras.Variable]) -> dict[str, tf.Variable]:
    return {f"{place:04}": variable.value for place, variable in enumerate(variables)}
