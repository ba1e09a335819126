"""From plain prose, data that teach a small model to look words up in a passage.

    python -m benchmarks.lookup_data --input_file='books/*.md' --output_dir=lookup

Masked words never ask whether a word stands elsewhere, too: that word is not there. A large model learns to look
things up all the same, one that was pretrained for minutes does not, and passages with questions are all about it.
Three lessons, each for the model that the one before made (benchmarks/downstream.py trains them):

- short/*.conll, long/*.conll: some words of a book, "?", and words of which half were among them, marked B-SEEN.
  With few words it takes a thousand steps to find out; with many, from the start, it never comes about.
- choices/*.jsonl: the question is the first part of a sentence of the passage and the right option its end; the
  wrong ones are ends of other sentences, of the passage and of the same book elsewhere. Words are dropped at
  random from questions and options, and all options have equally many, so neither wording nor length gives the
  answer away.

Prints one JSON object with the counts.
"""

import json
import random
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from albert_tf.errors import InputError
from albert_tf.files import new_folder, write_text
from benchmarks import program
from data_prep.documents import expand_files, read_documents

# Fewest and most words that come first, and as many that were among them as were not.
SHORT, LONG = (3, 9, 3), (20, 59, 12)
OPTIONS = 4
SHORTEST_SENTENCE = 8  # words: three for the question, three for the option, some to drop
LONGEST_OPTION = 8

Sentences = list[list[str]]


@dataclass(frozen=True)
class LookupSettings:
    """What is made and where.

    Attributes:
      input_file: prose, a book a file; files, globs, commas.
      output_dir: gets the folders short, long and choices, each with a file "train" and a file "dev".
      short, long, choices: examples of each to train on.
      dev: of each to measure with, from the last books, of which nothing to train on is.
      passage_words: about as many a passage of choices.
      dropped: the share of words left out of questions and options.
      seed: of every choice.
    """

    input_file: str
    output_dir: Path
    short: int = 100_000
    long: int = 30_000
    choices: int = 40_000
    dev: int = 500
    passage_words: int = 80
    dropped: float = 0.3
    seed: int = 0


def main(settings: LookupSettings) -> dict[str, dict[str, int]]:
    """Writes the files and prints how many examples they have."""
    if not 0 <= settings.dropped < 1:
        raise InputError(f"--dropped must be a share below 1. Received {settings.dropped}.")
    paths = expand_files(settings.input_file)
    if len(paths) < 2:
        raise InputError(f"--input_file must name two books at least. Received {len(paths)}.")
    held_out = max(1, len(paths) // 20)
    books = [sentences_of(path) for path in paths]
    counts: dict[str, dict[str, int]] = {}
    with new_folder(settings.output_dir) as folder:
        for part, chosen in (("train", books[:-held_out]), ("dev", books[-held_out:])):
            generator = random.Random(f"{settings.seed} {part}")
            for name in ("short", "long", "choices"):
                wanted = getattr(settings, name) if part == "train" else settings.dev
                examples = [
                    example
                    for sentences in chosen
                    for example in lesson(name, sentences, -(-wanted // len(chosen)), settings, generator)
                ]
                generator.shuffle(examples)
                examples = examples[:wanted]
                (folder / name).mkdir(exist_ok=True)
                suffix = "jsonl" if name == "choices" else "conll"
                write_text(folder / name / f"{part}.{suffix}", "".join(examples))
                counts.setdefault(name, {})[part] = len(examples)
    print(json.dumps(counts))
    return counts


def sentences_of(book: Path) -> Sentences:
    """The words of each sentence of a book, headings included."""
    return [
        sentence.split() for document in read_documents([book], "prose") for sentence in document.sentences
    ]


def lesson(
    name: str, sentences: Sentences, count: int, settings: LookupSettings, generator: random.Random
) -> Iterator[str]:
    """At most `count` examples from a book, as the text of a file."""
    if name == "choices":
        for row in book_questions(sentences, count, settings, generator):
            yield json.dumps(row, ensure_ascii=False) + "\n"
    else:
        words = [word for sentence in sentences for word in sentence if bare(word)]
        for _ in range(count if words else 0):
            pairs = seen_words(words, SHORT if name == "short" else LONG, generator)
            yield "".join(f"{word} {label}\n" for word, label in pairs) + "\n"


def seen_words(
    words: list[str], lengths: tuple[int, int, int], generator: random.Random
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


def book_questions(
    sentences: Sentences, count: int, settings: LookupSettings, generator: random.Random
) -> Iterator[dict]:
    """At most `count` questions on passages drawn from a book."""
    for _ in range(count):
        begin = generator.randrange(len(sentences))
        end, words = begin, 0
        while end < len(sentences) and words < settings.passage_words:
            words += len(sentences[end])
            end += 1
        inside = [i for i in range(begin, end) if len(sentences[i]) >= SHORTEST_SENTENCE]
        outside = [
            i
            for i in generator.sample(range(len(sentences)), min(len(sentences), 50))
            if not begin <= i < end and len(sentences[i]) >= SHORTEST_SENTENCE
        ]
        neighbors = generator.randrange(min(OPTIONS, len(inside)) if inside else 1)
        if inside and len(outside) >= OPTIONS - 1 - neighbors:
            asked, *wrong = generator.sample(inside, 1 + neighbors)
            chosen = [asked, *wrong, *outside[: OPTIONS - 1 - neighbors]]
            passage = " ".join(word for sentence in sentences[begin:end] for word in sentence)
            yield question_on(passage, [sentences[i] for i in chosen], settings.dropped, generator)


def question_on(passage: str, chosen: Sentences, dropped: float, generator: random.Random) -> dict:
    """One row; the first of the chosen sentences is the one that is asked for."""
    question = thinned(chosen[0][: len(chosen[0]) // 2], dropped, generator)
    ends = [thinned(words[len(words) // 2 :], dropped, generator) for words in chosen]
    length = min(LONGEST_OPTION, *map(len, ends))
    options = [" ".join(words[:length]) for words in ends]
    order = generator.sample(range(OPTIONS), OPTIONS)
    return {
        "passage": passage,
        "question": " ".join(question),
        "options": [options[i] for i in order],
        "label": order.index(0),
    }


def thinned(words: list[str], dropped: float, generator: random.Random) -> list[str]:
    """Without some words; one at least stays."""
    return [word for word in words if generator.random() >= dropped] or words[:1]


if __name__ == "__main__":
    sys.exit(program.run(main, LookupSettings, __doc__))
