"""Masks examples while reading, with TensorFlow ops on a whole batch.

The rules are those of `masking.py`. There, words are tried one after the other in random order; here each step of
the same loop tries one word of every example.

batch --_words--> starts, eligible --_choose--> covered words --_predictions--> positions, ids
"""

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from data_prep.examples.manifest import Manifest
from data_prep.examples.masking import MaskingSettings
from data_prep.reading.random_draws import uniform_pairs


@dataclass(frozen=True)
class DynamicMasking:
    """The settings and ids that masking needs.

    Attributes:
      settings: how much is masked.
      cls_id, sep_id, mask_id: ids of the symbols.
      replacements: int32 [R], the ids of random replacements.
    """

    settings: MaskingSettings
    cls_id: int
    sep_id: int
    mask_id: int
    replacements: np.ndarray

    @classmethod
    def of(cls, manifest: Manifest) -> "DynamicMasking":
        """Those of `albert prepare`, from its manifest."""
        vocabulary = manifest.vocabulary
        replacements = np.setdiff1d(np.arange(vocabulary.size), vocabulary.special_ids).astype(np.int32)
        return cls(
            MaskingSettings.of(manifest.settings),
            vocabulary.cls_id,
            vocabulary.sep_id,
            vocabulary.mask_id,
            replacements,
        )


def mask_batch(batch: dict[str, tf.Tensor], masking: DynamicMasking, keys) -> dict[str, tf.Tensor]:
    """Masks a batch; the result depends only on the examples and their keys.

    Args:
      batch: input_ids, input_mask, token_boundary, int32 [B, T].
      masking: symbols and settings; P is settings.max_predictions_per_seq.
      keys: uint64 [B], one for each example and epoch (`example_keys`).

    Returns:
      input_ids int32 [B, T] with [MASK] and replacements in place; masked_lm_positions (ascending),
      masked_lm_ids int32 [B, P]; masked_lm_weights float32 [B, P], 0 for padding.
    """
    ids, real = batch["input_ids"], batch["input_mask"] > 0
    whole = batch["token_boundary"] > 0
    boundary = real & (whole if masking.settings.do_whole_word_mask else tf.ones_like(whole))
    symbol = (ids == masking.cls_id) | (ids == masking.sep_id)

    order_key, length_key = uniform_pairs(keys, tf.shape(ids)[1], stream=0)
    kind, replacement = uniform_pairs(keys, tf.shape(ids)[1], stream=1)
    starts, eligible = _words(boundary, symbol, real, masking.settings.ngram)
    length = _span_lengths(eligible, length_key, masking.settings)
    covered = _choose(starts, eligible[:, : tf.shape(ids)[1]], length, order_key, _budget(real, masking))

    word_of_token = tf.maximum(tf.cumsum(tf.cast(boundary, tf.int32), axis=1) - 1, 0)
    chosen = tf.gather(covered, word_of_token, batch_dims=1) & real
    index = tf.cast(replacement * len(masking.replacements), tf.int32)
    drawn = tf.gather(masking.replacements, tf.minimum(index, len(masking.replacements) - 1))
    shown = tf.where(kind < 0.8, masking.mask_id, tf.where(kind < 0.9, ids, drawn))
    return {
        "input_ids": tf.where(chosen, shown, ids),
        **_predictions(ids, chosen, masking.settings.max_predictions_per_seq),
    }


def _budget(real: tf.Tensor, masking: DynamicMasking) -> tf.Tensor:
    """`prediction_budget` of every example; int32 [B]."""
    tokens = tf.reduce_sum(tf.cast(real, tf.float64), axis=1)
    share = tf.cast(tf.round(tokens * masking.settings.masked_lm_prob), tf.int32)
    return tf.minimum(masking.settings.max_predictions_per_seq, tf.maximum(1, share))


