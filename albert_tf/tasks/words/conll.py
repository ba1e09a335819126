"""Token classification from CoNLL files: a word and its label on each line, an empty line between sentences."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from albert_tf.tasks.problems import Problems, shown
from albert_tf.tasks.tables import read_unpacked
from albert_tf.tasks.words.rows import WordsExample

CONLL_SUFFIXES = ("", ".conll", ".conllu", ".txt", ".bio", ".iob", ".tsv")
_DOCUMENT = "-DOCSTART-"
_ID = re.compile(r"\d+([-.]\d+)?")  # of CoNLL-U; 1-2 is a contraction of two words, 1.1 an omitted word
_UNIVERSAL_COLUMNS = 10  # of CoNLL-U: ID, FORM, LEMMA, UPOS and others
_COMMENT = re.compile(r"# *((sent_id|text|newdoc|newpar|global\.columns)\b.*|\S+ = .*)")


def read_conll(
    path: Path, problems: Problems, *, labels: Sequence[str] = (), is_test: bool = False
) -> list[WordsExample]:
    """The sentences of a file.

    Columns are separated by tabs, or by spaces in a line without a tab. The first column is the word, the last one
    its label; a sentence with a single column has no labels. Of the ten columns of CoNLL-U, the second is the word
    (FORM), and the fourth its label (UPOS). -DOCSTART- lines and the comments of CoNLL-U ("# sent_id = ..." and so
    on) are skipped.

    Args:
      path: a UTF-8 file.
      problems: collects sentences with a missing label or a label outside the set.
      labels: the allowed labels; () allows any.
      is_test: whether labels are optional.
    """
    examples: list[WordsExample] = []
    for number, lines in enumerate(map(_words_of, _sentences(read_unpacked(path)))):
        source = f"{path}:{lines[0].number}"
        words = tuple(line.columns[0] for line in lines)
        if all(len(line.columns) == 1 for line in lines):
            if not is_test:
                problems.add("sentence without labels", source, f"received {shown(' '.join(words))}")
                continue
            examples.append(WordsExample(str(number), words))
            continue
        bad = _first_bad(lines, labels)
        if bad is not None:
            kind, line = bad
            outcome = "labels ignored" if is_test else "sentence left out"
            received = f"received {shown(' '.join(line.columns))}"
            problems.add(kind, f"{path}:{line.number}", received, outcome=outcome)
            if is_test:
                examples.append(WordsExample(str(number), words))
            continue
        examples.append(WordsExample(str(number), words, tuple(line.columns[-1] for line in lines)))
    return examples


class _Line(NamedTuple):
    """A line of a file, and its number from 1."""

    number: int
    columns: list[str]


def _words_of(lines: list[_Line]) -> list[_Line]:
    """FORM and UPOS of each word of a sentence in CoNLL-U; the lines of other files as they are."""
    if not all(len(line.columns) == _UNIVERSAL_COLUMNS and _ID.fullmatch(line.columns[0]) for line in lines):
        return lines
    words = [_Line(line.number, line.columns[1:4:2]) for line in lines if line.columns[0].isdecimal()]
    return words or lines


def _first_bad(lines: list[_Line], labels: Sequence[str]) -> tuple[str, _Line] | None:
    """The first line of a sentence that cannot be used, and why."""
    most = max(len(line.columns) for line in lines)
    for line in lines:
        if len(line.columns) != most or not line.columns[0]:
            return "line without a word and its label", line
        if labels and line.columns[-1] not in labels:
            return "label outside the set", line
    return None


def _sentences(text: str) -> Iterator[list[_Line]]:
    """The lines of each sentence."""
    lines: list[_Line] = []
    for number, line in enumerate([*text.split("\n"), ""], start=1):
        line = line.strip("\r\n ")
        is_comment = not lines and _COMMENT.fullmatch(line)
        if not line.strip() or line.startswith(_DOCUMENT) or is_comment:
            if lines:
                yield lines
            lines = []
            continue
        columns = [part.strip() for part in line.rstrip().split("\t")] if "\t" in line else line.split()
        lines.append(_Line(number, columns))
