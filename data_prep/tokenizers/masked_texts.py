"""Texts in which [MASK] stands for the symbol, as ids; `export.fill_mask` does the same in the graph."""

import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from data_prep.errors import InputError
from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer
from data_prep.tokenizers.digit_comma import SPACE
from data_prep.tokenizers.normalization import normalize
from data_prep.tokenizers.vocabulary import Tokenizer

MASK = "[MASK]"
GONE = -1  # in place of an id
_OTHER_MASKS = re.compile(r"<mask>|\[mask\]", re.IGNORECASE)  # the masks of other models, and misspelt ones


class MaskedTexts:
    """The tokenizer for texts in which [MASK] is the symbol.

    What follows a mask without a space ("[MASK]," or "[MASK]s") becomes a piece that does not start a word, if
    the vocabulary has it, as in training, where masks replace pieces. With WordPiece it becomes a word of its
    own, as in BERT's tokenizers, since Chinese text has no spaces to distinguish the two.
    """

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = tokenizer
        self._glued = glued_ids(tokenizer.pieces)

    def encode_batch(self, texts: list[str]) -> list[np.ndarray]:
        """The ids of each text, int32 [number of pieces], in which [MASK] has the symbol's id."""
        parts = [f" {text}".split(MASK) for text in texts]
        encoded = self._tokenizer.encode_batch([part for each in parts for part in each])
        ends = np.cumsum([0, *map(len, parts)]).tolist()
        return [
            self._joined(text_parts, encoded[begin:end])
            for text_parts, (begin, end) in zip(parts, pairwise(ends), strict=True)
        ]

    def _joined(self, parts: list[str], encoded: list[np.ndarray]) -> np.ndarray:
        """The ids of a text's parts with the mask's between them."""
        mask = np.array([self._tokenizer.mask_id], np.int32)
        ids = [encoded[0]]
        for part, pieces in zip(parts[1:], encoded[1:], strict=True):
            ids += [mask, self._glue(pieces) if self._follows_at_once(part) else pieces]
        return np.concatenate(ids).astype(np.int32)

    def _follows_at_once(self, part: str) -> bool:
        """Whether there is no white space, by the tokenizer's rules, before the first word."""
        tokenizer = self._tokenizer
        if not isinstance(tokenizer, AlbertTokenizer):
            return False
        return not normalize(f"x{part}", tokenizer.normalization).startswith("x ")

    def _glue(self, pieces: np.ndarray) -> np.ndarray:
        """Removes the space from the first piece."""
        if not len(pieces):
            return pieces
        first = self._glued[pieces[:1]]
        return np.concatenate([first[first != GONE], pieces[1:]])


def check_masks(texts: Sequence[str]) -> None:
    """Raises InputError if a text has another model's mask instead of [MASK]."""
    for number, text in enumerate(texts):
        if MASK not in text and (other := _OTHER_MASKS.search(text)):
            raise InputError(f"The mask is {MASK}, in capital letters. Received {other[0]} in text {number}.")


def glued_ids(pieces: tuple[str, ...]) -> np.ndarray:
    """For each piece the id of the same piece without its space, int32 [V]; -1 for the space alone.

    >>> glued_ids(("▁", "s", "▁s", "▁sat"))
    array([-1,  1,  1,  3], dtype=int32)
    """
    ids = {piece: i for i, piece in enumerate(pieces)} | {"": GONE}
    return np.array([ids.get(piece.removeprefix(SPACE), i) for i, piece in enumerate(pieces)], np.int32)


def mask_positions(ids: np.ndarray, mask_id: int) -> np.ndarray:
    """The places of the masks in each row of `ids` (B, T), then other places, int64 (B, M).

    M is the largest number of masks in a row, at least 1.

    >>> mask_positions(np.array([[2, 4, 9, 4, 3], [2, 7, 4, 3, 0]]), 4)
    array([[1, 3],
           [2, 0]])
    """
    is_mask = ids == mask_id
    places = np.argsort(~is_mask, axis=1, kind="stable")
    return places[:, : max(1, is_mask.sum(axis=1).max())]


def cut_around_masks(ids: np.ndarray, mask_id: int, room: int) -> np.ndarray:
    """Cuts ids to at most `room`, with the masks in the middle; the first one is always kept.

    Ids without a mask keep their beginning.
    """
    masks = np.flatnonzero(ids == mask_id)
    first, last = (masks[0], masks[-1]) if len(masks) else (0, 0)
    begin = max((first + last) // 2 - room // 2, last - room + 1)
    begin = min(max(min(begin, first), 0), max(len(ids) - room, 0))
    return ids[begin : begin + room]
