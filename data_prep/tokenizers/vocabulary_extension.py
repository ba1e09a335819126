"""A vocabulary with a domain's own words: pieces are appended, no id moves.

text --tokenizer--> words of several pieces --greedily, by pieces saved--> new pieces, each a run of old ones

A new piece stands for a run of pieces that begins a word: a whole word or a stem. In a SentencePiece vocabulary
its score is a little above the sum of the scores of the run, so that it wins against that run, and at least the
lowest score, since an unknown character's depends on it. A text in which no new piece occurs thus has the same
segmentations with the same scores.
"""

import heapq
import unicodedata
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice, pairwise

import numpy as np
from sentencepiece import sentencepiece_model_pb2

from data_prep.errors import InputError
from data_prep.tokenizers.digit_comma import SPACE
from data_prep.tokenizers.vocabulary import Tokenizer, Vocabulary
from data_prep.tokenizers.wordpiece_tokenizer import WordPieceTokenizer

_BONUS = (
    0.05  # for each piece saved: above the rounding of a text's score, below what separates segmentations
)
_LONGEST_RUN = 16  # pieces
_MOST_RUNS = 2_000_000  # counted at once; of a larger text, runs that save little are left out
_BATCH = 1000  # texts
_UNKNOWN = 10.0  # by so much an unknown character scores below the lowest piece

Run = tuple[int, ...]


def extend_vocabulary(vocabulary: Vocabulary, texts: Iterable[str], vocab_size: int) -> Vocabulary:
    """Appends the pieces that save most: those with the largest number of occurrences x (pieces replaced - 1).

    They are chosen one by one, and counted anew after each; those that later ones make superfluous are left out.

    Args:
      vocabulary: a WordPiece vocabulary, or a SentencePiece model of the type Unigram.
      texts: text of the domain, or words.
      vocab_size: the largest number of pieces of the new vocabulary; there are fewer if nothing else saves any.

    Returns:
      The old pieces, followed by the new ones, the most useful first.

    Raises:
      InputError: `vocab_size` is not larger than the vocabulary, all words are single pieces already, or the
        SentencePiece model is of another type.

    >>> vocabulary = Vocabulary.read("runs/base/spm.model")  # of 100 pieces
    >>> extend_vocabulary(vocabulary, ["norblak", "A Norblak!"], vocab_size=200).tokenizer().pieces[100:]
    ('▁norblak',)
    """
    if vocab_size <= (size := vocabulary.count_pieces()):
        raise InputError(
            f"`vocab_size` must be larger than the number of pieces of {vocabulary.file}, {size}. Received "
            f"{vocab_size}."
        )
    rules = _rules_of(vocabulary)
    pieces = _Greedy(rules, _count_words(rules.tokenizer, texts)).choose(vocab_size - size)
    if not pieces:
        raise InputError(
            f"A vocabulary is extended by words that it splits. {vocabulary.file} splits no word of this text; "
            "name another text."
        )
    return replace(vocabulary, content=rules.with_pieces(pieces), offset_tables=None)


def replaced_pieces(old: Vocabulary, new: Vocabulary) -> list[Run]:
    """For each piece that `new` has after those of `old`, the ids that `old` splits it into.

    Raises:
      InputError: `new` does not begin with the pieces of `old`.
    """
    rules, pieces = _rules_of(old), new.tokenizer().pieces
    size = rules.tokenizer.vocab_size
    if new.kind != old.kind or pieces[:size] != rules.tokenizer.pieces:
        raise InputError(
            f"A model takes a longer vocabulary that begins with the {size} pieces of its own. {new.file} does "
            "not; `albert vocab --extend` writes one that does."
        )
    return [rules.split(piece) for piece in pieces[size:]]


class _WordPiece:
    """How WordPiece joins and splits pieces: longest pieces first."""

    def __init__(self, vocabulary: Vocabulary):
        self._content = vocabulary.content
        self.tokenizer = WordPieceTokenizer(vocabulary.file, vocabulary.normalization, vocabulary.content)

    def joined(self, run: Iterable[str]) -> str:
        """The piece that stands for a run of pieces."""
        first, *rest = run
        return first + "".join(piece.removeprefix("##") for piece in rest)

    def split(self, piece: str) -> Run:
        """The ids of a piece's text in this vocabulary, where the piece stands."""
        continues = piece.startswith("##")
        return tuple(i for i, _ in self.tokenizer.split(piece.removeprefix("##"), continues))

    def with_pieces(self, pieces: list[str]) -> bytes:
        """The vocabulary's file with more pieces."""
        return self._content.removesuffix(b"\n") + "\n".join(["", *pieces, ""]).encode()


