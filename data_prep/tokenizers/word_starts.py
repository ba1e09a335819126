"""Which pieces of a SentencePiece vocabulary start a word, for whole-word masking."""

import re
import unicodedata

import numpy as np

from data_prep.tokenizers.digit_comma import SPACE
from data_prep.tokenizers.vocabulary_flags import WordBoundaries

# Of 30k-clean.model, with which all of Google's English checkpoints were trained.
_RELEASED_SHA256 = "fefb02b667a6c5c2fe27602d28e5fb3428f66ab89c7d6f388e7c8d44a02d0336"
# The original's list: ASCII punctuation without ' < = >, and the two currency signs of its vocabulary.
_PUNCTUATION = frozenset('!"#$%&()*+,-./:;?@[\\]^_`{|}~£€')
_INSIDE_WORDS = _PUNCTUATION | frozenset("abcdefghijklmnopqrstuvwxyz")
# Without spaces between words, a sentence would be one word, longer than what an example may mask.
_SCRIPTS_WITHOUT_SPACES = re.compile(
    "CJK|HIRAGANA|KATAKANA|BOPOMOFO|YI|THAI|LAO|KHMER|MYANMAR|TIBETAN|JAVANESE"
)
_INSIDE_CHARACTER = re.compile("<0x[89AB].>")  # a byte of UTF-8 that continues a character


def usual_boundaries(vocabulary_sha256: str) -> WordBoundaries:
    """The original's rule for the released vocabulary, Unicode's for every other one."""
    return "original" if vocabulary_sha256 == _RELEASED_SHA256 else "unicode"


def word_starts(pieces: tuple[str, ...], boundaries: WordBoundaries) -> np.ndarray:
    """Whether each piece starts a word; bool [V].

    Args:
      pieces: the V pieces, in which "▁" is a space.
      boundaries: "unicode": a word starts at a space, a punctuation mark or a symbol, and with every piece of a
        script that has no spaces between words. "original": so does every piece with a character other than a to
        z or ASCII punctuation, so that each piece of Russian or Korean is a word.

    >>> pieces = ("▁при", "вет", "▁don", "'", "t", "5", "日本", "<unk>")
    >>> word_starts(pieces, "unicode").tolist()
    [True, False, True, True, False, False, True, True]
    >>> word_starts(pieces, "original").tolist()
    [True, True, True, True, False, True, True, True]
    """
    starts = _starts_word if boundaries == "unicode" else _starts_word_in_original
    return np.array([starts(piece) for piece in pieces])


def _starts_word(piece: str) -> bool:
    first = piece[0]
    if first in (SPACE, "<"):
        return not _INSIDE_CHARACTER.fullmatch(piece)
    is_mark = unicodedata.category(first)[0] in "PS"
    return is_mark or bool(_SCRIPTS_WITHOUT_SPACES.match(unicodedata.name(first, "")))


def _starts_word_in_original(piece: str) -> bool:
    return (
        piece.startswith((SPACE, "<"))
        or piece in _PUNCTUATION
        or not all(character.lower() in _INSIDE_WORDS for character in piece)
    )
