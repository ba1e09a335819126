"""Text to BERT's words, which WordPiece splits into pieces.

text --at white space, around Chinese characters--> chunks --lower case, no accents--> plain --punctuation--> words
"""

import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from data_prep.tokenizers.normalization import FoldingTable, tabulate_folding

# The original's ranges: Chinese characters, but neither kana nor Hangul, are separate words.
CHINESE = (
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002ceaf\U0002f800-\U0002fa1f"
)
# White space in the original, which drops \v, \f and U+001C to U+001F as control characters.
_SPACE = " \t\n\r\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_CHUNK = re.compile(f"[{CHINESE}]|[^{CHINESE}{_SPACE}]+")


class Word(NamedTuple):
    """A plain word of N characters and the span of the text that each character comes from."""

    text: str
    begins: list[int]
    ends: list[int]


def split_words(text: str, do_lower_case: bool = True) -> Iterator[Word]:
    """BERT's words: split at white space, around Chinese characters and around punctuation.

    Drops control characters; with `do_lower_case`, converts to lower case and drops accents.

    >>> [word.text for word in split_words("Où est-il? 在北京")]
    ['ou', 'est', '-', 'il', '?', '在', '北', '京']
    """
    for chunk in _CHUNK.finditer(text):
        yield from _split_punctuation(_plain(chunk[0], chunk.start(), do_lower_case))


def _plain(chunk: str, begin: int, do_lower_case: bool) -> Word:
    if chunk.isascii() and chunk.isprintable():
        text = chunk.lower() if do_lower_case else chunk
        return Word(
            text, list(range(begin, begin + len(text))), list(range(begin + 1, begin + 1 + len(text)))
        )
    kept = [(i, c) for i, c in enumerate(chunk, begin) if not _is_dropped(c)]
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


def _is_dropped(character: str) -> bool:
    return character == "\ufffd" or unicodedata.category(character) in ("Cc", "Cf")


def _is_punctuation(character: str) -> bool:
    """Unicode's punctuation, and all of ASCII but letters, digits, controls and the space (^, $)."""
    if character.isascii():
        return character.isprintable() and not character.isalnum() and character != " "
    return unicodedata.category(character).startswith("P")


class CharKind:
    """How the rules treat a character."""

    IN_WORD, SPACE, CHINESE, PUNCTUATION, DROPPED, ACCENT, REORDERED = range(7)


@cache
def character_kinds(do_lower_case: bool = True) -> np.ndarray:
    """The kind of every code point, uint8; those beyond the table are IN_WORD.

    `do_lower_case` drops an ACCENT from its word. A REORDERED mark stays, but Unicode's decomposition may change
    its place among its neighbours.
    """
    characters = [chr(i) for i in range(sys.maxunicode + 1)]
    members: list[tuple[int, Iterable[str]]] = [
        (CharKind.DROPPED, filter(_is_dropped, characters)),
        (CharKind.SPACE, re.findall(f"[{_SPACE}]", "".join(characters))),
        (CharKind.CHINESE, re.findall(f"[{CHINESE}]", "".join(characters))),
        (CharKind.PUNCTUATION, filter(_is_punctuation, characters)),
    ]
    if do_lower_case:
        members.append((CharKind.REORDERED, filter(unicodedata.combining, characters)))
        members.append((CharKind.ACCENT, [c for c in characters if not _without_accents(c)]))
    kinds = np.zeros(len(characters), np.uint8)
    for kind, kind_members in members:
        kinds[[ord(c) for c in kind_members]] = kind
    return kinds[: np.flatnonzero(kinds)[-1] + 2]


@cache
def combining_classes() -> tuple[np.ndarray, np.ndarray]:
    """The code points of kinds ACCENT and REORDERED, ascending, and their combining classes; int32 [M] each."""
    kinds = character_kinds()
    marks = np.flatnonzero((kinds == CharKind.ACCENT) | (kinds == CharKind.REORDERED)).astype(np.int32)
    return marks, np.array([unicodedata.combining(chr(i)) for i in marks], np.int32)


@cache
def accent_folding() -> FoldingTable:
    """Lower case without accents, one character at a time; Σ stays, since it depends on its neighbours."""
    return tabulate_folding(
        lambda character: character if character == "Σ" else _without_accents(character.lower())
    )
