"""Inputs to documents: the first step of every item's journey.

    paths --read_texts--> Text(paragraphs) --documents--> Document(sentences) ... none over a million characters

The name of an input determines its format:

    book.txt            text, or any other name; `input_format` is its layout
    wiki.jsonl          one JSON object per line; also *.ndjson  ─┐
    wiki.json           the same, or an array of objects          │
    wiki.tfrecord       tf.train.Examples; also *.tfrecords       ├ each row is a document of prose; `text_field`
    wiki.parquet        a table                                   │ is the field with its text
    tfds:imdb_reviews:train  a dataset of tensorflow-datasets     │
    hf://datasets/stanfordnlp/imdb:train  one of the Hub         ─┘
    -                   text from standard input

All but .parquet may end in .gz, .bz2, .xz or .zst. Texts are read one at a time, and very long texts, documents,
paragraphs and sentences are cut, so memory does not grow with the files. (A line is read whole, and so is an array
in a .json file.) Splitting paragraphs into sentences takes most of the time, so that workers do it.
"""

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import get_args

from data_prep.errors import InputError, check_choice
from data_prep.files import utf8_command
from data_prep.storage.paths import copied_ahead
from data_prep.text.rows import rows_reader
from data_prep.text.sources import InputFile, InputFormat, compression_by_content, compression_of, is_dataset

MAX_SENTENCES = 10_000  # a longer document becomes several; prose is cut between paragraphs
MAX_DOCUMENT_CHARACTERS = 1_000_000  # likewise
_NO_TEXT = (".csv", ".tsv", ".xlsx", ".arrow", ".zip", ".pdf", ".docx")
MAX_SENTENCE_CHARACTERS = 100_000  # a longer one is cut between two words
# Characters; a longer paragraph is cut at the end of a line, a longer line between two words.
_MAX_PARAGRAPH = 500_000
_HEADING = re.compile(r"^ {0,3}#{1,6}\s+(.*?)(?:\s+#+)?\s*$")
# Quotations and parentheses, which the splitter takes as one sentence.
_QUOTES = re.compile(r"[\"“”„‘’«»‹›()\[\]「」『』（）]")
_CLOSING = re.compile(r"(?:[\"”’»›)\]」』）]|[“‘«](?=\s|$))*")  # German closes with “, English opens with it
_MAX_QUOTED = 1000  # characters; longer sentences are split inside quotations, too
_WINDOW = 4000  # characters without a space that are split into sentences at once
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]+)*")
_REGION = re.compile(r"-([a-z]{2}|[0-9]{3})$")


@dataclass(frozen=True)
class Document:
    """Consecutive sentences; two sentences of one document may become a pair.

    Attributes:
      sentences: each non-empty and without white space at its ends.
      source: where the document begins, for messages: "books/emma.txt, line 12".
      num_bytes: its size in the input, compressed if the input is, for progress.
      corpus: the number of its corpus in a mixture.
    """

    sentences: tuple[str, ...]
    source: str = ""
    num_bytes: int = 0
    corpus: int = 0

    @property
    def num_characters(self) -> int:
        """The length of its sentences."""
        return sum(map(len, self.sentences))


@dataclass(frozen=True)
class Text:
    """A document before it is split into sentences, or a part of a long one.

    Attributes:
      paragraphs: of prose, or sentences if `language` is None.
      language: of prose, an ISO 639 code; None if each paragraph is a sentence.
      source: where it begins, for messages: "books/emma.txt, line 12".
      num_bytes: its size in the input, compressed if the input is, for progress.
      corpus: the number of its corpus in a mixture.
    """

    paragraphs: tuple[str, ...]
    language: str | None = None
    source: str = ""
    num_bytes: int = 0
    corpus: int = 0

    @property
    def num_characters(self) -> int:
        """The length of its paragraphs."""
        return sum(map(len, self.paragraphs))

    def documents(self) -> Iterator[Document]:
        """Its document; several if it has too many sentences or characters. Every random draw is keyed by them."""
        pieces = [self.paragraphs] if self.language is None else _sentences(self.paragraphs, self.language)
        num_bytes = self.num_bytes
        for sentences in pieces:
            document = Document(sentences, self.source, num_bytes, self.corpus)
            yield from cut_document(document, MAX_DOCUMENT_CHARACTERS)
            num_bytes = 0


