"""From a model in any format to a SavedModel."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import keras
import tensorflow as tf

from albert_tf.finetuning.question_answering import QuestionAnswering
from albert_tf.finetuning.task_models import MultipleChoice, TextClassifier, TextRegressor
from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.pretrained.own import build_model, write_facts
from albert_tf.pretrained.recognition import read
from albert_tf.pretrained.stored import StoredModel
from albert_tf.pretrained.verification import Comparison
from albert_tf.training.run_files import CONFIG_FILE
from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Tokenizer
from export.card import write_card
from export.classifier import build_classifier
from export.embedding import build_embedding
from export.fill_mask import build_fill_mask
from export.finetuned import read_finetuned, tokenizer_of
from export.multiple_choice import build_multiple_choice
from export.preprocessor import build_preprocessor
from export.question_answering import build_question_answering
from export.savedmodel import build_export
from export.saving import Export, check_apart, replaced_folder, verified
from export.warmup import write_warmup

Kind = Literal[
    "encoder", "preprocessor", "fill-mask", "embedding", "classifier", "question-answering", "multiple-choice"
]
OPTIONS: dict[str, tuple[str, ...]] = {
    "encoder": (),
    "preprocessor": ("seq_length",),
    "fill-mask": ("top_k",),
    "embedding": ("pooling",),
    "classifier": (),
    "question-answering": ("max_answer_length",),
    "multiple-choice": (),
}
# The kinds of fine-tuned models: which classes, and what builds the export.
_FINETUNED: dict[str, tuple[tuple, Callable[..., Export]]] = {
    "classifier": ((TextClassifier, TextRegressor), build_classifier),
    "question-answering": ((QuestionAnswering,), build_question_answering),
    "multiple-choice": ((MultipleChoice,), build_multiple_choice),
}


@dataclass(frozen=True)
class Exported:
    """What came of an export.

    Attributes:
      notes: sentences on what is not in the source.
      comparison: of outputs.
    """

    notes: tuple[str, ...]
    comparison: Comparison


def export_model(
    source: str | Path,
    output: str | Path,
    kind: Kind = "encoder",
    dtype: Literal["float32", "bfloat16"] = "float32",
    keep_padding: bool = False,
    **options,
) -> Exported:
    """Writes a model as a SavedModel with a README.md.

    Args:
      source: anything that `albert_tf.load_pretrained` reads; for the kinds of fine-tuned models, what
        `export.finetuned.read_finetuned` reads.
      output: a new or empty folder, or an earlier export, which is replaced.
      kind: what the SavedModel does.
      dtype: what its weights are stored and its products computed in. bfloat16 is for prediction on processors
        that multiply it: half the file, and faster. Outputs are float32 in any case.
      keep_padding: whether to compute padding, too, which nobody reads, so that the shapes inside follow from
        those of the inputs, as XLA and TPUs need. Without it padding costs next to nothing.
      options: of the kind, `OPTIONS` says which; see the module of its name.

    Returns:
      What the source does not hold, and how far the SavedModel's outputs are from the model's.

    Raises:
      InputError: the source cannot be read or lacks what the kind needs, an option does not belong to the kind,
        `output` holds something that is not an export or the source itself, or the SavedModel does not compute
        what the model does; then nothing has been written.
    """
    for name in options:
        if name not in OPTIONS[kind]:
            owner = next(other for other, names in OPTIONS.items() if name in names)
            raise InputError(f"--{name} belongs to --kind={owner}. Received it with --kind={kind}.")
    output = Path(output)
    check_apart(source, output)
    stored = read_finetuned(source, *_FINETUNED[kind][0])[1] if kind in _FINETUNED else read(source)
    with tempfile.TemporaryDirectory() as assets, replaced_folder(output) as aside:
        exact = export = _build(kind, source, stored, Path(assets), options, not keep_padding)
        if dtype != "float32":
            with _weights_in(dtype):
                export = _build(kind, source, stored, Path(assets), options, not keep_padding)
        notes = (*stored.notes, *export.notes)
        tf.saved_model.save(export.root, str(aside), signatures=export.signatures)
        if export.warmup:
            write_warmup(aside, export.warmup)
        comparison = verified(exact, aside, rounded=dtype != "float32")
        write_card(aside, source, stored, kind, export, notes, comparison)
    return Exported(notes, comparison)


@contextlib.contextmanager
def _weights_in(dtype: str) -> Iterator[None]:
    """Models built in the block keep their weights in `dtype` and compute in it."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(dtype)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def _build(
    kind: Kind, source: str | Path, stored: StoredModel, assets: Path, options: dict, unpad: bool
) -> Export:
    if kind in _FINETUNED:
        classes, build = _FINETUNED[kind]
        finetuned, _ = read_finetuned(source, *classes)
        finetuned.encoder.unpad = unpad
        export = build(finetuned, tokenizer_of(finetuned, source), **options)
    elif kind == "preprocessor":
        export = build_preprocessor(_tokenizer(source, stored), stored.config, **options)
    else:
        model = build_model(stored, seed=0)
        model.encoder.unpad = unpad
        export = _BUILDERS[kind](source, stored, assets, model, **options)
    if stored.vocabulary and kind != "encoder":  # whose signature names it
        export.root.vocab_file = tf.saved_model.Asset(str(stored.vocabulary.save(assets)))
    return export


def _encoder(source: str | Path, stored: StoredModel, assets: Path, model: AlbertPretrainer) -> Export:
    stored.config.to_json_file(assets / CONFIG_FILE)
    vocabulary = stored.vocabulary
    return build_export(
        model,
        [assets / CONFIG_FILE, write_facts(stored, assets)],
        vocabulary.save(assets) if vocabulary else None,
        vocabulary.do_lower_case if vocabulary else True,
        stored.parts,
    )


def _fill_mask(
    source: str | Path, stored: StoredModel, assets: Path, model: AlbertPretrainer, **options
) -> Export:
    tokenizer = _tokenizer(source, stored)
    if "masked_lm" in stored.missing:
        raise InputError(f"--kind=fill-mask needs a masked-LM head, which {source} does not hold.")
    return build_fill_mask(model, tokenizer, **options)


def _embedding(
    source: str | Path, stored: StoredModel, assets: Path, model: AlbertPretrainer, **options
) -> Export:
    tokenizer = _tokenizer(source, stored)
    if options.get("pooling") == "pooled" and "pooler" in stored.missing:
        raise InputError(
            f"--pooling=pooled needs a pooler, which {source} does not hold. Take --pooling=mean."
        )
    return build_embedding(model, tokenizer, **options)


def _tokenizer(source: str | Path, stored: StoredModel) -> Tokenizer:
    """The tokenizer of a kind that takes text."""
    if stored.vocabulary is None:
        raise InputError(
            f"Only --kind=encoder goes without a vocabulary. There is none with {source}; put its "
            "spm.model or vocab.txt there."
        )
    return stored.vocabulary.tokenizer()


_BUILDERS: dict[str, Callable[..., Export]] = {
    "encoder": _encoder,
    "fill-mask": _fill_mask,
    "embedding": _embedding,
}
