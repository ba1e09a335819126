"""WordPieceTokenizer as TensorFlow ops, with equal results.

The graph holds the tables of the class's own rules (words.py) and its vocabulary:

texts --decode--> code points --drop, lower, fold--> plain characters --cut--> words --longest pieces--> ids
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from data_prep.errors import InputError, needs_extra
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
from data_prep.tokenizers.normalization import FoldingTable
from data_prep.tokenizers.wordpiece_tokenizer import LONGEST_WORD, SYMBOLS, WordPieceTokenizer
from data_prep.tokenizers.words import CharKind, accent_folding, character_kinds, combining_classes

_MOST_BYTES = 4 * LONGEST_WORD
_LONGEST_PIECE = 256  # bytes


class _Plain(NamedTuple):
    """N plain characters of B texts, including spaces, and the K characters of the texts that are kept."""

    codes: tf.Tensor  # int32 [N]
    splits: tf.Tensor  # int64 [B + 1]
    sources: tf.Tensor  # int32 [N], the index of the kept character that each comes from
    kinds: tf.Tensor  # uint8 [K], of the kept characters
    kept_splits: tf.Tensor  # int64 [B + 1]
    begins: tf.Tensor  # int64 [K], offsets of the kept characters in their text, in bytes
    ends: tf.Tensor  # int64 [K]


class _Words(NamedTuple):
    """W words of B texts, N characters in total."""

    texts: tf.Tensor  # string [W]
    splits: tf.Tensor  # int64 [B + 1], in words
    begins: tf.Tensor  # int64 [W + 1], the begin of each word among the characters
    codes: tf.Tensor  # int32 [N]
    characters: tf.Tensor  # int64 [N], their indices among the plain characters


class GraphWordPieceTokenizer(tf.Module):
    """WordPieceTokenizer as TensorFlow ops, which an export stores without a vocabulary file.

    Invalid UTF-8 becomes U+FFFD, as in Python's `bytes.decode(errors="replace")`, and is dropped.

    >>> in_graph = GraphWordPieceTokenizer(tokenizer)  # keep it: its functions do not
    >>> in_graph.tokenize(["我喜欢Transformers!", ""])
    <tf.RaggedTensor [[7, 8, 9, 120, 31, 15], []]>
    """

    def __init__(self, tokenizer: WordPieceTokenizer):
        super().__init__()
        with needs_extra("A tokenizer in the graph", "tensorflow-text", "text"):
            import tensorflow_text as tf_text
        longest = max(tokenizer.pieces, key=lambda piece: len(piece.encode()))
        if len(longest.encode()) > _LONGEST_PIECE:
            raise InputError(
                f"In a graph a piece may have at most {_LONGEST_PIECE} bytes. {tokenizer.file} has {longest!r}."
            )
        self._do_lower_case = tokenizer.normalization.do_lower_case
        self._kinds = tf.constant(character_kinds(self._do_lower_case))
        if self._do_lower_case:
            table = accent_folding()
            self._lower_sigmas = SigmaRule()
            self._folding_rows = tf.constant(table.rows)
            self._folding = tf.RaggedTensor.from_row_splits(table.values, table.splits.astype(np.int64))
            self._marks, self._mark_classes = map(tf.constant, combining_classes())
        self._model = tf_text.FastWordpieceTokenizer(
            # The op rejects empty pieces (blank lines); replace them by pieces with a space, which match no word.
            [piece or f" {i}" for i, piece in enumerate(tokenizer.pieces)],
            max_bytes_per_word=_MOST_BYTES,
            token_out_type=tf.int32,
            unknown_token=SYMBOLS[1],
            no_pretokenization=True,
        )

    @tf.function(input_signature=TEXTS, autograph=False)
    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Equals WordPieceTokenizer.encode_batch; string [B], UTF-8, to RaggedTensor int32 [B, (T)]."""
        words = self._words(self._plain(texts))
        pieces = self._model.tokenize(words.texts)
        return tf.RaggedTensor.from_row_splits(pieces.values, tf.gather(pieces.row_splits, words.splits))

    @tf.function(input_signature=TEXTS, autograph=False)
    def tokenize_with_offsets(self, texts: tf.Tensor) -> RaggedEncoding:
        """Equals WordPieceTokenizer.encode_with_offsets, but offsets count bytes, as `tf.strings.substr` does."""
        plain = self._plain(texts)
        words = self._words(plain)
        pieces, starts, limits = self._model.tokenize_with_offsets(words.texts)
        word = row_of_values(pieces.row_splits)
        # Converts bytes in the word to characters of all words, and these to characters of the texts.
        bytes_before = count_before(utf8_widths(words.codes))
        first = tf.gather(bytes_before, tf.gather(words.begins, word))
        end = tf.gather(bytes_before, tf.gather(words.begins, word + 1))
        character_of_byte = row_of_values(bytes_before)
        begins = tf.gather(character_of_byte, first + tf.cast(starts.values, tf.int64))
        lasts = tf.gather(character_of_byte, tf.minimum(first + tf.cast(limits.values, tf.int64), end) - 1)
        begins, lasts = (tf.gather(words.characters, place) for place in (begins, lasts))
        flat = (
            pieces.values,
            tf.gather(plain.begins, tf.gather(plain.sources, begins)),
            tf.gather(self._ends(plain), lasts),
        )
        splits = tf.gather(pieces.row_splits, words.splits)
        return RaggedEncoding(*(tf.RaggedTensor.from_row_splits(values, splits) for values in flat))

    def _plain(self, texts: tf.Tensor) -> _Plain:
        """Drops characters and, for an uncased vocabulary, capitals and accents."""
        originals, begins = tf.strings.unicode_decode_with_offsets(texts, "UTF-8")
        lengths = tf.cast(tf.strings.length(texts), tf.int64)[:, tf.newaxis]
        ends = tf.concat([begins, lengths], axis=1)[:, 1:]
        is_kept = looked_up(self._kinds, originals.values) != CharKind.DROPPED
        codes, begins, ends = (
            tf.boolean_mask(values, is_kept) for values in (originals.values, begins.values, ends.values)
        )
        kinds = looked_up(self._kinds, codes)
        splits = kept_splits = tf.gather(count_before(is_kept), originals.row_splits)
        sources = tf.range(tf.size(codes))
        if self._do_lower_case:
            codes = self._lower_sigmas(codes, splits)
            rows = tf.where(
                kinds == CharKind.ACCENT, FoldingTable.DROPPED, looked_up(self._folding_rows, codes)
            )
            folded = tf.gather(self._folding, rows)
            sources = row_of_values(folded.row_splits)
            itself = tf.gather(codes, sources)
            folded_codes = tf.where(folded.values == FoldingTable.ITSELF, itself, folded.values)
            splits = tf.gather(folded.row_splits, splits)
            is_odd = tf.reduce_any(looked_up(self._kinds, folded_codes) == CharKind.REORDERED)
            codes = tf.cond(
                is_odd, lambda: self._reordered(folded_codes, splits, sources, codes), lambda: folded_codes
            )
        return _Plain(codes, splits, sources, kinds, kept_splits, begins, ends)

    def _reordered(
        self, codes: tf.Tensor, splits: tf.Tensor, sources: tf.Tensor, kept: tf.Tensor
    ) -> tf.Tensor:
        """Unicode's canonical order: sorts marks by their class, but never past a character of class 0."""
        # Accents have been dropped, but one of class 0 still separates its neighbours.
        stands_between = (looked_up(self._kinds, kept) == CharKind.ACCENT) & (self._class(kept) == 0)
        classes = self._class(codes)
        before = tf.gather(count_before(stands_between), sources) + tf.cast(row_of_values(splits), tf.int64)
        run = before + count_before(classes == 0)[1:]
        return tf.gather(codes, tf.argsort(run * 256 + tf.cast(classes, tf.int64), stable=True))

    def _class(self, codes: tf.Tensor) -> tf.Tensor:
        place = tf.minimum(tf.searchsorted(self._marks, codes), tf.size(self._marks) - 1)
        return tf.where(tf.gather(self._marks, place) == codes, tf.gather(self._mark_classes, place), 0)

    def _words(self, plain: _Plain) -> _Words:
        """Splits at spaces and around Chinese characters and punctuation."""
        kinds = tf.gather(plain.kinds, plain.sources)
        is_space = kinds == CharKind.SPACE
        is_alone = (kinds == CharKind.CHINESE) | (looked_up(self._kinds, plain.codes) == CharKind.PUNCTUATION)
        cuts_after = padded(is_space | is_alone)
        follows_cut = tf.gather(cuts_after, tf.maximum(tf.range(tf.size(is_space)) - 1, 0))
        first = (
            tf.scatter_nd(plain.splits[:, tf.newaxis], tf.ones_like(plain.splits), [size(is_space) + 1]) > 0
        )
        begins = (is_alone | follows_cut | first[:-1]) & ~is_space

        characters = tf.where(~is_space)[:, 0]
        codes = tf.gather(plain.codes, characters)
        word_begins = tf.concat([tf.where(tf.gather(begins, characters))[:, 0], [size(codes)]], 0)
        splits = tf.gather(count_before(begins), plain.splits)
        texts = encoded(codes, word_begins)
        # The op's limit counts bytes; lengthen the words that exceed ours, in characters, beyond it.
        is_long = word_begins[1:] - word_begins[:-1] > LONGEST_WORD
        texts = tf.where(is_long, tf.strings.join([texts, "x" * _MOST_BYTES]), texts)
        return _Words(texts, splits, word_begins, codes, characters)

    def _ends(self, plain: _Plain) -> tf.Tensor:
        """The end of each plain character in its text, int64 [N], after its accents unless it is Chinese."""
        if not self._do_lower_case:
            return plain.ends
        is_accent = plain.kinds == CharKind.ACCENT
        # For each kept character, the last of the accents that follow it, or itself.
        following = tf.where(~is_accent)[:, 0]
        following = tf.concat([following, [size(is_accent)]], 0)
        next_one = tf.gather(following, tf.gather(count_before(~is_accent), plain.sources) + 1)
        text_end = tf.gather(plain.kept_splits, row_of_values(plain.splits) + 1)
        last_accent = tf.minimum(next_one, text_end) - 1
        is_last = tf.concat([plain.sources[1:], [-1]], 0) != plain.sources
        takes_accents = is_last & (tf.gather(plain.kinds, plain.sources) != CharKind.CHINESE)
        return tf.gather(plain.ends, tf.where(takes_accents, last_accent, tf.cast(plain.sources, tf.int64)))