class _Unigram:
    """The same for SentencePiece: the segmentation with the largest sum of scores."""

    def __init__(self, vocabulary: Vocabulary):
        self.tokenizer = vocabulary.tokenizer()
        self._proto = sentencepiece_model_pb2.ModelProto.FromString(vocabulary.content)
        pieces = self._proto.pieces
        normal = [each.score for each in pieces if each.type == each.NORMAL] or [0.0]
        self._scores = {each.piece: each.score for each in pieces if each.type == each.NORMAL} | {
            each.piece: max(0.0, *normal) * len(each.piece.encode()) - 0.1  # as SentencePiece computes it
            for each in pieces
            if each.type == each.USER_DEFINED
        }
        if self._proto.trainer_spec.model_type != self._proto.trainer_spec.UNIGRAM:
            raise InputError(
                f"A SentencePiece vocabulary is extended if it is of the type Unigram. {vocabulary.file} is not; "
                "train one with `albert vocab`."
            )
        self._ids = {piece: i for i, piece in enumerate(self.tokenizer.pieces)}
        self._longest = max(map(len, self._scores))
        self._lowest = min(normal)

    def joined(self, run: Iterable[str]) -> str:
        return "".join(run)

    def split(self, piece: str) -> Run:
        return self._best(piece)[1]

    def with_pieces(self, pieces: list[str]) -> bytes:
        for piece in pieces:
            score, run = self._best(piece)
            if piece[-1].isdigit():
                # A piece such as "5,", which the digit-comma rule splits, must not win either.
                score = max(score, self._best(piece + ",")[0] - self._best(",")[0])
            self._proto.pieces.add(piece=piece, score=max(self._lowest, score + _BONUS * (len(run) - 1)))
        self._proto.trainer_spec.vocab_size = len(self._proto.pieces)
        return self._proto.SerializeToString()

    def _best(self, text: str) -> tuple[float, Run]:
        """The best segmentation of a text: the sum of its scores, and its ids."""
        best: list[tuple[float, Run]] = [(0.0, ())]
        for end in range(1, len(text) + 1):
            found = [
                (best[begin][0] + self._scores[piece], (*best[begin][1], self._ids[piece]))
                for begin in range(max(0, end - self._longest), end)
                if (piece := text[begin:end]) in self._scores
            ]
            unknown = best[-1][0] + self._lowest - _UNKNOWN, (*best[-1][1], self.tokenizer.unk_id)
            best.append(max(found, default=unknown, key=lambda each: each[0]))
        return best[-1]


_Rules = _WordPiece | _Unigram


def _rules_of(vocabulary: Vocabulary) -> _Rules:
    return _WordPiece(vocabulary) if vocabulary.kind == "wordpiece" else _Unigram(vocabulary)


def _count_words(tokenizer: Tokenizer, texts: Iterable[str]) -> Counter[Run]:
    """The words of several pieces as ids. Punctuation separates words; those with unknown pieces are left out."""
    is_wordpiece = isinstance(tokenizer, WordPieceTokenizer)
    prefix = "##" if is_wordpiece else SPACE
    begins = np.array([piece.startswith(prefix) != is_wordpiece for piece in tokenizer.pieces])
    inside = np.array([_is_inside(piece.removeprefix(prefix)) for piece in tokenizer.pieces])
    inside[tokenizer.unk_id] = True
    words: Counter[Run] = Counter()
    remaining = iter(texts)
    while batch := list(islice(remaining, _BATCH)):
        for ids in tokenizer.encode_batch(batch):
            is_cut = begins[ids] | ~inside[ids]
            is_cut[1:] |= ~inside[ids[:-1]]
            is_cut[:1] = True
            cuts = np.append(np.flatnonzero(is_cut), len(ids))
            for begin in np.flatnonzero(np.diff(cuts) > 1).tolist():
                words[tuple(ids[cuts[begin] : cuts[begin + 1]].tolist())] += 1
    return Counter({word: count for word, count in words.items() if tokenizer.unk_id not in word})


