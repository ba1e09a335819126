"""The encoder with its heads as functions that runtimes other than TensorFlow can hold, and what they lose."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.models import AlbertPretrainer
from export.savedmodel import TEXT_INPUTS

POSITIONS = "masked_lm_positions"

# From arrays under the names of TEXT_INPUTS, int32 (B, T), and perhaps POSITIONS, int32 (B, P), to outputs.
Runner = Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]


def encoder_function(model: AlbertPretrainer, parts: Sequence[str], *, masked: bool):
    """The model without dropout as one tf.function of a dict of int32 arrays.

    It returns `sequence_output` (B, T, H); `pooled_output` (B, H) and `sop_logits` (B, 2) where they are
    trained; and with `masked` `mlm_logits` (B, P, V).

    Args:
      model: with its heads.
      parts: which of "pooler", "masked_lm" and "sentence_order" are trained.
      masked: whether the function takes `masked_lm_positions` (B, P), too. P may be 0.
    """

    def encode(inputs):
        ids, mask, types = (inputs[name] for name in TEXT_INPUTS)
        outputs = model.encoder({"input_ids": ids, "input_mask": mask, "token_type_ids": types})
        arrays = {"sequence_output": outputs["sequence_output"]}
        if "pooler" in parts:
            arrays["pooled_output"] = outputs["pooled_output"]
            if "sentence_order" in parts:
                arrays["sop_logits"] = model.sentence_order(outputs["pooled_output"])
        if masked:
            table = model.encoder.embeddings.word_embeddings
            arrays["mlm_logits"] = model.masked_lm(outputs["sequence_output"], inputs[POSITIONS], table)
        return arrays

    return tf.function(encode, input_signature=[input_specs(masked=masked)], autograph=False)


def input_specs(*, masked: bool) -> dict[str, tf.TensorSpec]:
    """Of the function's inputs, any batch size and length."""
    names = (*TEXT_INPUTS, POSITIONS) if masked else TEXT_INPUTS
    return {name: tf.TensorSpec((None, None), tf.int32, name=name) for name in names}


def to_hub_names(batch: dict) -> dict[str, np.ndarray]:
    """A batch under this library's names, under those of TEXT_INPUTS; positions only where it has them."""
    ours = ("input_ids", "input_mask", "token_type_ids", POSITIONS)
    names = zip(ours, (*TEXT_INPUTS, POSITIONS), strict=True)
    return {theirs: np.asarray(batch[name], np.int32) for name, theirs in names if name in batch}


def masked_lm_accuracy(run: Runner, batches: Iterable[dict]) -> tuple[float, int]:
    """The share of masked tokens that the best logit names, and how many there are.

    Args:
      run: gives `mlm_logits`.
      batches: as of `pretraining_dataset`.
    """
    right = total = 0
    for batch in batches:
        arrays = {name: np.asarray(array) for name, array in batch.items()}
        best = np.argmax(run(to_hub_names(arrays))["mlm_logits"], axis=-1)  # (B, P)
        counted = arrays["masked_lm_weights"] > 0
        right += int(np.sum((best == arrays["masked_lm_ids"]) & counted))
        total += int(np.sum(counted))
    return right / max(total, 1), total
