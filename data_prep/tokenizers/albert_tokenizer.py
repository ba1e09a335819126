"""Text to ids and back: ALBERT's rules around a SentencePiece model.

text --normalize--> "plain text" --SentencePiece--> ids --digit-comma table--> ids
"""

import os
from collections.abc import Iterator
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import sentencepiece
from google.protobuf.message import DecodeError
from sentencepiece import sentencepiece_model_pb2

from data_prep.errors import InputError
from data_prep.files import encodable, read_bytes
from data_prep.tokenizers.digit_comma import DigitCommaTable
from data_prep.tokenizers.long_texts import LONGEST_WHOLE, Cuts, Part
from data_prep.tokenizers.normalization import (
    RELEASED,
    FoldingTable,
    Normalization,
    folding_table,
    normalize,
)
from data_prep.tokenizers.offsets import Locator, OffsetTables, pieces_of
from data_prep.tokenizers.vocabulary_flags import WordBoundaries
from data_prep.tokenizers.word_starts import word_starts

CONTROL_SYMBOLS = ("[CLS]", "[SEP]", "[MASK]")
_CHUNK = 256  # texts whose offsets are computed together: few enough for the processor's cache
_LONGEST_PIECE = 1000  # characters; `albert vocab` makes pieces of up to 16


class Encoding(NamedTuple):
    """The ids of a text and the offsets of their pieces.

    Attributes:
      ids: int32 [T].
      offsets: int32 [T, 2], begin and end of each piece in the original text, in characters (code points), as
        in `text[begin:end]` and in SQuAD's answer_start.
    """

    ids: np.ndarray
    offsets: np.ndarray


class AlbertTokenizer:
    """A SentencePiece vocabulary with ALBERT's normalization and its digit-comma rule.

    Args:
      spm_model_file: SentencePiece model with the symbols [CLS], [SEP] and [MASK]. User-defined symbols of these
        names are read as control symbols, so that text never becomes one of them.
      normalization: how text is normalized; it must be the normalization that the vocabulary was trained with.
      content: the model's bytes, if they are already in memory; `spm_model_file` then only names them in
        messages.
      offset_tables: stored tables of this vocabulary; computing them takes half a second.

    Attributes:
      file: the vocabulary file.
      pieces: the V pieces, a tuple of strings; `pieces[id]` is the piece of an id.
      vocab_size: V.
      pad_id, unk_id, cls_id, sep_id, mask_id: ids of the symbols.
      is_special: bool [V], the symbols that never represent text: control symbols and <unk>.

    >>> tokenizer = AlbertTokenizer("runs/base/spm.model")
    >>> tokenizer.decode(tokenizer.encode("The  Captain"))
    'the captain'
    """

    def __init__(
        self,
        spm_model_file: str | os.PathLike,
        normalization: Normalization = RELEASED,
        content: bytes | None = None,
        offset_tables: OffsetTables | None = None,
    ):
        self.file = Path(spm_model_file)
        self.normalization = normalization
        self._model = _load(read_bytes(self.file) if content is None else content, self.file)
        self.vocab_size: int = self._model.vocab_size()
        self.pieces: tuple[str, ...] = tuple(self._model.id_to_piece(list(range(self.vocab_size))))
        self.pad_id = _symbol(self._model, "<pad>", self.file)
        self.cls_id, self.sep_id, self.mask_id = (
            _symbol(self._model, symbol, self.file) for symbol in CONTROL_SYMBOLS
        )
        self.unk_id: int = self._model.unk_id()
        self.is_special = np.array(
            [self._model.is_control(i) or self._model.is_unknown(i) for i in range(self.vocab_size)]
        )
        self.digit_comma = DigitCommaTable.from_model(self._model)
        self._stored_tables = offset_tables

    def word_starts(self, boundaries: WordBoundaries) -> np.ndarray:
        """Whether a piece starts a word for whole-word masking; bool [V]. See `word_starts.word_starts`."""
        return word_starts(self.pieces, boundaries)

    @property
    def serialized_model(self) -> bytes:
        """The content of the SentencePiece model's file."""
        return self._model.serialized_model_proto()

    @cached_property
    def folding(self) -> FoldingTable:
        """`normalize` as a table, for offsets and graphs; computed on first use."""
        return folding_table(self.normalization)

    @cached_property
    def locator(self) -> Locator:
        """Computes offsets; created on first use."""
        return Locator(self._model, self.normalization, self.digit_comma, self.offset_tables)

    @property
    def offset_tables(self) -> OffsetTables:
        """The tables that offsets need."""
        return self._stored_tables or OffsetTables.compute(self._model, self.normalization)

    def encode(self, text: str) -> list[int]:
        """The ids of one text, without [CLS] and [SEP]; "[MASK]" in the text is never the symbol.

        >>> tokenizer.encode("Hello, world.")  # ▁hello , ▁world .
        [10975, 15, 126, 9]
        """
        return self.encode_batch([text])[0].tolist()

    def encode_batch(self, texts: list[str], needed_ids: int | None = None) -> list[np.ndarray]:
        """The ids of each text, int32 [number of pieces].

        Args:
          texts: the texts.
          needed_ids: how many ids of each text the caller needs. A longer text returns more than these, but
            perhaps not all of its ids.
        """
        plain = [encodable(normalize(text, self.normalization)) for text in texts]
        whole = iter(self._model.encode([text for text in plain if not self._is_cut(text)], num_threads=1))
        encoded = [
            self._ids_of_parts(text, needed_ids) if self._is_cut(text) else next(whole) for text in plain
        ]
        ends = np.cumsum([len(ids) for ids in encoded], dtype=np.int64)
        parts, counts = self.digit_comma.expand(np.fromiter(chain.from_iterable(encoded), np.int32))
        ends = np.append(0, np.cumsum(counts))[ends].tolist()
        ids = self.digit_comma.ids[parts]
        return [ids[begin:end] for begin, end in pairwise([0, *ends])]

    @cached_property
    def cuts(self) -> Cuts | None:
        """Where long texts may be cut; computed on first use."""
        return Cuts.from_model(self._model)

    def _is_cut(self, plain: str) -> bool:
        return len(plain) > LONGEST_WHOLE and self.cuts is not None

    def _parts(self, plain: str) -> Iterator[Part]:
        return cast(Cuts, self.cuts).parts(plain)

    def _ids_of_parts(self, plain: str, needed_ids: int | None) -> list[int]:
        ids: list[int] = []
        for part in self._parts(plain):
            found = self._model.encode(part.text)[part.lead_ids :]
            ids += found[ids[-1:] == found[:1] == [self.unk_id] :]
            if needed_ids is not None and len(ids) > needed_ids:
                break
        return ids

    def _pieces_of_parts(self, plain: str) -> list[int]:
        pieces: list[int] = []
        for part in self._parts(plain):
            found = pieces_of(self._model.encode(part.text, out_type="serialized_proto"))[3 * part.lead_ids :]
            found[1::3] = [begin + part.shift for begin in found[1::3]]
            found[2::3] = [end + part.shift for end in found[2::3]]
            if pieces[-3:-2] == found[:1] == [self.unk_id]:
                pieces[-1] = found[2]
                found = found[3:]
            pieces += found
        return pieces

    def encode_with_offsets(self, text: str) -> Encoding:
        """The ids of one text and the offsets of its pieces.

        An accent belongs to its letter, a space to no piece; '▁' alone is empty, in front of the next piece.
        If one character (ﬁ, ½) becomes several pieces, all have its offsets.

        >>> tokenizer.encode_with_offsets("In  2019, Ångström").offsets.tolist()  # ▁in ▁2019 , ▁angstrom
        [[0, 2], [4, 8], [8, 9], [10, 18]]
        """
        return self.encode_batch_with_offsets([text])[0]

    def encode_batch_with_offsets(self, texts: list[str]) -> list[Encoding]:
        """The result of `encode_with_offsets` for each text."""
        encodings: list[Encoding] = []
        for first in range(0, len(texts), _CHUNK):
            encodings += self._encode_with_offsets(texts[first : first + _CHUNK])
        return encodings

    def _encode_with_offsets(self, texts: list[str]) -> list[Encoding]:
        plain = [encodable(normalize(text, self.normalization)) for text in texts]
        encoded = [
            self._pieces_of_parts(text)
            if self._is_cut(text)
            else pieces_of(self._model.encode(text, out_type="serialized_proto"))
            for text in plain
        ]
        ids, offsets, splits = self.locator.locate(texts, plain, encoded)
        return [Encoding(ids[begin:end], offsets[begin:end]) for begin, end in pairwise(splits.tolist())]

    def decode(self, ids) -> str:
        """The plain text of ids, without control symbols.

        >>> tokenizer.decode([2, 10975, 15, 126, 9, 3])
        'hello, world.'
        """
        return self._model.decode([int(i) for i in ids])


