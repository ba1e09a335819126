"""Text to ids with a WordPiece vocab.txt, as in BERT and the Chinese ALBERT checkpoints.

text --spaces, Chinese characters, punctuation--> plain words --longest pieces first--> ids
"""

import os
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path

import numpy as np

from data_prep.errors import InputError
from data_prep.files import read_bytes
from data_prep.tokenizers.albert_tokenizer import Encoding
from data_prep.tokenizers.normalization import RELEASED, Normalization
from data_prep.tokenizers.vocabulary_flags import WordBoundaries
from data_prep.tokenizers.words import CHINESE, split_words

SYMBOLS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LONGEST_WORD = 200  # characters; a longer word is [UNK]
_SPACE_IN_CHINESE = re.compile(f"(?<=[{CHINESE}]) | (?=[{CHINESE}])")


class WordPieceTokenizer:
    """A WordPiece vocabulary with BERT's rules for words; has the interface of AlbertTokenizer.

    Args:
      vocab_file: a vocab.txt with one piece per line, including [PAD], [UNK], [CLS], [SEP] and [MASK].
      normalization: `do_lower_case` drops accents, too; a cased vocabulary keeps them.
      content: the file's bytes, if they are already in memory; `vocab_file` then only names them in messages.

    Attributes:
      file: the vocabulary file.
      pieces: the V pieces, a tuple of strings; `pieces[id]` is the piece of an id.
      vocab_size: V.
      pad_id, unk_id, cls_id, sep_id, mask_id: ids of the symbols.
      is_special: bool [V], the symbols that never represent text.

    >>> tokenizer = WordPieceTokenizer("vocab.txt")
    >>> [tokenizer.pieces[i] for i in tokenizer.encode("我喜欢Transformers!")]
    ['我', '喜', '欢', 'transform', '##ers', '!']
    """

    def __init__(
        self,
        vocab_file: str | os.PathLike,
        normalization: Normalization = RELEASED,
        content: bytes | None = None,
    ):
        self.file = Path(vocab_file)
        self.normalization = normalization
        if normalization.do_lower_case and normalization.keep_accents:
            raise InputError(
                "A WordPiece vocabulary in lower case has no accents. Received do_lower_case=true and "
                f"keep_accents=true for {self.file}."
            )
        self._content = read_bytes(self.file) if content is None else content
        self.pieces: tuple[str, ...] = _read_pieces(self._content, self.file)
        self.vocab_size = len(self.pieces)
        self._ids = {piece: i for i, piece in enumerate(self.pieces)}
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = (
            self._ids[symbol] for symbol in SYMBOLS
        )
        self.is_special = np.array([piece in SYMBOLS for piece in self.pieces])
        self._longest_piece = max(map(len, self.pieces))
        self._split_cached = lru_cache(maxsize=1 << 16)(self.split)  # text repeats its words

    def __reduce__(self):
        # For worker processes: without the cache, which cannot be pickled.
        return WordPieceTokenizer, (self.file, self.normalization, self._content)

    def word_starts(self, boundaries: WordBoundaries) -> np.ndarray:
        """Whether a piece starts a word for whole-word masking: all without ##, by either rule; bool [V]."""
        return np.array([not piece.startswith("##") for piece in self.pieces])

    def encode(self, text: str) -> list[int]:
        """The ids of one text, without [CLS] and [SEP]; "[MASK]" in the text is never the symbol."""
        return list(self._ids_of(text))

    def encode_batch(self, texts: list[str], needed_ids: int | None = None) -> list[np.ndarray]:
        """The ids of each text, int32 [number of pieces]; see AlbertTokenizer."""
        enough = None if needed_ids is None else needed_ids + 1
        return [np.fromiter(islice(self._ids_of(text), enough), np.int32) for text in texts]

    def _ids_of(self, text: str) -> Iterator[int]:
        words = split_words(text, self.normalization.do_lower_case)
        return (i for word in words for i, _ in self._split_cached(word.text))

    def encode_with_offsets(self, text: str) -> Encoding:
        """The ids of one text and the offsets of its pieces; an accent belongs to its letter.

        >>> tokenizer.encode_with_offsets("我 喜欢 Cafés").offsets.tolist()  # 我 喜 欢 cafe ##s
        [[0, 1], [2, 3], [3, 4], [5, 9], [9, 10]]
        """
        ids, offsets = [], []
        for word in split_words(text, self.normalization.do_lower_case):
            begin = 0
            for i, end in self._split_cached(word.text):
                ids.append(i)
                offsets.append((word.begins[begin], word.ends[end - 1]))
                begin = end
        return Encoding(np.array(ids, np.int32), np.array(offsets, np.int32).reshape(-1, 2))

    def encode_batch_with_offsets(self, texts: list[str]) -> list[Encoding]:
        """The result of `encode_with_offsets` for each text."""
        return [self.encode_with_offsets(text) for text in texts]

    def decode(self, ids) -> str:
        """The plain text of ids, without symbols except [UNK] and without spaces in Chinese.

        >>> tokenizer.decode(tokenizer.encode("我喜欢 Transformers!"))
        '我喜欢transformers !'
        """
        pieces = [self.pieces[i] for i in ids if i == self.unk_id or not self.is_special[i]]
        return _SPACE_IN_CHINESE.sub("", " ".join(pieces).replace(" ##", ""))

    def split(self, word: str, continues: bool = False) -> tuple[tuple[int, int], ...]:
        """(id, end in the word) of the longest matching piece, repeatedly; [UNK] if none matches.

        With `continues`, the word is the rest of one, so that its first piece begins with ##, too.
        """
        unknown = ((self.unk_id, len(word)),)
        if len(word) > LONGEST_WORD:
            return unknown
        pieces: list[tuple[int, int]] = []
        begin = 0
        while begin < len(word):
            prefix = "##" if begin or continues else ""
            for end in range(min(len(word), begin + self._longest_piece), begin, -1):
                i = self._ids.get(prefix + word[begin:end])
                if i is not None:
                    break
            else:
                return unknown
            pieces.append((i, end))
            begin = end
        return tuple(pieces)


def _read_pieces(content: bytes, path: Path) -> tuple[str, ...]:
    try:
        lines = content.decode("utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(
            f"A vocab.txt must be UTF-8 text. {path} has an invalid byte at {error.start}; a SentencePiece "
            "model belongs to --spm_model_file."
        ) from None
    pieces = tuple(line.strip() for line in lines)
    if missing := [symbol for symbol in SYMBOLS if symbol not in pieces]:
        raise InputError(
            f"A WordPiece vocabulary must have the symbols {', '.join(SYMBOLS)}, one per line. {path} "
            f"lacks {', '.join(missing)}."
        )
    seen: dict[str, int] = {}
    for number, piece in enumerate(pieces, 1):
        if seen.setdefault(piece, number) != number and piece:
            raise InputError(
                f"A vocabulary must not repeat a piece. {path} has {piece!r} on lines {seen[piece]} "
                f"and {number}."
            )
    return pieces
