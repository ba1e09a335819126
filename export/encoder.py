"""The encoder as a SavedModel that `tf.saved_model.load` and TF-Hub's KerasLayer load, without this package.

The interface is TF-Hub's for TF2 text encoders; the signatures have the names of Google's TF-Hub v1 modules.
"""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import tensorflow as tf

from albert_tf.checkpoints.facts import write_facts
from albert_tf.config import CONFIG_FILE
from albert_tf.model.inputs import random_inputs
from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.runtime.pretrained import Pretrained
from albert_tf.tasks.graph_checks import checked_inputs, checked_positions
from albert_tf.tasks.hub_names import TEXT_INPUTS, from_hub_names
from albert_tf.tasks.serialized import EXAMPLES, parsed_examples
from data_prep.tokenizers.normalization import Normalization
from export.savedmodel import Export, function_of_ids, track_pretrainer, track_vocabulary

V1_INPUTS = ("input_ids", "input_mask", "segment_ids")  # TF1 hub names, in the same order
_EXAMPLE = """
import tensorflow as tf

encoder = tf.saved_model.load(".")
ids = tf.constant([[2, 13, 1, 9, 3]])
inputs = {"input_word_ids": ids, "input_mask": tf.ones_like(ids), "input_type_ids": tf.zeros_like(ids)}
print(encoder(inputs)["sequence_output"].shape)
"""


def build_encoder(pretrained: Pretrained, assets: Path) -> Export:
    """The encoder with its heads.

    The object is called as `encoder({"input_word_ids": .., "input_mask": .., "input_type_ids": ..},
    training=False)`, int32 (B, T) each, and returns `pooled_output` (B, H), `sequence_output` (B, T, H),
    `encoder_outputs`, a list of L arrays (B, T, H), and `default`, which is the pooled output. `encoder.mlm`
    also takes `masked_lm_positions` (B, P) and adds `mlm_logits` (B, P, V); `encoder.sop` adds `sop_logits`
    (B, 2). Values out of range and arrays of different shapes raise InvalidArgumentError; a batch may be empty.
    If the model's encoder removes padding (`unpad`), the outputs of padding are 0. The signature
    `tokenization_info` returns the vocabulary's path and its normalization.

    Outputs of parts that the source does not hold are left out: without a pooler `pooled_output`, `default` and
    everything about the sentence order.

    Args:
      pretrained: the model.
      assets: an empty folder for the configuration and the vocabulary, which become assets of the SavedModel.
    """
    vocabulary = pretrained.vocabulary
    root = tf.train.Checkpoint()
    track_pretrainer(root, pretrained.model, pretrained.parts)
    predict = _trace(pretrained, root)
    pretrained.config.to_json_file(assets / CONFIG_FILE)
    facts = write_facts(assets, pretrained.parts, vocabulary)
    root.assets = [tf.saved_model.Asset(str(path)) for path in (assets / CONFIG_FILE, facts)]
    signatures = _signatures(predict)
    if vocabulary:
        track_vocabulary(root, vocabulary, assets)
        signatures["tokenization_info"] = _tokenization_info(root.vocab_file, vocabulary.normalization)
    is_present = {
        "pooled_output and default: no pooler": "pooler" in pretrained.parts,
        ".mlm and the signature mlm: no masked-LM head": "mlm" in predict,
        ".sop and the signature sop: no pooler with a sentence-order head": "sop" in predict,
        "the signature tokenization_info: no vocabulary": vocabulary is not None,
    }
    notes = tuple(f"left out {what} in the source" for what, present in is_present.items() if not present)
    return Export(
        root, signatures, lambda loaded: _both_outputs(pretrained.model, loaded), _EXAMPLE, notes=notes
    )


def _trace(pretrained: Pretrained, root: tf.train.Checkpoint) -> dict[str, Callable]:
    """Gives `root` the functions `__call__`, `mlm` and `sop`; returns them without dropout, for signatures."""
    model, parts = pretrained.model, pretrained.parts
    pooled = ("default", "pooled_output") if "pooler" in parts else ()

    is_trainable = model.encoder.compute_dtype == "float32"  # exports in bfloat16 have no dropout

    def encode(inputs, training):
        return encoders[training and is_trainable]({name: inputs[name] for name in TEXT_INPUTS})

    def encode_once(inputs, training):
        inputs = checked_inputs(inputs, model.config)
        outputs = model.encoder(from_hub_names(inputs), training=training, intermediates=True)
        outputs = tf.nest.map_structure(_float32, outputs)
        return {
            **dict.fromkeys(pooled, outputs["pooled_output"]),
            "sequence_output": outputs["sequence_output"],
            "encoder_outputs": outputs["encoder_outputs"],
        }

    def predict_masked(inputs, training):
        outputs = encode(inputs, training)
        positions = checked_positions(inputs["masked_lm_positions"], outputs["sequence_output"])
        table = model.encoder.embeddings.word_embeddings
        logits = model.masked_lm(outputs["sequence_output"], positions, table)
        return {**outputs, "mlm_logits": _float32(logits)}

    def predict_order(inputs, training):
        outputs = encode(inputs, training)
        return {**outputs, "sop_logits": _float32(model.sentence_order(outputs["pooled_output"]))}

    # Nested functions, so that the graphs of all methods share the layers.
    encoders = [
        function_of_ids(partial(encode_once, training=training), TEXT_INPUTS) for training in (False, True)
    ]
    functions: dict[str, tuple[Callable, tuple[str, ...]]] = {"__call__": (encode, TEXT_INPUTS)}
    if "masked_lm" in parts:
        functions["mlm"] = predict_masked, (*TEXT_INPUTS, "masked_lm_positions")
    if {"pooler", "sentence_order"} <= set(parts):
        functions["sop"] = predict_order, TEXT_INPUTS
    predict = {}
    for name, (function, inputs) in functions.items():
        call, predict[name] = _with_training(function, inputs)
        setattr(root, name, call)
    return predict


