"""The offsets of pieces in the original text.

Plain text and pieces have the same visible characters in the same order; a character is visible unless
SentencePiece's own normalization leaves only white space of it. So a piece is a range of visible characters,
counted over the whole batch, from which follow the begin of its first and the end of its last one in the original.

    original  "I  like  5,"     pieces           ▁i      ▁like    ▁5      ,
                                visible ranges   [0,1)   [1,5)    [5,6)   [6,7)
                                offsets          [0,1)   [3,7)    [9,10)  [10,11)
"""

import math
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import sentencepiece
from sentencepiece import sentencepiece_model_pb2, sentencepiece_pb2

from data_prep.errors import InputError
from data_prep.files import NPZ_ERRORS
from data_prep.tokenizers.charsmap import SEPARATOR, charsmap_keys
from data_prep.tokenizers.digit_comma import SPACE, DigitCommaTable
from data_prep.tokenizers.normalization import (
    WHITE_SPACE,
    FoldingTable,
    Normalization,
    code_points,
    folding_table,
)

_ARRAYS = ("rows", "splits", "values", "visible")
_MOST_BYTES = 64 << 20  # a limit for the tables, which have 2 million bytes


def visible_characters(model: sentencepiece.SentencePieceProcessor) -> np.ndarray:
    """Whether the model's own normalization leaves more than white space of a character, bool [code points].

    The last entry, True, holds for all code points beyond it.
    """
    invisible = [
        ord(c) for c, part in normalized_characters(model).items() if not part.replace(SPACE, "").strip()
    ]
    visible = np.ones(max(invisible) + 2, bool)
    visible[invisible] = False
    return visible


def normalized_characters(model: sentencepiece.SentencePieceProcessor) -> dict[str, str]:
    """What the model's own normalization makes of each character that it changes, or that is white space."""
    rules = sentencepiece_model_pb2.ModelProto.FromString(model.serialized_model_proto()).normalizer_spec
    changed = _characters_in_rules(rules.precompiled_charsmap)
    characters = sorted({*changed, SPACE, *map(chr, np.flatnonzero(WHITE_SPACE))} - {SEPARATOR})
    normalized = model.normalize(SEPARATOR + SEPARATOR.join(characters) + SEPARATOR)
    return dict(zip(characters, normalized.split(SEPARATOR)[1:-1], strict=True))


@lru_cache(maxsize=4)  # most vocabularies have the same rules
def _characters_in_rules(charsmap: bytes) -> frozenset[str]:
    """The characters that a model's table replaces; all of them if it is damaged."""
    try:
        return frozenset(key for key in charsmap_keys(charsmap) if len(key) == 1)
    except ValueError:
        return frozenset(chr(i) for i in range(0x110000) if not 0xD800 <= i < 0xE000)


@dataclass(frozen=True)
class OffsetTables:
    """Tables of all characters, for offsets.

    Attributes:
      folding: from original to plain text.
      visible: bool [code points], from `visible_characters`.
    """

    folding: FoldingTable
    visible: np.ndarray

    @classmethod
    def compute(
        cls, model: sentencepiece.SentencePieceProcessor, normalization: Normalization
    ) -> "OffsetTables":
        """The tables of a vocabulary."""
        return cls(folding_table(normalization), visible_characters(model))

    def write(self, path: Path, of: str) -> None:
        """Writes them as .npz; `of` names the vocabulary and its normalization."""
        folding = self.folding
        np.savez_compressed(
            path,
            rows=folding.rows,
            splits=folding.splits,
            values=folding.values,
            visible=self.visible,
            of=np.array(of),
        )

    @classmethod
    def read(cls, path: Path, of: str) -> "OffsetTables":
        """Reads what `write` wrote."""
        try:
            _check_arrays(path)
            # Opened here, since np.load leaves a damaged file open.
            with path.open("rb") as opened, np.load(opened) as arrays:
                rows, splits, values, visible = (np.asarray(arrays[name]) for name in _ARRAYS)
                owner = str(arrays["of"])
        except NPZ_ERRORS as error:
            raise InputError(f"{path} must hold the tables of a tokenizer. It does not: {error}.") from None
        if owner != of:
            raise InputError(f"{path} must hold the tables of the vocabulary beside it. It holds others.")
        is_table = all(array.ndim == 1 and len(array) for array in (rows, splits, values, visible)) and (
            rows.dtype == splits.dtype == values.dtype == np.int32
            and visible.dtype == bool
            and 0 <= rows.min() <= rows.max() < len(splits) - 1
            and splits[0] == 0
            and (np.diff(splits) >= 0).all()
            and splits[-1] == len(values)
        )
        if not is_table:
            raise InputError(f"{path} must hold the tables of a tokenizer. It holds other arrays.")
        return cls(FoldingTable(rows, splits, values), visible)


