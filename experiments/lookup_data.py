"""Writes training data that teaches a small model to look words up in a passage.

For example:

    python -m experiments.lookup_data --input_file='books/*.md' --output_dir=lookup

Questions about a passage require comparing words, which masked-word prediction hardly trains: the masked word is
not visible. Large models learn it nevertheless, but a model that was pretrained for minutes does not. It learns
from these lessons in turn (experiments/downstream.py trains them):

- short/*.conll, long/*.conll: some words of a book, "?", and more words, half of which are among the first and
  labelled B-SEEN. With few words, the model learns the relation after a thousand steps; if it starts with many
  words, it never does.
- shared/*.jsonl: a passage, pieces of it and of other text, and as label the sum of the rarities of the words that
  both have. A word's rarity is log(passages / passages with the word).

Prints one JSON object with the counts.
"""

import json
import math
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from albert_cli import program
from albert_tf.lab.text import split_files
from data_prep.errors import InputError
from data_prep.files import new_folder, write_text
from data_prep.text.documents import read_documents
from data_prep.text.sources import expand_files

# Minimum and maximum number of words before "?"; number of words after it that were seen, and that were not.
SHORT, LONG = (3, 9, 3), (20, 59, 12)
PIECES, PIECE_WORDS = (1, 5), (1, 7)  # minimum and maximum number of pieces, and of words in each
RARITY_UNIT = 10  # scales labels to about 1

Words = list[str]
Rarities = dict[str, float]
Lesson = Callable[
    [Words, int, random.Random], Iterator[str]
]  # (book, number of examples, generator) -> lines of the file


@dataclass(frozen=True)
class LookupSettings:
    """The size of the lessons.

    Attributes:
      input_file: text in prose, one book per file; globs and commas are allowed.
      output_dir: new folder for short, long and shared, each with a training and a development file.
      short: number of training examples of the lesson "short".
      long: number of training examples of the lesson "long".
      shared: number of training examples of the lesson "shared".
      dev: number of development examples of each lesson, from every 20th book, which is not used for training.
      passage_words: number of words in a passage of "shared".
      dropped: share of the words that is removed from the second text of "shared".
      seed: seed of all random choices.
    """

    input_file: str
    output_dir: Path
    short: int = 100_000
    long: int = 10_000
    shared: int = 70_000
    dev: int = 500
    passage_words: int = 160
    dropped: float = 0.3
    seed: int = 0


def main(settings: LookupSettings) -> dict[str, dict[str, int]]:
    """Writes the files and prints their numbers of examples."""
    if not 0 <= settings.dropped < 1:
        raise InputError(f"--dropped must be at least 0 and below 1. Received {settings.dropped}.")
    train, heldout = split_files(expand_files(settings.input_file))
    books = {part: [words_of(path) for path in paths] for part, paths in (("train", train), ("dev", heldout))}
    lessons = lessons_of(settings, rarities(books["train"], settings.passage_words))
    counts: dict[str, dict[str, int]] = {}
    with new_folder(settings.output_dir) as folder:
        for part, chosen in books.items():
            generator = random.Random(f"{settings.seed} {part}")
            for name, (file, lesson) in lessons.items():
                (folder / name).mkdir(exist_ok=True)
                wanted = getattr(settings, name) if part == "train" else settings.dev
                share = -(-wanted // len(chosen))
                examples = [text for book in chosen for text in lesson(book, share, generator)]
                generator.shuffle(examples)
                examples = examples[:wanted]
                write_text(folder / name / file.format(part), "".join(examples))
                counts.setdefault(name, {})[part] = len(examples)
    print(json.dumps(counts))
    return counts


def lessons_of(settings: LookupSettings, rarity: Rarities) -> dict[str, tuple[str, Lesson]]:
    """Each lesson's file name and function."""
    return {
        "short": ("{}.conll", partial(marked_words, SHORT)),
        "long": ("{}.conll", partial(marked_words, LONG)),
        "shared": ("{}.jsonl", partial(shared_words, settings, rarity)),
    }


def words_of(book: Path) -> Words:
    """The words of a book with their punctuation; punctuation alone is not a word."""
    return [
        word
        for document in read_documents([book], "prose")
        for sentence in document.sentences
        for word in sentence.split()
        if bare(word)
    ]


def rarities(books: Iterable[Words], passage_words: int) -> Rarities:
    """Of each word, log(passages / passages with the word)."""
    passages, found = 0, Counter[str]()
    for words in books:
        for begin in range(0, len(words), passage_words):
            found.update({bare(word) for word in words[begin : begin + passage_words]})
            passages += 1
    return {word: math.log(passages / count) for word, count in found.items()}


def marked_words(
    lengths: tuple[int, int, int], words: Words, count: int, generator: random.Random
) -> Iterator[str]:
    """Yields `count` examples from a book in CoNLL format."""
    for _ in range(count if words else 0):
        pairs = seen_words(words, lengths, generator)
        yield "".join(f"{word} {label}\n" for word, label in pairs) + "\n"


def seen_words(
    words: Words, lengths: tuple[int, int, int], generator: random.Random
) -> list[tuple[str, str]]:
    """Words with labels: consecutive words of the book, "?", and bare words that are among them or not."""
    fewest, most, asked = lengths
    begin = generator.randrange(max(1, len(words) - most))
    stretch = words[begin : begin + generator.randint(fewest, most)]
    among = sorted({bare(word) for word in stretch})
    drawn = [bare(generator.choice(words)) for _ in range(2 * asked)]
    others = [word for word in drawn if word not in among][:asked]
    questions = [generator.choice(among) for _ in range(asked)] + others
    generator.shuffle(questions)
    labels = [(word, "B-SEEN" if word in among else "O") for word in questions]
    return [(word, "O") for word in [*stretch, "?"]] + labels


def bare(word: str) -> str:
    """A word in lower case without punctuation.

    >>> bare('"Well,')
    'well'
    """
    return re.sub(r"\W", "", word).lower()


def shared_words(
    settings: LookupSettings, rarity: Rarities, words: Words, count: int, generator: random.Random
) -> Iterator[str]:
    """Yields `count` JSON lines from a book: a passage, other words, and the rarity of those in both."""
    for _ in range(count if words else 0):
        begin = generator.randrange(max(1, len(words) - settings.passage_words))
        passage = words[begin : begin + settings.passage_words]
        among = {bare(word) for word in passage}
        pieces = [
            piece_of(generator.choice((passage, words)), generator) for _ in range(generator.randint(*PIECES))
        ]
        other = thinned([word for piece in pieces for word in piece], settings.dropped, generator)
        total = sum(rarity.get(bare(word), 0) for word in other if bare(word) in among)
        label = round(total / RARITY_UNIT, 3)
        row = {"text_a": " ".join(passage), "text_b": " ".join(other), "label": label}
        yield json.dumps(row, ensure_ascii=False) + "\n"


def piece_of(words: Words, generator: random.Random) -> Words:
    """Some consecutive words."""
    begin = generator.randrange(len(words))
    return words[begin : begin + generator.randint(*PIECE_WORDS)]


def thinned(words: Words, dropped: float, generator: random.Random) -> Words:
    """Drops each word with probability `dropped`, but keeps at least one."""
    return [word for word in words if generator.random() >= dropped] or words[:1]


if __name__ == "__main__":
    sys.exit(program.run_with_settings(main, LookupSettings, __doc__))
