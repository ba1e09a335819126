"""Checkpoints of a run: saved whole, found again, restored bit for bit.

A run is a folder: `albert_config.json`, `settings.json`, the vocabulary where there is one, `checkpoints/`,
`metrics.jsonl`, `tensorboard/`.
"""

import shutil
from pathlib import Path

import keras
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import write_text, written_aside
from albert_tf.models import AlbertPretrainer
from albert_tf.training.settings import PretrainingSettings, check_same_run, settings_json

CONFIG_FILE = "albert_config.json"
SETTINGS_FILE = "settings.json"
VOCABULARY_FILE = "spm.model"
MANIFEST_FILE = "data_manifest.json"
CHECKPOINTS = "checkpoints"


def open_run(
    settings: PretrainingSettings, config: AlbertConfig, vocabulary: Path | None, manifest: Path | None
) -> Path:
    """Makes the run's folder, or checks that the one that is there is of the same run.

    Args:
      settings: kept as settings.json.
      config: kept as albert_config.json.
      vocabulary: the SentencePiece model of the examples, kept for export.
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
            check_same_run(settings, run / SETTINGS_FILE)
    run.mkdir(parents=True, exist_ok=True)
    config.to_json_file(run / CONFIG_FILE)
    write_text(run / SETTINGS_FILE, settings_json(settings))
    for source, name in ((vocabulary, VOCABULARY_FILE), (manifest, MANIFEST_FILE)):
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
      keep: how many checkpoints to keep; older ones are deleted.
    """

    def __init__(
        self, run: Path, model: AlbertPretrainer, optimizer: keras.optimizers.Optimizer, keep: int = 5
    ):
        self._optimizer = optimizer
        self._checkpoint = tf.train.Checkpoint(
            weights=_by_name(model.variables), optimizer=_by_name(optimizer.variables)
        )
        self._manager = tf.train.CheckpointManager(
            self._checkpoint, str(run / CHECKPOINTS), max_to_keep=keep, checkpoint_name="ckpt"
        )

    def save(self) -> str:
        """Saves the present state; returns the checkpoint's path prefix."""
        return self._manager.save(checkpoint_number=self.step)

    def restore_latest(self) -> int:
        """Restores the newest checkpoint if there is one; returns the step, 0 for a fresh run."""
        if self._manager.latest_checkpoint:
            self._checkpoint.restore(self._manager.latest_checkpoint).assert_consumed()
        return self.step

    @property
    def step(self) -> int:
        """How many optimizer steps have been taken."""
        return int(keras.ops.convert_to_numpy(self._optimizer.iterations))


def _by_name(variables: list[keras.Variable]) -> dict[str, tf.Variable]:
    return {variable.path.replace("/", "."): variable.value for variable in variables}


def find_checkpoint(path: str | Path) -> str:
    """The path prefix of a checkpoint: `path` itself, or the newest of the run in folder `path`."""
    path = Path(path)
    if path.with_name(path.name + ".index").exists():
        return str(path)
    for folder in (path / CHECKPOINTS, path):
        latest = tf.train.latest_checkpoint(str(folder))
        if latest:
            return latest
    raise InputError(
        f"There is no checkpoint at {path}. Name a run's folder (what --output_dir was) or a checkpoint in it, "
        "for instance RUN/checkpoints/ckpt-1000."
    )


def load_weights(model: AlbertPretrainer, path: str | Path) -> str:
    """Sets the model's weights from a checkpoint of ours; returns the checkpoint's path prefix.

    Raises:
      InputError: there is no checkpoint, or it is of a model with other names or shapes.
    """
    prefix = find_checkpoint(path)
    try:
        status = tf.train.Checkpoint(weights=_by_name(model.variables)).restore(prefix)
        status.assert_existing_objects_matched()
        status.expect_partial()
    except (ValueError, AssertionError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"The checkpoint {prefix} is of another model than this configuration: {reason}"
        ) from None
    except tf.errors.OpError as error:
        raise InputError(f"The checkpoint {prefix} cannot be read: {error.message.splitlines()[0]}") from None
    return prefix


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
