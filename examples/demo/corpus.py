"""A small corpus for `make demo`: training and held-out documents in the "lines" format."""

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from data_prep.errors import InputError
from data_prep.files import written_aside
from data_prep.text.documents import Document, read_paragraphs, split_sentences

_TEXT_SUFFIXES = (".txt", ".md")
_ENOUGH = 500 * 600  # characters of 500 pairs of 128 tokens, about
_MOST_HELDOUT = 0.1  # of a text that is too small to hold out enough
_MOST_PASSES = 10
_LONG = 40  # characters; shorter sentences ("Returns: A tensor.") are common phrases


@dataclass(frozen=True)
class Corpus:
    """Two text files, one sentence per line, blank lines between documents.

    Attributes:
      train: DIRECTORY/train.txt.
      heldout: DIRECTORY/heldout.txt, for evaluation.
      train_documents: number of documents in `train`.
      heldout_sources: where each document of `heldout` is from.
      heldout_share: share of the characters that is held out.
      heldout_passes: the passes over `heldout`, each with other pairs, that give about 500 pairs.
      sentences: number of sentences in both.
      num_bytes: size of both.
      characters: how often each character is in `train`.
    """

    train: Path
    heldout: Path
    train_documents: int
    heldout_sources: tuple[str, ...]
    heldout_share: float
    heldout_passes: int
    sentences: int
    num_bytes: int
    characters: Counter[str]


def write_corpus(
    documents: Iterable[Document],
    directory: str | Path,
    heldout_share: float = 0.05,
    enough: int = _ENOUGH,
    before_writing: Callable[[], object] = lambda: None,
) -> Corpus:
    """Holds out whole documents at equal distances, ordered by source, and writes train.txt and heldout.txt.

    Removes sentences of 40 characters or more from training if a held-out document has them, too, so that
    evaluation does not measure memorization.

    Args:
      documents: each with its own `source`; they are held in memory.
      directory: receives the two files.
      heldout_share: share of the characters that is held out, at least one document. If this is less than
        `enough`, up to a tenth of the text is held out.
      enough: characters that suffice for evaluation.
      before_writing: is called when the documents have been read and suffice, before anything is written.

    Raises:
      InputError: there are fewer than two documents with two sentences.
    """
    usable = sorted((d for d in documents if len(d.sentences) >= 2), key=_by_source)
    if len(usable) < 2:
        raise InputError(
            "Training and evaluation need a document each, of two sentences or more. "
            f"Received {len(usable)}; add text."
        )
    total = sum(map(_characters, usable))
    target = max(heldout_share * total, min(enough, _MOST_HELDOUT * total))
    number = min(max(1, round(target / total * len(usable))), len(usable) - 1)
    places = {int((i + 0.5) / number * len(usable)) for i in range(number)}
    heldout_documents = [usable[place] for place in sorted(places)]
    heldout_characters = sum(map(_characters, heldout_documents))
    others = [document for place, document in enumerate(usable) if place not in places]
    train_documents = _without_sentences_of(heldout_documents, others)
    if not train_documents:
        raise InputError(
            "Training needs other sentences than evaluation. Received only repetitions of the held-out ones."
        )
    before_writing()
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    train, heldout = directory / "train.txt", directory / "heldout.txt"
    _write_lines(train, train_documents)
    _write_lines(heldout, heldout_documents)
    return Corpus(
        train=train,
        heldout=heldout,
        train_documents=len(train_documents),
        heldout_sources=tuple(document.source for document in heldout_documents),
        heldout_share=heldout_characters / total,
        heldout_passes=min(_MOST_PASSES, math.ceil(enough / heldout_characters)),
        sentences=sum(len(document.sentences) for document in train_documents + heldout_documents),
        num_bytes=train.stat().st_size + heldout.stat().st_size,
        characters=Counter(
            character
            for document in train_documents
            for sentence in document.sentences
            for character in sentence
        ),
    )


def read_user_text(path: str | Path, sentences_per_document: int = 100) -> Iterator[Document]:
    """Reads prose in pieces, cut between paragraphs, so that even a single book has documents to hold out.

    Args:
      path: a text file, or a folder whose .txt and .md files are read recursively.
      sentences_per_document: a piece ends with the paragraph that reaches this number.

    Yields:
      Documents; their source is "FILE, piece N".

    Raises:
      InputError: there is no text, or a file is empty or not UTF-8.
    """
    for file in _text_files(Path(path)):
        piece: list[str] = []
        number = 1
        for paragraph in read_paragraphs(file):
            piece += split_sentences(paragraph)
            if len(piece) >= sentences_per_document:
                yield Document(tuple(piece), f"{file}, piece {number}")
                piece, number = [], number + 1
        if piece:
            yield Document(tuple(piece), f"{file}, piece {number}")


def _text_files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.rglob("*") if file.suffix in _TEXT_SUFFIXES and file.is_file())
    if not files:
        raise InputError(f"A folder of text must hold .txt or .md files. {path} has none.")
    return files


def _without_sentences_of(heldout: list[Document], train: list[Document]) -> list[Document]:
    known = {sentence for document in heldout for sentence in document.sentences if len(sentence) >= _LONG}
    kept = (
        dataclasses.replace(document, sentences=tuple(s for s in document.sentences if s not in known))
        for document in train
    )
    return [document for document in kept if len(document.sentences) >= 2]


def _characters(document: Document) -> int:
    return sum(map(len, document.sentences))


def _by_source(document: Document) -> list[int | str]:
    """Sorts "piece 10" after "piece 9"."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", document.source)]


def _write_lines(path: Path, documents: list[Document]) -> None:
    with written_aside(path) as aside, aside.open("w", encoding="utf-8", newline="\n") as file:
        for document in documents:
            file.writelines(" ".join(sentence.split()) + "\n" for sentence in document.sentences)
            file.write("\n")
