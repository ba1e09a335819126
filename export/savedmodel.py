"""SavedModels that `tf.saved_model.load` and TF-Hub's KerasLayer load, without this package.

The interface is TF-Hub's for TF2 text encoders; the signatures have the names of Google's TF-Hub v1 modules.
"""

import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.models import AlbertPretrainer

TEXT_INPUTS = ("input_word_ids", "input_mask", "input_type_ids")  # TF2 hub names
V1_INPUTS = ("input_ids", "input_mask", "segment_ids")  # TF1 hub names, in the same order


def build_export(
    model: AlbertPretrainer,
    assets: Sequence[Path] = (),
    vocabulary: Path | None = None,
    do_lower_case: bool = True,
) -> tuple[tf.train.Checkpoint, dict]:
    """The trackable object to save, and its signatures.

    The object is called as `encoder({"input_word_ids": .., "input_mask": .., "input_type_ids": ..},
    training=False)`, int32 (B, T) each, and returns `pooled_output` (B, H), `sequence_output` (B, T, H),
    `encoder_outputs`, a list of L arrays (B, T, H), and `default`, which is the pooled output. `encoder.mlm`
    takes `masked_lm_positions` (B, P) too and adds `mlm_logits` (B, P, V); `encoder.sop` adds `sop_logits`
    (B, 2).

    Args:
      model: trained, with its heads.
      assets: files to keep with the SavedModel.
      vocabulary: a SentencePiece model, kept too and named by the signature `tokenization_info`.
      do_lower_case: what that signature says of the vocabulary.
    """

    def encode(inputs, training=False):
        outputs = model.encoder(_canonical(inputs), training=training, intermediates=True)
        return {
            "default": outputs["pooled_output"],
            "pooled_output": outputs["pooled_output"],
            "sequence_output": outputs["sequence_output"],
            "encoder_outputs": outputs["encoder_outputs"],
        }

    def predict_masked(inputs, training=False):
        outputs = encode(inputs, training)
        table = model.encoder.embeddings.word_embeddings
        logits = model.masked_lm(outputs["sequence_output"], inputs["masked_lm_positions"], table)
        return {**outputs, "mlm_logits": logits}

    def predict_order(inputs, training=False):
        outputs = encode(inputs, training)
        return {**outputs, "sop_logits": model.sentence_order(outputs["pooled_output"])}

    root = tf.train.Checkpoint()
    root.variables = [variable.value for variable in model.variables]
    root.trainable_variables = [variable.value for variable in model.trainable_variables]
    root.regularization_losses = []
    root.assets = [tf.saved_model.Asset(str(path)) for path in assets]
    root.__call__ = _traced(encode, TEXT_INPUTS)
    root.mlm = _traced(predict_masked, (*TEXT_INPUTS, "masked_lm_positions"))
    root.sop = _traced(predict_order, TEXT_INPUTS)
    signatures = _signatures(root)
    if vocabulary:
        root.vocab_file = tf.saved_model.Asset(str(vocabulary))
        signatures["tokenization_info"] = _tokenization_info(root.vocab_file, do_lower_case)
    return root, signatures


def save_model(
    model: AlbertPretrainer, directory: Path, *, config_file: Path, vocabulary: Path | None = None,
    do_lower_case: bool = True,
) -> None:  # fmt: skip
    """Writes the SavedModel of `build_export`; an earlier SavedModel in `directory` is replaced.

    Raises:
      InputError: `directory` holds something else.
    """
    directory = Path(directory)
    check_destination(directory)
    directory.parent.mkdir(parents=True, exist_ok=True)
    root, signatures = build_export(model, [config_file], vocabulary, do_lower_case)
    aside = directory.with_name(f".{directory.name}.{uuid.uuid4().hex}.tmp")
    try:
        tf.saved_model.save(root, str(aside), signatures=signatures)
        if directory.exists():
            shutil.rmtree(directory)
        aside.rename(directory)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def check_destination(directory: Path) -> None:
    """Raises InputError unless `directory` is free, empty or an earlier SavedModel."""
    if directory.is_file():
        raise InputError(f"--output must be a folder. Received {directory}, which is a file.")
    if directory.exists() and any(directory.iterdir()) and not (directory / "saved_model.pb").exists():
        raise InputError(
            f"--output must be a new or empty folder, or an earlier export. Received {directory}, which holds "
            "other files."
        )


def _canonical(inputs: dict) -> dict:
    return {
        "input_ids": inputs["input_word_ids"],
        "input_mask": inputs["input_mask"],
        "token_type_ids": inputs["input_type_ids"],
    }


def _traced(function, names):
    """`function` as a tf.function, traced for both values of `training`, any batch size and length."""
    traced = tf.function(function)
    for training in (False, True):
        traced.get_concrete_function(_specs(names), training=training)
    return traced


def _specs(names) -> dict[str, tf.TensorSpec]:
    return {name: tf.TensorSpec((None, None), tf.int32, name=name) for name in names}


def _signatures(root) -> dict:
    """TF2's serving_default, and TF-Hub v1's tokens, mlm and sop with their input names."""

    @tf.function
    def serving_default(**inputs):
        return _arrays(root.__call__(inputs, training=False))

    @tf.function
    def tokens(input_ids, input_mask, segment_ids):
        outputs = root.__call__(_from_v1(input_ids, input_mask, segment_ids), training=False)
        return _v1_outputs(outputs)

    @tf.function
    def mlm(input_ids, input_mask, segment_ids, mlm_positions):
        inputs = _from_v1(input_ids, input_mask, segment_ids)
        outputs = root.mlm({**inputs, "masked_lm_positions": mlm_positions}, training=False)
        return {**_v1_outputs(outputs), "mlm_logits": outputs["mlm_logits"]}

    @tf.function
    def sop(input_ids, input_mask, segment_ids):
        outputs = root.sop(_from_v1(input_ids, input_mask, segment_ids), training=False)
        return {**_v1_outputs(outputs), "sop_log_probs": tf.nn.log_softmax(outputs["sop_logits"])}

    return {
        "serving_default": serving_default.get_concrete_function(**_specs(TEXT_INPUTS)),
        "tokens": tokens.get_concrete_function(**_specs(V1_INPUTS)),
        "mlm": mlm.get_concrete_function(**_specs((*V1_INPUTS, "mlm_positions"))),
        "sop": sop.get_concrete_function(**_specs(V1_INPUTS)),
    }


def _from_v1(input_ids, input_mask, segment_ids) -> dict:
    return dict(zip(TEXT_INPUTS, (input_ids, input_mask, segment_ids), strict=True))


def _v1_outputs(outputs: dict) -> dict:
    return {name: outputs[name] for name in ("pooled_output", "sequence_output")}


def _arrays(outputs: dict) -> dict:
    """A signature returns arrays only, so the list of layers becomes one array (L, B, T, H)."""
    return {**outputs, "encoder_outputs": tf.stack(outputs["encoder_outputs"])}


def _tokenization_info(vocab_file, do_lower_case: bool):
    @tf.function(input_signature=[])
    def tokenization_info():
        return {"vocab_file": vocab_file.asset_path, "do_lower_case": tf.constant(do_lower_case)}

    return tokenization_info