def read_documents(
    paths: Iterable[Path],
    input_format: InputFormat = "lines",
    language: str = "en",
    text_field: str = "text",
) -> Iterator[Document]:
    """Reads documents one at a time; see `read_texts`.

    >>> list(read_documents([Path("two.txt")]))  # "One.\\nTwo.\\n\\nThree.\\n"
    [Document(sentences=('One.', 'Two.'), source='two.txt, line 1', ...), Document(sentences=('Three.',), ...)]
    """
    for text in read_texts(paths, input_format, language, text_field):
        yield from text.documents()


def read_texts(
    paths: Iterable[Path],
    input_format: InputFormat = "lines",
    language: str = "en",
    text_field: str = "text",
) -> Iterator[Text]:
    """Reads texts one at a time, none of many more than MAX_SENTENCES lines or MAX_DOCUMENT_CHARACTERS.

    Args:
      paths: inputs of the formats above.
      input_format: the layout of text files. "lines": one sentence per line, blank lines between documents, as
        the original's create_pretraining_data.py reads them. "prose": one document a file, blank lines
        between paragraphs, which are split into sentences; a Markdown heading is a paragraph. Rows are
        always prose.
      language: the language of prose, an ISO 639 code, for the sentence splitter.
      text_field: the field of JSON lines, TFRecords, Parquet tables and datasets that holds the text.
    """
    check_choice(get_args(InputFormat), "input_format", input_format)
    for path in copied_ahead(paths, is_dataset):
        unpacked = path.with_suffix("") if compression_of(path) else path
        if unpacked.suffix.lower() in _NO_TEXT:
            raise InputError(
                "Inputs must be text files, .jsonl, .json, .tfrecord or .parquet. Received "
                f"{path}; write its text to one of these."
            )
        if rows_reader(path):
            yield from _read_rows(path, language, text_field)
        else:
            yield from _read_lines(path) if input_format == "lines" else _read_prose(path, language)


def read_paragraphs(path: Path) -> Iterator[str]:
    """The paragraphs of a text file of prose."""
    with InputFile(path) as file:
        yield from split_paragraphs(_text_lines(file))


def split_paragraphs(lines: Iterable[str]) -> Iterator[str]:
    """Splits prose at blank lines and Markdown headings, and joins the lines of each paragraph.

    >>> lines = ["# Emma", "Emma Woodhouse, handsome,", "clever, and rich.", "", "-----", "", "She was."]
    >>> list(split_paragraphs(lines))
    ['Emma', 'Emma Woodhouse, handsome, clever, and rich.', 'She was.']
    """
    wrapped: list[str] = []
    length = 0
    for line in chain.from_iterable(_cut(line, _MAX_PARAGRAPH) for line in lines):
        heading = _HEADING.match(line)
        if heading or not line.strip() or length > _MAX_PARAGRAPH:
            yield from _joined(wrapped)
            wrapped, length = [], 0
        if heading:
            yield from _joined([heading[1]])
        else:
            wrapped.append(line)
            length += len(line)
    yield from _joined(wrapped)


def split_sentences(paragraph: str, language: str = "en") -> list[str]:
    """Splits a paragraph, without line breaks, with sentencex, a rule-based splitter for some 300 languages.

    A quotation and the text around it are one sentence, unless they have more than 1,000 characters together, as
    a long speech, or the text between two quotation marks that do not belong together. `language` is an ISO 639
    code, perhaps with a region ("es-MX"); those without rules get those of English.

    >>> split_sentences("Mr. Smith came. He stayed for 3.5 days.")
    ['Mr. Smith came.', 'He stayed for 3.5 days.']
    """
    if not _LANGUAGE.fullmatch(language):
        raise InputError(f'`language` must be an ISO 639 code such as "en" or "de". Received {language!r}.')
    # The splitter knows "es" and "zh-hant", but neither "es-MX" nor "zh-Hant".
    language = _REGION.sub("", language.lower())
    pieces = chain.from_iterable(
        [piece] if len(piece) <= _MAX_QUOTED else _split_quotations(piece, language)
        for piece in _segment(paragraph, language)
    )
    return [sentence for piece in pieces for sentence in _cut_sentence(piece)]


