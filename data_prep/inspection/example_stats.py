"""Statistics of pretraining examples: lengths, masks and labels, counted batch by batch."""

from pathlib import Path

import numpy as np
from rich.table import Table

from data_prep.examples.masking import MaskingSettings
from data_prep.examples.prepare_flags import PrepareSettings
from data_prep.inspection.example_batches import read_batches

_LONGEST_RUN = 4  # words; includes longer runs of masked words
_ALBERT = PrepareSettings("text.txt", "train.tfrecord")


class ExampleStats:
    """Counts over any number of examples, in constant memory.

    Args:
      mask_id: id of [MASK].
      starts_word: bool [V], whether a piece starts a word; for files that have no `token_boundary`.

    Attributes:
      lengths: lengths[n] examples have n tokens, int64 [T + 1].
      masked_shares: masked_shares[p] examples have p percent of their tokens masked, int64 [101].
      runs: runs[n] runs have n masked words, int64 [5]; the last counts 4 and more. Adjacent n-grams are one run.
      originals: originals[i] masked tokens were piece i before, int64 [largest id + 1].
      replaced: masked tokens that became [MASK], stayed the same, or became another one, int64 [3].
      labels: examples in order, and swapped, int64 [2]; 0 for chunks, which training cuts and swaps.
      sentences: sentences[n] chunks have n sentences, int64 [longest + 1]; 0 for examples.
      tokens, masked: their number.
      max_seq_length: T.
    """

    def __init__(self, mask_id: int, starts_word: np.ndarray):
        self._mask_id = mask_id
        self._starts_word = starts_word
        self.lengths = np.zeros(1, np.int64)
        self.masked_shares = np.zeros(101, np.int64)
        self.runs = np.zeros(_LONGEST_RUN + 1, np.int64)
        self.originals = np.zeros(1, np.int64)
        self.replaced = np.zeros(3, np.int64)
        self.labels = np.zeros(2, np.int64)
        self.sentences = np.zeros(1, np.int64)
        self.tokens = self.masked = self.max_seq_length = 0

    @property
    def examples(self) -> int:
        """The number of examples."""
        return int(self.lengths.sum())

    def add(self, values: dict[str, np.ndarray]) -> None:
        """Counts a batch, feature -> array [B, ...]; without `masked_lm_*`, only lengths and labels."""
        lengths = values["input_mask"].sum(axis=1)
        self.max_seq_length = max(self.max_seq_length, values["input_mask"].shape[1])
        self.lengths = _sum(self.lengths, np.bincount(lengths, minlength=self.max_seq_length + 1))
        self.tokens += int(lengths.sum())
        if "sentence_starts" in values:
            sentences = 1 + (values["sentence_starts"] != 0).sum(axis=1)
            self.sentences = _sum(self.sentences, np.bincount(sentences))
            return
        self.labels += np.bincount(values["next_sentence_labels"].ravel(), minlength=2)[:2]
        if "masked_lm_ids" in values:
            self._add_masks(values, lengths)

    def _add_masks(self, values: dict[str, np.ndarray], lengths: np.ndarray) -> None:
        row, slot = np.nonzero(values["masked_lm_weights"] > 0)
        positions, originals = values["masked_lm_positions"][row, slot], values["masked_lm_ids"][row, slot]
        shown = values["input_ids"][row, positions]
        self.masked += len(row)
        self.originals = _sum(self.originals, np.bincount(originals))
        shares = np.bincount(row, minlength=len(lengths)) / np.maximum(lengths, 1)
        self.masked_shares += np.bincount(np.rint(100 * shares).astype(int), minlength=101)
        is_mask, is_kept = shown == self._mask_id, shown == originals
        self.replaced += [is_mask.sum(), (is_kept & ~is_mask).sum(), (~is_kept & ~is_mask).sum()]

        if "token_boundary" in values:
            boundary = values["token_boundary"] != 0
        else:
            whole = values["input_ids"].copy()
            whole[row, positions] = originals
            boundary = self._starts_word[whole]
        # Numbers the words of each example; every [CLS] and [SEP] counts as a word.
        words = boundary.cumsum(axis=1)[row, positions]
        order = np.lexsort((words, row))
        self.runs += _run_lengths(row[order], words[order])


def most_frequent_share(file: Path) -> float:
    """Masked-LM accuracy of always predicting the most frequent masked piece of a file of examples."""
    stats = ExampleStats(mask_id=-1, starts_word=np.zeros(0, bool))
    for batch in read_batches(file):
        stats.add({"token_boundary": np.ones_like(batch.values["input_ids"]), **batch.values})
    return float(stats.originals.max() / stats.masked)


