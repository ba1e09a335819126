"""Text in, one vector out: a SavedModel with tokenizer and encoder."""

from typing import get_args

import numpy as np
import tensorflow as tf

from albert_tf.runtime.pretrained import Pretrained
from albert_tf.tasks.features import SURROUNDING_SYMBOLS
from albert_tf.tasks.served import TEXT, padded_batch, warmup_requests
from data_prep.errors import InputError, check_choice
from data_prep.in_graph import make_graph_tokenizer
from data_prep.tokenizers.vocabulary import Tokenizer
from export.export_flags import Pooling
from export.savedmodel import Export, track_pretrainer
from export.text import text_export

_TEXT = "The captain sailed past."
_EXAMPLE = """
import tensorflow as tf
import tensorflow_text  # registers the tokenizer's operations

embed = tf.saved_model.load(".")
print(embed(tf.constant(["The captain sailed past.", "A quiet neighbour."]))["embedding"].shape)
"""


def build_embedding(pretrained: Pretrained, tokenizer: Tokenizer, pooling: Pooling = "mean") -> Export:
    """The encoder with its tokenizer, from text to one vector.

    The object is called with a batch of texts, string (B,), and returns `embedding`, float32 (B, H). A text that
    is too long is cut at its end. The signature's input is `text`.

    Args:
      pretrained: the model with the encoder.
      tokenizer: the tokenizer of its vocabulary.
      pooling: "mean" of the vectors of all tokens, including [CLS] and [SEP], or the encoder's "pooled" output.

    Raises:
      InputError: the model has no pooler, which "pooled" needs.
    """
    check_pooling(pretrained, pooling)
    model, graph = pretrained.model, make_graph_tokenizer(tokenizer)
    room = model.config.max_position_embeddings - SURROUNDING_SYMBOLS

    def embed(texts):
        batch = padded_batch(graph.tokenize(texts)[:, :room], tokenizer)
        outputs = model.encoder(batch, training=False)
        pooled = (
            outputs["pooled_output"] if pooling == "pooled" else mean_of_tokens(outputs, batch["input_mask"])
        )
        return {"embedding": tf.cast(pooled, tf.float32)}

    def check(loaded):
        ids = tokenizer.encode(_TEXT)[:room]
        outputs = model.encoder({"input_ids": np.array([[tokenizer.cls_id, *ids, tokenizer.sep_id]])})
        mean = np.mean(outputs["sequence_output"], axis=1)
        ours = outputs["pooled_output"] if pooling == "pooled" else mean
        return {"embedding": (loaded(tf.constant([_TEXT]))["embedding"], ours)}

    root = tf.train.Checkpoint(tokenizer=graph)
    track_pretrainer(root, model, ["pooler"] if pooling == "pooled" else [])
    return text_export(root, {"serving_default": (embed, [TEXT])}, check, _EXAMPLE, warmup_requests(_TEXT))


def check_pooling(pretrained: Pretrained, pooling: Pooling) -> None:
    """Raises InputError if `pooling` is unknown, or is "pooled" and the model has no pooler."""
    pretrained.check_vectors()
    check_choice(get_args(Pooling), "pooling", pooling)
    if pooling == "pooled" and "pooler" in pretrained.missing:
        raise InputError(
            "--pooling=pooled needs a pooler, which --model_dir does not hold. Use --pooling=mean."
        )


def mean_of_tokens(outputs: dict, input_mask: tf.Tensor) -> tf.Tensor:
    """The mean (B, H) of `sequence_output` over the tokens that are not padding."""
    vectors = outputs["sequence_output"]
    weights = tf.cast(input_mask, vectors.dtype)[:, :, tf.newaxis]
    return tf.reduce_sum(vectors * weights, axis=1) / tf.reduce_sum(weights, axis=1)