def _load(content: bytes, path: Path) -> sentencepiece.SentencePieceProcessor:
    try:
        model = load_sentencepiece(content)
        user_defined = [symbol for symbol in ("<pad>", *CONTROL_SYMBOLS) if _is_user_defined(model, symbol)]
        if user_defined:
            model = load_sentencepiece(_with_control_symbols(content, user_defined))
        return model
    except RuntimeError:
        raise InputError(
            f"{path} is not a SentencePiece model. Name the .model file that `albert vocab` wrote."
        ) from None


def load_sentencepiece(content: bytes) -> sentencepiece.SentencePieceProcessor:
    """The processor of a serialized model.

    Raises:
      RuntimeError: the model is damaged.
    """
    try:
        pieces = [piece.piece for piece in sentencepiece_model_pb2.ModelProto.FromString(content).pieces]
    except DecodeError as error:
        raise RuntimeError(str(error)) from None
    # protobuf returns bytes for text that is not UTF-8. A null character would end the process, and so would a
    # piece of 100,000 characters, over which SentencePiece recurses.
    if any(isinstance(piece, bytes) or "\0" in piece or len(piece) > _LONGEST_PIECE for piece in pieces):
        raise RuntimeError("a piece is not text, or too long")
    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(content)  # the constructor accepts an empty model
    return processor


def _is_user_defined(model: sentencepiece.SentencePieceProcessor, symbol: str) -> bool:
    i = model.piece_to_id(symbol)
    return not (model.is_unknown(i) or model.is_control(i))


def _with_control_symbols(content: bytes, symbols: list[str]) -> bytes:
    """The model with these symbols as control symbols, so that text such as "[MASK]" never becomes one of them."""
    model = sentencepiece_model_pb2.ModelProto.FromString(content)
    for piece in model.pieces:
        if piece.piece in symbols:
            piece.type = piece.CONTROL
    return model.SerializeToString()


def _symbol(model: sentencepiece.SentencePieceProcessor, symbol: str, path: Path) -> int:
    i = model.piece_to_id(symbol)
    if not model.is_control(i):
        raise InputError(
            f"An ALBERT vocabulary must have the symbol {symbol}. {path} does not; make one with `albert vocab`."
        )
    return i
