"""A small corpus for `make demo`: training and held-out documents in the "lines" format."""

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from data_prep.errors import InputError
from data_prep.files import written_aside
from data_prep.text.documents import Document, read_paragraphs, split_sentences

_TEXT_SUFFIXES = (".txt", ".md")
_LONG = 40  # characters; shorter sentences ("Returns: A tensor.") are common phrases


@dataclass(frozen=True)
class Corpus:
    """Two text files, one sentence a line, blank lines between documents.

    Attributes:
      train: DIRECTORY/train.txt.
      heldout: DIRECTORY/heldout.txt, for evaluation.
      train_documents, heldout_documents: number of documents in each.
      sentences: number of sentences in both.
      num_bytes: size of both.
    """

    train: Path
    heldout: Path
    train_documents: int
    heldout_documents: int
    sentences: int
    num_bytes: int


def write_corpus(documents: Iterable[Document], directory: str | Path, heldout_share: float = 0.05) -> Corpus:
    """Splits documents by a hash of their source and writes train.txt and heldout.txt.

    Removes sentences of 40 characters or more from training if a held-out document has them, too, so that
    evaluation does not measure memorization.

    Args:
      documents: each with its own `source`; they are held in memory.
      directory: receives the two files.
      heldout_share: share of the documents that is held out, at least one.

    Raises:
      InputError: there are fewer than two documents with two sentences.
    """
    usable = sorted((d for d in documents if len(d.sentences) >= 2), key=_source_hash)
    if len(usable) < 2:
        raise InputError(
            "Training and evaluation need a document each, of two sentences or more. "
            f"Received {len(usable)}; add text."
        )
    num_heldout = max(1, round(heldout_share * len(usable)))
    heldout_documents = usable[:num_heldout]
    train_documents = _without_sentences_of(heldout_documents, usable[num_heldout:])
    if not train_documents:
        raise InputError(
            "Training needs sentences of its own. Received only repetitions of the held-out ones."
        )
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    train, heldout = directory / "train.txt", directory / "heldout.txt"
    # Sorted by source, so that the files follow the order of the packages or books.
    _write_lines(train, sorted(train_documents, key=lambda document: document.source))
    _write_lines(heldout, sorted(heldout_documents, key=lambda document: document.source))
    return Corpus(
        train=train,
        heldout=heldout,
        train_documents=len(train_documents),
        heldout_documents=num_heldout,
        sentences=sum(len(document.sentences) for document in train_documents + heldout_documents),
        num_bytes=train.stat().st_size + heldout.stat().st_size,
    )


def read_user_text(
    path: str | Path, language: str = "en", sentences_per_document: int = 200
) -> Iterator[Document]:
    """Reads prose in pieces, cut between paragraphs, so that even a single book has documents to hold out.

    Args:
      path: a text file, or a folder whose .txt and .md files are read recursively.
      language: ISO 639 code for the sentence splitter.
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
            piece += split_sentences(paragraph, language)
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


def _source_hash(document: Document) -> bytes:
    return hashlib.blake2b(document.source.encode(), digest_size=16).digest()


def _write_lines(path: Path, documents: list[Document]) -> None:
    with written_aside(path) as aside, aside.open("w", encoding="utf-8", newline="\n") as file:
        for document in documents:
            file.writelines(" ".join(sentence.split()) + "\n" for sentence in document.sentences)
            file.write("\n")
