"""Loads a checkpoint of a run into a model, which may differ in depth, length and dropout.

Layers that share everything have the same weights for any number of layers, so a deeper model can load them as
they are.
"""

from collections.abc import Iterable
from pathlib import Path

import keras
import numpy as np

from albert_tf.checkpoints.runs import find_checkpoint, saved_arrays
from albert_tf.checkpoints.weights import as_weights
from albert_tf.config import ResizePositions
from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.training.positions import POSITION_TABLE, resized_table, tile_positions
from data_prep.errors import InputError


def load_weights(
    model: AlbertPretrainer,
    path: str | Path,
    *,
    resize_positions: ResizePositions = False,
    optimizer: keras.optimizers.Optimizer | None = None,
) -> str:
    """Sets the model's weights from a checkpoint of a run; returns the checkpoint's path prefix.

    Args:
      model: keeps its own seeds.
      path: as for `find_checkpoint`.
      resize_positions: how to fill a longer position table; see `positions`.
      optimizer: built for the model; if given, its moments and number of steps are restored too.

    Raises:
      InputError: there is no checkpoint, it is from a model or optimizer with other names or shapes, or its
        weights are not finite.
    """
    prefix = find_checkpoint(path)
    weights = saved_arrays(prefix, "weights")
    # The seeds belong to the run, not to the model.
    ours = {_name(variable): variable for variable in model.trainable_variables}
    seeds = {_name(variable) for variable in model.non_trainable_variables}
    weights = {name: value for name, value in weights.items() if name not in seeds}
    _check_fit(prefix, ours, weights, resize_positions)
    weights = as_weights(weights, prefix)
    if optimizer is not None:
        moments = saved_arrays(prefix, "optimizer")
        if moments and not any(name.startswith(optimizer.name + ".") for name in moments):
            other = next(iter(moments)).split(".")[0]
            raise InputError(
                f"--init_optimizer needs a checkpoint of the same optimizer. Received {prefix}, which was written "
                f"with {other}, and --optimizer={optimizer.name}."
            )
        states = {_name(variable): variable for variable in optimizer.variables}
        _check_fit(prefix, states, moments, resize_positions)
        floats = {name for name, state in states.items() if keras.backend.is_float_dtype(state.dtype)}
        moments |= as_weights({name: moments[name] for name in floats}, prefix)
        for name, value in moments.items():
            assign(states[name], value, resize_positions)
    for name, value in weights.items():
        assign(ours[name], value, resize_positions)
    return prefix


def by_name(variables: list[keras.Variable]) -> dict[str, keras.Variable]:
    """Names variables for a checkpoint by their paths, which do not depend on how Keras nests objects."""
    return {_name(variable): variable for variable in variables}


def by_position(variables: list[keras.Variable]) -> dict[str, keras.Variable]:
    """Numbers variables instead: Keras names a head by the number of heads that the process has built."""
    return {f"{position:04}": variable for position, variable in enumerate(variables)}


def _name(variable: keras.Variable) -> str:
    return variable.path.replace("/", ".")


def _check_fit(prefix: str, ours: dict, saved: dict, resize_positions: ResizePositions) -> None:
    """Raises InputError if names or shapes differ, except for the length of position tables to be resized."""
    reasons = []
    if missing := sorted(set(ours) - set(saved)):
        reasons.append(f"it has no {_list(missing)}")
    if more := sorted(set(saved) - set(ours)):
        reasons.append(f"this model has no {_list(more)}")
    for name in sorted(set(ours) & set(saved)):
        stored, own = saved[name].shape, tuple(ours[name].shape)
        positions = POSITION_TABLE in name and stored[1:] == own[1:]
        if stored == own or (positions and resize_positions):
            continue
        reasons.append(f"{name} is {_by(stored)} in the checkpoint and {_by(own)} in this model")
        if positions:
            reasons.append("--resize_positions repeats its rows or cuts them off")
    if reasons:
        unshared = any("attention_" in name or "ffn_" in name for name in (*missing, *more))
        hint = "; layers that are not shared cannot change in number" if unshared else ""
        raise InputError(
            f"The checkpoint {prefix} does not fit this configuration: {'; '.join(reasons)}{hint}."
        )


def _list(names: list[str], shown: int = 4) -> str:
    """The names of the layers of some variables."""
    layers = list(dict.fromkeys(name.split(".")[1] if "." in name else name for name in names))
    more = f" and {len(layers) - shown} more" if len(layers) > shown else ""
    return ", ".join(layers[:shown]) + more


def _by(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "one number"


def assign(variable: keras.Variable, value: np.ndarray, resize_positions: ResizePositions) -> None:
    """Sets a variable; a position table also from one of another length."""
    if value.shape != tuple(variable.shape):
        value = resized_table(value, keras.ops.convert_to_numpy(variable), resize_positions)
    variable.assign(value)


def tile_from(trained: int, variables: Iterable[keras.Variable]) -> None:
    """Fills the position table and its moments among `variables` by repeating their first `trained` rows."""
    for variable in variables:
        if POSITION_TABLE in variable.path:
            rows = keras.ops.convert_to_numpy(variable)
            variable.assign(tile_positions(rows[:trained], len(rows)))
