"""Google's own files: TF1 checkpoints as released, and the TF-Hub modules of the same graph."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints.heads import Head, head_size, read_weights
from albert_tf.checkpoints.names import (
    ANSWERS,
    CLASSES,
    NUMBERS,
    OPTIONS,
    SEQUENCE_HEAD,
    HeadSize,
    Use,
    as_groups,
    heads_in,
)
from albert_tf.checkpoints.stored import StoredModel, find_vocabulary
from albert_tf.checkpoints.weights import to_theirs
from albert_tf.config import CONFIG_FILE, AlbertConfig
from data_prep.errors import InputError
from data_prep.files import refuse_damage

_CHECKPOINT = "model.ckpt-best"  # the name in Google's archives
_HUB_SCOPE = "module/"
_GLOBAL_STEP = "global_step"
_USES = (CLASSES, NUMBERS, OPTIONS, ANSWERS)  # that the original has
_OPTIMIZER = ("/adam_m", "/adam_v", "/lamb_m", "/lamb_v", _GLOBAL_STEP)


def read_tf1(prefix: Path, folder: Path, default_config: AlbertConfig | None = None) -> StoredModel:
    """Reads a TF1 checkpoint, pretrained or fine-tuned, with or without an optimizer's slots.

    Args:
      prefix: the checkpoint's path without .index.
      folder: the folder with the configuration and the vocabulary.
      default_config: the configuration if the folder holds no albert_config.json.

    Raises:
      InputError: a file is missing or damaged, or names, shapes and configuration do not fit each other.
    """
    config = as_groups(_config_beside(folder, prefix, default_config))
    arrays = {
        name.removeprefix(_HUB_SCOPE): array
        for name, array in read_arrays(prefix, lambda name: not name.endswith(_OPTIMIZER)).items()
    }
    size = _head_size(arrays, config, prefix)
    weights, head_weights = read_weights(arrays, config, "tf1", str(prefix), size)
    head = Head(size, _uses(size), head_weights) if size else None
    vocabulary = find_vocabulary(folder, wordpiece="*vocab*.txt")
    return StoredModel("tf1", prefix, config, weights, vocabulary, head=head)


@dataclass(frozen=True)
class Moments:
    """The state of the original's AdamW or LAMB.

    Attributes:
      m: running means of the gradients, float32 arrays under our names.
      v: running means of the squared gradients.
      step: the number of steps that were taken.
    """

    m: dict[str, np.ndarray]
    v: dict[str, np.ndarray]
    step: int


def read_moments(prefix: Path, config: AlbertConfig) -> Moments:
    """Reads the optimizer's slots in a TF1 checkpoint.

    Args:
      prefix: the checkpoint's path without .index.
      config: the model in it.

    Raises:
      InputError: it has no slots, or names and shapes do not fit the configuration.
    """
    arrays = read_arrays(prefix, lambda name: name.endswith(_OPTIMIZER))
    m, v = (
        {
            name.removeprefix(_HUB_SCOPE).removesuffix(slot): array
            for name, array in arrays.items()
            if name.endswith(slot)
        }
        for slot in ("/adam_m", "/adam_v")
    )
    if not m:
        raise InputError(
            f"--init_optimizer needs a checkpoint with the moments of its optimizer. {prefix} has none, like the "
            "released ones; leave the flag out."
        )
    size = _head_size(m, config, prefix)
    (m, _), (v, _) = (read_weights(slots, config, "tf1", str(prefix), size) for slots in (m, v))
    return Moments(m, v, int(arrays.get(_GLOBAL_STEP, 0)))


def read_arrays(prefix: Path, is_wanted: Callable[[str], bool] = lambda name: True) -> dict[str, np.ndarray]:
    """The arrays of a TF1 or TF2 checkpoint, under the checkpoint's own names.

    Args:
      prefix: the checkpoint's path without .index.
      is_wanted: whether to read the array with a name.

    Raises:
      InputError: the files are missing or damaged.
    """
    with refuse_damage(prefix, "a complete checkpoint"):
        reader = tf.train.load_checkpoint(str(prefix))
        return {
            name: reader.get_tensor(name) for name in filter(is_wanted, reader.get_variable_to_shape_map())
        }


def write_tf1(stored: StoredModel, folder: Path) -> list[str]:
    """Writes a checkpoint that google-research/albert restores, with its configuration and vocabulary.

    Returns:
      Notes on what the original's code does not support.

    Raises:
      InputError: the original has no such head.
    """
    config, head = as_groups(stored.config), stored.head
    if head and not (head.uses and set(head.uses) <= set(_USES)):
        other = "huggingface" if head.uses else "keras"
        raise InputError(f"google-research/albert has no {head.what}; --to={other} has it.")
    arrays = to_theirs(stored.all_weights, stored.config, "tf1", head.size if head else None)
    arrays[_GLOBAL_STEP] = np.array(0, np.int64)  # the original's evaluation reads it
    names = sorted(arrays)
    tf.raw_ops.SaveV2(
        prefix=str(folder / _CHECKPOINT),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[arrays[name] for name in names],
    )
    config.to_json_file(folder / CONFIG_FILE)
    if stored.vocabulary:
        stored.vocabulary.save(folder)
    notes = []
    if head and head.labels:
        notes.append(f"TF1 checkpoints do not name the classes: {', '.join(head.labels)}")
    if config.layer_norm_epsilon != 1e-12:
        notes.append(f"google-research/albert uses epsilon 1e-12 and ignores {config.layer_norm_epsilon:g}")
    if config.hidden_act == "gelu_erf":
        notes.append("google-research/albert does not support the activation gelu_erf")
    return notes


def _head_size(arrays: dict[str, np.ndarray], config: AlbertConfig, prefix: Path) -> HeadSize | None:
    heads = heads_in(arrays, config, "tf1")
    if len(heads) > 1:
        names = " and ".join(names[0] for names in heads.values())
        raise InputError(f"{prefix} must hold the head of one task. Received {names}, of {len(heads)} heads.")
    return head_size(next(iter(heads)), arrays, config, "tf1") if heads else None


def _uses(size: HeadSize) -> tuple[Use, ...]:
    """What the original has this head for; one output is a number, or the score of an option."""
    if size.part != SEQUENCE_HEAD:
        return (ANSWERS,)
    return (CLASSES,) if size.outputs > 1 else (NUMBERS, OPTIONS)


def _config_beside(folder: Path, prefix: Path, default_config: AlbertConfig | None) -> AlbertConfig:
    """The configuration in albert_config.json, else the default, else the only file with a similar name."""
    files = sorted(folder.glob("*config*.json"))
    if (folder / CONFIG_FILE) in files:
        return AlbertConfig.from_json_file(folder / CONFIG_FILE)
    if default_config is not None:
        return default_config
    if len(files) == 1:
        return AlbertConfig.from_json_file(files[0])
    raise InputError(
        f"A checkpoint of google-research/albert needs its configuration: {CONFIG_FILE} in {folder}, or "
        f"--albert_config_file (in Python `config`). Received {prefix.name} with "
        f"{' and '.join(path.name for path in files) or 'none'}."
    )
