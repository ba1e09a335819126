"""Text to ids and back: ALBERT's rules around a SentencePiece model, defined once for every use.

text --normalize--> "plain text" --SentencePiece--> ids --digit-comma table--> ids
"""

import os
import unicodedata
from itertools import chain
from pathlib import Path

import numpy as np
import sentencepiece

from albert_tf.errors import InputError
from data_prep.masking import MaskingVocabulary

SPACE = "▁"  # U+2581, how SentencePiece writes a space
CONTROL_SYMBOLS = ("[CLS]", "[SEP]", "[MASK]")

# The original's list: ASCII punctuation without ' < = >, and the two currency signs of its vocabulary.
_PUNCTUATION = frozenset('!"#$%&()*+,-./:;?@[\\]^_`{|}~£€')
_INSIDE_WORDS = _PUNCTUATION | frozenset("abcdefghijklmnopqrstuvwxyz")


def normalize(text: str, do_lower_case: bool = True) -> str:
    """What ALBERT does to text before SentencePiece sees it.

    White space collapses to single spaces, NFKD takes characters apart, combining marks go, and case.

    Args:
      text: any text.
      do_lower_case: False for a cased vocabulary.

    Returns:
      The plain text.

    >>> normalize("  Café\\t№ 5 ")
    'cafe no 5'
    """
    text = " ".join(text.split())
    if not text.isascii():  # ASCII is its own decomposition
        text = unicodedata.normalize("NFKD", text)
        text = "".join([c for c in text if not unicodedata.combining(c)])
    return text.lower() if do_lower_case else text


