"""What a pretrained model takes of texts, and what it answers: the pieces behind masks, and embeddings.

The exports of kinds fill-mask and embedding give the same answers.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np
from keras import ops

from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.tasks.features import SURROUNDING_SYMBOLS, Features, check_length, joined, stacked
from albert_tf.tasks.preprocessor import as_texts
from albert_tf.tasks.splits import USUAL_SIZE, EncodedSplit, by_row, numpy_batches
from data_prep.errors import InputError
from data_prep.tokenizers.masked_texts import MaskedTexts, check_masks, cut_around_masks
from data_prep.tokenizers.vocabulary import Tokenizer

Guess = tuple[str, float]
Arrays = dict[str, np.ndarray]


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


def fill_masks(
    model: AlbertPretrainer, tokenizer: Tokenizer, texts: Sequence[str], top_k: int
) -> list[list[list[Guess]]]:
    """The best pieces for each [MASK] of each text, and their probabilities, best first."""
    if not 1 <= top_k <= tokenizer.vocab_size:
        raise InputError(
            f"`top_k` must be from 1 to the number of pieces, {tokenizer.vocab_size:,}. Received {top_k}."
        )
    longest, mask_id = model.config.max_position_embeddings, tokenizer.mask_id
    texts = as_texts(texts)
    check_masks(texts)
    encoded = MaskedTexts(tokenizer).encode_batch(texts)
    rows = [cut_around_masks(ids, mask_id, longest - SURROUNDING_SYMBOLS) for ids in encoded]
    run, table = _forward(model.encoder, len(rows)), model.encoder.embeddings.word_embeddings

    def best_pieces(batch: Arrays) -> dict[str, Any]:
        vectors = ops.convert_to_numpy(ops.cast(run(batch)["sequence_output"], "float32"))
        is_mask = batch["input_ids"] == mask_id
        logits = model.masked_lm(vectors[is_mask][np.newaxis], None, table)[0]  # (masks, V)
        # The model may have more embeddings than the vocabulary has pieces.
        probabilities = ops.softmax(ops.cast(logits, "float32"))[:, : tokenizer.vocab_size]
        best = map(ops.convert_to_numpy, ops.top_k(probabilities, top_k))
        ends = np.cumsum(is_mask.sum(axis=1))[:-1]
        by_text = (np.split(array, ends) for array in best)
        return dict(zip(("probabilities", "ids"), by_text, strict=True))

    found = _rows([joined(ids, None, tokenizer, longest) for ids in rows], best_pieces)
    return [
        [
            [(tokenizer.pieces[i], float(p)) for i, p in zip(ids, probabilities, strict=True)]
            for ids, probabilities in zip(row["ids"], row["probabilities"], strict=True)
        ]
        for row in found
    ]


def embeddings(model: AlbertPretrainer, tokenizer: Tokenizer, texts: Sequence[str]) -> np.ndarray:
    """The mean (N, H) of the vectors of each text's tokens, float32."""
    longest = model.config.max_position_embeddings
    encoded = tokenizer.encode_batch(as_texts(texts), longest)
    run = _forward(model.encoder, len(encoded))

    def mean(batch: Arrays) -> Arrays:
        vectors = ops.convert_to_numpy(ops.cast(run(batch)["sequence_output"], "float32"))
        weights = batch["input_mask"][:, :, np.newaxis].astype(np.float32)
        return {"embedding": (vectors * weights).sum(axis=1) / weights.sum(axis=1)}

    found = _rows([joined(ids, None, tokenizer, longest) for ids in encoded], mean)
    return np.array([row["embedding"] for row in found], np.float32).reshape(-1, model.config.hidden_size)


def _forward(model: keras.Model, count: int) -> Callable[[Arrays], dict[str, Any]]:
    """Runs a model for `count` examples; a graph pays off from the second batch on."""
    return model.predict_on_batch if count > USUAL_SIZE.rows else partial(model, training=False)


def _rows(features: Sequence[Features], compute: Callable[[Arrays], dict[str, Any]]) -> list[Arrays]:
    """Computes a row for each example, in batches of similar lengths."""

    def outputs() -> Iterator[dict[str, Any]]:
        for batch in numpy_batches(EncodedSplit("call", (), features)):
            index = batch.pop("index")
            yield {**compute(batch), "index": index}

    return by_row(outputs(), len(features))
