"""Inputs to documents: the first step of every item's journey.

    files --expand_files--> paths --read_documents--> Document(sentences) ...

What can be read, known by its name:

    book.txt            text, any name that is not one of these; `input_format` says how it is laid out
    wiki.jsonl          one JSON object a line, *.ndjson too ─┐
    wiki.tfrecord       tf.train.Examples, *.tfrecords too    ├ every row is a document of prose; `text_field`
    wiki.parquet        a table                               │ names the field that holds its text
    tfds:imdb_reviews:train  a dataset of tensorflow-datasets ─┘
    -                   text from standard input

All but .parquet may end in .gz, .bz2, .xz or .zst. Documents come one at a time, and a very long one is cut
(MAX_SENTENCES), so memory does not grow with the files.
"""

import glob
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from data_prep.errors import InputError
from data_prep.text.rows import rows_reader
from data_prep.text.sentences import split_paragraph
from data_prep.text.sources import STANDARD_INPUT, UnpackedFile
from data_prep.text.tfds_rows import is_tfds

InputFormat = Literal["lines", "prose"]

MAX_SENTENCES = 10_000  # a longer document becomes several; prose is cut between paragraphs
_MAX_PARAGRAPH = 1_000_000  # characters; a longer paragraph is cut at the end of a line
_REMOTE = re.compile(r"[a-z][a-z0-9+.-]*://")
_HEADING = re.compile(r"^ {0,3}#{1,6}\s+(.*?)[\s#]*$")


@dataclass(frozen=True)
class Document:
    """Sentences that follow each other; two sentences of one document may become a pair.

    Attributes:
      sentences: in their order, each without white space at its ends and never empty.
      source: where the document begins, for messages: "books/emma.txt, line 12".
      num_bytes: how much of the input it took up, packed as that is, for progress.
    """

    sentences: tuple[str, ...]
    source: str = ""
    num_bytes: int = 0


def expand_files(patterns: str) -> list[Path]:
    """The inputs that a flag such as `--input_file` names.

    Args:
      patterns: paths and globs, separated by commas: "books/*.txt,extra.jsonl.gz"; also "-" and
        "tfds:NAME/CONFIG:SPLIT".

    Returns:
      Each input once: in the order of the patterns, and sorted inside each pattern.

    Raises:
      InputError: a pattern matches nothing, or names a folder or a remote file.

    >>> expand_files("books/*.txt")
    [PosixPath('books/emma.txt'), PosixPath('books/ulysses.txt')]
    """
    # A file's name may hold commas and brackets itself.
    parts = [patterns] if Path(patterns).is_file() else [part.strip() for part in patterns.split(",")]
    files: dict[Path, None] = {}
    for part in filter(None, parts):
        files.update(dict.fromkeys(_matches(part)))
    if not files:
        raise InputError("At least one input file must be named. Received an empty list.")
    return list(files)


def input_size(path: Path) -> int:
    """Bytes of an input, which its documents' `num_bytes` add up to; 0 where nobody can know before reading."""
    return path.stat().st_size if path.is_file() else 0


def read_documents(
    paths: Iterable[Path],
    input_format: InputFormat = "lines",
    language: str = "en",
    text_field: str = "text",
) -> Iterator[Document]:
    """Reads documents one after the other; no more than one is in memory.

    Args:
      paths: inputs, of the kinds above.
      input_format: how text files are laid out. "lines": one sentence a line, blank lines between
        documents, as the original's create_pretraining_data.py reads them. "prose": one document a file,
        blank lines between paragraphs, which are split into sentences; Markdown headings are paragraphs
        of their own. Rows are always prose.
      language: the language of prose, an ISO 639 code, for the sentence breaker.
      text_field: the field of JSON lines, TFRecords, Parquet tables and datasets that holds the text.

    Yields:
      Documents with at least one sentence, and not many more than MAX_SENTENCES.

    Raises:
      InputError: an input is missing, a folder, empty, damaged, not UTF-8, or has no such field.

    >>> list(read_documents([Path("two.txt")]))  # "One.\\nTwo.\\n\\nThree.\\n"
    [Document(sentences=('One.', 'Two.'), source='two.txt, line 1', ...), Document(sentences=('Three.',), ...)]
    """
    if input_format not in get_args(InputFormat):
        raise InputError(f'`input_format` must be "lines" or "prose". Received {input_format!r}.')
    for path in paths:
        if rows_reader(path):
            yield from _read_rows(path, language, text_field)
        else:
            yield from _read_lines(path) if input_format == "lines" else _read_prose(path, language)