def _cut_sentence(sentence: str) -> Iterator[str]:
    """A sentence, without white space at its ends, in pieces of at most MAX_SENTENCE_CHARACTERS."""
    return filter(None, (piece.strip() for piece in _cut(sentence, MAX_SENTENCE_CHARACTERS)))


def cut_document(document: Document, max_characters: int) -> Iterator[Document]:
    """Cuts a document between two sentences wherever it would exceed `max_characters`.

    >>> [piece.sentences for piece in cut_document(Document(("One.", "Two.", "Three.")), 8)]
    [('One.', 'Two.'), ('Three.',)]
    """
    if document.num_characters <= max_characters:
        yield document
        return
    begin = size = 0
    for end, sentence in enumerate(document.sentences):
        size += len(sentence)
        if size > max_characters and end > begin:
            yield dataclasses.replace(document, sentences=document.sentences[begin:end], num_bytes=0)
            begin, size = end, len(sentence)
    yield dataclasses.replace(document, sentences=document.sentences[begin:])


def text_stretches(
    texts: Iterable[Text], max_size: float, size_of: Callable[[Text], float]
) -> Iterator[tuple[Text, ...]]:
    """Groups texts into pieces of work, whose boundaries depend on the texts alone.

    A group ends with the text at which the sum of `size_of` reaches `max_size`.
    """
    stretch: list[Text] = []
    size = 0.0
    for text in texts:
        stretch.append(text)
        size += size_of(text)
        if size >= max_size:
            yield tuple(stretch)
            stretch, size = [], 0.0
    if stretch:
        yield tuple(stretch)


def _segment(text: str, language: str) -> Iterator[str]:
    """The sentences of a text with the white space behind them.

    The splitter's time grows with the square of text without spaces, such as Chinese. Such text is split a window
    at a time; what ends near the end of a window, perhaps inside a quotation, is read again with the next one.
    """
    import sentencex  # here, because only prose needs it

    begin, size = 0, _WINDOW
    if max(map(len, text.split()), default=0) <= size:
        size = len(text)
    while begin + size < len(text):
        end, last = begin, begin + size - _MAX_QUOTED
        for sentence in sentencex.segment(language, text[begin : begin + size]):
            if end + len(sentence) > last:
                break
            yield sentence
            end += len(sentence)
        size = 2 * size if end == begin else _WINDOW
        begin = end
    yield from sentencex.segment(language, text[begin:])


def _split_quotations(text: str, language: str) -> Iterator[str]:
    """Splits a text where it has sentence ends, inside quotations and parentheses, too."""
    begin = end = 0
    for piece in _segment(_QUOTES.sub(" ", text), language):
        sentence_end = _CLOSING.match(text, end + len(piece.rstrip()))
        assert sentence_end  # the pattern matches the empty text
        yield text[begin : sentence_end.end()]
        begin, end = sentence_end.end(), end + len(piece)
    yield text[begin:]


def _cut(text: str, max_characters: int) -> Iterator[str]:
    """Cuts a text after the last space within each `max_characters`, or anywhere if there is none.

    >>> list(_cut("one two three", 8)), list(_cut("onetwothree", 8)), list(_cut("", 8))
    (['one two ', 'three'], ['onetwoth', 'ree'], [''])
    """
    begin = 0
    while len(text) - begin > max_characters:
        end = text.rfind(" ", begin, begin + max_characters) + 1 or begin + max_characters
        yield text[begin:end]
        begin = end
    yield text[begin:]


def _joined(lines: list[str]) -> Iterator[str]:
    paragraph = " ".join(" ".join(lines).split())
    # Rules and ornaments ("-----", "* * *") are not text.
    if any(character.isalnum() for character in paragraph):
        yield paragraph


