"""Turns segment pairs into masked examples: n-gram whole-word masking (paper, section 3.1 and equation 1).

SegmentPair --> [CLS] a [SEP] b [SEP] --find_words--> words --choose_words--> positions --> MaskedExample
"""

from dataclasses import dataclass, field

import numpy as np

from data_prep.errors import InputError
from data_prep.examples.prepare_flags import PrepareSettings
from data_prep.examples.segments import SegmentPair
from data_prep.tokenizers.vocabulary import Tokenizer
from data_prep.tokenizers.vocabulary_flags import WordBoundaries


@dataclass(frozen=True)
class MaskingVocabulary:
    """The properties of a vocabulary that masking uses.

    Attributes:
      cls_id, sep_id, mask_id: ids of the symbols.
      starts_word: bool [V], whether a piece starts a word.
      replacements: int32 [R], the ids of random replacements: all but the symbols.
    """

    cls_id: int
    sep_id: int
    mask_id: int
    starts_word: np.ndarray
    replacements: np.ndarray

    @classmethod
    def of(cls, tokenizer: Tokenizer, boundaries: WordBoundaries) -> "MaskingVocabulary":
        """Reads them from a tokenizer."""
        replacements = np.flatnonzero(~tokenizer.is_special).astype(np.int32)
        starts_word = tokenizer.word_starts(boundaries)
        return cls(tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id, starts_word, replacements)


_LONGEST_SPAN = 512  # words


@dataclass(frozen=True)
class MaskingSettings:
    """How many tokens are masked, and in which spans.

    Attributes:
      max_predictions_per_seq: P, the most predicted tokens in an example.
      masked_lm_prob: share of the tokens, including [CLS] and [SEP], that are predicted.
      ngram: most words in a masked span.
      favor_shorter_ngram: p(n) is proportional to 1 / n; if false, to 1 / (ngram + 1 - n).
      do_whole_word_mask: masks all pieces of a word together; if false, every piece counts as a word.
    """

    max_predictions_per_seq: int
    masked_lm_prob: float = 0.15
    ngram: int = 3
    favor_shorter_ngram: bool = True
    do_whole_word_mask: bool = True
    # [words left in the segment, n - 1]: cumulative probability of a span of n words.
    cumulative: np.ndarray = field(init=False, repr=False, compare=False)

    @classmethod
    def of(cls, flags: PrepareSettings) -> "MaskingSettings":
        """Those of `albert prepare`."""
        return cls(
            flags.predictions,
            flags.masked_lm_prob,
            flags.ngram,
            flags.favor_shorter_ngram,
            flags.do_whole_word_mask,
        )

    def __post_init__(self):
        # A manifest may hold any number, and the table for a large one would not fit into memory.
        if not 1 <= self.ngram <= _LONGEST_SPAN:
            raise InputError(f"--ngram must be from 1 to {_LONGEST_SPAN}. Received {self.ngram}.")
        table = _cumulative_ngram_probabilities(self.ngram, self.favor_shorter_ngram)
        object.__setattr__(self, "cumulative", table)


@dataclass(frozen=True)
class MaskedExample:
    """A training example before padding: n tokens, m of them predicted.

    Attributes:
      input_ids: int32 [n], with [MASK] and random replacements in place.
      segment_ids: int32 [n], 0 for [CLS] a [SEP], 1 for b [SEP] if b is not empty.
      token_boundary: int32 [n], 1 where a word starts and at [CLS] and [SEP].
      masked_lm_positions: int32 [m], ascending.
      masked_lm_ids: int32 [m], the original ids.
      swapped: the sentence-order label.
    """

    input_ids: np.ndarray
    segment_ids: np.ndarray
    token_boundary: np.ndarray
    masked_lm_positions: np.ndarray
    masked_lm_ids: np.ndarray
    swapped: bool

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """The values of `pretraining_features`, not padded."""
        return {
            "input_ids": self.input_ids,
            "input_mask": np.ones(len(self.input_ids), bool),
            "segment_ids": self.segment_ids,
            "token_boundary": self.token_boundary,
            "masked_lm_positions": self.masked_lm_positions,
            "masked_lm_ids": self.masked_lm_ids,
            "masked_lm_weights": np.ones(len(self.masked_lm_ids), np.float32),
            "next_sentence_labels": np.array([self.swapped]),
        }


