"""`albert convert`: from any format that can be read to any that can be written."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from albert_tf.pretrained.huggingface import Precision, write_huggingface
from albert_tf.pretrained.kerashub import write_kerashub
from albert_tf.pretrained.output_folder import TITLES, Usage, replaced_folder, write_card
from albert_tf.pretrained.own import write_keras
from albert_tf.pretrained.recognition import read
from albert_tf.pretrained.stored import StoredModel
from albert_tf.pretrained.tf1 import write_tf1
from albert_tf.pretrained.verification import OutputComparison, check_equal, compare_models
from data_prep.errors import InputError

Writable = Literal["tf1", "huggingface", "keras", "kerashub"]


class _Writer(NamedTuple):
    """A format that can be written.

    Attributes:
      write: writes a model into an empty folder and returns notes on what the format cannot express.
      example: Python that runs in the folder of the files.
    """

    write: Callable[[StoredModel, Path], list[str]]
    example: str


_WRITERS: dict[Writable, _Writer] = {
    "tf1": _Writer(
        write_tf1,
        """
        import albert_tf, keras

        model = albert_tf.load_pretrained(".").model  # google-research/albert: --init_checkpoint=model.ckpt-best
        outputs = model.encoder({"input_ids": keras.ops.array([[2, 13, 1, 9, 3]])})
        print(outputs["sequence_output"].shape, outputs["pooled_output"].shape)
        """,
    ),
    "huggingface": _Writer(
        write_huggingface,
        """
        import torch
        from transformers import AlbertModel

        outputs = AlbertModel.from_pretrained(".")(torch.tensor([[2, 13, 1, 9, 3]]))
        print(outputs.last_hidden_state.shape, outputs.pooler_output.shape)
        """,
    ),
    "keras": _Writer(
        write_keras,
        """
        import keras
        from albert_tf import AlbertPretrainer  # so that Keras knows the class

        model = keras.models.load_model("model.keras")
        outputs = model.encoder({"input_ids": keras.ops.array([[2, 13, 1, 9, 3]])})
        print(outputs["sequence_output"].shape, outputs["pooled_output"].shape)
        """,
    ),
    "kerashub": _Writer(
        write_kerashub,
        """
        import keras_hub, numpy as np

        ids = np.array([[2, 13, 1, 9, 3]])
        inputs = {"token_ids": ids, "padding_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)}
        outputs = keras_hub.models.AlbertBackbone.from_preset("./")(inputs)
        print(outputs["sequence_output"].shape, outputs["pooled_output"].shape)
        """,
    ),
}


@dataclass(frozen=True)
class Conversion:
    """The result of a conversion.

    Attributes:
      notes: sentences on what the source does not hold, or the result cannot.
      comparison: the comparison of outputs, unless `convert` was called with verify=False.
    """

    notes: tuple[str, ...]
    comparison: OutputComparison | None


def convert(
    source: str | Path,
    destination: str | Path,
    to: Writable,
    *,
    dtype: Precision = "float32",
    verify: bool = True,
) -> Conversion:
    """Writes a model in another format.

    Args:
      source: anything that `load_pretrained` reads.
      destination: a new or empty folder.
      to: the format.
      dtype: what "huggingface" rounds the weights to; the other formats store float32 only.
      verify: read the result back and compare outputs on random input before the files take their place. After
        rounding, the difference is measured, and any finite one passes.

    Raises:
      InputError: the source cannot be read, the format cannot hold the model, outputs differ, or `destination`
        holds something; nothing is written then.
    """
    destination = Path(destination)
    _check_destination(destination)
    write, rounded = _WRITERS[to].write, dtype != "float32"
    if rounded:
        if to != "huggingface":
            raise InputError(f"--dtype={dtype} needs --to=huggingface. Received --to={to}.")
        write = partial(write_huggingface, dtype=dtype)
    stored = read(source)
    with replaced_folder(destination) as aside:
        notes = write(stored, aside)
        if stored.config.parameter_sharing in ("attention", "ffn") and to != "keras":
            notes.append("the format only has groups: what the layers share is stored once for each of them")
        comparison = _verified(stored, read(aside), to, rounded) if verify else None
        label = f"weights in {dtype}" if rounded else "verified"
        check = comparison.describe(label) if comparison else "not verified (--noverify)"
        usage = Usage(TITLES[to], "albert convert", _WRITERS[to].example)
        write_card(aside, source, stored, usage, notes, check)
    absent = (f"not in the source: {', '.join(stored.missing)}",) if stored.missing else ()
    return Conversion((*absent, *stored.notes, *notes), comparison)


def _check_destination(destination: Path) -> None:
    is_empty_folder = destination.is_dir() and not any(destination.iterdir())
    if not is_empty_folder and (destination.exists() or destination.is_symlink()):
        raise InputError(f"The destination must be a new or empty folder. Received {destination}.")


def _verified(stored: StoredModel, result: StoredModel, to: Writable, rounded: bool) -> OutputComparison:
    assert to == "kerashub" or result.parts == stored.parts
    comparison = compare_models(stored, result)
    check_equal(comparison, rounded=rounded)
    return comparison
