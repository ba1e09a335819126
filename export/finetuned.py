"""Fine-tuned models as exports take them: read safely, and converted to the precision of the export."""

from pathlib import Path

import keras
import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.finetuning.run_folder import find_seed_folder, load_task_model
from albert_tf.finetuning.task_model import TaskModel
from albert_tf.pretrained.keras_files import check_size, read_description
from albert_tf.pretrained.own import MODEL_FILE
from albert_tf.pretrained.stored import StoredModel
from data_prep.errors import InputError


def read_finetuned(source: str | Path, *classes: type[TaskModel]) -> tuple[TaskModel, StoredModel]:
    """Reads a model that `albert finetune` or Keras' `save` wrote.

    Args:
      source: a .keras file, the folder of a run (its best seed is taken), or the folder of one of its seeds.
      classes: the classes that the model may have.

    Returns:
      The model, and its description for README.md.

    Raises:
      InputError: there is no such model, or it belongs to another task.
    """
    path = Path(source)
    path = path if path.suffix == ".keras" and path.is_file() else find_seed_folder(path).path / MODEL_FILE
    _check(path, classes)
    model = load_task_model(path)
    assert isinstance(model, classes)
    vocabulary = model.preprocessor.vocabulary if model.preprocessor else None
    weights = {v.path.removeprefix(f"{model.encoder.name}/"): np.asarray(v) for v in model.weights}
    labels = f", labels {', '.join(model.labels)}" if model.labels else ""
    thresholds = f", thresholds {', '.join(map('{:g}'.format, model.thresholds))}" if model.thresholds else ""
    note = f"fine-tuned: {type(model).__name__}{labels}{thresholds}"
    return model, StoredModel("keras", path, model.encoder.config, weights, vocabulary, (note,))


def with_current_dtype(model: TaskModel) -> TaskModel:
    """A copy of a model in the precision that Keras is set to, in place of the precision of its training."""
    dtype = keras.dtype_policies.serialize(keras.config.dtype_policy())
    config = model.get_config()
    encoder = {**config["encoder"], "dtype": dtype}
    copy = type(model).from_config({**config, "encoder": encoder, "dtype": dtype})
    copy.set_weights(model.get_weights())
    return copy


def _check(path: Path, classes: tuple[type[TaskModel], ...]) -> None:
    """Checks what a file claims to hold, before Keras builds it.

    Raises:
      InputError: it is another class, or claims to be larger than the file.
    """
    description = read_description(path)
    if description.get("registered_name") not in [
        f"albert_tf>{task_model.__name__}" for task_model in classes
    ]:
        names = " or ".join(task_model.__name__ for task_model in classes)
        raise InputError(
            f"This kind of export takes a {names}. {path} holds a {description.get('class_name')}."
        )
    try:
        config = AlbertConfig.from_dict(description["config"]["encoder"]["config"])
    except (KeyError, TypeError):
        raise InputError(
            f"{path} is not a complete fine-tuned model: it does not describe its encoder's shape."
        ) from None
    check_size(config, path.stat().st_size, path)