def read_text(path: Path) -> str:
    """The text of a whole file, every kind of line end as "\\n".

    Raises:
      InputError: the file is missing, a folder, empty, damaged, or not UTF-8.
    """
    with UnpackedFile(path) as file:
        return "\n".join(_text_lines(file))


def paragraphs(text: str) -> Iterator[str]:
    """Splits prose at blank lines and Markdown headings, and joins each paragraph's wrapped lines.

    >>> list(paragraphs("# Emma\\nEmma Woodhouse, handsome,\\nclever, and rich.\\n\\n-----\\n\\nShe was."))
    ['Emma', 'Emma Woodhouse, handsome, clever, and rich.', 'She was.']
    """
    return _paragraphs(text.split("\n"))


def _paragraphs(lines: Iterable[str]) -> Iterator[str]:
    wrapped: list[str] = []
    length = 0
    for line in lines:
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


def _joined(lines: list[str]) -> Iterator[str]:
    paragraph = " ".join(" ".join(lines).split())
    # Rules and ornaments ("-----", "* * *") hold nothing to learn from.
    if any(character.isalnum() for character in paragraph):
        yield paragraph


def _read_lines(path: Path) -> Iterator[Document]:
    sentences: list[str] = []
    begin = 0
    first_line = 1
    with UnpackedFile(path) as file:
        # Binary lines end at \n only: str.splitlines would also cut at form feeds and U+2028.
        for number, line in enumerate(file, start=1):
            sentence = _decode(line, file).strip()
            if sentence:
                if not sentences:
                    first_line = number
                sentences.append(sentence)
            if sentences and (not sentence or len(sentences) == MAX_SENTENCES):
                yield Document(tuple(sentences), f"{file.name}, line {first_line}", file.position - begin)
                sentences, begin = [], file.position
        if sentences:
            yield Document(tuple(sentences), f"{file.name}, line {first_line}", file.position - begin)


def _read_prose(path: Path, language: str) -> Iterator[Document]:
    begin = 0
    with UnpackedFile(path) as file:
        pieces = _cut(_paragraphs(_text_lines(file)), language)
        for number, sentences in enumerate(pieces, start=1):
            source = file.name if number == 1 else f"{file.name}, part {number}"
            yield Document(sentences, source, file.position - begin)
            begin = file.position


def _read_rows(path: Path, language: str, text_field: str) -> Iterator[Document]:
    begin = 0
    rows = rows_reader(path)
    assert rows
    for text, source, end in rows(path, text_field):
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        for number, sentences in enumerate(_cut(_paragraphs(lines), language), start=1):
            yield Document(sentences, source if number == 1 else f"{source}, part {number}", end - begin)
            begin = end


def _cut(paragraphs: Iterable[str], language: str) -> Iterator[tuple[str, ...]]:
    """The sentences of a document, in several pieces if there are more than MAX_SENTENCES."""
    sentences: list[str] = []
    for paragraph in paragraphs:
        sentences += split_paragraph(paragraph, language)
        if len(sentences) >= MAX_SENTENCES:
            yield tuple(sentences)
            sentences = []
    if sentences:
        yield tuple(sentences)


def _text_lines(file: UnpackedFile) -> Iterator[str]:
    """Lines of text without their ends, of which old Macs had another kind."""
    for line in file:
        yield from _decode(line, file).removesuffix("\n").removesuffix("\r").split("\r")


def _decode(raw: bytes, file: UnpackedFile) -> str:
    """The line just read as text, without the byte order mark that Windows editors put first in a file."""
    offset = file.offset - len(raw)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"Input files must be UTF-8. {file.name} has the byte 0x{raw[error.start]:02x} at offset "
            f"{offset + error.start}; convert it, for example with `iconv -f LATIN1 -t UTF-8`."
        ) from None
    return text.removeprefix("\ufeff") if offset == 0 else text


def _matches(pattern: str) -> list[Path]:
    if is_tfds(pattern) or Path(pattern) == STANDARD_INPUT:
        return [Path(pattern)]
    if _REMOTE.match(pattern):
        raise InputError(
            f"Input files must be on this machine. Received {pattern}; copy it here or mount the bucket."
        )
    # A path that exists as it is written is no pattern. (Path.glob takes no absolute patterns.)
    found = [pattern] if Path(pattern).exists() else sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207
    matches = [Path(name) for name in found if not Path(name).is_dir()]
    if not matches:
        raise InputError(_no_match(pattern))
    return matches


def _no_match(pattern: str) -> str:
    if Path(pattern).is_dir():
        return (
            f"Input files must be files. {pattern} is a folder; write {pattern.rstrip('/')}/* for its files."
        )
    if glob.has_magic(pattern):
        return f"No file matches {pattern!r}. Check the path and the pattern."
    return f"There is no input file {pattern}."
