"""`albert convert`: from any format that is read to any that is written."""

import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from albert_tf.pretrained.card import write_card
from albert_tf.pretrained.huggingface import write_huggingface
from albert_tf.pretrained.kerashub import write_kerashub
from albert_tf.pretrained.own import write_keras
from albert_tf.pretrained.recognition import read
from albert_tf.pretrained.stored import StoredModel
from albert_tf.pretrained.tf1 import write_tf1
from albert_tf.pretrained.verification import Comparison, check_equal, compare
from data_prep.errors import InputError

Writable = Literal["tf1", "huggingface", "keras", "kerashub"]


@dataclass(frozen=True)
class Conversion:
    """What came of a conversion.

    Attributes:
      stored: the source.
      notes: sentences on what is not in the source, or not in the result.
      comparison: of outputs, if it was verified.
    """

    stored: StoredModel
    notes: tuple[str, ...]
    comparison: Comparison | None


def convert(source: str | Path, destination: str | Path, to: Writable, *, verify: bool = True) -> Conversion:
    """Writes a model in another format.

    Args:
      source: anything that `load_pretrained` reads.
      destination: a folder that is new or empty.
      to: tf1, huggingface, keras or kerashub.
      verify: read the result back and compare outputs on random input before it takes its place.

    Raises:
      InputError: the source cannot be read, the format cannot hold the model, outputs differ, or `destination`
        holds something; then nothing has been written.
    """
    destination = Path(destination)
    _check_destination(destination)
    stored = read(source)
    # Beside the first folder that has to be made, so that a failure leaves none.
    nearest = next(folder for folder in destination.absolute().parents if folder.exists())
    aside = nearest / f".{uuid.uuid4().hex}.tmp"
    try:
        aside.mkdir()
        notes = write(stored, aside, to)
        comparison = _verified(stored, read(aside), to) if verify else None
        write_card(aside, source, stored, to, notes, comparison)
        destination.parent.mkdir(parents=True, exist_ok=True)
        aside.replace(destination)  # an empty folder gives way
    except OSError as error:
        raise InputError(f"{destination} cannot be written: {error}.") from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    absent = (f"not in the source: {', '.join(stored.missing)}",) if stored.missing else ()
    return Conversion(stored, (*absent, *stored.notes, *notes), comparison)


def _verified(stored: StoredModel, result: StoredModel, to: Writable) -> Comparison:
    assert to == "kerashub" or result.parts == stored.parts
    comparison = compare(stored, result)
    check_equal(comparison)
    return comparison


def write(stored: StoredModel, folder: Path, to: Writable) -> list[str]:
    """Writes a model into an empty folder; returns notes on what the format cannot say."""
    writers = {
        "tf1": write_tf1,
        "huggingface": write_huggingface,
        "keras": write_keras,
        "kerashub": write_kerashub,
    }
    notes = writers[to](stored, folder)
    if stored.config.parameter_sharing in ("attention", "ffn") and to != "keras":
        notes.append("the format knows groups only: what the layers share is stored once for each of them")
    return notes


def _check_destination(destination: Path) -> None:
    if destination.is_dir() and not any(destination.iterdir()):
        return
    if destination.exists() or destination.is_symlink():
        raise InputError(f"The destination must be a new or empty folder. Received {destination}.")
