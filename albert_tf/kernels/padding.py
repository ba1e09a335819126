"""Activations without the padding of their batch: (R, H) instead of (B*T, H), R the number of tokens."""

from keras import ops


class Unpadding:
    """Where the tokens of a padded batch are.

    The first position of each row counts as a token regardless of the mask, because the pooler reads it. In a row
    that is masked entirely, every position counts, because attention averages over all of them.

    Args:
      input_mask: integers (B, T), 1 for tokens.

    Attributes:
      places: integers (R,), the tokens' places in the flat batch (B*T,).
      ranks: integers (B*T,), for each place the index in `places` of the token there; at padding, of the token
        before it.
      is_token: booleans (B*T, 1).
    """

    def __init__(self, input_mask):
        is_first = ops.expand_dims(ops.arange(ops.shape(input_mask)[1]) == 0, 0)
        is_all_masked = ops.logical_not(ops.any(input_mask > 0, axis=1, keepdims=True))
        is_token = ops.logical_or(input_mask > 0, ops.logical_or(is_first, is_all_masked))
        is_token = ops.reshape(is_token, (-1,))
        (self.places,) = ops.nonzero(is_token)
        self.ranks = ops.cumsum(ops.cast(is_token, "int32")) - 1
        self.is_token = ops.expand_dims(is_token, 1)


def remove_padding(x, unpadding: Unpadding | None):
    """(B*T, H) -> (R, H); returns `x` itself if `unpadding` is None."""
    return x if unpadding is None else ops.take(x, unpadding.places, axis=0)


def restore_padding(x, unpadding: Unpadding | None):
    """(R, H) -> (B*T, H), where padding repeats the last token; returns `x` itself if `unpadding` is None."""
    return x if unpadding is None else ops.take(x, unpadding.ranks, axis=0)


def restore_zero_padding(x, unpadding: Unpadding | None):
    """(R, H) -> (B*T, H), where padding is 0; returns `x` itself if `unpadding` is None."""
    if unpadding is None:
        return x
    return ops.where(unpadding.is_token, restore_padding(x, unpadding), ops.zeros((), x.dtype))
