"""Text to ids with a WordPiece vocab.txt, as BERT and the Chinese ALBERT checkpoints do it.

text --words, CJK characters, punctuation--> plain words --longest pieces first--> ids
"""

import os
import re
import unicodedata
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from albert_tf.errors import InputError
from data_prep.masking import MaskingVocabulary
from data_prep.tokenizer import Encoding

SYMBOLS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_LONGEST_WORD = 200  # characters; a longer word is [UNK]

# The original's ranges: Chinese characters, but neither kana nor Hangul, are words of their own.
_CJK = (
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002ceaf\U0002f800-\U0002fa1f"
)
# White space to the original, for which \v, \f and U+001C to U+001F are control characters that go.
_SPACE = " \t\n\r\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_CHUNK = re.compile(f"[{_CJK}]|[^{_CJK}{_SPACE}]+")
_SPACE_IN_CHINESE = re.compile(f"(?<=[{_CJK}]) | (?=[{_CJK}])")


class Word(NamedTuple):
    """A plain word of N characters and the span of the text that each of them stands for."""

    text: str
    begins: list[int]
    ends: list[int]


class WordPieceTokenizer:
    """A WordPiece vocabulary with BERT's rules for words; offers what AlbertTokenizer does.

    Args:
      vocab_file: a vocab.txt, one piece a line, with [PAD], [UNK], [CLS], [SEP] and [MASK].
      do_lower_case: False for a cased vocabulary, which also keeps accents.

    Attributes:
      pieces: the V pieces, a tuple of strings; `pieces[id]` is the piece of an id.
      vocab_size: V.
      pad_id, unk_id, cls_id, sep_id, mask_id: ids of the symbols.
      starts_word: bool [V], whether a piece starts a word for whole-word masking: all without ##.
      is_special: bool [V], the symbols that never stand for text.

    Raises:
      InputError: the file is missing, is no UTF-8 text, lacks a symbol or has a piece twice.

    >>> tokenizer = WordPieceTokenizer("vocab.txt")
    >>> [tokenizer.pieces[i] for i in tokenizer.encode("我喜欢Transformers!")]
    ['我', '喜', '欢', 'transform', '##ers', '!']
    """

    def __init__(self, vocab_file: str | os.PathLike, do_lower_case: bool = True):
        self.vocab_file = Path(vocab_file)
        self.do_lower_case = do_lower_case
        self.pieces: tuple[str, ...] = _load(self.vocab_file)
        self.vocab_size = len(self.pieces)
        self._ids = {piece: i for i, piece in enumerate(self.pieces)}
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = (
            self._ids[symbol] for symbol in SYMBOLS
        )
        self.starts_word = np.array([not piece.startswith("##") for piece in self.pieces])
        self.is_special = np.array([piece in SYMBOLS for piece in self.pieces])
        self._longest_piece = max(map(len, self.pieces))
        self._pieces_of = lru_cache(maxsize=1 << 16)(self._split)  # text repeats its words

    def __reduce__(self):
        return WordPieceTokenizer, (
            self.vocab_file,
            self.do_lower_case,
        )  # for worker processes; no cache goes along

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
        """The ids of one text, without [CLS] and [SEP]; a typed "[MASK]" is text, never the symbol."""
        words = split_words(text, self.do_lower_case)
        return [i for word in words for i, _ in self._pieces_of(word.text)]

    def encode_batch(self, texts: list[str]) -> list[np.ndarray]:
        """The ids of many texts, for each int32 [number of pieces]."""
        return [np.array(self.encode(text), np.int32) for text in texts]

    def encode_with_offsets(self, text: str) -> Encoding:
        """The ids of one text and where each piece lies in it.

        Args:
          text: any text.

        Returns:
          ids and offsets, in characters of the text; an accent belongs to its letter.

        >>> tokenizer.encode_with_offsets("我 喜欢 Cafés").offsets.tolist()  # 我 喜 欢 cafe ##s
        [[0, 1], [2, 3], [3, 4], [5, 9], [9, 10]]
        """
        ids, offsets = [], []
        for word in split_words(text, self.do_lower_case):
            begin = 0
            for i, end in self._pieces_of(word.text):
                ids.append(i)
                offsets.append((word.begins[begin], word.ends[end - 1]))
                begin = end
        return Encoding(np.array(ids, np.int32), np.array(offsets, np.int32).reshape(-1, 2))

    def encode_batch_with_offsets(self, texts: list[str]) -> list[Encoding]:
        """The ids and offsets of many texts."""
        return [self.encode_with_offsets(text) for text in texts]

    def decode(self, ids) -> str:
        """The plain text of ids; symbols but [UNK] leave nothing behind, nor do spaces in Chinese.

        >>> tokenizer.decode(tokenizer.encode("我喜欢 Transformers!"))
        '我喜欢transformers !'
        """
        pieces = [self.pieces[i] for i in ids if i == self.unk_id or not self.is_special[i]]
        return _SPACE_IN_CHINESE.sub("", " ".join(pieces).replace(" ##", ""))

    def _split(self, word: str) -> tuple[tuple[int, int], ...]:
        """(id, end in the word) of the longest piece that fits, again and again; [UNK] if one fails."""
        unknown = ((self.unk_id, len(word)),)
        if len(word) > _LONGEST_WORD:
            return unknown
        pieces: list[tuple[int, int]] = []
        begin = 0
        while begin < len(word):
            prefix = "##" if begin else ""
            for end in range(min(len(word), begin + self._longest_piece), begin, -1):
                i = self._ids.get(prefix + word[begin:end])
                if i is not None:
                    break
            else:
                return unknown
            pieces.append((i, end))
            begin = end
        return tuple(pieces)