def _words(boundary, symbol, real, ngram: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Where the words of each example start, int32 [B, T + ngram], and which may be masked, bool [B, T + ngram].

    Symbols are words, too. Behind the last word the start is the number of tokens.
    """
    B, T = tf.shape(boundary)[0], tf.shape(boundary)[1]
    where = tf.cast(tf.where(boundary), tf.int32)
    rank = tf.boolean_mask(tf.cumsum(tf.cast(boundary, tf.int32), axis=1) - 1, boundary)
    places = tf.stack([where[:, 0], rank], axis=1)
    end = tf.reduce_sum(tf.cast(real, tf.int32), axis=1, keepdims=True)
    starts = tf.tensor_scatter_nd_update(tf.tile(end, [1, T + ngram]), places, where[:, 1])
    may = tf.boolean_mask(~symbol, boundary)
    eligible = tf.scatter_nd(places, tf.cast(may, tf.int32), [B, T + ngram]) > 0
    return starts, eligible


def _span_lengths(eligible: tf.Tensor, uniform: tf.Tensor, settings: MaskingSettings) -> tf.Tensor:
    """Draws n for a span that starts at each word; int32 [B, T]."""
    T = tf.shape(uniform)[1]
    run = eligible[:, :T]
    words_left = tf.cast(run, tf.int32)
    for n in range(1, settings.ngram):
        run = run & eligible[:, n : n + T]
        words_left += tf.cast(run, tf.int32)
    cumulative = tf.gather(tf.constant(settings.cumulative, tf.float32), words_left)
    # Without the last bound, 1, since rounding could give n = ngram + 1.
    return 1 + tf.reduce_sum(tf.cast(uniform[..., tf.newaxis] >= cumulative[..., :-1], tf.int32), axis=2)


def _choose(starts, eligible, length, order_key, budget) -> tf.Tensor:
    """Tries every word once, in the order of the keys, until the budget is spent; bool [B, T + ngram]."""
    B, T, width = tf.shape(eligible)[0], tf.shape(eligible)[1], tf.shape(starts)[1]
    ngram = width - T
    steps = tf.range(ngram)
    order = tf.argsort(tf.where(eligible, order_key, 2.0), axis=1)
    tried = tf.reduce_max(tf.reduce_sum(tf.cast(eligible, tf.int32), axis=1))
    # Everything in the order of the steps, which are the first axis, so that the loop only slices.
    length = tf.gather(tf.where(eligible, length, 0), order, batch_dims=1)
    window = order[..., tf.newaxis] + steps  # [B, T, ngram] words
    sizes = (
        tf.gather(starts, window + 1, batch_dims=1) - tf.gather(starts, order, batch_dims=1)[..., tf.newaxis]
    )
    flat = window + (tf.range(B) * width)[:, tf.newaxis, tf.newaxis]
    wanted = steps < length[..., tf.newaxis]
    sizes, flat, wanted = (tf.transpose(values, [1, 0, 2]) for values in (sizes, flat, wanted))

    def is_unfinished(step, left, covered):
        return (step < tried) & tf.reduce_any(left > 0)

    def try_word(step, left, covered):
        # Sizes ascend, so dropping what exceeds the budget shortens the span.
        span = wanted[step] & (sizes[step] <= left[:, tf.newaxis])
        taken = tf.gather(covered, flat[step])
        free = ~tf.reduce_any(taken & span, axis=1, keepdims=True)
        span &= free
        covered = tf.tensor_scatter_nd_update(covered, flat[step][..., tf.newaxis], taken | span)
        spent = tf.reduce_max(tf.where(span, sizes[step], 0), axis=1)
        return step + 1, left - spent, covered

    *_, covered = tf.while_loop(is_unfinished, try_word, (0, budget, tf.zeros([B * width], tf.bool)))
    return tf.reshape(covered, [B, width])


def _predictions(ids, chosen, max_predictions: int) -> dict[str, tf.Tensor]:
    where = tf.cast(tf.where(chosen), tf.int32)
    rank = tf.boolean_mask(tf.cumsum(tf.cast(chosen, tf.int32), axis=1) - 1, chosen)
    places = tf.stack([where[:, 0], rank], axis=1)
    shape = [tf.shape(ids)[0], max_predictions]
    tensors = {
        "masked_lm_positions": tf.scatter_nd(places, where[:, 1], shape),
        "masked_lm_ids": tf.scatter_nd(places, tf.boolean_mask(ids, chosen), shape),
        "masked_lm_weights": tf.scatter_nd(places, tf.ones_like(rank, tf.float32), shape),
    }
    return {
        name: tf.ensure_shape(values, [ids.shape[0], max_predictions]) for name, values in tensors.items()
    }
