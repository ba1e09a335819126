"""Fine-tuned models as Keras loads them from .keras files, in the precision of their training."""

from collections.abc import Collection
from pathlib import Path

import keras

from albert_tf.checkpoints.keras_models import describe
from albert_tf.checkpoints.weights import as_weights
from albert_tf.tasks.kinds import KINDS
from albert_tf.tasks.task_model import TaskModel
from data_prep.errors import InputError

_LONGEST_REASON = 400  # characters; Keras may quote the whole configuration


def load_task_model(path: Path, classes: Collection[type[TaskModel]] = ()) -> TaskModel:
    """Reads the .keras file of a fine-tuned model, after a check of everything that it claims to hold.

    Args:
      path: the file.
      classes: what the model may be; default: any task model.

    Raises:
      InputError: the file is damaged, claims to be larger than it is, holds another model, or has weights that are
        not finite.
    """
    found, classes = describe(path), classes or [kind.model for kind in KINDS.values()]
    model_class = next((one for one in classes if one.__name__ == found.class_name), None)
    if model_class is None or found.task is None:
        names = " or ".join(one.__name__ for one in classes)
        raise InputError(f"{path} must hold a {names}. Received a {found.class_name}.")
    stored, expected = found.task.preprocessor, model_class.preprocessor_class.__name__
    if stored and stored.registered_name != f"albert_tf>{expected}":
        raise InputError(f"{path} must hold the preprocessor of a {model_class.__name__}.")
    try:
        model = keras.saving.load_model(path, compile=False)
    except Exception as error:  # Keras has no common class for damaged files
        raise InputError(f"{path} is not a complete fine-tuned model: {_reason(error)}") from None
    _check_weights(model, path)
    return model


def _check_weights(model: keras.Model, path: Path) -> None:
    """Raises InputError if weights that Keras has read from a file are not finite."""
    # Quantized models hold integers, too.
    floats = [each for each in model.weights if keras.backend.is_float_dtype(each.dtype)]
    as_weights({each.path: keras.ops.convert_to_numpy(each) for each in floats}, path)


def _reason(error: Exception) -> str:
    """Why Keras could not load a model, in one line.

    About weights, Keras' first line only names the object ("... error message for object <...>:"), its second one
    gives the reason, and ends with the values of the variable.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    reason = lines[0]
    if reason.endswith(":") and len(lines) > 1:
        reason += " " + lines[1].partition(" Target variable:")[0]
    return reason[:_LONGEST_REASON]
