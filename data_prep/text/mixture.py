"""Mixtures of corpora: a share of the text for each pattern of --input_file, and the passes that give it.

--input_weights or --input_exponent, sizes --Mixture.shares--> shares --Mixture.passes--> passes over each corpus
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from data_prep.errors import InputError
from data_prep.text.sources import check_read_twice, split_patterns

if TYPE_CHECKING:
    from data_prep.text.documents import Text

_File = TypeVar("_File", bound=Hashable)


@dataclass(frozen=True)
class Corpus:
    """What the manifest says of one corpus of a mixture.

    Attributes:
      input_file: its pattern.
      weight: the share that it should have; all weights add up to 1.
      passes: the mean number of passes over its documents.
      documents: how many it has.
      example_tokens: in its examples, before --drop_duplicates.
      share: of all such tokens.
    """

    input_file: str
    weight: float
    passes: float
    documents: int
    example_tokens: int
    share: float


@dataclass(frozen=True)
class Mixture:
    """The corpora of a command, and how they are weighted.

    Attributes:
      patterns: one for each corpus; a single one if nothing is mixed.
      weights: one for each corpus, or none if `exponent` gives them.
      exponent: the weight of a corpus is its size to this power.

    >>> Mixture(("en", "de"), (3.0, 1.0)).passes({0: 100, 1: 100}, 10)
    (15.0, 5.0)
    """

    patterns: tuple[str, ...]
    weights: tuple[float, ...] = ()
    exponent: float = 1.0

    @classmethod
    def of(cls, input_file: str, weights: str | None, exponent: float | None) -> "Mixture":
        """Parses and checks --input_file, --input_weights and --input_exponent."""
        if weights is None and exponent is None:
            return cls((input_file,))
        if weights is not None and exponent is not None:
            raise InputError(
                "--input_weights and --input_exponent exclude each other. Received both; leave one out."
            )
        patterns = tuple(split_patterns(input_file))
        if len(patterns) < 2:
            raise InputError(
                "A mixture needs several patterns in --input_file, separated by commas: all files of one are one "
                f"corpus. Received {input_file!r}."
            )
        if weights is None:
            assert exponent is not None
            if not 0 <= exponent <= 1:
                raise InputError(f"--input_exponent must lie between 0 and 1. Received {exponent}.")
            return cls(patterns, exponent=exponent)
        try:
            numbers = tuple(map(float, weights.split(",")))
        except ValueError:
            numbers = ()
        if not numbers or not all(number > 0 for number in numbers) or not math.isfinite(sum(numbers)):
            raise InputError(
                f"--input_weights must be numbers above 0, separated by commas. Received {weights!r}; leave out "
                "an input that should have no share."
            )
        if len(numbers) != len(patterns):
            raise InputError(
                "--input_weights must have one number for each pattern of --input_file. Received "
                f"{len(numbers)} for {len(patterns)}: {', '.join(patterns)}."
            )
        return cls(patterns, numbers)

    @property
    def is_mixed(self) -> bool:
        """Whether there are several corpora."""
        return len(self.patterns) > 1

    def corpora(self, expand: Callable[[str], list[_File]]) -> list[list[_File]]:
        """The files of each corpus; `expand` finds those of a pattern."""
        corpora = [expand(pattern) for pattern in self.patterns]
        for file, number in Counter(file for files in corpora for file in files).items():
            if number > 1:
                raise InputError(f"A file of a mixture must belong to one corpus. {file} belongs to several.")
        return corpora

    def check_sizes(self, sizes: Mapping[int, int]) -> None:
        """Raises InputError if a corpus is empty."""
        for number, pattern in enumerate(self.patterns):
            if not sizes.get(number):
                raise InputError(f"Every input of a mixture must have content. {pattern} has none.")

    def shares(self, sizes: Mapping[int, int]) -> tuple[float, ...]:
        """The share that each corpus should have; they add up to 1."""
        weights = self.weights or [sizes.get(i, 0) ** self.exponent for i in range(len(self.patterns))]
        total = math.fsum(weights)
        return tuple(weight / total for weight in weights)

    def passes(self, sizes: Mapping[int, int], mean: int) -> tuple[float, ...]:
        """The passes over each corpus that give it its share, and the text the length of `mean` passes over it."""
        if not self.is_mixed:
            return (float(mean),)
        total = sum(sizes.values())
        return tuple(
            mean * share * total / sizes[number] if sizes.get(number) else 0.0
            for number, share in enumerate(self.shares(sizes))
        )

    def report(self, sizes: Mapping[int, int], mean: int, counts: Counter) -> tuple[Corpus, ...]:
        """The rows of the manifest, from the counts of `count_corpus`; none if nothing is mixed."""
        if not self.is_mixed:
            return ()
        numbers = range(len(self.patterns))
        tokens = [counts[_TOKENS.format(number)] for number in numbers]
        documents = [counts[_DOCUMENTS.format(number)] for number in numbers]
        shares = [each / max(1, sum(tokens)) for each in tokens]
        columns = self.patterns, self.shares(sizes), self.passes(sizes, mean), documents, tokens, shares
        return tuple(Corpus(*row) for row in zip(*columns, strict=True))


_DOCUMENTS, _TOKENS = "documents of corpus {}", "tokens of corpus {}"


def count_corpus(counts: Counter, corpus: int, documents: int = 0, tokens: int = 0) -> None:
    """Adds to the documents of a corpus, and to the tokens of its examples."""
    counts[_DOCUMENTS.format(corpus)] += documents
    counts[_TOKENS.format(corpus)] += tokens


def read_corpora(corpora: Sequence[Iterable[Path]], *layout: Any) -> "Iterator[Text]":
    """The texts of all corpora, each with its corpus's number; `layout` are more arguments of `read_texts`."""
    from data_prep.text.documents import read_texts  # here, because it needs NumPy, which --help does without

    for number, paths in enumerate(corpora):
        for text in read_texts(paths, *layout):
            yield dataclasses.replace(text, corpus=number) if number else text


def measure_corpora(mixture: Mixture, corpora: Sequence[Iterable[Path]], *layout: Any) -> Counter[int]:
    """Reads mixed text once; returns the characters of each corpus, of which none is empty."""
    sizes: Counter[int] = Counter()
    if mixture.is_mixed:
        check_read_twice("A mixture", chain.from_iterable(corpora))
        for text in read_corpora(corpora, *layout):
            sizes[text.corpus] += text.num_characters
        mixture.check_sizes(sizes)
    return sizes


def whole_passes(passes: float, draw: Callable[[], float]) -> int:
    """A whole number of passes: the fraction is the probability of one more; `draw` gives a number in [0, 1)."""
    whole = int(passes)
    return whole + (passes > whole and draw() < passes - whole)
