"""Text to the plain text that SentencePiece encodes.

Normalization treats each character on its own, so it is a table: code point -> characters. The exceptions are
collapsing white space and the lower case of the final sigma (ΟΔΟΣ -> οδος). Offsets and the graph use the table.
"""

import re
import sys
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any, ClassVar

import numpy as np

from data_prep.files import as_record

SIGMA = "Σ"
# In parts, since the time to sort a run of marks, which are dropped, grows with the square of its length.
_NOT_ASCII = re.compile(r"[^\x00-\x7f]{1,1000}")
WHITE_SPACE = np.array([chr(i).isspace() for i in range(0x3002)])  # str.split's; U+3000 is the last
_FOLDING_ENDS = 0x30000  # Unicode has nothing to fold beyond its first three planes


@dataclass(frozen=True)
class Normalization:
    """How a vocabulary's texts become plain text; the defaults are those of the released models.

    Attributes:
      do_lower_case: convert to lower case.
      keep_accents: keep characters as they are, instead of decomposing them (NFKD) and dropping combining marks.
      remove_space: collapse white space to single spaces, none at either end.
    """

    do_lower_case: bool = True
    keep_accents: bool = False
    remove_space: bool = True

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], source: str) -> "Normalization":
        """Reads the fields from a mapping, which may hold other names, too; a missing field gets its default."""
        return as_record(cls, dict(values), source)

    def __str__(self) -> str:
        return ", ".join(f"{name}={str(value).lower()}" for name, value in asdict(self).items())


RELEASED = Normalization()


def normalize(text: str, normalization: Normalization = RELEASED) -> str:
    """ALBERT's normalization before SentencePiece.

    >>> normalize("  Café\\t№ 5 ")
    'cafe no 5'
    >>> normalize("Schöne  Bücher が", Normalization(keep_accents=True))
    'schöne bücher が'
    """
    if normalization.remove_space:
        text = " ".join(text.split())
    if not normalization.keep_accents and not text.isascii():
        text = _NOT_ASCII.sub(_fold, text)  # ASCII is its own decomposition
    return text.lower() if normalization.do_lower_case else text


@dataclass(frozen=True)
class FoldingTable:
    """`normalize` of one character at a time, for array and graph operations.

    Attributes:
      rows: int32 [code points], the row of `values` that replaces a code point; ITSELF, also for code points
        beyond the table, keeps it, and DROPPED drops it.
      splits: int32 [rows + 1], `values[splits[i]:splits[i + 1]]` is row i.
      values: int32, code points; the row ITSELF holds a 0 as a placeholder.
    """

    ITSELF: ClassVar[int] = 0
    DROPPED: ClassVar[int] = 1

    rows: np.ndarray
    splits: np.ndarray
    values: np.ndarray

    def lengths(self, codes: np.ndarray) -> np.ndarray:
        """The number of characters that replace each code point: 0 for a combining mark, in most cases 1."""
        return np.diff(self.splits)[self.rows[np.minimum(codes, len(self.rows) - 1)]]


@cache  # a constant of Unicode
def folding_table(normalization: Normalization = RELEASED) -> FoldingTable:
    """Tabulates `normalize`; lower case keeps Σ, since its lower case depends on its neighbours.

    With `remove_space`, white space becomes a space; users of the table collapse it.
    """
    lower, collapse = normalization.do_lower_case, normalization.remove_space
    in_place = replace(normalization, do_lower_case=False, remove_space=False)

    def folded(character: str) -> str:
        plain = " " if collapse and character.isspace() else normalize(character, in_place)
        return SIGMA.join(part.lower() for part in plain.split(SIGMA)) if lower else plain

    return tabulate_folding(folded)


def tabulate_folding(fold: Callable[[str], str]) -> FoldingTable:
    """Tabulates a function of one character."""
    rows = np.zeros(_FOLDING_ENDS, np.int32)
    replacements = {"\0": FoldingTable.ITSELF, "": FoldingTable.DROPPED}
    for i in range(_FOLDING_ENDS):
        character = chr(i)
        if (folded := fold(character)) != character:
            rows[i] = replacements.setdefault(folded, len(replacements))
    splits = np.cumsum([0, *map(len, replacements)], dtype=np.int32)
    return FoldingTable(rows, splits, code_points("".join(replacements)))


class CaseKind:
    """How the rule of the final sigma treats a character."""

    NEITHER, CASED, IGNORED = 0, 1, 2


@cache
def case_kinds() -> np.ndarray:
    """The kind of every code point, uint8; those beyond the table are NEITHER.

    Python does not expose these properties, but `lower` depends on them: after a cased character and any number of
    ignored ones, a Σ that ends a word becomes ς.
    """
    # İ is the only character whose lower case is longer; it has the kind of I.
    characters = "".join(map(chr, range(sys.maxunicode + 1))).replace("İ", "I")
    after_it = "".join([c + SIGMA + "\n" for c in characters]).lower()[1::3]
    after_cased_and_it = "".join(["A" + c + SIGMA + "\n" for c in characters]).lower()[2::4]
    cased = code_points(after_it) == ord("ς")
    cased_or_ignored = code_points(after_cased_and_it) == ord("ς")
    kinds = np.where(cased, CaseKind.CASED, np.where(cased_or_ignored, CaseKind.IGNORED, CaseKind.NEITHER))
    return kinds[: np.flatnonzero(kinds)[-1] + 1].astype(np.uint8)


def code_points(text: str) -> np.ndarray:
    """The code points of a text, int32 [number of characters]."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.int32)


def _fold(run: re.Match[str]) -> str:
    return "".join([c for c in unicodedata.normalize("NFKD", run[0]) if not unicodedata.combining(c)])
