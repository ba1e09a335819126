"""A model's weights under the names that files have for them here (albert_tf/checkpoints/names.py)."""

import keras
import numpy as np


def weights_of(model: keras.Model) -> dict[str, np.ndarray]:
    """A model's weights under our names."""
    return {name: np.asarray(variable) for name, variable in variables_by_name(model).items()}


def set_weights(model: keras.Model, weights: dict[str, np.ndarray]) -> None:
    """Sets the given weights; the others do not change."""
    variables = variables_by_name(model)
    assert weights.keys() <= variables.keys()
    for name, array in weights.items():
        variables[name].assign(array)


def variables_by_name(model: keras.Model) -> dict:
    """Our name -> variable, for all weights, also those that are frozen."""
    return {variable.path.split("/", 1)[1]: variable for variable in model.weights}
