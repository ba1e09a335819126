"""Where the pieces of a text lie in the text that the user wrote.

Plain text and pieces have the same visible characters in the same order: those that are more than white space
after SentencePiece's own normalization. So a piece is a range of visible characters, counted over the whole
batch, and its offsets are the begin of its first and the end of its last visible character in the original.

    original  "I  like  5,"     pieces           ▁i      ▁like    ▁5      ,
                                visible ranges   [0,1)   [1,5)    [5,6)   [6,7)
                                offsets          [0,1)   [3,7)    [9,10)  [10,11)
"""

from collections.abc import Sequence
from itertools import chain

import numpy as np
import sentencepiece
from sentencepiece import sentencepiece_pb2

from data_prep.digit_comma import SPACE, DigitCommaTable
from data_prep.normalization import PlainText, code_points

_SEPARATOR = "\ue000"  # a character of private use: no rule combines it with another


def visible_characters(model: sentencepiece.SentencePieceProcessor) -> np.ndarray:
    """Which characters of plain text the model's own normalization leaves more of than white space.

    Args:
      model: a SentencePiece model.

    Returns:
      bool [code points]; those beyond the table are what its last entry is, visible.
    """
    everything = [chr(i) for i in range(0x110000) if not 0xD800 <= i < 0xE000 and i != ord(_SEPARATOR)]
    normalized = model.normalize(_SEPARATOR + _SEPARATOR.join(everything) + _SEPARATOR)
    parts = normalized.split(_SEPARATOR)[1:-1]
    invisible = [
        ord(c) for c, part in zip(everything, parts, strict=True) if not part.replace(SPACE, "").strip()
    ]
    visible = np.ones(max(invisible) + 2, bool)
    visible[invisible] = False
    return visible


def locate_pieces(
    originals: Sequence[str],
    texts: Sequence[PlainText],
    encoded: Sequence[bytes],
    rewriting: DigitCommaTable,
    visible: np.ndarray,
    space_id: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ids and offsets of a batch from what SentencePiece says of its plain texts.

    Args:
      originals: B texts as the user wrote them.
      texts: the same as plain text with the spans of its characters.
      encoded: B serialized SentencePieceText messages, what the model made of them.
      rewriting: the digit-comma rule.
      visible: from `visible_characters`.
      space_id: the piece '▁', which has no visible character.

    Returns:
      ids, int32 [pieces of all texts]; their offsets, int32 [pieces of all texts, 2]; and where each text's
      pieces begin and end, int64 [B + 1].
    """
    messages = [sentencepiece_pb2.SentencePieceText.FromString(message).pieces for message in encoded]
    pieces = list(chain.from_iterable(messages))
    ids = np.array([piece.id for piece in pieces], np.int32)
    piece_splits = _count_before([len(message) for message in messages])
    text_of = np.repeat(np.arange(len(texts)), np.diff(piece_splits))

    # From bytes of one text to characters and on to visible characters, of the whole batch.
    plain = "".join([text.text for text in texts])
    raw = np.frombuffer(plain.encode("utf-8"), np.uint8)
    is_visible = visible[np.minimum(code_points(plain), len(visible) - 1)]
    visible_before = _count_before(is_visible)
    visible_before_byte = visible_before[_count_before((raw & 0xC0) != 0x80)]
    first_byte = _count_before([len(text.text.encode("utf-8")) for text in texts])[text_of]
    begins = visible_before_byte[first_byte + np.array([piece.begin for piece in pieces], np.int64)]
    ends = visible_before_byte[first_byte + np.array([piece.end for piece in pieces], np.int64)]
    last = visible_before[_count_before([len(text.text) for text in texts])[1:]]
    # Where the model's own rules make one character several (ß, ss), the pieces share it.
    ends = np.maximum(ends, np.minimum(begins + (ids != space_id), last[text_of]))

    parts, counts = rewriting.expand(ids)
    ids, text_of, begins, ends = (np.repeat(values, counts) for values in (ids, text_of, begins, ends))
    begins, ends = (np.minimum(begins + places[parts], ends) for places in (rewriting.begins, rewriting.ends))

    # A piece without a visible character lies, empty, before the next one.
    span_begins = np.concatenate([*[text.begins for text in texts], [0]])[np.append(is_visible, True)]
    span_ends = np.concatenate([text.ends for text in texts])[is_visible]
    text_ends = np.array([len(text) for text in originals])
    offsets = np.empty((len(parts), 2), np.int32)
    offsets[:, 0] = np.where(begins < last[text_of], span_begins[begins], text_ends[text_of])
    offsets[:, 1] = np.where(begins < ends, span_ends[ends - 1], offsets[:, 0])
    return rewriting.ids[parts], offsets, _count_before(counts)[piece_splits]


def _count_before(counts) -> np.ndarray:
    """[0, a, a + b, ...] of [a, b, ...], int64."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
