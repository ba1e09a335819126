"""The inputs' names in TF2 hub encoders, which exports have."""

from collections.abc import Mapping

import numpy as np

TEXT_INPUTS = ("input_word_ids", "input_mask", "input_type_ids")
MASKED_POSITIONS = "masked_lm_positions"
OURS = ("input_ids", "input_mask", "token_type_ids")


def to_hub_names(batch: Mapping) -> dict[str, np.ndarray]:
    """A batch with this library's names renamed to those of TEXT_INPUTS; positions are optional."""
    names = zip((*OURS, MASKED_POSITIONS), (*TEXT_INPUTS, MASKED_POSITIONS), strict=True)
    return {theirs: np.asarray(batch[name], np.int32) for name, theirs in names if name in batch}


def from_hub_names(inputs: Mapping) -> dict:
    """Arrays or tensors with the names of TEXT_INPUTS renamed to this library's."""
    return {ours: inputs[theirs] for ours, theirs in zip(OURS, TEXT_INPUTS, strict=True)}