def _read_lines(path: Path) -> Iterator[Text]:
    sentences: list[str] = []
    begin = 0
    first_line = 1
    with InputFile(path) as file:
        # Binary lines end at \n only: str.splitlines would also cut at form feeds and U+2028.
        for number, line in enumerate(file, start=1):
            pieces = list(_cut_sentence(_decode(line, file)))
            if pieces and not sentences:
                first_line = number
            sentences += pieces
            if sentences and (not pieces or len(sentences) >= MAX_SENTENCES):
                yield Text(tuple(sentences), None, f"{file.name}, line {first_line}", file.position - begin)
                sentences, begin = [], file.position
        if sentences:
            yield Text(tuple(sentences), None, f"{file.name}, line {first_line}", file.position - begin)


def _read_prose(path: Path, language: str) -> Iterator[Text]:
    begin = 0
    with InputFile(path) as file:
        for number, paragraphs in enumerate(_parts(split_paragraphs(_text_lines(file))), start=1):
            source = file.name if number == 1 else f"{file.name}, part {number}"
            yield Text(paragraphs, language, source, file.position - begin)
            begin = file.position


def _read_rows(path: Path, language: str, text_field: str) -> Iterator[Text]:
    begin = 0
    rows = rows_reader(path)
    assert rows
    for text, source, end in rows(path, text_field):
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        for number, paragraphs in enumerate(_parts(split_paragraphs(lines)), start=1):
            yield Text(
                paragraphs, language, source if number == 1 else f"{source}, part {number}", end - begin
            )
            begin = end


def _parts(paragraphs: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Paragraphs in groups of at most MAX_DOCUMENT_CHARACTERS."""
    part: list[str] = []
    size = 0
    for paragraph in paragraphs:
        size += len(paragraph)
        if part and size > MAX_DOCUMENT_CHARACTERS:
            yield tuple(part)
            part, size = [], len(paragraph)
        part.append(paragraph)
    if part:
        yield tuple(part)


def _sentences(paragraphs: Iterable[str], language: str) -> Iterator[tuple[str, ...]]:
    """The sentences of a document, in several pieces if there are more than MAX_SENTENCES."""
    sentences: list[str] = []
    for paragraph in paragraphs:
        sentences += split_sentences(paragraph, language)
        if len(sentences) >= MAX_SENTENCES:
            yield tuple(sentences)
            sentences = []
    if sentences:
        yield tuple(sentences)


def _text_lines(file: InputFile) -> Iterator[str]:
    """Lines of text without their ends: \\n, \\r\\n, or the \\r of old Macs."""
    for line in file:
        yield from _decode(line, file).removesuffix("\n").removesuffix("\r").split("\r")


def _is_json_object(line: bytes) -> bool:
    try:
        return line.lstrip().startswith(b"{") and isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _decode(raw: bytes, file: InputFile) -> str:
    """The line just read as text, without the byte-order mark at the start of files from Windows editors."""
    offset = file.offset - len(raw)
    if not offset and _is_json_object(raw):
        raise InputError(
            f"Text files must hold text. {file.name} begins with a JSON object; for JSON lines, give the file a "
            "name that ends in .jsonl."
        )
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        begin = b"" if offset else raw
        if suffix := compression_by_content(begin):
            raise InputError(
                f"A compressed input must have a name that ends in {suffix}. {file.name} is compressed; rename or "
                "decompress it."
            ) from None
        raise InputError(
            f"Input files must be UTF-8. {file.name} has the byte 0x{raw[error.start]:02x} at offset "
            f"{offset + error.start}; convert it, for example with {utf8_command(begin)}."
        ) from None
    if offset:
        return text
    if not json.detect_encoding(raw).startswith("utf-8"):  # English in UTF-16 is valid UTF-8
        raise InputError(
            f"Input files must be UTF-8. {file.name} begins with a null character, or has one behind its first; "
            f"convert it, for example with {utf8_command(raw)}."
        )
    return text.removeprefix("\ufeff")
