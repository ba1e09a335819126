"""Text with [MASK] in, the best pieces out: a SavedModel with tokenizer, encoder and masked-LM head.

"The [MASK] sat." --split at [MASK]--> parts --tokenize--> ids with the mask's between them --cut--> one batch
    --encoder, head--> logits (masks, V) --top k--> pieces, probabilities (B, M, K)
"""

import numpy as np
import tensorflow as tf

from albert_tf.runtime.pretrained import Pretrained
from albert_tf.tasks.features import SURROUNDING_SYMBOLS
from albert_tf.tasks.served import TEXT, padded_batch, warmup_requests
from data_prep.errors import InputError
from data_prep.in_graph import make_graph_tokenizer
from data_prep.in_graph.albert_tokenizer import GraphAlbertTokenizer
from data_prep.tokenizers.masked_texts import GONE, MASK, glued_ids
from data_prep.tokenizers.vocabulary import Tokenizer
from export.savedmodel import Export, track_pretrainer
from export.text import text_export

_EXAMPLE = """
import tensorflow as tf
import tensorflow_text  # registers the tokenizer's operations

fill_mask = tf.saved_model.load(".")
outputs = fill_mask(tf.constant(["The captain [MASK] past the lighthouse."]))
print(outputs["pieces"][0, 0], outputs["probabilities"][0, 0])
"""


def build_fill_mask(pretrained: Pretrained, tokenizer: Tokenizer, top_k: int = 5) -> Export:
    """A pretrained model with its tokenizer, from text to the best pieces.

    The object is called with a batch of texts, string (B,), in which "[MASK]" stands for the symbol. It returns
    `pieces`, string (B, M, K), best first, and their `probabilities`, float32 (B, M, K), over the whole
    vocabulary. M is the largest number of masks in a text, at least 1; a text with fewer has "" and 0 in the
    remaining places. A text that is too long is cut around its masks, or after the first ones
    if they are too far apart. The signature's input is `text`.

    Args:
      pretrained: the model.
      tokenizer: the tokenizer of its vocabulary.
      top_k: K, at most the number of pieces.

    Raises:
      InputError: the model has no masked-LM head, or the vocabulary fewer pieces than `top_k`.
    """
    check_fill_mask(pretrained, tokenizer.vocab_size, top_k)
    model, masked = pretrained.model, _MaskedTexts(tokenizer)
    pieces = tf.constant(tokenizer.pieces)
    room = model.config.max_position_embeddings - SURROUNDING_SYMBOLS

    def best_pieces(texts):
        batch = padded_batch(cut_around(masked.tokenize(texts), tokenizer.mask_id, room), tokenizer)
        is_mask = batch["input_ids"] == tokenizer.mask_id
        vectors = model.encoder(batch, training=False)["sequence_output"]
        hidden = tf.boolean_mask(vectors, is_mask)  # (masks, H)
        table = model.encoder.embeddings.word_embeddings
        logits = model.masked_lm(hidden[tf.newaxis], None, table)[0]  # (masks, V)
        probabilities = tf.nn.softmax(tf.cast(logits, tf.float32))
        # The model may have more embeddings than the vocabulary has pieces.
        best, ids = tf.math.top_k(probabilities[:, : tokenizer.vocab_size], top_k)
        counts = tf.math.count_nonzero(is_mask, axis=1)
        return {
            "pieces": _by_text(tf.gather(pieces, ids), counts, ""),
            "probabilities": _by_text(best, counts, 0.0),
        }

    def check(loaded):
        ids = [tokenizer.cls_id, tokenizer.mask_id, *tokenizer.encode("a")[: room - 1], tokenizer.sep_id]
        batch = {"input_ids": np.array([ids]), "masked_lm_positions": np.array([[1]])}
        logits = model(batch)["masked_lm_logits"][0, 0]
        probabilities = np.array(tf.nn.softmax(tf.cast(logits, tf.float32)))[: tokenizer.vocab_size]
        theirs = loaded(tf.constant([f"{MASK} a"]))["probabilities"][0, 0]
        return {"probabilities": (theirs, np.sort(probabilities)[::-1][:top_k])}

    root = tf.train.Checkpoint(tokenizer=masked.graph)
    track_pretrainer(root, model, ["masked_lm"])
    warmup = warmup_requests(f"The captain {MASK} past the lighthouse.")
    return text_export(root, {"serving_default": (best_pieces, [TEXT])}, check, _EXAMPLE, warmup)


