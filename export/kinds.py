"""The kinds of exports: those of pretrained models, and one for each kind of task, or for several alike."""

from collections.abc import Callable, Collection
from typing import NamedTuple

from albert_tf.tasks.kind import Kind
from albert_tf.tasks.kinds import KINDS, find_kind
from albert_tf.tasks.task_model import TaskModel
from data_prep.errors import InputError, check_choice
from data_prep.tokenizers.vocabulary import Tokenizer
from export.embedding import build_embedding
from export.encoder import build_encoder
from export.fill_mask import build_fill_mask
from export.functions_of_ids import portable_embedding, portable_encoder, portable_fill_mask, task_function
from export.portable import Portable
from export.preprocessor import build_preprocessor
from export.savedmodel import Export
from export.text import task_export


class ExportKind(NamedTuple):
    """A kind of export.

    Attributes:
      build: builds the export from the model (a `Pretrained`, or a `TaskModel`), its tokenizer and the kind's
        options; for the encoder, which takes ids, from the model and a folder for assets. The builder's docstring
        describes what the SavedModel does.
      options: the flags that only this kind has.
      kinds: the kinds of tasks whose models it takes; none if it takes pretrained models.
      portable: builds the function for other runtimes from the model, if there is one.
      call: Python that calls the portable model `model` with texts; none if it takes ids.
    """

    build: Callable[..., Export]
    options: tuple[str, ...] = ()
    kinds: tuple[Kind, ...] = ()
    portable: Callable[..., Portable] | None = None
    call: str | None = None

    @property
    def task_models(self) -> tuple[type[TaskModel], ...]:
        """The classes of fine-tuned models that it takes."""
        return tuple(kind.model for kind in self.kinds)


_PRETRAINED = {
    "encoder": ExportKind(build_encoder, portable=portable_encoder),
    "preprocessor": ExportKind(build_preprocessor, ("seq_length",)),
    "fill-mask": ExportKind(
        build_fill_mask,
        ("top_k",),
        portable=portable_fill_mask,
        call='model(["The captain [MASK] past the lighthouse."])',
    ),
    "embedding": ExportKind(build_embedding, ("pooling",), portable=portable_embedding, call=Kind.call),
}

# Portable kinds of pretrained models that answer from text.
TEXT_KINDS = ("fill-mask", "embedding")


def _build_task(model: TaskModel, tokenizer: Tokenizer, **options) -> Export:
    return task_export(find_kind(model.kind).from_strings(model, tokenizer, **options), model)


def export_kinds() -> dict[str, ExportKind]:
    """Each kind of export by the value of --kind."""
    of_tasks: dict[str, ExportKind] = {}
    for kind in KINDS.values():
        others = of_tasks[kind.export].kinds if kind.export in of_tasks else ()
        of_tasks[kind.export] = ExportKind(
            _build_task, kind.export_options, (*others, kind), task_function, kind.call
        )
    # A sentence encoder is exported as a pretrained model.
    return {**_PRETRAINED, **of_tasks, **_PRETRAINED}


def kind_for(task_kinds: Collection[Kind]) -> str:
    """The kind that exports all of a model.

    Args:
      task_kinds: the kinds of tasks that the model's head may be for; empty for a pretrained model.

    Raises:
      InputError: several kinds are possible, since the files leave open what the head is for.
    """
    if not task_kinds:
        return "encoder"
    names = list(dict.fromkeys(kind.export for kind in task_kinds))
    if len(names) > 1:
        flags = " or ".join(f"--kind={name}" for name in names)
        raise InputError(f"The model's files leave open what its head is for. Give {flags}.")
    return names[0]


def check_options(kind: str, options: dict) -> None:
    """Checks the arguments of an export.

    Raises:
      InputError: the kind is unknown, or an option belongs to another kind.
      TypeError: an option belongs to no kind.
    """
    kinds = export_kinds()
    check_choice(kinds, "kind", kind)
    for name in options:
        if name not in kinds[kind].options:
            owner = next((other for other, entry in kinds.items() if name in entry.options), None)
            if owner is None:
                raise TypeError(f"`{name}` is not an option of any kind of export.")
            raise InputError(f"--{name} belongs to --kind={owner}. Received it with --kind={kind}.")
