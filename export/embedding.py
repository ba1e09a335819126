"""Text in, one vector out: a SavedModel with tokenizer and encoder."""

from typing import Literal

import numpy as np
import tensorflow as tf

from albert_tf.model.pretrainer import AlbertPretrainer
from data_prep.in_graph import make_graph_tokenizer
from data_prep.tokenizers.vocabulary import Tokenizer
from export.batches import SYMBOLS, padded_batch, warmup_texts
from export.preprocessor import TEXTS
from export.saving import Export, track_variables

_TEXT = "The captain sailed past."
_EXAMPLE = """
import tensorflow as tf
import tensorflow_text  # registers the tokenizer's operations

embed = tf.saved_model.load(".")
print(embed(tf.constant(["The captain sailed past.", "A quiet neighbour."]))["embedding"].shape)
"""


def build_embedding(
    model: AlbertPretrainer, tokenizer: Tokenizer, pooling: Literal["mean", "pooled"] = "mean"
) -> Export:
    """The encoder with its tokenizer, from text to one vector.

    The object is called with a batch of texts, string (B,), and returns `embedding`, float32 (B, H). A text that
    is too long is cut at its end. The signature's input is `text`.

    Args:
      model: whose encoder it is.
      tokenizer: of its vocabulary.
      pooling: "mean" of the vectors of all tokens, [CLS] and [SEP] counted, or the encoder's "pooled" output.
    """
    graph = make_graph_tokenizer(tokenizer)
    room = model.config.max_position_embeddings - SYMBOLS

    def embed(texts):
        batch = padded_batch(graph.tokenize(texts)[:, :room], tokenizer)
        outputs = model.encoder(batch, training=False)
        pooled = outputs["pooled_output"] if pooling == "pooled" else _mean(outputs, batch["input_mask"])
        return {"embedding": tf.cast(pooled, tf.float32)}

    def check(loaded):
        ids = tokenizer.encode(_TEXT)[:room]
        outputs = model.encoder({"input_ids": np.array([[tokenizer.cls_id, *ids, tokenizer.sep_id]])})
        mean = np.mean(outputs["sequence_output"], axis=1)
        ours = outputs["pooled_output"] if pooling == "pooled" else mean
        return {"embedding": (loaded(tf.constant([_TEXT]))["embedding"], ours)}

    root = tf.train.Checkpoint()
    track_variables(root, model, ["pooler"] if pooling == "pooled" else [])
    root.tokenizer = graph
    root.__call__ = tf.function(embed, input_signature=[TEXTS], autograph=False)

    @tf.function(input_signature=[TEXTS], autograph=False)
    def serving_default(text):
        return root.__call__(text)

    return Export(root, {"serving_default": serving_default}, check, _EXAMPLE, warmup_texts(_TEXT))


def _mean(outputs: dict, input_mask: tf.Tensor) -> tf.Tensor:
    """The mean (B, H) of `sequence_output` over the tokens that are no padding."""
    vectors = outputs["sequence_output"]
    weights = tf.cast(input_mask, vectors.dtype)[:, :, tf.newaxis]
    return tf.reduce_sum(vectors * weights, axis=1) / tf.reduce_sum(weights, axis=1)
