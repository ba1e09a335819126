"""Documents to stretches of text, each a piece of work: where they end depends on the text alone."""

import dataclasses
from collections.abc import Iterable, Iterator

from data_prep.text.documents import Document

# A longer document is cut between two sentences, so that one book of a gigabyte is no more to hold than many.
MAX_DOCUMENT_CHARACTERS = 1_000_000


def text_stretches(documents: Iterable[Document], num_characters: int) -> Iterator[tuple[Document, ...]]:
    """Groups documents until they reach a size.

    Args:
      documents: those longer than MAX_DOCUMENT_CHARACTERS are cut first.
      num_characters: size of a group, about.

    Yields:
      At least one document each.
    """
    stretch: list[Document] = []
    size = 0
    for piece in cut_documents(documents):
        stretch.append(piece)
        size += sum(map(len, piece.sentences))
        if size >= num_characters:
            yield tuple(stretch)
            stretch, size = [], 0
    if stretch:
        yield tuple(stretch)


def cut_documents(documents: Iterable[Document]) -> Iterator[Document]:
    """Cuts those that are longer than MAX_DOCUMENT_CHARACTERS; every draw is keyed by what comes out here."""
    for document in documents:
        yield from cut_document(document, MAX_DOCUMENT_CHARACTERS)


def cut_document(document: Document, max_characters: int) -> Iterator[Document]:
    """Cuts a document between two sentences where it would get longer than `max_characters`.

    >>> [piece.sentences for piece in cut_document(Document(("One.", "Two.", "Three.")), 8)]
    [('One.', 'Two.'), ('Three.',)]
    """
    if sum(map(len, document.sentences)) <= max_characters:
        yield document
        return
    begin = size = 0
    for end, sentence in enumerate(document.sentences):
        size += len(sentence)
        if size > max_characters and end > begin:
            yield dataclasses.replace(document, sentences=document.sentences[begin:end], num_bytes=0)
            begin, size = end, len(sentence)
    yield dataclasses.replace(document, sentences=document.sentences[begin:])
