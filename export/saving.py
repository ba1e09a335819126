"""An export as it goes to disk: whole, or not at all."""

import contextlib
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.pretrained.card import CARD_FILE
from albert_tf.pretrained.exported import WEIGHTS
from albert_tf.pretrained.names import OPTIONAL_PARTS
from albert_tf.pretrained.verification import Comparison, check_equal
from albert_tf.pretrained.weights import variables_by_name
from data_prep.errors import InputError

WRITTEN_BY = "Written by `albert export`"  # in every README.md of an export


@dataclass(frozen=True)
class Export:
    """What becomes a SavedModel.

    Attributes:
      root: the trackable object.
      signatures: name -> tf.function or concrete function.
      check: takes the loaded SavedModel; gives for each output its value and what the model gives when it is
        called from Python with the same input.
      example: Python that uses the SavedModel in the working directory.
      warmup: batches of texts for the signature's input `text`, or of strings for each input, with which
        TensorFlow Serving warms up.
      notes: sentences on what is not in it.
    """

    root: tf.train.Checkpoint
    signatures: dict[str, Callable[..., Any]]
    check: Callable[[Any], dict[str, tuple[Any, Any]]]
    example: str
    warmup: Sequence[Sequence[str] | Mapping[str, Sequence]] = ()
    notes: tuple[str, ...] = ()


def track_variables(root: tf.train.Checkpoint, model: AlbertPretrainer, parts: Sequence[str]) -> None:
    """Gives `root` the lists of variables that TF-Hub's KerasLayer looks for.

    Args:
      root: of an export that runs the encoder.
      model: whose variables they are.
      parts: which of "pooler", "masked_lm" and "sentence_order" count; the others are left out.
    """
    layers = {
        "pooler": model.encoder.pooler,
        "masked_lm": model.masked_lm,
        "sentence_order": model.sentence_order,
    }
    assert tuple(layers) == OPTIONAL_PARTS
    others = {id(v) for part, layer in layers.items() if part not in parts for v in layer.variables}
    root.variables = [v.value for v in model.variables if id(v) not in others]
    root.trainable_variables = [v.value for v in model.trainable_variables if id(v) not in others]
    root.regularization_losses = []
    named = variables_by_name(model).items()
    # From these `load_pretrained` reads the export again.
    setattr(root, WEIGHTS, {name: v.value for name, v in named if id(v) not in others})
    if "pooler" not in parts:  # the encoder's graph reads it, though nothing is made of it
        root.unused = [v.value for v in layers["pooler"].variables]


def check_apart(source: str | Path, directory: Path) -> None:
    """Raises InputError unless `directory` may be written to, and is neither the source nor around it."""
    check_destination(directory)
    if directory.resolve() in (Path(source).resolve(), *Path(source).resolve().parents):
        raise InputError(
            f"--output must not be the model itself, or around it. Received {directory} for both."
        )


def check_destination(directory: Path) -> None:
    """Raises InputError unless `directory` is free, empty or an earlier export."""
    if directory.is_file():
        raise InputError(f"--output must be a folder. Received {directory}, which is a file.")
    if directory.exists() and any(directory.iterdir()) and not _is_export(directory):
        raise InputError(
            f"--output must be a new or empty folder, or an earlier export. Received {directory}, which holds "
            "other files."
        )


def _is_export(directory: Path) -> bool:
    """A SavedModel, or a file for another runtime with our README.md: other people write model.onnx, too."""
    card = directory / CARD_FILE
    return (directory / "saved_model.pb").exists() or (
        card.is_file() and WRITTEN_BY in card.read_text(encoding="utf-8", errors="replace")
    )


def verified(export: Export, directory: Path, *, rounded: bool = False) -> Comparison:
    """Loads the SavedModel again and compares its outputs with the model's own.

    Args:
      export: what the outputs should be.
      directory: the SavedModel.
      rounded: whether it computes in fewer bits than `export`, so that any finite difference is told.

    Raises:
      InputError: they differ by more than rounding.
    """
    outputs = export.check(tf.saved_model.load(str(directory)))
    pairs = [(np.asarray(theirs), np.asarray(ours)) for theirs, ours in outputs.values()]
    # np.max, since max() may pass over a NaN
    difference = float(np.max([np.abs(theirs - ours).max() for theirs, ours in pairs]))
    scale = float(np.max([np.abs(ours).max() for _, ours in pairs]))
    comparison = Comparison(difference, scale, tuple(outputs), "albert_tf", "tf.saved_model.load")
    if not (rounded and np.isfinite(difference)):
        check_equal(comparison)
    return comparison


@contextlib.contextmanager
def replaced_folder(directory: Path) -> Iterator[Path]:
    """Gives a new folder; it takes the place of `directory`, an earlier export, only if the block succeeds.

    Raises:
      InputError: `directory` holds something else, or cannot be written.
    """
    check_destination(directory)
    directory = directory.resolve()  # through a link, to what it stands for
    # Beside the first folder that has to be made, so that a failure leaves none.
    nearest = next(folder for folder in directory.parents if folder.exists())
    aside, before = (nearest / f".{uuid.uuid4().hex}.tmp" for _ in range(2))
    try:
        aside.mkdir()
        yield aside
        directory.parent.mkdir(parents=True, exist_ok=True)
        if directory.exists():
            directory.rename(before)
        try:
            aside.rename(directory)
        except OSError:
            if before.exists():
                before.rename(directory)
            raise
    except OSError as error:
        raise InputError(f"{directory} cannot be written: {error}.") from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        shutil.rmtree(before, ignore_errors=True)