def _check_arrays(path: Path) -> None:
    """Raises an error of NPZ_ERRORS if arrays have too many bytes, or other shapes than their bytes."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if (total := sum(member.file_size for member in members)) > _MOST_BYTES:
            raise ValueError(f"its arrays have {total:,} bytes, at most {_MOST_BYTES:,} are allowed")
        for member in members:
            with archive.open(member) as file:
                np.lib.format.read_magic(file)
                shape, _, dtype = np.lib.format.read_array_header_1_0(file)
                if math.prod(shape) * dtype.itemsize != member.file_size - file.tell():
                    raise ValueError(f"{member.filename} does not have the bytes of its shape, {shape}")


class Locator:
    """Computes the offsets of pieces in the original texts; `rewriting` is the digit-comma rule.

    Attributes:
      visible: bool [code points], from `visible_characters`.
      is_blank: bool [V], the pieces that are only spaces.
    """

    def __init__(
        self,
        model: sentencepiece.SentencePieceProcessor,
        normalization: Normalization,
        rewriting: DigitCommaTable,
        tables: OffsetTables,
    ):
        self._folding = tables.folding
        self._remove_space = normalization.remove_space
        self._rewriting = rewriting
        self.visible = tables.visible
        pieces = model.id_to_piece(list(range(model.vocab_size())))
        self.is_blank = np.array([not piece.replace(SPACE, "") for piece in pieces])

    def locate(
        self, originals: Sequence[str], plain: Sequence[str], encoded: Sequence[list[int]]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Ids and offsets of a batch: of B texts, these normalized, and `pieces_of` the model's encoding of each.

        Returns:
          ids, int32 [pieces of all texts]; their offsets, int32 [pieces of all texts, 2]; and the splits between
          the pieces of the texts, int64 [B + 1].
        """
        codes = code_points("".join(plain))
        is_visible = self.visible[np.minimum(codes, len(self.visible) - 1)]
        span_begins, span_ends = self._spans(originals, is_visible)

        pieces = _parse(encoded)
        begins, ends, splits = self._visible_ranges(plain, codes, is_visible, pieces)
        parts, counts = self._rewriting.expand(pieces.ids)
        text, begins, ends = (np.repeat(values, counts) for values in (pieces.text_of, begins, ends))
        begins, ends = (
            np.minimum(begins + places[parts], ends)
            for places in (self._rewriting.begins, self._rewriting.ends)
        )

        # A piece without a visible character is empty, in front of the next piece; but between two pieces of the
        # same original character (ﷺ is four words), it has that character's offsets.
        after = np.where(
            begins < splits[text + 1], np.append(span_begins, 0)[begins], _sizes(originals)[text]
        )
        before = np.where(begins > splits[text], np.append(span_ends, 0)[begins - 1], 0)
        own = np.append(span_ends, 0)[ends - 1]
        offsets = np.stack([after, np.where(begins < ends, own, np.maximum(before, after))], axis=1)
        return self._rewriting.ids[parts], offsets.astype(np.int32), _count_before(counts)[pieces.splits]

    def _spans(self, originals: Sequence[str], is_visible: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The begin and end of each visible character in its original text."""
        codes = code_points("".join(originals))
        sizes = _sizes(originals)
        splits = _count_before(sizes)
        lengths = self._folding.lengths(codes)
        # A character ends where the next one that is not a mark begins, or at the end of the text.
        is_whole = lengths > 0
        next_wholes = np.append(np.flatnonzero(is_whole), len(codes))[1:]

        if self._remove_space:
            lengths[_superfluous_spaces(codes, splits)] = 0
        sources = np.repeat(np.arange(len(codes)), lengths)[is_visible]
        text_begins = np.repeat(splits[:-1], sizes)[sources]
        text_ends = np.repeat(splits[1:], sizes)[sources]
        ends = np.minimum(next_wholes[_count_before(is_whole)[sources]], text_ends)
        return sources - text_begins, ends - text_begins

    def _visible_ranges(self, plain: Sequence[str], codes, is_visible, pieces: "_Pieces"):
        """The begins and ends of the pieces, [P], and the splits of the texts, [B + 1], in visible characters."""
        visible_before = _count_before(is_visible)
        widths = _utf8_widths(codes)
        visible_before_byte = np.repeat(visible_before, np.append(widths, 1))
        text_splits = _count_before(_sizes(plain))
        first_byte = _count_before(widths)[text_splits][pieces.text_of]
        begins = visible_before_byte[first_byte + pieces.begins]
        ends = visible_before_byte[first_byte + pieces.ends]
        splits = visible_before[text_splits]
        # If the model's own rules turn one character into several (ß, ss), the pieces share it.
        at_least = np.minimum(begins + ~self.is_blank[pieces.ids], splits[pieces.text_of + 1])
        return begins, np.maximum(ends, at_least), splits


class _Pieces(NamedTuple):
    """P pieces of B texts."""

    ids: np.ndarray  # int64 [P]
    begins: np.ndarray  # int64 [P], bytes in the plain text
    ends: np.ndarray  # int64 [P]
    splits: np.ndarray  # int64 [B + 1], between the pieces of the texts
    text_of: np.ndarray  # int64 [P]


def pieces_of(encoded: bytes) -> list[int]:
    """The id, begin and end of each piece, the latter in bytes, of a serialized SentencePieceText message."""
    # Reads each piece once, since every access creates a Python object.
    message = sentencepiece_pb2.SentencePieceText.FromString(encoded)
    return [n for piece in message.pieces for n in (piece.id, piece.begin, piece.end)]


def _parse(encoded: Sequence[list[int]]) -> _Pieces:
    sizes = [len(numbers) // 3 for numbers in encoded]
    flat = np.fromiter(chain.from_iterable(encoded), np.int64, 3 * sum(sizes))
    ids, begins, ends = flat.reshape(-1, 3).T
    return _Pieces(ids, begins, ends, _count_before(sizes), np.repeat(np.arange(len(sizes)), sizes))


def _superfluous_spaces(codes: np.ndarray, splits: np.ndarray) -> np.ndarray:
    """The places of white space at either end of a text or in front of more white space."""
    spaces = np.flatnonzero(WHITE_SPACE[np.minimum(codes, len(WHITE_SPACE) - 1)])
    words_before = spaces - np.arange(len(spaces))  # characters of words, in all texts before it
    words_at_splits = splits - np.searchsorted(spaces, splits)
    text = np.searchsorted(splits, spaces, side="right") - 1
    after_a_word = words_before > words_at_splits[text]
    before_a_word = words_before < words_at_splits[text + 1]
    before_a_space = np.append(spaces, -1)[1:] == spaces + 1
    return spaces[~(after_a_word & before_a_word & ~before_a_space)]


def _utf8_widths(codes: np.ndarray) -> np.ndarray:
    return np.searchsorted([0x80, 0x800, 0x10000], codes, side="right") + 1


def _sizes(texts: Sequence[str]) -> np.ndarray:
    return np.array([len(text) for text in texts], np.int64)


def _count_before(counts) -> np.ndarray:
    """[0, a, a + b, ...] of [a, b, ...], int64."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
