"""ALBERT's digit-comma rule as a table over the vocabulary: '▁5,' becomes '▁5' and ','.

The original applies the rule to each piece of a text; here it is computed once for each piece of the vocabulary.
"""

from typing import NamedTuple

import numpy as np
import sentencepiece

SPACE = "▁"  # U+2581, how SentencePiece writes a space


class DigitCommaTable(NamedTuple):
    """For each of V pieces, the parts that replace it: in most cases only the piece itself.

    Attributes:
      splits: int32 [V + 1], the parts of piece i are `splits[i]` up to `splits[i + 1]`.
      ids: int32 [parts].
      begins, ends: int32 [parts], the part's range of the piece's visible characters (all but ▁).
    """

    splits: np.ndarray
    ids: np.ndarray
    begins: np.ndarray
    ends: np.ndarray

    @classmethod
    def from_model(cls, model: sentencepiece.SentencePieceProcessor) -> "DigitCommaTable":
        """The table of a vocabulary."""
        splits, parts = [0], []
        for i in range(model.vocab_size()):
            parts += _parts(model, i)
            splits.append(len(parts))
        ids, begins, ends = np.array(parts, np.int32).T.copy()
        return cls(np.array(splits, np.int32), ids, begins, ends)

    def expand(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows of the parts of pieces, int [N], in the table, int [sum(counts)], and their counts, int [N]."""
        counts = self.splits[ids + 1] - self.splits[ids]
        first_out = np.cumsum(counts) - counts
        return np.arange(counts.sum()) + np.repeat(self.splits[ids] - first_out, counts), counts


def is_split(piece: str) -> bool:
    """Whether the rule applies to a piece: it ends in a digit and a comma."""
    return len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit()


_ALL = np.iinfo(np.int32).max // 2  # an unknown piece may have any number of characters


def _parts(model: sentencepiece.SentencePieceProcessor, i: int) -> list[tuple[int, int, int]]:
    """(id, begin, end) of the parts of piece i."""
    piece = model.id_to_piece(i)
    if model.is_control(i) or model.is_unknown(i) or not is_split(piece):
        return [(i, 0, _ALL)]
    parts, begin = [], 0
    for part in (*_without_comma(model, piece[:-1]), ","):
        end = begin + len(part.replace(SPACE, ""))
        parts.append((model.piece_to_id(part), begin, end))
        begin = end
    return parts


def _without_comma(model: sentencepiece.SentencePieceProcessor, piece: str) -> list[str]:
    parts = model.encode_as_pieces(piece.replace(SPACE, ""))
    first = parts[0]
    if piece.startswith(SPACE) or not first.startswith(SPACE):
        return parts
    # Encoding begins a word, but this piece continues one: '5,' is '5' ',' and not '▁5' ','.
    if first == SPACE:
        return parts[1:]
    if model.piece_to_id(first[1:]) != model.unk_id():
        return [first[1:], *parts[1:]]
    # The vocabulary lacks the piece without the space: use its characters (the original has <unk>).
    return [*first[1:], *parts[1:]]
