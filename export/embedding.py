"""Text in, one vector out: a SavedModel with tokenizer and encoder."""

from dataclasses import replace
from typing import get_args

import tensorflow as tf

from albert_tf.checkpoints.sentence_vectors import Pooling
from albert_tf.model.sentence_vectors import sentence_vectors
from albert_tf.runtime.pretrained import Pretrained
from albert_tf.tasks.features import SURROUNDING_SYMBOLS
from albert_tf.tasks.served import TEXT, padded_batch, warmup_requests
from data_prep.errors import check_choice
from data_prep.in_graph import make_graph_tokenizer
from data_prep.tokenizers.vocabulary import Tokenizer
from export.savedmodel import Export, track_pretrainer
from export.text import text_export

_TEXT = "The captain sailed past."
_EXAMPLE = """
import tensorflow as tf
import tensorflow_text  # registers the tokenizer's operations

embed = tf.saved_model.load(".")
print(embed(tf.constant(["The captain sailed past.", "A quiet neighbour."]))["embedding"].shape)
"""


def build_embedding(pretrained: Pretrained, tokenizer: Tokenizer, pooling: Pooling | None = None) -> Export:
    """The encoder with its tokenizer, from text to one vector, as `Pretrained.embed`.

    The object is called with a batch of texts, string (B,), and returns `embedding`, float32 (B, D). A text that
    is too long is cut at its end. The signature's input is `text`.

    Args:
      pretrained: the model with the encoder.
      tokenizer: the tokenizer of its vocabulary.
      pooling: as in `SentenceVectors`. Default: the model's.

    Raises:
      InputError: the vectors cannot be computed here, or the model has no pooler, which "pooled" needs.
    """
    pretrained = with_pooling(pretrained, pooling)
    model, graph, how = pretrained.model, make_graph_tokenizer(tokenizer), pretrained.sentence_vectors
    room = pretrained.longest_text - SURROUNDING_SYMBOLS

    def embed(texts):
        batch = padded_batch(graph.tokenize(texts)[:, :room], tokenizer)
        outputs = model.encoder(batch, training=False)
        return {"embedding": tf.cast(sentence_vectors(outputs, batch["input_mask"], how), tf.float32)}

    def check(loaded):
        return {"embedding": (loaded(tf.constant([_TEXT]))["embedding"], pretrained.embed([_TEXT]))}

    root = tf.train.Checkpoint(tokenizer=graph)
    track_pretrainer(root, model, ["pooler"] if how.pooling == "pooled" else [])
    return text_export(root, {"serving_default": (embed, [TEXT])}, check, _EXAMPLE, warmup_requests(_TEXT))


def with_pooling(pretrained: Pretrained, pooling: Pooling | None) -> Pretrained:
    """The model with another pooling.

    Raises:
      InputError: `pooling` is unknown, or the vectors cannot be computed.
    """
    if pooling is not None:
        check_choice(get_args(Pooling), "pooling", pooling)
        how = replace(pretrained.sentence_vectors, pooling=pooling)
        pretrained = replace(pretrained, sentence_vectors=how)
    pretrained.checked_vectors()
    return pretrained
