"""Rows with a list of words and a list of their labels, as examples."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from albert_tf.tasks.kind import Split
from albert_tf.tasks.problems import shown
from albert_tf.tasks.tables import TableRow
from albert_tf.tasks.values import as_label, as_list


@dataclass(frozen=True)
class WordsExample:
    """A sentence as words with one label each, as in named-entity recognition.

    Attributes:
      id: the sentence's number from 0.
      words: at least one.
      labels: one for each word; None if unknown.
    """

    id: str
    words: tuple[str, ...]
    labels: tuple[str, ...] | None = None


def word_examples(rows: Iterable[TableRow], first: TableRow, split: Split) -> Iterator[WordsExample]:
    """The examples of rows; those whose words or labels cannot be used are problems."""
    columns, problems, labels = split.columns, split.problems, split.labels
    names, source = first.values, first.source
    words_column = columns.need("words", names, source)
    label_column = (columns.find if split.is_test else columns.need)("word_labels", names, source)
    for number, row in enumerate(rows):
        words = as_list(row.value(words_column))
        if not isinstance(words, list) or not words or not all(isinstance(w, str) and w for w in words):
            problems.add("words that are not a list of texts", row.source, f"received {shown(words)}")
            continue
        given = as_list(row.value(label_column))
        tags, problem = None, None
        if isinstance(given, list) and len(given) == len(words):
            tags = tuple(as_label(tag) for tag in given)
            if outside := [tag for tag in tags if labels and tag not in labels]:
                tags, problem = None, ("label outside the set", outside[0])
        elif given is not None or not split.is_test:
            problem = "labels that are not one for each word", given
        if problem:
            kind, value = problem
            problems.add(kind, row.source, f"received {shown(value)}", outcome=split.label_outcome)
        if tags is not None or split.is_test:
            yield WordsExample(str(number), tuple(words), tags)
