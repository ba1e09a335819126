"""Checkpoints of a run: saved, found again, restored bit for bit.

A run is a folder: `albert_config.json`, `settings.json`, the vocabulary where there is one, `checkpoints/`,
`metrics.jsonl`, `tensorboard/`.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import keras
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import write_text, written_aside
from albert_tf.models import AlbertPretrainer
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
from albert_tf.training.growth import CHECKPOINTS, by_name, load_weights
from albert_tf.training.settings import FIXED, PretrainingSettings
from albert_tf.training.settings_file import check_same_run, settings_json
from data_prep.tokenizers import is_wordpiece

CONFIG_FILE = "albert_config.json"
SETTINGS_FILE = "settings.json"
MANIFEST_FILE = "data_manifest.json"


def open_run(
    settings: PretrainingSettings, config: AlbertConfig, vocabulary: Path | None, manifest: Path | None
) -> Path:
    """Makes the run's folder, or checks that the one that is there is of the same run.

    Args:
      settings: kept as settings.json.
      config: kept as albert_config.json.
      vocabulary: of the examples, kept for export as spm.model or vocab.txt.
      manifest: the examples' manifest.json, kept as data_manifest.json.

    Raises:
      InputError: the folder holds a run with another configuration or other fixed settings.
    """
    run = Path(settings.output_dir)
    if run.exists() and not run.is_dir():
        raise InputError(f"--output_dir must be a folder. Received {run}, which is a file.")
    if (run / CONFIG_FILE).exists():
        _check_same_config(run, config)
        if (run / SETTINGS_FILE).exists():
            check_same_run(settings, run / SETTINGS_FILE, FIXED)
    run.mkdir(parents=True, exist_ok=True)
    config.to_json_file(run / CONFIG_FILE)
    write_text(run / SETTINGS_FILE, settings_json(settings))
    vocabulary_name = "vocab.txt" if vocabulary and is_wordpiece(vocabulary) else "spm.model"
    for source, name in ((vocabulary, vocabulary_name), (manifest, MANIFEST_FILE)):
        if source:
            with written_aside(run / name) as aside:
                shutil.copyfile(source, aside)
    return run


def _check_same_config(run: Path, config: AlbertConfig) -> None:
    there, given = AlbertConfig.from_json_file(run / CONFIG_FILE).to_dict(), config.to_dict()
    different = [
        f"{name} {there[name]} there, {given[name]} given" for name in given if there[name] != given[name]
    ]
    if different:
        raise InputError(
            f"{run} holds a run with another configuration: {'; '.join(different)}. Use the same "
            "configuration to go on with it, or another --output_dir for a new run."
        )


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


def load_run(run: str | Path) -> AlbertPretrainer:
    """The model of a finished or interrupted run, with its newest weights."""
    run = Path(run)
    if not (run / CONFIG_FILE).exists():
        raise InputError(
            f"A run's folder holds {CONFIG_FILE}. Received {run}, which does not; name the --output_dir of a run."
        )
    model = AlbertPretrainer(AlbertConfig.from_json_file(run / CONFIG_FILE))
    load_weights(model, run)
    return model
