"""The README.md that an export carries: what it is, where from, its signatures and how to use it."""

from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from albert_tf.pretrained.card import (
    CARD_FILE,
    check_section,
    model_section,
    source_section,
    table,
    use_section,
    version,
)
from albert_tf.pretrained.stored import StoredModel
from albert_tf.pretrained.verification import Comparison
from export.saving import Export

_INTERNAL = ("__saved_model_init_op", "__saved_model_train_op")  # TensorFlow's own


def write_card(
    folder: Path,
    source: str | Path,
    stored: StoredModel,
    kind: str,
    export: Export,
    notes: Sequence[str],
    comparison: Comparison,
) -> None:
    """Writes the card of the SavedModel in `folder`, whose signatures are read from the files."""
    sections = [
        f"# ALBERT: SavedModel, {kind}\n\nWritten by `albert export` of albert_tf {version()}.",
        model_section(stored, notes),
        source_section(source, stored),
        check_section(comparison.sentence),
        "## Signatures\n\n" + table(("signature", "inputs", "outputs"), _signatures(folder)),
        use_section(export.example),
    ]
    (folder / CARD_FILE).write_text("\n\n".join(sections), encoding="utf-8")


def _signatures(folder: Path) -> list[tuple[str, str, str]]:
    """A row for each signature of the files."""
    saved = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    return [
        (f"`{name}`", _tensors(signature.inputs), _tensors(signature.outputs))
        for name, signature in sorted(saved.meta_graphs[0].signature_def.items())
        if name not in _INTERNAL
    ]


def _tensors(infos) -> str:
    """`name` int32 (?, 128), and so on; ? is any number."""
    return ", ".join(f"`{name}` {_tensor(info)}" for name, info in sorted(infos.items()))


def _tensor(info) -> str:
    sizes = ["?" if dim.size < 0 else str(dim.size) for dim in info.tensor_shape.dim]
    shape = "any shape" if info.tensor_shape.unknown_rank else f"({', '.join(sizes)})"
    return f"{tf.dtypes.as_dtype(info.dtype).name} {shape}"
