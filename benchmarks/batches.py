"""Random batches, the same for every library.

B rows, T tokens, P predictions, V pieces.
"""

from collections.abc import Callable, Sequence

import numpy as np

CALIBRATION_FILE = "calibration.npz"  # what 8-bit peers are calibrated on, (B, T) each
MASK = 4  # the id of [MASK] in ALBERT's vocabularies


def training_batch(B: int, T: int, P: int, V: int) -> dict[str, np.ndarray]:
    """A batch of pretraining without padding, with P predictions in every row.

    As in text, a few of the pieces are frequent, and most of what is predicted is [MASK]: the time of the
    embeddings' gradient depends on it.
    """
    rng = np.random.default_rng(0)
    positions = np.array([np.sort(rng.choice(T, P, replace=False)) for _ in range(B)], "int32")
    shares = 1 / np.arange(3, V - 2)
    input_ids = rng.choice(np.arange(5, V), (B, T), p=shares / shares.sum())
    masked = np.where(rng.random((B, P)) < 0.8, MASK, np.take_along_axis(input_ids, positions, 1))
    np.put_along_axis(input_ids, positions, masked, 1)
    return {
        "input_ids": input_ids.astype("int32"),
        "input_mask": np.ones((B, T), "int32"),
        "token_type_ids": np.repeat((np.arange(T) > T // 2)[None].astype("int32"), B, 0),
        "masked_lm_positions": positions,
        "masked_lm_ids": rng.integers(5, V, (B, P)).astype("int32"),
        "masked_lm_weights": np.ones((B, P), "float32"),
        "sentence_order": rng.integers(0, 2, B).astype("int32"),
        "sentence_order_weights": np.ones(B, "float32"),
    }


def padded_batch(lengths: Sequence[int], T: int, V: int) -> tuple[np.ndarray, np.ndarray]:
    """Ids and mask, int32 (B, T) each, of rows with these numbers of tokens."""
    mask = (np.arange(T) < np.array(lengths)[:, None]).astype("int32")
    ids = np.random.default_rng(T).integers(5, V, mask.shape).astype("int32")
    return ids * mask, mask


def encoding_turns(
    encode: Callable[[np.ndarray, np.ndarray], np.ndarray], V: int
) -> Callable[[list[int], int], dict]:
    """A function that encodes a `padded_batch`; `encode` returns the vectors (B, T, H) for ids and mask."""

    def turn(lengths: list[int], T: int) -> dict:
        output = encode(*padded_batch(lengths, T, V))
        # Libraries differ in what they compute for padding; the first position of each row is never padding.
        return {"value": float(np.mean(np.abs(output[:, 0])))}

    return turn
