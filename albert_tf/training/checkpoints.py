"""Checkpoints of a run: saved, found again, restored bit for bit."""

from collections.abc import Callable
from pathlib import Path

import keras
import tensorflow as tf

from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.training.checkpoint_files import (
    is_good,
    manifest_of,
    newest_whole,
    prune,
    remove_unfinished,
    say_on_stderr,
    steps_in,
    whole_checkpoints,
    write_checkpoint,
)
from albert_tf.training.run_files import CHECKPOINTS
from albert_tf.training.weights import by_name
from data_prep.errors import InputError


class RunCheckpoints:
    """The checkpoints of one run: weights, optimizer, step and dropout state.

    The step is also the position in the input, which is a pure function of it. Values are stored under the
    variables' own names, so that a checkpoint does not depend on how Keras nests its objects.

    Args:
      run: the run's folder.
      model: what to save.
      optimizer: built for the model's trainable variables.
      keep: how many checkpoints to keep; older ones are deleted, but never the last good one.
      say: gets a line for each checkpoint that is damaged and passed over.
    """

    def __init__(
        self,
        run: Path,
        model: AlbertPretrainer,
        optimizer: keras.optimizers.Optimizer,
        keep: int = 5,
        say: Callable[[str], None] = say_on_stderr,
    ):
        self._folder, self._optimizer, self._keep, self._say = run / CHECKPOINTS, optimizer, keep, say
        self._checkpoint = tf.train.Checkpoint(
            weights=by_name(model.variables), optimizer=by_name(optimizer.variables)
        )
        self._last_good = -1

    def save(self, *, good: bool = True) -> str:
        """Saves the present state; returns the checkpoint's path prefix.

        Args:
          good: whether training goes well, so that the guard may go back to this checkpoint.
        """
        if self._folder.exists():
            remove_unfinished(self._folder)
        prefix = write_checkpoint(self._checkpoint, self._folder, self.step, good=good)
        if good:
            self._last_good = self.step
        prune(self._folder, self._keep, needed=self._last_good)
        return prefix

    def restore_latest(self) -> int:
        """Restores the newest whole checkpoint if there is one; returns the step, 0 for a fresh run.

        Raises:
          InputError: there are checkpoints, and none is whole.
        """
        newest = newest_whole(self._folder, self._say)
        if newest:
            self._restore(newest[1])
            self._last_good = max(
                (step for step in steps_in(self._folder) if self._is_good(step)), default=-1
            )
        return self.step

    def good_steps(self) -> list[int]:
        """Steps of the whole checkpoints that were saved while training went well, newest first."""
        return [step for step, prefix in whole_checkpoints(self._folder, self._say) if is_good(prefix)]

    def restore_values(self, step: int) -> None:
        """Takes back the weights and moments of the checkpoint of `step`; the present step stays."""
        present = self.step
        self._restore(str(self._folder / f"ckpt-{step}"))
        self._optimizer.iterations.assign(present)

    @property
    def step(self) -> int:
        """How many optimizer steps have been taken."""
        return int(keras.ops.convert_to_numpy(self._optimizer.iterations))

    def _restore(self, prefix: str) -> None:
        try:
            self._checkpoint.read(prefix).assert_consumed()
        except (AssertionError, ValueError) as error:
            reason = str(error).strip().splitlines()[0]
            raise InputError(f"The checkpoint {prefix} does not fit this configuration: {reason}") from None

    def _is_good(self, step: int) -> bool:
        prefix = self._folder / f"ckpt-{step}"
        return manifest_of(prefix).exists() and is_good(prefix)
