"""Text files to documents: the first step of every item's journey.

files --expand_files--> paths --read_documents--> Document(sentences) ...
"""

import glob
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal, get_args

from albert_tf.errors import InputError
from data_prep.sentences import split_paragraph

InputFormat = Literal["lines", "prose"]

_BLANK_LINES = re.compile(r"\n[^\S\n]*\n\s*")
_HEADING = re.compile(r"^ {0,3}#{1,6}\s+(.*?)[\s#]*$")


@dataclass(frozen=True)
class Document:
    """Sentences that follow each other; two sentences of one document may become a pair.

    Attributes:
      sentences: in their order, each without white space at its ends and never empty.
      source: where the document begins, for messages: "books/emma.txt, line 12".
      num_bytes: how much of the input it took up, for progress.
    """

    sentences: tuple[str, ...]
    source: str = ""
    num_bytes: int = 0


def expand_files(patterns: str) -> list[Path]:
    """The files that a flag such as `--input_file` names.

    Args:
      patterns: paths and globs, separated by commas: "books/*.txt,extra.txt".

    Returns:
      Each file once: in the order of the patterns, and sorted inside each pattern.

    Raises:
      InputError: a pattern matches nothing, or names a folder.

    >>> expand_files("books/*.txt")
    [PosixPath('books/emma.txt'), PosixPath('books/ulysses.txt')]
    """
    # A file's name may hold commas and brackets itself.
    parts = [patterns] if Path(patterns).is_file() else [part.strip() for part in patterns.split(",")]
    files: dict[Path, None] = {}
    for part in filter(None, parts):
        # A path that exists as it is written is no pattern. (Path.glob takes no absolute patterns.)
        found = [part] if Path(part).exists() else sorted(glob.glob(part, recursive=True))  # noqa: PTH207
        matches = [Path(name) for name in found if Path(name).is_file()]
        if not matches:
            raise InputError(_no_match(part))
        files.update(dict.fromkeys(matches))
    if not files:
        raise InputError("At least one input file must be named. Received an empty list.")
    return list(files)


def read_documents(
    paths: Iterable[Path], input_format: InputFormat = "lines", language: str = "en"
) -> Iterator[Document]:
    """Reads documents one after the other; no more than one is in memory.

    Args:
      paths: UTF-8 text files.
      input_format: "lines": one sentence a line, blank lines between documents, as the original's
        create_pretraining_data.py reads them. "prose": one document a file, blank lines between
        paragraphs, which are split into sentences; Markdown headings are paragraphs of their own.
      language: the language of prose, an ISO 639 code, for the sentence breaker.

    Yields:
      Documents with at least one sentence.

    Raises:
      InputError: a file is missing, a folder, empty, or not UTF-8.

    >>> list(read_documents([Path("two.txt")]))  # "One.\\nTwo.\\n\\nThree.\\n"
    [Document(sentences=('One.', 'Two.'), source='two.txt, line 1', ...), Document(sentences=('Three.',), ...)]
    """
    if input_format not in get_args(InputFormat):
        raise InputError(f'`input_format` must be "lines" or "prose". Received {input_format!r}.')
    for path in paths:
        yield from _read_lines(path) if input_format == "lines" else _read_prose(path, language)


def read_text(path: Path) -> str:
    """The text of a whole file, every kind of line end as "\\n".

    Raises:
      InputError: the file is missing, a folder, empty, or not UTF-8.
    """
    _check_file(path)
    return _decode(path.read_bytes(), path, 0).replace("\r\n", "\n").replace("\r", "\n")


def paragraphs(text: str) -> Iterator[str]:
    """Splits prose at blank lines and Markdown headings, and joins each paragraph's wrapped lines.

    >>> list(paragraphs("# Emma\\nEmma Woodhouse, handsome,\\nclever, and rich.\\n\\n-----\\n\\nShe was."))
    ['Emma', 'Emma Woodhouse, handsome, clever, and rich.', 'She was.']
    """
    for block in _BLANK_LINES.split(text):
        wrapped: list[str] = []
        for line in block.split("\n"):
            heading = _HEADING.match(line)
            if heading:
                yield from _joined(wrapped)
                yield from _joined([heading[1]])
                wrapped = []
            else:
                wrapped.append(line)
        yield from _joined(wrapped)


def _joined(lines: list[str]) -> Iterator[str]:
    paragraph = " ".join(" ".join(lines).split())
    # Rules and ornaments ("-----", "* * *") hold nothing to learn from.
    if any(character.isalnum() for character in paragraph):
        yield paragraph


def _read_lines(path: Path) -> Iterator[Document]:
    _check_file(path)
    sentences: list[str] = []
    begin = end = 0
    first_line = 1
    with path.open("rb") as file:
        # Binary lines end at \n only: str.splitlines would also cut at form feeds and U+2028.
        for number, line in enumerate(file, start=1):
            sentence = _decode(line, path, end).strip()
            end += len(line)
            if sentence:
                if not sentences:
                    first_line = number
                sentences.append(sentence)
            elif sentences:
                yield Document(tuple(sentences), f"{path}, line {first_line}", end - begin)
                sentences, begin = [], end
    if sentences:
        yield Document(tuple(sentences), f"{path}, line {first_line}", end - begin)


def _read_prose(path: Path, language: str) -> Iterator[Document]:
    split = (split_paragraph(paragraph, language) for paragraph in paragraphs(read_text(path)))
    sentences = tuple(chain.from_iterable(split))
    if sentences:
        yield Document(sentences, str(path), path.stat().st_size)


def _decode(raw: bytes, path: Path, offset: int) -> str:
    """UTF-8 to text, without the byte order mark that Windows editors put first in a file."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"Input files must be UTF-8. {path} has the byte 0x{raw[error.start]:02x} at offset "
            f"{offset + error.start}; convert it, for example with `iconv -f LATIN1 -t UTF-8`."
        ) from None
    return text.removeprefix("\ufeff") if offset == 0 else text


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise InputError(f"Input files must be text files. {path} is a folder; write {path}/* for its files.")
    if not path.is_file():
        raise InputError(f"There is no input file {path}.")
    if path.stat().st_size == 0:
        raise InputError(f"Input files must hold text. {path} is empty.")


def _no_match(pattern: str) -> str:
    if Path(pattern).is_dir():
        return (
            f"Input files must be files. {pattern} is a folder; write {pattern.rstrip('/')}/* for its files."
        )
    if glob.has_magic(pattern):
        return f"No file matches {pattern!r}. Check the path and the pattern."
    return f"There is no input file {pattern}."
