"""Memory of a batch on CPUs, by arithmetic: less than it needs, so that what could fit is never refused."""

import os

from albert_tf.config import AlbertConfig, Remat
from data_prep.errors import InputError


def activation_bytes(
    config: AlbertConfig, tokens: int, *, training: bool, remat: Remat = False, bytes_per_number: int = 4
) -> int:
    """The least that the encoder's activations take.

    Training stores inputs, queries, keys, values and one vector of the feed-forward part of every layer, or with
    `remat` of layers the inputs alone; otherwise only one layer's exist at a time.
    """
    H, F = config.hidden_size, config.intermediate_size
    layers = config.num_hidden_layers * config.inner_group_num
    if not training:
        return tokens * (H + F) * bytes_per_number
    return tokens * layers * (H if remat in (True, "layers") else 4 * H + F) * bytes_per_number


def memory_of_machine() -> int | None:
    """Bytes; None where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None


def check_fits(needed: int, what: str) -> None:
    """Raises InputError if a batch needs more bytes than the machine has; `what` begins the message."""
    available = memory_of_machine()
    if available and needed > available:
        raise InputError(
            f"{what} must fit into memory. Received one that needs more than {needed / 1e9:,.0f} GB, and this "
            f"machine has {available / 1e9:,.0f} GB; lower the number."
        )
