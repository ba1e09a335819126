"""What the README.md of an export shows: how to call it."""

from dataclasses import replace

from albert_tf.checkpoints.card import Usage, python_block
from albert_tf.tasks.open_task import head_in_card
from export.kinds import export_kinds
from export.onnx import ONNX
from export.portable import Portable, Runtime
from export.source import ExportSource

COMMAND = "albert export"


def portable_usage(portable: Portable, runtime: Runtime, source: ExportSource) -> Usage:
    """The card shows how to call the model with texts, if it takes them, and the file with ids."""
    title, with_ids, interface = (
        f"{runtime.file}, {source.kind}",
        portable.example(runtime.example),
        portable.section,
    )
    call = export_kinds()[source.kind].call
    if call is None or runtime is not ONNX or source.stored.vocabulary is None:
        return Usage(title, COMMAND, with_ids, interface)
    example = f'from albert_tf import load_portable\n\nmodel = load_portable(".")\nprint({call})'
    interface += f"\n\nWithout `albert_tf`, in {runtime.name}:\n\n{python_block(with_ids)}"
    return Usage(title, COMMAND, example, interface)


def as_kind(usage: Usage, source: ExportSource) -> Usage:
    """The card describes what is exported, which may be less than the model."""
    if source.stored.head and source.finetuned:
        return replace(usage, **head_in_card(source.stored.head))
    return replace(usage, pipeline="fill-mask" if source.kind == "fill-mask" else "feature-extraction")
