"""AlbertTokenizer as TensorFlow ops, with equal results.

The graph holds the class's own tables (normalization.py, digit_comma.py) and its SentencePiece model:

texts --decode--> code points --collapse, fold, final sigma--> plain text
      --SentencePiece--> pieces --digit-comma table--> ids
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from data_prep.errors import needs_extra
from data_prep.in_graph.character_ops import (
    TEXTS,
    RaggedEncoding,
    SigmaRule,
    count_before,
    encoded,
    looked_up,
    padded,
    row_of_values,
    size,
    utf8_widths,
)
from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer
from data_prep.tokenizers.digit_comma import SPACE
from data_prep.tokenizers.long_texts import LONGEST_WHOLE, PART, SHIFT, Cuts
from data_prep.tokenizers.normalization import WHITE_SPACE, FoldingTable


class _Plain(NamedTuple):
    """Plain texts of N characters in total, and the index of the original character of each."""

    codes: tf.Tensor  # int32 [N]
    splits: tf.Tensor  # int64 [B + 1]
    sources: tf.Tensor  # int32 [N]


class _Pieces(NamedTuple):
    """P pieces and their ranges of the batch's visible characters (data_prep/tokenizers/offsets.py)."""

    ids: tf.Tensor  # int32 [P]
    splits: tf.Tensor  # int64 [B + 1]
    texts: tf.Tensor  # int32 [P], the text of each piece
    begins: tf.Tensor  # int64 [P]
    ends: tf.Tensor  # int64 [P]
    firsts: tf.Tensor  # int64 [P], the begin of the visible characters of the piece's text
    lasts: tf.Tensor  # int64 [P], their end


