"""Ragged ids to the encoder's arrays, for the kinds that take text and run the model."""

import tensorflow as tf

from data_prep.tokenizer import AlbertTokenizer

SYMBOLS = 2  # [CLS] and [SEP], around every text


def padded_batch(ids: tf.RaggedTensor, tokenizer: AlbertTokenizer) -> dict[str, tf.Tensor]:
    """[CLS] ids [SEP] of each text, as long as the longest.

    Args:
      ids: RaggedTensor int32 (B, (T)).
      tokenizer: has the symbols.

    Returns:
      `input_ids` and `input_mask`, int32 (B, T).
    """
    B = ids.nrows()
    first, last = (tf.fill([B, 1], tf.constant(i, tf.int32)) for i in (tokenizer.cls_id, tokenizer.sep_id))
    rows = tf.concat([first, ids, last], axis=1)
    T = tf.maximum(tf.reduce_max(rows.row_lengths()), SYMBOLS)  # the maximum of no rows is below zero
    input_ids = rows.to_tensor(tokenizer.pad_id, shape=tf.stack([B, T]))
    mask = tf.sequence_mask(rows.row_lengths(), T, tf.int32)
    return {"input_ids": input_ids, "input_mask": mask}


def warmup_texts(text: str) -> list[list[str]]:
    """A short text alone, and then with one of any model's full length."""
    return [[text], [text, " ".join([text] * 100)]]
