"""A fine-tuned model as an export takes it: read, in the precision of the export, and described for the card."""

from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.finetuning.run_folder import find_seed_folder
from albert_tf.finetuning.task_model import TaskModel
from albert_tf.pretrained.keras_files import check_size, described
from albert_tf.pretrained.own import MODEL_FILE
from albert_tf.pretrained.stored import StoredModel
from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Tokenizer

_KERAS_FILE = ".keras"


def read_finetuned(source: str | Path, *classes: type[TaskModel]) -> tuple[TaskModel, StoredModel]:
    """Reads a model that `albert finetune`, or Keras' `save`, wrote.

    Args:
      source: a .keras file, the folder of a run (the best of its seeds is taken), or that of one of its seeds.
      classes: what it has to be.

    Returns:
      The model, in Keras' precision of the moment and not that of its training, and what a card tells of it.

    Raises:
      InputError: there is no such model, or it is another task's.
    """
    path = Path(source)
    path = path if path.suffix == _KERAS_FILE and path.is_file() else find_seed_folder(path).path / MODEL_FILE
    _check(path, classes)
    try:
        saved = keras.saving.load_model(path, compile=False)
    except (ValueError, TypeError, OSError, KeyError) as error:
        raise InputError(f"{path} is not a whole fine-tuned model: {str(error).splitlines()[0]}") from None
    assert isinstance(saved, classes)
    dtype = keras.dtype_policies.serialize(keras.config.dtype_policy())
    config = saved.get_config()
    encoder = {**config["encoder"], "dtype": dtype}
    model = type(saved).from_config({**config, "encoder": encoder, "dtype": dtype})
    model.set_weights(saved.get_weights())
    vocabulary = saved.preprocessor.vocabulary if saved.preprocessor else None
    weights = {v.path.removeprefix(f"{saved.encoder.name}/"): np.asarray(v) for v in saved.weights}
    labels = f", labels {', '.join(saved.labels)}" if saved.labels else ""
    note = f"fine-tuned: {type(saved).__name__}{labels}"
    return model, StoredModel("keras", path, saved.encoder.config, weights, vocabulary, (note,))


def _check(path: Path, classes: tuple[type[TaskModel], ...]) -> None:
    """Looks at what a file says that it is, before Keras makes that.

    Raises:
      InputError: it is of another class, or claims to hold more than it does.
    """
    description = described(path)
    if description.get("registered_name") not in [f"albert_tf>{kind.__name__}" for kind in classes]:
        names = " or ".join(kind.__name__ for kind in classes)
        raise InputError(
            f"This kind of export is of a {names}. {path} holds a {description.get('class_name')}."
        )
    try:
        config = AlbertConfig.from_dict(description["config"]["encoder"]["config"])
    except (KeyError, TypeError):
        raise InputError(
            f"{path} is not a whole fine-tuned model: it does not say its encoder's shape."
        ) from None
    check_size(config, path.stat().st_size, path)


def tokenizer_of(model: TaskModel, source: str | Path) -> Tokenizer:
    """The model's tokenizer.

    Raises:
      InputError: there is none.
    """
    if model.preprocessor is None:
        raise InputError(
            f"An export that takes text needs a vocabulary. {source} was saved without a preprocessor; give the "
            "model one."
        )
    return model.preprocessor.tokenizer


def track_model(root: tf.train.Checkpoint, model: TaskModel) -> None:
    """Gives `root` the lists of variables that TF-Hub's KerasLayer looks for."""
    root.variables = [variable.value for variable in model.variables]
    root.trainable_variables = [variable.value for variable in model.trainable_variables]
    root.regularization_losses = []