def split_words(text: str, do_lower_case: bool = True) -> list[Word]:
    """BERT's words: split at white space, around Chinese characters and around punctuation.

    Control characters go; with `do_lower_case` so do capitals and accents.

    >>> [word.text for word in split_words("Où est-il? 在北京")]
    ['ou', 'est', '-', 'il', '?', '在', '北', '京']
    """
    words: list[Word] = []
    for chunk in _CHUNK.finditer(text):
        plain = _plain(chunk[0], chunk.start(), do_lower_case)
        words += _split_punctuation(plain)
    return words


def _plain(chunk: str, begin: int, do_lower_case: bool) -> Word:
    if chunk.isascii() and chunk.isprintable():
        text = chunk.lower() if do_lower_case else chunk
        return Word(
            text, list(range(begin, begin + len(text))), list(range(begin + 1, begin + 1 + len(text)))
        )
    kept = [(i, c) for i, c in enumerate(chunk, begin) if not _goes(c)]
    text = "".join([c for _, c in kept])
    if not do_lower_case:
        return Word(text, [i for i, _ in kept], [i + 1 for i, _ in kept])
    word = Word(_without_accents(text.lower()), [], [])
    for i, character in kept:
        length = len(_without_accents(character.lower()))
        if not length and word.ends:
            word.ends[-1] = i + 1
        word.begins.extend([i] * length)
        word.ends.extend([i + 1] * length)
    return word


def _split_punctuation(word: Word) -> list[Word]:
    cuts = {0, len(word.text)}
    for i, character in enumerate(word.text):
        if _is_punctuation(character):
            cuts |= {i, i + 1}
    places = sorted(cuts)
    return [
        Word(word.text[begin:end], word.begins[begin:end], word.ends[begin:end])
        for begin, end in pairwise(places)
    ]


def _without_accents(text: str) -> str:
    return "".join([c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn"])


def _goes(character: str) -> bool:
    return character == "\ufffd" or unicodedata.category(character) in ("Cc", "Cf")


def _is_punctuation(character: str) -> bool:
    """All ASCII but letters, digits and controls, such as ^ and $, and what Unicode calls punctuation."""
    if character.isascii():
        return character.isprintable() and not character.isalnum() and character != " "
    return unicodedata.category(character).startswith("P")


def _load(path: Path) -> tuple[str, ...]:
    if not path.is_file():
        raise InputError(f"There is no vocabulary {path}. Name the vocab.txt of a checkpoint.")
    try:
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(
            f"A vocab.txt must be UTF-8 text. {path} is not, from byte {error.start} on; a SentencePiece "
            "model goes with --spm_model_file."
        ) from None
    pieces = tuple(line.strip() for line in lines)
    if missing := [symbol for symbol in SYMBOLS if symbol not in pieces]:
        raise InputError(
            f"A WordPiece vocabulary must have the symbols {', '.join(SYMBOLS)}, each on its line. {path} "
            f"lacks {', '.join(missing)}."
        )
    seen: dict[str, int] = {}
    for number, piece in enumerate(pieces, 1):
        if seen.setdefault(piece, number) != number and piece:
            raise InputError(
                f"A vocabulary must have each piece once. {path} has {piece!r} on lines {seen[piece]} "
                f"and {number}."
            )
    return pieces