class _Greedy:
    """Chooses runs of pieces, the one that saves most first."""

    def __init__(self, rules: _Rules, words: Counter[Run]):
        self._rules = rules
        self._pieces = list(rules.tokenizer.pieces)
        self._known = set(self._pieces)
        self._parts: list[Run] = [(i,) for i in range(len(self._pieces))]
        self._starts = rules.tokenizer.word_starts("unicode").tolist()
        self._words, self._counts = list(words), list(words.values())
        self._savings: Counter[Run] = Counter()
        self._places: dict[tuple[int, int], array] = defaultdict(lambda: array("q"))  # words that have a pair
        for number, (word, count) in enumerate(words.items()):
            for run in self._runs(word):
                self._savings[run] += count * (len(run) - 1)
            self._note_pairs(number)
            if len(self._savings) > _MOST_RUNS:
                self._savings = Counter(dict(self._savings.most_common(_MOST_RUNS // 2)))
        self._queue = [(-saving, -len(run), run) for run, saving in self._savings.items()]
        heapq.heapify(self._queue)

    def choose(self, most: int) -> list[str]:
        """Up to `most` new pieces."""
        uses: Counter[int] = Counter()  # of new pieces
        while self._queue:
            saving, length, run = heapq.heappop(self._queue)
            now = self._savings[run]
            if 0 < now < -saving:
                heapq.heappush(self._queue, (-now, length, run))
                continue
            takes_place = any(i in uses and uses[i] == now // (len(run) - 1) for i in run)  # of a stem
            if now > 0 and (len(uses) < most or takes_place) and self._add(run):
                self._replace(run, uses)
        return [self._pieces[i] for i in sorted(uses)[:most]]

    def _add(self, run: Run) -> bool:
        """Adds a piece if a run is a word, or begins one, and is what the vocabulary makes of its text."""
        piece = self._rules.joined(self._pieces[i] for i in run)
        parts = tuple(part for i in run for part in self._parts[i])
        if piece in self._known or not _is_word(piece.removeprefix(SPACE)):
            return False
        if self._rules.split(piece) != parts:
            return False
        self._pieces.append(piece)
        self._known.add(piece)
        self._parts.append(parts)
        self._starts.append(self._starts[run[0]])
        return True

    def _replace(self, run: Run, uses: Counter[int]) -> None:
        """Puts the newest piece in the places of a run, and counts what changes."""
        new, changed = len(self._pieces) - 1, set()
        for number in sorted(set(self._places[run[0], run[1]])):
            word, count = self._words[number], self._counts[number]
            if (shorter := _with_run_replaced(word, run, new)) == word:
                continue
            for sign, each in ((-1, word), (1, shorter)):
                for found in self._runs(each):
                    if new in found or found in self._savings:
                        self._savings[found] += sign * count * (len(found) - 1)
                        changed |= {found} if new in found else set()
                for i in each:
                    if len(self._parts[i]) > 1:
                        uses[i] += sign * count
            self._words[number] = shorter
            self._note_pairs(number)
        for i in [i for i, count in uses.items() if not count]:
            del uses[i]
        for found in changed:
            heapq.heappush(self._queue, (-self._savings[found], -len(found), found))

    def _runs(self, word: Run) -> Iterator[Run]:
        """The runs of two pieces and more that begin a word, which in Chinese or Thai each piece does."""
        for begin in range(len(word) - 1):
            if begin == 0 or self._starts[word[begin]]:
                for end in range(begin + 2, min(len(word), begin + _LONGEST_RUN) + 1):
                    yield word[begin:end]

    def _note_pairs(self, number: int) -> None:
        for pair in pairwise(self._words[number]):
            self._places[pair].append(number)


def _with_run_replaced(word: Run, run: Run, new: int) -> Run:
    result: list[int] = []
    begin = 0
    while begin < len(word):
        is_here = word[begin : begin + len(run)] == run
        result.append(new if is_here else word[begin])
        begin += len(run) if is_here else 1
    return tuple(result)


def _is_inside(text: str) -> bool:
    """Whether a text may be a part of a word: letters, marks, digits and hyphens."""
    return all(c == "-" or unicodedata.category(c)[0] in "LMN" for c in text)


def _is_word(text: str) -> bool:
    """Whether a text has a letter, and neither begins nor ends with a hyphen."""
    kinds = [unicodedata.category(character)[0] for character in text]
    return "L" in kinds and kinds[0] in "LN" and kinds[-1] != "P"
