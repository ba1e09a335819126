"""Loads a checkpoint of a run into a model, which may differ in depth, length and dropout.

Layers that share everything have the same weights for any number of layers, so a deeper model can load them as
they are.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from albert_tf.config import ResizePositions
from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.training.checkpoint_files import checksums_of, damage, newest_intact, say_on_stderr
from albert_tf.training.positions import POSITION_TABLE, resized_table, tile_positions
from albert_tf.training.run_files import CHECKPOINTS, read_best_step
from data_prep.errors import InputError
from data_prep.files import refuse_damage

_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
_DTYPES = ("float32", "float16", "bfloat16", "float64")  # of weights in files
_LISTED = 12  # faults in one message


def find_checkpoint(path: str | Path) -> str:
    """The path prefix of an intact checkpoint.

    Args:
      path: a checkpoint; or a run's folder, for its checkpoint with the best held-out loss if one is recorded, and
        otherwise the newest one; or a folder of checkpoints, for the newest one.

    Raises:
      InputError: there is none, or `path` is damaged.
    """
    path = Path(path)
    if path.name and path.with_name(path.name + ".index").exists():  # "." has no name
        reason = damage(path) if checksums_of(path).exists() else None  # TensorFlow's own have no checksums
        if reason:
            raise InputError(f"The checkpoint {path} is damaged: {reason}. Use another one.")
        return str(path)
    if best := best_checkpoint(path):
        return str(best)
    for folder in (path / CHECKPOINTS, path):
        if newest := newest_intact(folder, say_on_stderr):
            return newest[1]
    raise InputError(
        f"There is no checkpoint at {path}. Name a run's folder (its --output_dir) or a checkpoint in it, for "
        "instance RUN/checkpoints/ckpt-1000."
    )


def best_checkpoint(run: Path) -> Path | None:
    """The path prefix of the checkpoint with the best held-out loss of a run, if it is recorded and intact."""
    step = read_best_step(run)
    if step is None:
        return None
    prefix = run / CHECKPOINTS / f"ckpt-{step}"
    if reason := damage(prefix):
        say_on_stderr(f"the checkpoint with the best held-out loss is damaged ({reason}); using the last one")
        return None
    return prefix


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
      resize_positions: if the position tables differ in length, how to fill a longer one; see `positions`.
      optimizer: built for the model; if given, its moments and number of steps are restored too.

    Raises:
      InputError: there is no checkpoint, it is from a model or optimizer with other names or shapes, or its
        weights are not finite.
    """
    prefix = find_checkpoint(path)
    weights = _saved(prefix, "weights")
    # The seeds belong to the run, not to the model.
    ours = {_name(variable): variable for variable in model.trainable_variables}
    seeds = {_name(variable) for variable in model.non_trainable_variables}
    weights = {name: value for name, value in weights.items() if name not in seeds}
    _check_fit(prefix, ours, weights, resize_positions)
    weights = as_weights(weights, prefix)
    if optimizer is not None:
        moments = _saved(prefix, "optimizer")
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


def as_weights(arrays: Mapping[str, np.ndarray], where: str | Path) -> dict[str, np.ndarray]:
    """The arrays of a file, of any format, as weights: the check that all of them pass before they are used.

    Args:
      arrays: by their names in the file.
      where: the file, for the message.

    Returns:
      The same in float32.

    Raises:
      InputError: an array holds integers, truth values or complex numbers; or NaN or infinity, as after a training
        that diverged, also in the shape of float64 that is larger than any float32.
    """
    weights, faults = {}, []
    for name, array in sorted(arrays.items()):
        if array.dtype.name not in _DTYPES:
            faults.append(f"{name} is {array.dtype.name}")
            continue
        with np.errstate(over="ignore"):
            weights[name] = np.asarray(array, np.float32)
        if not np.isfinite(weights[name]).all():
            faults.append(f"{name} holds NaN or infinity")
    if faults:
        more = f" and {len(faults) - _LISTED} more" if len(faults) > _LISTED else ""
        raise InputError(
            f"Weights must be finite floating-point numbers. In {where}, {'; '.join(faults[:_LISTED])}{more}."
        )
    return weights


def by_name(variables: list[keras.Variable]) -> dict[str, tf.Variable]:
    """The content of a checkpoint: variables under their own names, however Keras nests its objects."""
    return {_name(variable): variable.value for variable in variables}


def by_position(variables: list[keras.Variable]) -> dict[str, tf.Variable]:
    """The same for models whose names do not last: Keras numbers the heads that a process has built."""
    return {f"{position:04}": variable.value for position, variable in enumerate(variables)}


def _name(variable: keras.Variable) -> str:
    return variable.path.replace("/", ".")


def _saved(prefix: str, part: str) -> dict[str, np.ndarray]:
    """The values of one part of a checkpoint: "weights" or "optimizer"."""
    with refuse_damage(prefix, "a complete checkpoint"):
        reader = tf.train.load_checkpoint(prefix)
        keys = [k for k in reader.get_variable_to_shape_map() if k.startswith(part + "/") and _VALUE in k]
        return {
            key.removeprefix(part + "/").removesuffix(_VALUE).replace("..", "."): reader.get_tensor(key)
            for key in keys
        }


def _check_fit(prefix: str, ours: dict, saved: dict, resize_positions: ResizePositions) -> None:
    """Raises InputError if names or shapes differ, except for the length of position tables to be resized."""
    reasons = []
    if missing := sorted(set(ours) - set(saved)):
        reasons.append(f"it has no {_list(missing)}")
    if more := sorted(set(saved) - set(ours)):
        reasons.append(f"this model has no {_list(more)}")
    for name in sorted(set(ours) & set(saved)):
        there, here = saved[name].shape, tuple(ours[name].shape)
        positions = POSITION_TABLE in name and there[1:] == here[1:]
        if there == here or (positions and resize_positions):
            continue
        reasons.append(f"{name} is {_by(there)} there and {_by(here)} here")
        if positions:
            reasons.append("--resize_positions repeats its rows or cuts them off")
    if reasons:
        unshared = any("attention_" in name or "ffn_" in name for name in (*missing, *more))
        hint = "; layers that are not shared cannot change in number" if unshared else ""
        raise InputError(
            f"The checkpoint {prefix} does not fit this configuration: {'; '.join(reasons)}{hint}."
        )


def _list(names: list[str], most: int = 4) -> str:
    """The names of the layers of some variables."""
    layers = list(dict.fromkeys(name.split(".")[1] if "." in name else name for name in names))
    more = f" and {len(layers) - most} more" if len(layers) > most else ""
    return ", ".join(layers[:most]) + more


def _by(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "one number"


def assign(variable: keras.Variable, value: np.ndarray, resize_positions: ResizePositions) -> None:
    """Sets a variable; a position table also from one of another length."""
    if value.shape != tuple(variable.shape):
        value = resized_table(value, keras.ops.convert_to_numpy(variable), resize_positions)
    variable.assign(value)


def tile_from(trained: int, variables: Iterable[keras.Variable]) -> None:
    """Sets the position table and its moments, among `variables`, to their first `trained` rows, repeated."""
    for variable in variables:
        if POSITION_TABLE in variable.path:
            rows = keras.ops.convert_to_numpy(variable)
            variable.assign(tile_positions(rows[:trained], len(rows)))
