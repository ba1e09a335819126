"""Activations without the padding of their batch: (R, H) in place of (B*T, H), R the number of tokens."""

from keras import ops


class Unpadding:
    """Where the tokens of a padded batch are.

    The first of each row counts as one whatever the mask says, since the pooler reads it. A row that is masked
    whole counts whole: nothing tells its tokens apart, and attention then averages over all of them.

    Args:
      input_mask: integers (B, T), 1 for tokens.

    Attributes:
      places: integers (R,), the tokens' places in the flat batch (B*T,).
      ranks: integers (B*T,), the number among the tokens of the one at each place, or of the last before it.
      is_token: booleans (B*T, 1).
    """

    def __init__(self, input_mask):
        is_first = ops.expand_dims(ops.arange(ops.shape(input_mask)[1]) == 0, 0)
        is_masked_whole = ops.logical_not(ops.any(input_mask > 0, axis=1, keepdims=True))
        is_token = ops.logical_or(input_mask > 0, ops.logical_or(is_first, is_masked_whole))
        is_token = ops.reshape(is_token, (-1,))
        (self.places,) = ops.nonzero(is_token)
        self.ranks = ops.cumsum(ops.cast(is_token, "int32")) - 1
        self.is_token = ops.expand_dims(is_token, 1)


def dropped(x, unpadding: Unpadding | None):
    """(B*T, H) without padding, (R, H); as it is without `unpadding`."""
    return x if unpadding is None else ops.take(x, unpadding.places, axis=0)


def restored(x, unpadding: Unpadding | None):
    """(R, H) with padding, (B*T, H), in which the padding repeats tokens; as it is without `unpadding`."""
    return x if unpadding is None else ops.take(x, unpadding.ranks, axis=0)


def zero_padded(x, unpadding: Unpadding | None):
    """(R, H) with padding, (B*T, H), in which the padding is 0; as it is without `unpadding`."""
    if unpadding is None:
        return x
    return ops.where(unpadding.is_token, restored(x, unpadding), ops.zeros((), x.dtype))