def check_fill_mask(pretrained: Pretrained, vocab_size: int, top_k: int) -> None:
    """Raises InputError if the model has no masked-LM head, or the vocabulary fewer pieces than `top_k`."""
    if "masked_lm" in pretrained.missing:
        raise InputError("--kind=fill-mask needs a masked-LM head, which --model_dir does not hold.")
    if not 1 <= top_k <= vocab_size:
        raise InputError(
            f"--top_k must be from 1 to the {vocab_size} pieces of the vocabulary. Received {top_k}."
        )


class _MaskedTexts:
    """`MaskedTexts` as TensorFlow operations."""

    def __init__(self, tokenizer: Tokenizer):
        self.graph = make_graph_tokenizer(tokenizer)
        self._mask_id = tokenizer.mask_id
        self._glued = tf.constant(glued_ids(tokenizer.pieces))

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """string (B,) to RaggedTensor int32 (B, (T)), in which [MASK] has the symbol's id."""
        # The space, which the tokenizer drops, makes a part of an empty text, too.
        parts = tf.strings.split(tf.strings.join([" ", texts]), MASK)  # (B, (M + 1))
        place = tf.range(tf.size(parts.values, tf.int64)) - tf.gather(
            parts.row_starts(), parts.value_rowids()
        )
        follows = place > 0
        ids = self.graph.tokenize(parts.values)
        if isinstance(self.graph, GraphAlbertTokenizer):
            ids = self._glue(ids, follows & ~self._starts_with_space(self.graph, parts.values))
        count = tf.cast(follows, tf.int64)
        masks = tf.RaggedTensor.from_row_lengths(tf.fill([tf.reduce_sum(count)], self._mask_id), count)
        ids = tf.concat([masks, ids], axis=1)
        return tf.RaggedTensor.from_row_splits(ids.values, tf.gather(ids.row_splits, parts.row_splits))

    def _starts_with_space(self, graph: GraphAlbertTokenizer, parts: tf.Tensor) -> tf.Tensor:
        """Whether there is white space, by the tokenizer's rules, before the first word."""
        plain = graph.normalize(tf.strings.join(["x", parts]))
        return tf.strings.substr(plain, 0, 2) == "x "

    def _glue(self, ids: tf.RaggedTensor, rows: tf.Tensor) -> tf.RaggedTensor:
        """Removes the space from the first piece of the given rows."""
        firsts = tf.boolean_mask(ids.row_starts(), rows & (ids.row_lengths() > 0))
        glued = tf.gather(self._glued, tf.gather(ids.values, firsts))
        ids = ids.with_values(tf.tensor_scatter_nd_update(ids.values, firsts[:, tf.newaxis], glued))
        return tf.ragged.boolean_mask(ids, ids != GONE)


def cut_around(ids: tf.RaggedTensor, mask_id: int, room: int) -> tf.RaggedTensor:
    """Cuts rows to at most `room` ids, with the masks in the middle; the first one is always kept.

    Args:
      ids: RaggedTensor int32 (B, (T)).
      mask_id: the id of the mask.
      room: the largest number of ids to keep.

    Returns:
      RaggedTensor int32 (B, (T)); rows without a mask keep their beginning.
    """
    lengths = ids.row_lengths()
    positions = tf.ragged.range(lengths)
    masks = tf.ragged.boolean_mask(positions, ids == mask_id)
    has_mask = masks.row_lengths() > 0
    first = tf.where(has_mask, tf.reduce_min(masks, axis=1), 0)
    last = tf.where(has_mask, tf.reduce_max(masks, axis=1), 0)
    begin = tf.maximum((first + last) // 2 - room // 2, last - room + 1)
    begin = tf.clip_by_value(tf.minimum(begin, first), 0, tf.maximum(lengths - room, 0))[:, tf.newaxis]
    return tf.ragged.boolean_mask(ids, (positions >= begin) & (positions < begin + room))


def _by_text(values: tf.Tensor, counts: tf.Tensor, padding) -> tf.Tensor:
    """Values of all masks, (masks, K), as (B, M, K), where text i has counts[i] masks; M >= 1."""
    K = values.shape[1]
    M = tf.reduce_max(tf.concat([counts, [1]], 0))
    shape = tf.stack([tf.size(counts, tf.int64), M, K])
    values = tf.RaggedTensor.from_row_lengths(values, counts).to_tensor(padding, shape=shape)
    return tf.ensure_shape(values, [None, None, K])
