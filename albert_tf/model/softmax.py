"""The softmax of attention, whose backward pass is one formula."""

from keras import ops

from albert_tf.model.formulas import in_one_pass, summed


def attention_probabilities(scores, mask_scores, scale: float, training: bool = False):
    """softmax(scores * scale + mask_scores) over the last axis, in the dtype of `scores`.

    Args:
      scores: (B, N, P, T), products of queries with keys.
      mask_scores: (B, 1, 1, T), what is added for the keys.
      scale: 1 / sqrt(D).
      training: whether the backward pass is one of its own, in float32, which keeps the probabilities alone and
        has no gradient for `mask_scores`.
    """
    if not training:
        return ops.softmax(scores * scale + mask_scores)

    @ops.custom_gradient
    def with_gradient(scores, mask_scores):
        probs = ops.softmax(scores * scale + mask_scores)

        def backward(*upstreams, upstream=None):  # backends pass it either way
            upstream = upstreams[0] if upstream is None else upstream
            return _gradient(upstream, probs, scale), ops.zeros_like(mask_scores)

        return probs, backward

    return with_gradient(scores, mask_scores)


@in_one_pass
def _gradient(upstream, probs, scale: float):
    """Of the scores."""
    dprobs, wide = ops.cast(upstream, "float32"), ops.cast(probs, "float32")
    return ops.cast(wide * (dprobs - summed(dprobs * wide, 3)) * scale, upstream.dtype)
