"""Texts to the arrays of a pretrained model, and its outputs to answers, whatever runs it."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from albert_tf.tasks.features import SURROUNDING_SYMBOLS, Features, check_length, joined, stacked
from albert_tf.tasks.preprocessor import as_texts
from albert_tf.tasks.runner import Arrays
from data_prep.errors import InputError
from data_prep.tokenizers.masked_texts import MaskedTexts, check_masks, cut_around_masks
from data_prep.tokenizers.vocabulary import Tokenizer

RunRows = Callable[[Sequence[Features]], Sequence[Arrays]]  # a model's outputs for each example


def encoder_inputs(
    tokenizer: Tokenizer, texts: Sequence[str], pairs: Sequence[str] | None, max_seq_length: int
) -> Arrays:
    """The arrays of texts or pairs of texts for the encoder, int32 (N, T)."""
    check_length(max_seq_length, 5)
    encode = MaskedTexts(tokenizer).encode_batch
    first = encode(as_texts(texts))
    second = [None] * len(first) if pairs is None else encode(as_texts(pairs))
    if len(first) != len(second):
        raise InputError(f"Each text must have a second one. Received {len(first)} and {len(second)}.")
    rows = [joined(a, b, tokenizer, max_seq_length) for a, b in zip(first, second, strict=True)]
    return stacked(rows, tokenizer.pad_id)


def embeddings(tokenizer: Tokenizer, texts: list[str], longest: int, rows: RunRows) -> Sequence[Arrays]:
    """The `embedding` (H,) of each text.

    Args:
      tokenizer: the model's.
      texts: N texts.
      longest: sequence, in tokens.
      rows: runs the model, which returns `embedding`.
    """
    return rows([joined(ids, None, tokenizer, longest) for ids in tokenizer.encode_batch(texts, longest)])


def filled_masks(
    tokenizer: Tokenizer, masked: MaskedTexts, texts: list[str], longest: int, rows: RunRows
) -> list[dict[str, Any]]:
    """The `pieces` and `probabilities` (M, K) of the best pieces for each of a text's M masks, best first.

    Args:
      tokenizer: the model's.
      masked: made from it.
      texts: N texts.
      longest: sequence, in tokens.
      rows: runs the model, which returns `ids` and `probabilities` (M or more, K).
    """
    check_masks(texts)
    mask_id = tokenizer.mask_id
    encoded = [
        cut_around_masks(ids, mask_id, longest - SURROUNDING_SYMBOLS) for ids in masked.encode_batch(texts)
    ]
    found = rows([joined(ids, None, tokenizer, longest) for ids in encoded])
    return [
        {"pieces": _pieces(tokenizer, row["ids"][:M]), "probabilities": row["probabilities"][:M]}
        for row, M in zip(found, (int(np.sum(ids == mask_id)) for ids in encoded), strict=True)
    ]


def _pieces(tokenizer: Tokenizer, ids: np.ndarray) -> np.ndarray:
    """The pieces of ids, of any shape."""
    return np.array([tokenizer.pieces[i] for i in ids.ravel()], object).reshape(ids.shape)
