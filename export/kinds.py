"""The kinds of exports: one table, which names what each kind takes and what builds it."""

from collections.abc import Callable, Collection
from typing import NamedTuple

from albert_tf.tasks.choice.model import MultipleChoice
from albert_tf.tasks.kind import Kind
from albert_tf.tasks.spans.model import QuestionAnswering
from albert_tf.tasks.task_model import TaskModel
from albert_tf.tasks.texts.model import (
    MultiLabelClassifier,
    OrdinalClassifier,
    TextClassifier,
    TextRegressor,
)
from albert_tf.tasks.words.model import TokenClassifier
from data_prep.errors import InputError, check_choice
from export.classifier import build_classifier
from export.embedding import build_embedding
from export.encoder import build_encoder
from export.fill_mask import build_fill_mask
from export.multiple_choice import build_multiple_choice
from export.portable import Portable
from export.portable_kinds import (
    portable_classifier,
    portable_embedding,
    portable_encoder,
    portable_fill_mask,
    portable_question_answering,
)
from export.preprocessor import build_preprocessor
from export.question_answering import build_question_answering
from export.savedmodel import Export
from export.settings import KindName
from export.token_classification import build_token_classification


class ExportKind(NamedTuple):
    """A kind of export.

    Attributes:
      build: builds the export from the model (a `Pretrained`, or one of `task_models`), its tokenizer and the
        kind's option; for the encoder, which takes ids, from the model and a folder for assets. The builder's
        docstring describes what the SavedModel does.
      option: the flag that only this kind has.
      task_models: the classes of fine-tuned models that it takes; none if it takes pretrained models.
      portable: builds the function for other runtimes from the model; None if the kind has none.
      call: Python that calls the portable model `model` with texts; none if it takes ids.
    """

    build: Callable[..., Export]
    option: str | None = None
    task_models: tuple[type[TaskModel], ...] = ()
    portable: Callable[..., Portable] | None = None
    call: str | None = None


_TWO_TEXTS = 'model(["The captain sailed past.", "A quiet neighbour."])'

KINDS: dict[KindName, ExportKind] = {
    "encoder": ExportKind(build_encoder, portable=portable_encoder),
    "preprocessor": ExportKind(build_preprocessor, "seq_length"),
    "fill-mask": ExportKind(
        build_fill_mask,
        "top_k",
        portable=portable_fill_mask,
        call='model(["The captain [MASK] past the lighthouse."])',
    ),
    "embedding": ExportKind(build_embedding, "pooling", portable=portable_embedding, call=_TWO_TEXTS),
    "classifier": ExportKind(
        build_classifier,
        None,
        (TextClassifier, OrdinalClassifier, MultiLabelClassifier, TextRegressor),
        portable_classifier,
        _TWO_TEXTS,
    ),
    "question-answering": ExportKind(
        build_question_answering,
        "max_answer_length",
        (QuestionAnswering,),
        portable_question_answering,
        'model(["Who painted the lighthouse?"], ["His brother painted the lighthouse."])',
    ),
    "multiple-choice": ExportKind(
        build_multiple_choice,
        None,
        (MultipleChoice,),
        portable_classifier,
        'model(["His brother painted it."], ["Who was it?"], [["the captain", "his brother"]])',
    ),
    "token-classification": ExportKind(
        build_token_classification, None, (TokenClassifier,), portable_classifier, _TWO_TEXTS
    ),
}

# Portable kinds of pretrained models that answer from text.
TEXT_KINDS: tuple[KindName, ...] = ("fill-mask", "embedding")


def kind_for(task_kinds: Collection[Kind]) -> KindName:
    """The kind that exports all of a model.

    Args:
      task_kinds: the kinds of tasks that the model's head may be for; empty for a pretrained model.

    Raises:
      InputError: several kinds are possible, since the files leave open what the head is for.
    """
    if not task_kinds:
        return "encoder"
    classes = {kind.model for kind in task_kinds}
    kinds = [name for name, entry in KINDS.items() if classes.intersection(entry.task_models)]
    if len(kinds) > 1:
        flags = " or ".join(f"--kind={kind}" for kind in kinds)
        raise InputError(f"The model's files leave open what its head is for. Give {flags}.")
    return kinds[0]


def check_options(kind: KindName, options: dict) -> None:
    """Checks the arguments of an export.

    Raises:
      InputError: the kind is unknown, or an option belongs to another kind.
      TypeError: an option belongs to no kind.
    """
    check_choice(KINDS, "kind", kind)
    for name in options:
        if name != KINDS[kind].option:
            owner = next((other for other, entry in KINDS.items() if entry.option == name), None)
            if owner is None:
                raise TypeError(f"`{name}` is not an option of any kind of export.")
            raise InputError(f"--{name} belongs to --kind={owner}. Received it with --kind={kind}.")
