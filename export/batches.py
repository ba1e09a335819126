"""Ragged ids to the encoder's arrays, for the kinds that take text and run the model."""

import tensorflow as tf
import tensorflow_text as tf_text

from data_prep.tokenizers.vocabulary import Tokenizer

SYMBOLS = 2  # [CLS] and [SEP], around every text


def padded_batch(ids: tf.RaggedTensor, tokenizer: Tokenizer) -> dict[str, tf.Tensor]:
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


def joined_batch(
    segments: list[tf.RaggedTensor], tokenizer: Tokenizer, max_seq_length: int
) -> dict[str, tf.Tensor]:
    """[CLS] a [SEP] or [CLS] a [SEP] b [SEP] of each example, as long as the longest, as in fine-tuning.

    Args:
      segments: one or two RaggedTensors int32 (B, (T)).
      tokenizer: has the symbols.
      max_seq_length: what is longer loses the end of its longer segment.

    Returns:
      `input_ids`, `input_mask` and `token_type_ids`, int32 (B, T).
    """
    room = max_seq_length - 1 - len(segments)
    trimmed = tf_text.RoundRobinTrimmer(room).trim(segments)
    ids, types = tf_text.combine_segments(trimmed, tokenizer.cls_id, tokenizer.sep_id)
    T = tf.maximum(
        tf.reduce_max(ids.row_lengths()), 1 + len(segments)
    )  # the maximum of no rows is below zero
    shape = tf.stack([ids.nrows(), T])
    return {
        "input_ids": ids.to_tensor(tokenizer.pad_id, shape=shape),
        "input_mask": tf.sequence_mask(ids.row_lengths(), T, tf.int32),
        "token_type_ids": tf.cast(types.to_tensor(0, shape=shape), tf.int32),
    }


def warmup_texts(text: str) -> list[list[str]]:
    """A short text alone, and then with one of any model's full length."""
    return [[text], [text, " ".join([text] * 100)]]
