"""Token classification from CoNLL files: a word and its label on each line, an empty line between sentences."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from data_prep.tasks.examples import Problems, WordsExample, shown
from data_prep.tasks.tables import read_unpacked

_DOCUMENT = "-DOCSTART-"
_COMMENT = re.compile(r"# *(sent_id|text|newdoc|newpar|global\.columns)\b.*")


def read_conll(
    path: Path, problems: Problems, *, labels: Sequence[str] = (), is_test: bool = False
) -> list[WordsExample]:
    """The sentences of a file.

    Columns are separated by tabs, or by spaces in a line without a tab. The first column is the word, the last one
    its label; a sentence with a single column has no labels. -DOCSTART- lines and the comments of CoNLL-U
    ("# sent_id = ..." and so on) are skipped.

    Args:
      path: a UTF-8 file.
      problems: collects sentences with a missing label or a label outside the set.
      labels: the allowed labels; () allows any.
      is_test: whether labels are optional.
    """
    examples: list[WordsExample] = []
    for number, (first, rows) in enumerate(_sentences(read_unpacked(path))):
        source = f"{path}:{first}"
        words = tuple(row[0] for row in rows)
        if all(len(row) == 1 for row in rows):
            if not is_test:
                problems.add("sentence without labels", source, f"received {shown(' '.join(words))}")
                continue
            examples.append(WordsExample(str(number), words))
            continue
        bad = _first_bad(rows, labels)
        if bad is not None:
            kind, i = bad
            line = f"{path}:{first + i}"
            outcome = "labels ignored" if is_test else "sentence left out"
            problems.add(kind, line, f"received {shown(' '.join(rows[i]))}", outcome=outcome)
            if is_test:
                examples.append(WordsExample(str(number), words))
            continue
        examples.append(WordsExample(str(number), words, tuple(row[-1] for row in rows)))
    return examples


def _first_bad(rows: list[list[str]], labels: Sequence[str]) -> tuple[str, int] | None:
    columns = max(map(len, rows))
    for i, row in enumerate(rows):
        if len(row) != columns or not row[0]:
            return "line without a word and its label", i
        if labels and row[-1] not in labels:
            return "label outside the set", i
    return None


def _sentences(text: str) -> Iterator[tuple[int, list[list[str]]]]:
    """For each sentence, the number of its first line, from 1, and the columns of each line."""
    rows: list[list[str]] = []
    first = 1
    for number, line in enumerate([*text.split("\n"), ""], start=1):
        line = line.strip("\r\n ")
        is_comment = not rows and _COMMENT.fullmatch(line)
        if not line.strip() or line.startswith(_DOCUMENT) or is_comment:
            if rows:
                yield first, rows
            rows = []
            continue
        if not rows:
            first = number
        rows.append([part.strip() for part in line.rstrip().split("\t")] if "\t" in line else line.split())