def masked_example(
    pair: SegmentPair, vocabulary: MaskingVocabulary, settings: MaskingSettings, rng: np.random.Generator
) -> MaskedExample:
    """Adds [CLS] and [SEP] to a pair and masks it.

    >>> masked_example(SegmentPair([7, 8], [9], False, 2), vocabulary, settings, rng)
    MaskedExample(input_ids=[2, 7, 8, 3, 4, 3], segment_ids=[0, 0, 0, 0, 1, 1],
                  token_boundary=[1, 1, 0, 1, 1, 1], masked_lm_positions=[4], masked_lm_ids=[9], swapped=False)
    """
    example = unmasked_example(pair, vocabulary)
    ids, boundary = example.input_ids, example.token_boundary
    words = boundary if settings.do_whole_word_mask else np.ones_like(boundary)
    masked, positions = mask_tokens(ids, words, _separators(pair), vocabulary, settings, rng)
    return MaskedExample(masked, example.segment_ids, boundary, positions, ids[positions], pair.swapped)


def unmasked_example(pair: SegmentPair, vocabulary: MaskingVocabulary) -> MaskedExample:
    """Adds [CLS] and [SEP] to a pair, of which an empty `b` gets none; the reader draws masks in every epoch.

    >>> unmasked_example(SegmentPair([7, 8], [9], False, 2), vocabulary)
    MaskedExample(input_ids=[2, 7, 8, 3, 9, 3], segment_ids=[0, 0, 0, 0, 1, 1],
                  token_boundary=[1, 1, 0, 1, 1, 1], masked_lm_positions=[], masked_lm_ids=[], swapped=False)
    """
    separators = _separators(pair)
    length_a, length = len(pair.a), int(separators[-1]) + 1
    ids = np.empty(length, np.int32)
    ids[separators] = vocabulary.sep_id
    ids[0] = vocabulary.cls_id
    ids[1 : length_a + 1] = pair.a
    ids[length_a + 2 : length - 1] = pair.b
    segment_ids = np.zeros(length, np.int32)
    segment_ids[length_a + 2 :] = 1
    boundary = token_boundary(ids, separators, vocabulary.starts_word)
    none = np.zeros(0, np.int32)
    return MaskedExample(ids, segment_ids, boundary, none, none, pair.swapped)


def _separators(pair: SegmentPair) -> np.ndarray:
    """The positions of [CLS] and each [SEP]; int64 [3], or [2] for a single segment."""
    length_a, length_b = len(pair.a), len(pair.b)
    places = [0, length_a + 1] + ([length_a + length_b + 2] if length_b else [])
    return np.array(places)


def token_boundary(ids: np.ndarray, separators: np.ndarray, starts_word: np.ndarray) -> np.ndarray:
    """1 where a word starts and at the separators, else 0; int32 [n].

    The first piece after a separator always starts a word: truncation may have removed the word's beginning,
    and no word continues across [SEP].

    >>> token_boundary([CLS, "▁un", "able", SEP, "ly", SEP], [0, 3, 5], starts_word)
    [1, 1, 0, 1, 1, 1]
    """
    boundary = starts_word[ids].astype(np.int32)
    boundary[separators] = 1
    boundary[separators[:-1] + 1] = 1
    return boundary