def stats_table(stats: ExampleStats, settings: PrepareSettings | None = None) -> Table:
    """The counts as a table, beside the values that the rules give, of the settings or of ALBERT."""
    settings = settings or _ALBERT
    is_chunks = stats.sentences.any()
    unit = "chunk" if is_chunks else "example"
    table = Table(title=f"{stats.examples:,} {unit}s, {stats.tokens:,} tokens", min_width=50)
    table.add_column("")
    table.add_column("found", justify="right")
    table.add_column("rule", justify="right")
    low, median, high = _quantiles(stats.lengths)
    length_rule = "" if is_chunks else f"at most {stats.max_seq_length}"
    table.add_row(f"mean tokens per {unit}", f"{stats.tokens / stats.examples:.1f}", "")
    table.add_row("  shortest, median, longest", f"{low}, {median}, {high}", length_rule)
    if is_chunks:
        low, median, high = _quantiles(stats.sentences)
        table.add_row("sentences: fewest, median, most", f"{low}, {median}, {high}", "at least 2")
        table.add_row("pairs and masked tokens", "none", "drawn in training")
        return table
    full = stats.lengths[stats.max_seq_length] / stats.examples
    table.add_row("  full length", f"{full:.1%}", "")
    if stats.masked:
        share = f"{100 * settings.masked_lm_prob:.3g}%"
        table.add_row("masked tokens", f"{stats.masked / stats.tokens:.2%}", f"{share}, at most P")
        for name, count, rule in zip(
            ("become [MASK]", "stay", "become another"), stats.replaced, ("80%", "10%", "10%"), strict=True
        ):
            table.add_row(f"  {name}", f"{count / stats.masked:.2%}", rule)
        low, median, high = _quantiles(stats.masked_shares)
        table.add_row("  in an example: lowest, median, highest", f"{low}%, {median}%, {high}%", share)
        table.add_row("  the most frequent piece", f"{stats.originals.max() / stats.masked:.2%}", "")
        for n, rule in enumerate(_ngram_rules(settings), start=1):
            name = f"masked runs of {n} word{'s' * (n > 1)}" + " or more" * (n == _LONGEST_RUN)
            table.add_row(name, f"{stats.runs[n] / stats.runs.sum():.2%}", rule)
    else:
        table.add_row("masked tokens", "none", "masked in training")
    rule = "0%" if settings.sentence_objective == "none" else "50%"
    table.add_row("swapped", f"{stats.labels[1] / stats.examples:.2%}", rule)
    if stats.masked and settings.do_whole_word_mask:
        table.caption = "* if no two n-grams are adjacent; two that are form one longer run"
    return table


def _ngram_rules(settings: PrepareSettings) -> list[str]:
    """The shares of n-grams of 1, 2, 3 and more words, if no two touch; none if words are not masked whole.

    >>> _ngram_rules(_ALBERT)
    ['54.5% *', '27.3% *', '18.2% *', '0.0% *']
    """
    if not settings.do_whole_word_mask:
        return [""] * _LONGEST_RUN
    cumulative = np.pad(MaskingSettings.of(settings).cumulative[-1], (0, _LONGEST_RUN), constant_values=1)
    cumulative[_LONGEST_RUN - 1] = 1
    return [f"{share:.1%} *" for share in np.diff(cumulative[:_LONGEST_RUN], prepend=0)]


def _run_lengths(row: np.ndarray, words: np.ndarray) -> np.ndarray:
    """The number of runs of 0, 1, 2, ... consecutive words; the arguments are sorted.

    >>> _run_lengths(np.array([0, 0, 0, 1]), np.array([3, 3, 4, 9]))  # words 3 and 4, then word 9
    array([0, 1, 1, 0, 0])
    """
    if not len(row):
        return np.zeros(_LONGEST_RUN + 1, np.int64)
    new_row = np.diff(row, prepend=-1) != 0
    new_word = new_row | (np.diff(words, prepend=-1) != 0)
    new_run = new_row | (np.diff(words, prepend=-2) > 1)
    run_of_word = (new_run.cumsum() - 1)[new_word]
    lengths = np.bincount(run_of_word)
    return np.bincount(np.minimum(lengths, _LONGEST_RUN), minlength=_LONGEST_RUN + 1)


def _quantiles(histogram: np.ndarray) -> tuple[int, int, int]:
    """The smallest, middle and largest value in a histogram."""
    cumulative = histogram.cumsum()
    low, median, high = np.searchsorted(cumulative, [1, (cumulative[-1] + 1) // 2, cumulative[-1]])
    return int(low), int(median), int(high)


def _sum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    total = np.zeros(max(len(a), len(b)), np.int64)
    total[: len(a)] += a
    total[: len(b)] += b
    return total
