"""From plain prose, data that teach a small model to look words up in a passage.

    python -m experiments.lookup_data --input_file='books/*.md' --output_dir=lookup

Masked words never ask whether a word stands elsewhere, too: that word is not there. A large model learns to look
things up all the same, one that was pretrained for minutes does not, and passages with questions are all about it.
The lessons, each for the model that the one before made (experiments/downstream.py trains them):

- short/*.conll, long/*.conll: some words of a book, "?", and words of which half were among them, marked B-SEEN.
  With few words it takes a thousand steps to find out; with many, from the start, it never comes about.
- shared/*.jsonl: a passage, some words of it and of elsewhere, and a number: how much of them the passage has,
  each word by its rarity, the log of how many passages there are for one with the word.

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

# Fewest and most words that come first, and as many that were among them as were not.
SHORT, LONG = (3, 9, 3), (20, 59, 12)
PIECES, PIECE_WORDS = (1, 5), (1, 7)  # fewest and most pieces of other text, and words a piece
RARITY_UNIT = 10  # so that the numbers are about 1

Words = list[str]
Rarities = dict[str, float]
Lesson = Callable[[Words, int, random.Random], Iterator[str]]  # a book, how many; each the text of a file


@dataclass(frozen=True)
class LookupSettings:
    """What is made and where.

    Attributes:
      input_file: prose, a book a file; files, globs, commas.
      output_dir: gets the folders short, long and shared, each with a file "train" and a file "dev".
      short, long, shared: examples of each to train on.
      dev: of each to measure with, from every 20th book, of which nothing to train on is.
      passage_words: words a passage of shared.
      dropped: the share of words left out of what is looked up in a passage.
      seed: of every choice.
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
    """Writes the files and prints how many examples they have."""
    if not 0 <= settings.dropped < 1:
        raise InputError(f"--dropped must be a share below 1. Received {settings.dropped}.")
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
    """Each lesson's file, and what makes it."""
    return {
        "short": ("{}.conll", partial(marked_words, SHORT)),
        "long": ("{}.conll", partial(marked_words, LONG)),
        "shared": ("{}.jsonl", partial(shared_words, settings, rarity)),
    }


def words_of(book: Path) -> Words:
    """The words of a book with their signs; a sign by itself is none."""
    return [
        word
        for document in read_documents([book], "prose")
        for sentence in document.sentences
        for word in sentence.split()
        if bare(word)
    ]


def rarities(books: Iterable[Words], passage_words: int) -> Rarities:
    """The log of how many passages there are for one with the word."""
    passages, found = 0, Counter[str]()
    for words in books:
        for begin in range(0, len(words), passage_words):
            found.update({bare(word) for word in words[begin : begin + passage_words]})
            passages += 1
    return {word: math.log(passages / count) for word, count in found.items()}


def marked_words(
    lengths: tuple[int, int, int], words: Words, count: int, generator: random.Random
) -> Iterator[str]:
    """`count` examples from a book, as a CoNLL file has them."""
    for _ in range(count if words else 0):
        pairs = seen_words(words, lengths, generator)
        yield "".join(f"{word} {label}\n" for word, label in pairs) + "\n"


def seen_words(
    words: Words, lengths: tuple[int, int, int], generator: random.Random
) -> list[tuple[str, str]]:
    """Words with labels: a stretch of the book, "?", and bare words that were in it or not."""
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
    """
    >>> bare('"Well,')
    'well'
    """
    return re.sub(r"\W", "", word).lower()


def shared_words(
    settings: LookupSettings, rarity: Rarities, words: Words, count: int, generator: random.Random
) -> Iterator[str]:
    """`count` rows from a book: a passage, pieces of it and of elsewhere, what of them is in the passage."""
    for _ in range(count if words else 0):
        begin = generator.randrange(max(1, len(words) - settings.passage_words))
        passage = words[begin : begin + settings.passage_words]
        among = {bare(word) for word in passage}
        pieces = [
            piece_of(generator.choice((passage, words)), generator) for _ in range(generator.randint(*PIECES))
        ]
        other = thinned([word for piece in pieces for word in piece], settings.dropped, generator)
        told = sum(rarity.get(bare(word), 0) for word in other if bare(word) in among)
        row = {"text_a": " ".join(passage), "text_b": " ".join(other), "label": round(told / RARITY_UNIT, 3)}
        yield json.dumps(row, ensure_ascii=False) + "\n"


def piece_of(words: Words, generator: random.Random) -> Words:
    """Some words that follow each other."""
    begin = generator.randrange(len(words))
    return words[begin : begin + generator.randint(*PIECE_WORDS)]


def thinned(words: Words, dropped: float, generator: random.Random) -> Words:
    """Without some words; one at least stays."""
    return [word for word in words if generator.random() >= dropped] or words[:1]


if __name__ == "__main__":
    sys.exit(program.run_with_settings(main, LookupSettings, __doc__))