class _Parts(tf.Module):
    """Encodes long texts in parts (data_prep/tokenizers/long_texts.py)."""

    def __init__(self, cuts: Cuts, unk_id: int):
        super().__init__()
        self._lead, self._lead_ids, self._unk_id = cuts.lead, cuts.lead_ids, unk_id
        self._joined, self._roles = tf.constant(cuts.joined), tf.constant(cuts.roles)

    def encode(self, plain: _Plain, encode: Callable[[tf.Tensor], list[tf.Tensor]]) -> list[tf.Tensor]:
        """The result of `encode` for plain texts, computed part by part."""
        is_cut = self._is_cut(plain)
        begins = tf.sort(tf.concat([plain.splits, tf.where(is_cut)[:, 0]], 0))
        has_lead = tf.gather(is_cut, begins[:-1])
        parts = encoded(plain.codes, begins)
        splits, ids, *offsets = encode(tf.where(has_lead, self._lead + parts, parts))

        text_of_part = tf.cumsum(tf.cast(~has_lead, tf.int32)) - 1
        part = row_of_values(splits)
        place = tf.range(size(ids)) - tf.gather(splits, part)
        is_kept = ~tf.gather(has_lead, part) | (place >= self._lead_ids)
        is_next = tf.gather(has_lead, part) & (place == self._lead_ids)
        ids, part, is_next = (tf.boolean_mask(each, is_kept) for each in (ids, part, is_next))
        # <unk> that continues from the part before.
        goes_on = is_next & (ids == self._unk_id) & (tf.concat([[-1], ids[:-1]], 0) == self._unk_id)
        text = tf.boolean_mask(tf.gather(text_of_part, part), ~goes_on)
        B = tf.size(plain.splits) - 1
        result = [
            count_before(tf.math.bincount(text, minlength=B, maxlength=B)),
            tf.boolean_mask(ids, ~goes_on),
        ]
        if offsets:
            bytes_before = count_before(utf8_widths(plain.codes))
            text_begins = tf.gather(tf.gather(bytes_before, plain.splits), text_of_part)
            lead = tf.where(has_lead, tf.constant(len(self._lead.encode()), tf.int64), 0)
            shift = tf.gather(tf.gather(bytes_before, begins[:-1]) - text_begins - lead, part)
            starts, limits = (tf.boolean_mask(each, is_kept) + shift for each in offsets)
            run = tf.cumsum(tf.cast(~goes_on, tf.int64)) - 1
            result += [tf.boolean_mask(starts, ~goes_on), tf.math.segment_max(limits, run)]
        return result

    def _is_cut(self, plain: _Plain) -> tf.Tensor:
        """Whether a part begins at a character that does not begin its text, bool [N + 1]."""
        after = tf.cast(plain.codes, tf.int64)
        before = tf.concat([[0], after[:-1]], 0)
        keys = before * (1 << SHIFT) + tf.where(after == ord(" "), tf.constant(ord(SPACE), tf.int64), after)
        at = tf.minimum(tf.searchsorted(self._joined, keys), tf.size(self._joined) - 1)
        is_joined = tf.gather(self._joined, at) == keys
        ends, begins = (looked_up(self._roles, each) for each in (before, after))
        text = row_of_values(plain.splits)
        place = tf.range(size(after)) - tf.gather(plain.splits, text)
        is_long = tf.gather(plain.splits[1:] - plain.splits[:-1] > LONGEST_WHOLE, text)
        is_possible = is_long & (place > 0) & (ends & Cuts.ENDS > 0) & (begins & Cuts.BEGINS > 0) & ~is_joined
        # The first possible place after each multiple of PART.
        possible = tf.where(is_possible)[:, 0]
        multiple, text = tf.gather(place // PART, possible), tf.gather(text, possible)
        is_first = tf.concat([[True], (multiple[1:] != multiple[:-1]) | (text[1:] != text[:-1])], 0)
        chosen = tf.boolean_mask(possible, is_first[: size(possible)] & (multiple > 0))
        return tf.scatter_nd(chosen[:, tf.newaxis], tf.ones_like(chosen), [size(after) + 1]) > 0


class GraphAlbertTokenizer(tf.Module):
    """AlbertTokenizer as TensorFlow ops, which an export stores without a vocabulary file.

    Invalid UTF-8 becomes U+FFFD, as in Python's `bytes.decode(errors="replace")`.

    >>> in_graph = GraphAlbertTokenizer(tokenizer)  # keep it: its functions do not
    >>> in_graph.tokenize(["In 2019, albert", ""])
    <tf.RaggedTensor [[19, 10114, 15, 2953], []]>
    """

    def __init__(self, tokenizer: AlbertTokenizer):
        super().__init__()
        with needs_extra("A tokenizer in the graph", "tensorflow-text", "text"):
            import tensorflow_text as tf_text
        table = tokenizer.folding
        self._normalization = tokenizer.normalization
        self._folding_rows = tf.constant(table.rows)
        self._folding = tf.RaggedTensor.from_row_splits(table.values, table.splits.astype(np.int64))
        self._is_space = tf.constant(WHITE_SPACE)
        self._lower_sigmas = SigmaRule()
        self._visible = tf.constant(tokenizer.locator.visible)
        self._model = tf_text.SentencepieceTokenizer(model=tokenizer.serialized_model)
        self._parts_of_long = _Parts(tokenizer.cuts, tokenizer.unk_id) if tokenizer.cuts else None
        self._is_blank = tf.constant(tokenizer.locator.is_blank)
        rewriting = tokenizer.digit_comma
        self._parts = tf.RaggedTensor.from_row_splits(
            np.arange(len(rewriting.ids)), rewriting.splits.astype(np.int64)
        )
        self._part_ids = tf.constant(rewriting.ids)
        self._part_begins = tf.constant(rewriting.begins, tf.int64)
        self._part_ends = tf.constant(rewriting.ends, tf.int64)

    @tf.function(input_signature=TEXTS, autograph=False)
    def normalize(self, texts: tf.Tensor) -> tf.Tensor:
        """Equals `normalize` of normalization.py; string [B] to string [B], UTF-8."""
        return _encoded(self._fold(tf.strings.unicode_decode(texts, "UTF-8")))

    @tf.function(input_signature=TEXTS, autograph=False)
    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Equals AlbertTokenizer.encode_batch; string [B], UTF-8, to RaggedTensor int32 [B, (T)]."""
        ids = self._encode(self._fold(tf.strings.unicode_decode(texts, "UTF-8")), with_offsets=False)[0]
        parts = tf.gather(self._parts, ids.values)
        splits = tf.gather(parts.row_splits, ids.row_splits)
        return tf.RaggedTensor.from_row_splits(tf.gather(self._part_ids, parts.values), splits)

    @tf.function(input_signature=TEXTS, autograph=False)
    def tokenize_with_offsets(self, texts: tf.Tensor) -> RaggedEncoding:
        """Equals AlbertTokenizer.encode_with_offsets, but offsets count bytes, as `tf.strings.substr` does.

        Args:
          texts: string [B], UTF-8.
        """
        originals, byte_begins = tf.strings.unicode_decode_with_offsets(texts, "UTF-8")
        plain = self._fold(originals)
        pieces = self._pieces(plain)
        span_begins, span_ends = self._visible_spans(texts, originals, byte_begins, plain)
        # A piece without a visible character is empty, in front of the next piece; but between two pieces of the
        # same original character (ﷺ is four words), it has that character's offsets.
        text_ends = tf.cast(tf.gather(tf.strings.length(texts), pieces.texts), tf.int64)
        after = tf.gather(padded(span_begins), pieces.begins)
        begins = tf.where(pieces.begins < pieces.lasts, after, text_ends)
        before = tf.gather(padded(span_ends), tf.maximum(pieces.begins - 1, 0))
        before = tf.where(pieces.begins > pieces.firsts, before, 0)
        own = tf.gather(padded(span_ends), tf.maximum(pieces.ends - 1, 0))
        ends = tf.where(pieces.begins < pieces.ends, own, tf.maximum(before, begins))
        return RaggedEncoding(
            *(tf.RaggedTensor.from_row_splits(flat, pieces.splits) for flat in (pieces.ids, begins, ends))
        )

    def _fold(self, texts: tf.RaggedTensor) -> _Plain:
        """Normalizes code points: one ragged gather, and the final sigma."""
        rows = self._folding_row(texts.values)
        if self._normalization.remove_space:
            superfluous = self._superfluous_spaces(texts.values, texts.row_splits)
            gone = tf.fill(tf.shape(superfluous)[:1], FoldingTable.DROPPED)
            rows = tf.tensor_scatter_nd_update(rows, superfluous, gone)
        folded = tf.gather(self._folding, rows)
        sources = row_of_values(folded.row_splits)
        itself = tf.gather(texts.values, sources)
        codes = tf.where(folded.values == FoldingTable.ITSELF, itself, folded.values)
        splits = tf.gather(folded.row_splits, texts.row_splits)
        if self._normalization.do_lower_case:
            codes = self._lower_sigmas(codes, splits)
        return _Plain(codes, splits, sources)

    def _folding_row(self, codes: tf.Tensor) -> tf.Tensor:
        return looked_up(self._folding_rows, codes)

    def _superfluous_spaces(self, codes: tf.Tensor, splits: tf.Tensor) -> tf.Tensor:
        """The places of white space at either end of a text or in front of more white space, int64 [spaces, 1]."""
        spaces = tf.where(looked_up(self._is_space, codes))[:, 0]
        words_before = spaces - tf.range(size(spaces))  # word characters in all texts before it
        words_at_splits = splits - tf.searchsorted(spaces, splits, out_type=tf.int64)
        text = tf.searchsorted(splits, spaces, side="right") - 1
        after_a_word = words_before > tf.gather(words_at_splits, text)
        before_a_word = words_before < tf.gather(words_at_splits, text + 1)
        before_a_space = tf.concat([spaces, [-1]], 0)[1:] == spaces + 1
        inside = after_a_word & before_a_word & ~before_a_space
        return tf.boolean_mask(spaces, ~inside)[:, tf.newaxis]

    def _encode(self, plain: _Plain, with_offsets: bool) -> list[tf.RaggedTensor]:
        """SentencePiece's ids, int32 [B, (T)], and on request the begins and ends of pieces in bytes, int64."""

        def encode(texts: tf.Tensor) -> list[tf.Tensor]:
            if not with_offsets:
                ids = self._model.tokenize(texts)
                return [ids.row_splits, ids.values]
            ids, *offsets = self._model.tokenize_with_offsets(texts)
            return [ids.row_splits, ids.values, *(tf.cast(each.values, tf.int64) for each in offsets)]

        def whole() -> list[tf.Tensor]:
            return encode(_encoded(plain))

        parts = self._parts_of_long
        if parts is None:
            row_splits, *values = whole()
        else:
            is_long = tf.reduce_any(plain.splits[1:] - plain.splits[:-1] > LONGEST_WHOLE)
            row_splits, *values = tf.cond(is_long, lambda: parts.encode(plain, encode), whole)
        return [tf.RaggedTensor.from_row_splits(each, row_splits) for each in values]

    def _pieces(self, plain: _Plain) -> _Pieces:
        """Tokenizes plain text, converts offsets in bytes to visible characters, applies the digit-comma rule."""
        ids, starts, limits = self._encode(plain, with_offsets=True)
        texts = row_of_values(ids.row_splits)

        visible_before = count_before(self._is_visible(plain.codes))
        widths = utf8_widths(plain.codes)
        byte_splits = count_before(tf.concat([widths, [1]], 0))
        visible_before_byte = tf.gather(visible_before, row_of_values(byte_splits))
        first_byte = tf.gather(tf.gather(byte_splits, plain.splits), texts)
        begins = tf.gather(visible_before_byte, first_byte + starts.values)
        ends = tf.gather(visible_before_byte, first_byte + limits.values)
        visible_splits = tf.gather(visible_before, plain.splits)
        firsts, lasts = tf.gather(visible_splits, texts), tf.gather(visible_splits, texts + 1)
        has_visible = tf.cast(~tf.gather(self._is_blank, ids.values), tf.int64)
        ends = tf.maximum(ends, tf.minimum(begins + has_visible, lasts))

        parts = tf.gather(self._parts, ids.values)
        piece = row_of_values(parts.row_splits)
        texts, begins, ends, firsts, lasts = (
            tf.gather(flat, piece) for flat in (texts, begins, ends, firsts, lasts)
        )
        return _Pieces(
            ids=tf.gather(self._part_ids, parts.values),
            splits=tf.gather(parts.row_splits, ids.row_splits),
            texts=texts,
            begins=tf.minimum(begins + tf.gather(self._part_begins, parts.values), ends),
            ends=tf.minimum(begins + tf.gather(self._part_ends, parts.values), ends),
            firsts=firsts,
            lasts=lasts,
        )

    def _visible_spans(
        self, texts: tf.Tensor, originals: tf.RaggedTensor, byte_begins: tf.RaggedTensor, plain: _Plain
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The begin and end, in bytes, of the original of each visible character."""
        is_whole = self._folding_row(originals.values) != FoldingTable.DROPPED  # not a mark
        byte_splits = count_before(tf.strings.length(texts))
        text = row_of_values(originals.row_splits)
        # A character ends where the next one that is not a mark begins, or at the end of the text.
        wholes = tf.boolean_mask(byte_begins.values + tf.gather(byte_splits, text), is_whole)
        next_wholes = tf.concat([wholes, byte_splits[-1:]], 0)[1:]

        sources = tf.boolean_mask(plain.sources, self._is_visible(plain.codes))
        next_whole = tf.gather(next_wholes, tf.gather(count_before(is_whole), sources))
        text = tf.gather(text, sources)
        ends = tf.minimum(next_whole, tf.gather(byte_splits, text + 1)) - tf.gather(byte_splits, text)
        return tf.gather(byte_begins.values, sources), ends

    def _is_visible(self, codes: tf.Tensor) -> tf.Tensor:
        return looked_up(self._visible, codes)


def _encoded(plain: _Plain) -> tf.Tensor:
    return encoded(plain.codes, plain.splits)
