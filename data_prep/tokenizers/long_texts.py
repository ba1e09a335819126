"""Where a long text may be cut so that its parts have the pieces of the whole.

SentencePiece joins a run of unknown characters one by one, in a time that grows with the square of its length. It
needs 30 bytes of memory for each byte of a text, and no signal interrupts it. Long texts are therefore encoded in
parts. A cut between two characters changes nothing if SentencePiece's own normalization keeps both and combines
them in no rule, and if no piece of the vocabulary contains one after the other. Then every segmentation of the
text, by score (Unigram) or by merges (BPE), has a boundary between them, and the best segmentation before it does
not depend on what follows. Three things need care:

- SentencePiece puts a space in front of a text. A known character, the lead, takes its place, and the lead's
  pieces are dropped.
- A run of unknown characters that is cut gives one <unk>.
- Scores are summed from the beginning of each part, which is more exact: float32 keeps seven digits.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from data_prep.tokenizers.charsmap import charsmap_keys
from data_prep.tokenizers.digit_comma import SPACE
from data_prep.tokenizers.normalization import code_points
from data_prep.tokenizers.offsets import normalized_characters

LONGEST_WHOLE = 1 << 15  # characters; a text that is not longer is encoded at once
PART = 1 << 12  # parts end at the first possible place after a multiple of this
SHIFT = 21  # bits of a code point
_LAST = (1 << SHIFT) - 1


class Part(NamedTuple):
    """A part of a long text.

    Attributes:
      text: the part, with the lead in front of all but the first.
      lead_ids: the number of the lead's pieces.
      shift: added to a piece's offset in `text`, in bytes, it gives that in the long text.
    """

    text: str
    lead_ids: int
    shift: int


@dataclass(frozen=True)
class Cuts:
    """The places in plain texts at which a vocabulary's long texts may be cut.

    Attributes:
      lead: the character that comes before each part but the first.
      lead_ids: the number of its pieces.
      joined: int64 [pairs], sorted keys of the pairs of neighbours in pieces and in rules of the normalization.
      roles: uint8 [code points], BEGINS and ENDS of each character that may begin and end a part; the last entry
        holds for all code points beyond it.
    """

    BEGINS: ClassVar[int] = 1
    ENDS: ClassVar[int] = 2

    lead: str
    lead_ids: int
    joined: np.ndarray
    roles: np.ndarray

    @classmethod
    def from_model(cls, model: sentencepiece.SentencePieceProcessor) -> "Cuts | None":
        """The cuts of a vocabulary; None if no place is safe: its pieces end with a space or are whole words."""
        proto = sentencepiece_model_pb2.ModelProto.FromString(model.serialized_model_proto())
        spec, rules = proto.trainer_spec, proto.normalizer_spec
        by_rules = _neighbours_in_rules(rules.precompiled_charsmap)
        is_odd = spec.treat_whitespace_as_suffix or spec.model_type == spec.WORD
        if is_odd or not rules.escape_whitespaces or by_rules is None:
            return None
        in_pieces = {_key(a, b) for piece in proto.pieces for a, b in pairwise(piece.piece)}
        joined = np.union1d(np.array(sorted(in_pieces), np.int64), by_rules)
        itself = np.ones(0x110000, bool)
        itself[[ord(c) for c, part in normalized_characters(model).items() if part != c]] = False
        itself[ord(SPACE)] = False
        leads = [
            piece.piece
            for piece in proto.pieces
            if len(piece.piece) == 1
            and piece.type in (piece.NORMAL, piece.USER_DEFINED)
            and itself[ord(piece.piece)]
        ]
        if not leads:
            return None
        firsts, counts = np.unique(joined >> SHIFT, return_counts=True)
        followers = dict(zip(firsts.tolist(), counts.tolist(), strict=True))
        lead = min(leads, key=lambda character: followers.get(ord(character), 0))
        may_begin = itself.copy()
        may_begin[ord(" ")] = True
        for second in joined[joined >> SHIFT == ord(lead)] & _LAST:
            may_begin[ord(" ") if second == ord(SPACE) else second] = False
        roles = np.where(may_begin, cls.BEGINS, 0) + np.where(itself, cls.ENDS, 0)
        return cls(lead, len(model.encode(lead)), joined, _shortened(roles.astype(np.uint8)))

    def parts(self, text: str) -> Iterator[Part]:
        """Cuts a plain text."""
        begin = done = 0  # in characters and in bytes
        while begin < len(text):
            end = self._next(text, begin)
            part = text[begin:end]
            lead = self.lead if begin else ""
            yield Part(lead + part, self.lead_ids if begin else 0, done - len(lead.encode()))
            begin, done = end, done + len(part.encode())

    def _next(self, text: str, begin: int) -> int:
        """The first possible place at or after the next multiple of PART, or the end."""
        for first in range((begin // PART + 1) * PART, len(text), PART):
            codes = code_points(text[first - 1 : first + PART])
            if len(found := np.flatnonzero(self._is_possible(codes))):
                return first + int(found[0])
        return len(text)

    def _is_possible(self, codes: np.ndarray) -> np.ndarray:
        """Whether a text may be cut between codes[i] and codes[i + 1], bool [codes - 1]."""
        before, after = codes[:-1].astype(np.int64), codes[1:].astype(np.int64)
        keys = (before << SHIFT) | np.where(after == ord(" "), ord(SPACE), after)
        places = np.minimum(np.searchsorted(self.joined, keys), len(self.joined) - 1)
        is_joined = self.joined[places] == keys
        ends, begins = (self.roles[np.minimum(each, len(self.roles) - 1)] for each in (before, after))
        return (ends & self.ENDS > 0) & (begins & self.BEGINS > 0) & ~is_joined


def _key(first: str, second: str) -> int:
    return ord(first) << SHIFT | ord(second)


def _shortened(table: np.ndarray) -> np.ndarray:
    """A table without the repeated values at its end, except one."""
    return table[: np.flatnonzero(table != table[-1])[-1] + 2]


@lru_cache(maxsize=4)  # most vocabularies have the same rules
def _neighbours_in_rules(charsmap: bytes) -> np.ndarray | None:
    """The keys of all neighbours in what a model's normalization replaces, int64; None if its table is damaged."""
    try:
        keys = charsmap_keys(charsmap)
    except ValueError:
        return None
    return np.array(sorted({_key(a, b) for key in keys for a, b in pairwise(key)}), np.int64)
