"""Questions with four options made from plain prose, to teach a small model to look things up in a passage.

    python -m benchmarks.passage_choices --input_file='books/*.md' --output_dir=choices
    albert finetune --task=own-choices --data_dir=choices ...

RACE has 88,000 questions to learn that from, a sample of it too few. A question is the first part of a sentence of
the passage and the right option the rest of it; the wrong ones are ends of other sentences, of the passage and of
the same book elsewhere. Words are dropped at random from questions and options, and all options have equally many,
so neither the wording nor the length gives the answer away. Prints one JSON object with the counts.
"""

import json
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from albert_tf.errors import InputError
from albert_tf.files import new_folder, write_text
from benchmarks import program
from data_prep.documents import expand_files, read_documents

OPTIONS = 4
SHORTEST_SENTENCE = 8  # words: three for the question, three for the option, some to drop
LONGEST_OPTION = 8


@dataclass(frozen=True)
class ChoiceSettings:
    """What is made and where.

    Attributes:
      input_file: prose, a book a file; files, globs, commas.
      output_dir: gets train.jsonl and dev.jsonl, with "passage", "question", "options" and "label".
      questions: to train on.
      dev_questions: from the last books, of which no question to train on is.
      passage_words: about as many a passage.
      dropped: the share of words left out of questions and options.
      seed: of every choice.
    """

    input_file: str
    output_dir: Path
    questions: int = 40_000
    dev_questions: int = 500
    passage_words: int = 90
    dropped: float = 0.3
    seed: int = 0


def main(settings: ChoiceSettings) -> dict[str, int]:
    """Writes both files and prints how many questions they have."""
    if not 0 <= settings.dropped < 1:
        raise InputError(f"`dropped` must be a share below 1. Received {settings.dropped}.")
    books = expand_files(settings.input_file)
    if len(books) < 2:
        raise InputError(f"--input_file must name two books at least. Received {len(books)}.")
    held_out = max(1, len(books) // 20)
    counts = {}
    with new_folder(settings.output_dir) as folder:
        for part, paths, wanted in (
            ("train", books[:-held_out], settings.questions),
            ("dev", books[-held_out:], settings.dev_questions),
        ):
            generator = random.Random(f"{settings.seed} {part}")
            rows = [
                row
                for path in paths
                for row in book_questions(sentences_of(path), -(-wanted // len(paths)), settings, generator)
            ]
            generator.shuffle(rows)
            lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows[:wanted])
            write_text(folder / f"{part}.jsonl", "".join(lines))
            counts[part] = len(rows[:wanted])
    print(json.dumps(counts))
    return counts


def sentences_of(book: Path) -> list[list[str]]:
    """The words of each sentence of a book, headings included."""
    return [
        sentence.split() for document in read_documents([book], "prose") for sentence in document.sentences
    ]


def book_questions(
    sentences: list[list[str]], count: int, settings: ChoiceSettings, generator: random.Random
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


def question_on(passage: str, chosen: list[list[str]], dropped: float, generator: random.Random) -> dict:
    """One row; the first of the chosen sentences is the one that is asked for."""
    middle = len(chosen[0]) // 2
    question = thinned(chosen[0][:middle], dropped, generator)
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
    sys.exit(program.run(main, ChoiceSettings, __doc__))