def _both_outputs(model: AlbertPretrainer, loaded) -> dict:
    """The outputs of the SavedModel and of the model for the same random input."""
    batch = random_inputs(model.config, seed=0)
    unpad, model.encoder.unpad = model.encoder.unpad, False
    ours = {**model.encoder(batch), **model(batch)}
    model.encoder.unpad = unpad
    if unpad:
        ours["sequence_output"] *= _float32(batch["input_mask"])[:, :, tf.newaxis]
    ids, mask, types, positions = (tf.constant(array) for array in batch.values())
    inputs = _from_v1((ids, mask, types))
    theirs = dict(loaded(inputs))
    if hasattr(loaded, "mlm"):
        masked = loaded.mlm({**inputs, "masked_lm_positions": positions})
        theirs["masked_lm_logits"] = masked["mlm_logits"]
    if hasattr(loaded, "sop"):
        theirs["sentence_order_logits"] = loaded.sop(inputs)["sop_logits"]
    return {name: (theirs[name], ours[name]) for name in ours if name in theirs}


def _float32(array):
    """The interface returns float32 in any precision of the model."""
    return tf.cast(array, tf.float32)


def _with_training(function: Callable, names: Sequence[str]) -> tuple[Callable, Callable]:
    """`function(inputs, training)` as a tf.function for both values of `training`, and one without dropout.

    A loaded function is retraced for every shape unless it has an input signature, and then `training` is a
    tensor, so that one trace holds both branches.
    """
    train, predict = (
        function_of_ids(partial(function, training=training), names) for training in (True, False)
    )
    is_training = tf.TensorSpec([], tf.bool, name="training")

    @tf.function(input_signature=[_specs(names), is_training], autograph=False)
    def call(inputs, training=False):
        return tf.cond(training, lambda: train(inputs), lambda: predict(inputs))

    return call, predict


def _specs(names: Sequence[str]) -> dict[str, tf.TensorSpec]:
    return {name: tf.TensorSpec((None, None), tf.int32, name=name) for name in names}


def _signatures(predict: dict[str, Callable]) -> dict:
    """TF2's serving_default, the same for serialized examples, and TF-Hub v1's tokens, mlm and sop.

    They are not traced here: saving uses a context of its own and would trace them again.
    """

    def serving_default(*inputs):
        return _arrays(predict["__call__"](dict(zip(TEXT_INPUTS, inputs, strict=True))))

    def serialized(examples):
        return _arrays(predict["__call__"](parsed_examples(examples)))

    def tokens(*inputs):
        return _v1_outputs(predict["__call__"](_from_v1(inputs)))

    def mlm(*inputs):
        outputs = predict["mlm"]({**_from_v1(inputs[:-1]), "masked_lm_positions": inputs[-1]})
        return {**_v1_outputs(outputs), "mlm_logits": outputs["mlm_logits"]}

    def sop(*inputs):
        outputs = predict["sop"](_from_v1(inputs))
        return {**_v1_outputs(outputs), "sop_log_probs": tf.nn.log_softmax(outputs["sop_logits"])}

    functions: dict[str, tuple[Callable, Sequence[tf.TensorSpec]]] = {
        "serving_default": (serving_default, list(_specs(TEXT_INPUTS).values())),
        "examples": (serialized, [EXAMPLES]),
        "tokens": (tokens, list(_specs(V1_INPUTS).values())),
    }
    if "mlm" in predict:
        functions["mlm"] = mlm, list(_specs((*V1_INPUTS, "mlm_positions")).values())
    if "sop" in predict:
        functions["sop"] = sop, list(_specs(V1_INPUTS).values())
    return {
        name: tf.function(function, input_signature=inputs, autograph=False)
        for name, (function, inputs) in functions.items()
    }


def _from_v1(inputs: Sequence[tf.Tensor]) -> dict[str, tf.Tensor]:
    return dict(zip(TEXT_INPUTS, inputs, strict=True))


def _v1_outputs(outputs: dict) -> dict:
    return {name: outputs[name] for name in ("pooled_output", "sequence_output") if name in outputs}


def _arrays(outputs: dict) -> dict:
    """A signature returns arrays only, so the list of layers becomes one array (B, L, T, H).

    The batch comes first: TensorFlow Serving refuses other outputs for rows of requests, and when it batches them.
    """
    return {**outputs, "encoder_outputs": tf.stack(outputs["encoder_outputs"], axis=1)}


def _tokenization_info(vocab_file, normalization: Normalization):
    @tf.function(input_signature=[], autograph=False)
    def tokenization_info():
        settings = {name: tf.constant(value) for name, value in dataclasses.asdict(normalization).items()}
        return {"vocab_file": vocab_file.asset_path, **settings}

    return tokenization_info