def mask_tokens(
    ids: np.ndarray,
    boundary: np.ndarray,
    separators: np.ndarray,
    vocabulary: MaskingVocabulary,
    settings: MaskingSettings,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Masks whole words in spans of 1 to `ngram` words, p(n) proportional to 1 / n.

    Of the chosen tokens 80% become [MASK], 10% stay, 10% become a random piece. `ids` and `boundary`, which is 1
    where a word starts and at the separators, are int32 [n]; `separators`, int64 [s], are positions never masked
    and never crossed by a span, the last one at the end. Returns the masked ids, int32 [n], and the ascending
    positions of the predicted tokens, int32 [m].
    """
    begins, ends, words_left = find_words(boundary, separators)
    budget = prediction_budget(len(ids), settings)
    chosen = choose_words(begins, ends, words_left, budget, settings, rng)
    positions = np.flatnonzero(_cover(begins[chosen], ends[chosen], len(ids))).astype(np.int32)

    masked = ids.copy()
    kind = rng.random(len(positions))
    masked[positions[kind < 0.8]] = vocabulary.mask_id
    replaced = positions[kind >= 0.9]
    masked[replaced] = vocabulary.replacements[rng.integers(len(vocabulary.replacements), size=len(replaced))]
    return masked, positions


def prediction_budget(num_tokens: int, settings: MaskingSettings) -> int:
    """The most predicted tokens in an example of `num_tokens`, including [CLS] and [SEP].

    >>> prediction_budget(512, MaskingSettings(max_predictions_per_seq=77))
    77
    """
    return min(settings.max_predictions_per_seq, max(1, round(num_tokens * settings.masked_lm_prob)))


def find_words(boundary: np.ndarray, separators: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where words begin and end, and how many words of the segment are left from each word on, including it.

    >>> find_words([1, 1, 0, 1, 1, 1, 1, 1], [0, 4, 7])  # [CLS] ▁un able ▁x [SEP] ▁y ▁z [SEP]
    ([1, 3, 5, 6], [3, 4, 6, 7], [2, 1, 2, 1])
    """
    starts = np.flatnonzero(boundary)
    is_word = np.ones(len(starts), bool)
    separator_ranks = np.searchsorted(starts, separators)
    is_word[separator_ranks] = False
    ranks = np.flatnonzero(is_word)
    next_separator = separator_ranks[np.searchsorted(separator_ranks, ranks)]
    return starts[ranks], starts[ranks + 1], next_separator - ranks


def choose_words(
    begins: np.ndarray,
    ends: np.ndarray,
    words_left: np.ndarray,
    budget: int,
    settings: MaskingSettings,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draws spans of words until the budget is spent.

    Every word is tried once as the start of a span, in random order. A start that is already covered is
    skipped; a span that exceeds the remaining budget is shortened; a span that overlaps a covered word is
    skipped.

    Args:
      begins: int64 [words], where each word begins.
      ends: int64 [words], where it ends.
      words_left: int64 [words], number of words in its segment from each word on.
      budget: most tokens.
      settings: the distribution of n.
      rng: source of the draws; their number does not depend on their values.

    Returns:
      Indices of the chosen words, ascending; int64.
    """
    order = rng.permutation(len(begins))
    drawn = _ngram_lengths(words_left, settings, rng)
    # Plain Python numbers: this loop touches single elements, where arrays are slow.
    first, last, sizes = begins.tolist(), ends.tolist(), drawn.tolist()
    covered = bytearray(len(first))
    for start in order.tolist():
        if covered[start]:
            continue
        stop, begin = start + sizes[start], first[start]
        while stop > start and last[stop - 1] - begin > budget:
            stop -= 1
        if stop > start and 1 not in covered[start:stop]:
            covered[start:stop] = b"\x01" * (stop - start)
            budget -= last[stop - 1] - begin
            if not budget:
                break
    return np.flatnonzero(np.frombuffer(covered, bool))


def _ngram_lengths(words_left: np.ndarray, settings: MaskingSettings, rng: np.random.Generator) -> np.ndarray:
    """Draws the length n of a span that begins at each word; int64 [words]."""
    uniform = rng.random(len(words_left))
    lengths = np.searchsorted(settings.cumulative[settings.ngram], uniform, side="right") + 1
    few = np.flatnonzero(words_left < settings.ngram)
    lengths[few] = (uniform[few, np.newaxis] >= settings.cumulative[words_left[few]]).sum(axis=1) + 1
    return lengths


def _cumulative_ngram_probabilities(ngram: int, favor_shorter: bool) -> np.ndarray:
    """Row w: cumulative p(n) for n = 1..ngram if w words are left; float64 [ngram + 1, ngram].

    >>> _cumulative_ngram_probabilities(3, True)[2]  # 1/1 and 1/2, renormalised
    array([0.66666667, 1.        , 1.        ])
    """
    probabilities = 1.0 / np.arange(1, ngram + 1)
    if not favor_shorter:
        probabilities = probabilities[::-1]
    weights = np.tril(probabilities * np.ones((ngram + 1, ngram)), k=-1)
    cumulative = weights.cumsum(axis=1)
    cumulative[1:] /= cumulative[1:, -1:]
    return cumulative


def _cover(begins: np.ndarray, ends: np.ndarray, length: int) -> np.ndarray:
    """True at the positions inside any [begin, end); bool [length]."""
    steps = np.zeros(length + 1, np.int8)
    steps[begins] += 1
    steps[ends] -= 1
    return steps[:-1].cumsum(dtype=np.int8).astype(bool)
