"""Texts that belong together, texts with classes, and queries with the documents that answer them, as examples."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from albert_tf.tasks.kind import Split
from albert_tf.tasks.problems import shown
from albert_tf.tasks.tables import TableRow, read_table
from albert_tf.tasks.texts.rows import read_number, text_in
from albert_tf.tasks.values import as_label, as_list, as_number, as_text
from data_prep.errors import InputError

# Which judgements of a folder in BEIR's layout a split takes; many of its data sets have no dev split.
_QRELS = {"train": ("train",), "dev": ("dev", "test"), "test": ("test",)}
DROPOUT_PAIRS = (
    "Two copies of a text differ by their dropout masks alone, and the model has none. Give it dropout, with "
    "--dropout=0.1 or in Python `hidden_dropout=0.1`, or train on pairs."
)


@dataclass(frozen=True)
class SentenceExample:
    """A text, a pair, or a pair with texts that do not belong to it.

    Attributes:
      id: the file's, else the row's number from 0.
      texts: one text; or a pair, and after it the negatives of its first text.
      label: of a pair how near its texts are, a number; of a text its class; None if unknown.
      relevant: of a query, how relevant documents are, by their ids; empty for any other text.
    """

    id: str
    texts: tuple[str, ...]
    label: float | str | None = None
    relevant: Mapping[str, float] = field(default_factory=dict)


def sentence_examples(rows: Iterable[TableRow], first: TableRow, split: Split) -> Iterator[SentenceExample]:
    """The examples of rows; those with an empty text, or whose label is missing or no number, are problems."""
    columns, names, source = split.columns, first.values, first.source
    text_a = columns.find("anchor", names, source) or columns.need("text_a", names, source)
    text_b = columns.find("positive", names, source) or columns.find("text_b", names, source)
    if columns.is_own_pair and split.is_training:
        text_b = text_a
    label = columns.find("label", names, source)
    prefix = columns.negatives or "negative"
    negatives = [name for name in names if name.startswith(prefix)] if text_b else []
    if not (text_b or label or split.is_test):
        raise InputError(
            "Sentence vectors need two columns of texts that belong together, text_a and text_b or anchor and "
            f"positive, or a column `label` with each text's class. {source} has only: {', '.join(names)}; "
            "--column_names=text_b=NAME names a second column, and --dropout_pairs trains on one."
        )
    for identity, row in split.with_ids(rows, columns.find("id", names, source)):
        texts = [text_in(row, name, split) for name in (text_a, text_b) if name]
        if any(text is None for text in texts):
            continue
        value, found = row.value(label), None
        is_missing = value in (None, "") or as_label(value).lower() == "nan"
        if not is_missing:
            found = read_number(value, row.source, split) if text_b else as_label(value)
        elif label and not split.is_test:
            split.problems.add("no label", row.source, f"received {shown(value)} in {label!r}")
        if label and found is None and not split.is_test:
            continue
        yield SentenceExample(identity, (*map(str, texts), *_negatives(row, negatives)), found)


def _negatives(row: TableRow, names: list[str]) -> list[str]:
    """The texts of several columns, or of lists; rows may have fewer than others."""
    values: list[Any] = []
    for name in names:
        value = as_list(row.value(name))
        values += value if isinstance(value, list) else [value]
    return [text for text in map(as_text, values) if text and not text.isspace()]


def read_beir(folder: Path, split: Split) -> list[SentenceExample] | None:
    """The examples of a folder in BEIR's layout: corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv.

    For training these are pairs of a query and a relevant document, otherwise all documents, and the queries that
    have relevant ones.

    Returns:
      None for another folder.

    Raises:
      InputError: the folder has no judgements for the split.
    """
    if not (folder / "corpus.jsonl").is_file():
        return None
    files = [folder / "qrels" / f"{name}.tsv" for name in _QRELS[split.name]]
    judgements = next((file for file in files if file.is_file()), None)
    if judgements is None:
        raise InputError(
            f"BEIR's layout has judgements in {' or '.join(map(str, files))}. There is no such file."
        )
    documents = {
        str(row.value("_id")): " ".join(filter(None, map(as_text, (row.value("title"), row.value("text")))))
        for row in read_table(folder / "corpus.jsonl", split.problems)
    }
    queries = {
        str(row.value("_id")): as_text(row.value("text")) or ""
        for row in read_table(folder / "queries.jsonl", split.problems)
    }
    pairs: list[SentenceExample] = []
    relevant: dict[str, dict[str, float]] = {}
    for row in read_table(judgements, split.problems, needed=("query-id", "corpus-id", "score")):
        query, document = str(row.value("query-id")), str(row.value("corpus-id"))
        gain = as_number(row.value("score")) or 0.0
        if query not in queries or document not in documents:
            split.problems.add(
                "text that the folder lacks", row.source, f"received {query!r} and {document!r}"
            )
        elif gain > 0:
            pairs.append(SentenceExample(f"{query} {document}", (queries[query], documents[document])))
            relevant.setdefault(query, {})[document] = gain
    if split.is_training:
        return pairs
    return [
        *(SentenceExample(name, (text,)) for name, text in documents.items()),
        *(SentenceExample(name, (queries[name],), None, found) for name, found in relevant.items()),
    ]