class AlbertTokenizer:
    """A SentencePiece vocabulary with ALBERT's normalization and its digit-comma rule.

    Args:
      spm_model_file: a SentencePiece model with the control symbols [CLS], [SEP] and [MASK].
      do_lower_case: False for a cased vocabulary.

    Attributes:
      pieces: the V pieces, a tuple of strings; `pieces[id]` is the piece of an id.
      vocab_size: V.
      pad_id, unk_id, cls_id, sep_id, mask_id: ids of the symbols.
      starts_word: bool [V], whether a piece starts a word for whole-word masking.
      is_special: bool [V], the symbols that never stand for text: control symbols and <unk>.

    Raises:
      InputError: the file is missing, is no SentencePiece model, or lacks one of the symbols.

    >>> tokenizer = AlbertTokenizer("30k-clean.model")
    >>> tokenizer.encode("In 2019, albert")  # ▁in ▁2019 , ▁albert
    [19, 10114, 15, 2953]
    """

    def __init__(self, spm_model_file: str | os.PathLike, do_lower_case: bool = True):
        self.spm_model_file = Path(spm_model_file)
        self.do_lower_case = do_lower_case
        self._model = _load(self.spm_model_file)
        self.vocab_size: int = self._model.vocab_size()
        self.pieces: tuple[str, ...] = tuple(self._model.id_to_piece(list(range(self.vocab_size))))
        self.pad_id = _symbol(self._model, "<pad>", self.spm_model_file)
        self.cls_id, self.sep_id, self.mask_id = (
            _symbol(self._model, symbol, self.spm_model_file) for symbol in CONTROL_SYMBOLS
        )
        self.unk_id: int = self._model.unk_id()
        self.starts_word = np.array([_starts_word(piece) for piece in self.pieces])
        self.is_special = np.array(
            [self._model.is_control(i) or self._model.is_unknown(i) for i in range(self.vocab_size)]
        )
        self._rewritten = self._digit_comma_table()
        self._is_rewritten = np.zeros(self.vocab_size, bool)
        self._is_rewritten[list(self._rewritten)] = True

    @property
    def masking_vocabulary(self) -> MaskingVocabulary:
        """What masking needs to know of the vocabulary."""
        return MaskingVocabulary(
            cls_id=self.cls_id,
            sep_id=self.sep_id,
            mask_id=self.mask_id,
            starts_word=self.starts_word,
            replacements=np.flatnonzero(~self.is_special).astype(np.int32),
        )

    def encode(self, text: str) -> list[int]:
        """The ids of one text, without [CLS] and [SEP]; a typed "[MASK]" is text, never the symbol.

        >>> tokenizer.encode("Hello, world.")  # ▁hello , ▁world .
        [10975, 15, 126, 9]
        """
        return self.encode_batch([text])[0].tolist()

    def encode_batch(self, texts: list[str]) -> list[np.ndarray]:
        """The ids of many texts, at SentencePiece's own speed.

        Args:
          texts: any number of texts.

        Returns:
          For each text its ids, int32 [number of pieces]; an empty text has none.
        """
        plain = [_encodable(normalize(text, self.do_lower_case)) for text in texts]
        encoded: list[list[int]] = self._model.encode(plain, num_threads=1)
        flat = np.fromiter(chain.from_iterable(encoded), np.int32)
        if self._is_rewritten[flat].any():
            encoded = [self._rewrite(ids) for ids in encoded]
            flat = np.fromiter(chain.from_iterable(encoded), np.int32)
        ends = np.cumsum([len(ids) for ids in encoded]).tolist()
        return [flat[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]

    def decode(self, ids) -> str:
        """The plain text of ids; control symbols leave nothing behind.

        >>> tokenizer.decode([2, 10975, 15, 126, 9, 3])
        'hello, world.'
        """
        return self._model.decode([int(i) for i in ids])

    def _rewrite(self, ids: list[int]) -> list[int]:
        table = self._rewritten
        if table.keys().isdisjoint(ids):
            return ids
        return list(chain.from_iterable(table.get(i, (i,)) for i in ids))

    def _digit_comma_table(self) -> dict[int, tuple[int, ...]]:
        """Id -> ids, for the pieces that end in a digit and a comma: '▁5,' becomes '▁5' and ','.

        The original applies the rule to each piece as it goes by; a vocabulary has only so many pieces.
        """
        return {
            i: (*self._without_comma(piece[:-1]), self._model.piece_to_id(","))
            for i, piece in enumerate(self.pieces)
            if len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit() and not self.is_special[i]
        }

    def _without_comma(self, piece: str) -> list[int]:
        ids = self._model.encode(piece.replace(SPACE, ""))
        first = self.pieces[ids[0]]
        if piece.startswith(SPACE) or not first.startswith(SPACE):
            return ids
        # Encoding always begins a word, but this piece continues one: '5,' is '5' ',' and not '▁5' ','.
        if first == SPACE:
            return ids[1:]
        stripped = self._model.piece_to_id(first[1:])
        if stripped != self.unk_id:
            return [stripped, *ids[1:]]
        # There is no such piece without the space: its characters, where the original would lose it to <unk>.
        return [self._model.piece_to_id(character) for character in first[1:]] + ids[1:]


def _starts_word(piece: str) -> bool:
    """The original's rule: foreign letters, digits and punctuation are words of their own.

    >>> [_starts_word(piece) for piece in ("▁the", "ing", ",", "é", "5", "'s", "<unk>")]
    [True, False, True, True, True, True, True]
    """
    return (
        piece.startswith((SPACE, "<"))
        or piece in _PUNCTUATION
        or not all(character.lower() in _INSIDE_WORDS for character in piece)
    )


def _encodable(text: str) -> str:
    """Lone surrogates (broken JSON escapes) have no UTF-8; they become U+FFFD, as in a text editor."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _load(path: Path) -> sentencepiece.SentencePieceProcessor:
    if not path.is_file():
        raise InputError(f"There is no SentencePiece model {path}. Make one with `albert vocab`.")
    try:
        # LoadFromSerializedProto: the constructor takes an empty file for "no model yet".
        model = sentencepiece.SentencePieceProcessor()
        model.LoadFromSerializedProto(path.read_bytes())
        return model
    except RuntimeError:
        raise InputError(
            f"{path} is not a SentencePiece model. Name the .model file that `albert vocab` wrote."
        ) from None


def _symbol(model: sentencepiece.SentencePieceProcessor, symbol: str, path: Path) -> int:
    i = model.piece_to_id(symbol)
    # A user-defined [MASK] would also be found in what people type.
    if not model.is_control(i):
        raise InputError(
            f"An ALBERT vocabulary must have the control symbol {symbol}. {path} has not; "
            "make one with `albert vocab`."
        )
    return i
