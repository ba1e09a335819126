"""Files of rows, CSV, TSV and JSON lines, as dicts of their columns.

path --read_rows--> TableRow(values, source) ...
"""

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from data_prep.errors import InputError
from data_prep.tasks.problems import Problems
from data_prep.text.sources import UnpackedFile

_SHOWN_CHARACTERS = 60
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class TableRow(NamedTuple):
    """One row.

    Attributes:
      values: column -> value; text in CSV and TSV, anything in JSON lines.
      source: where it is, for messages: "train.tsv:17".
    """

    values: dict[str, Any]
    source: str


def read_table(
    path: Path,
    problems: Problems,
    *,
    needed: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    quoted: bool = False,
) -> Iterator[TableRow]:
    """The rows of a file, by its name: .jsonl and .ndjson are JSON lines, .csv has commas, all else tabs.

    Args:
      path: the file; .gz, .bz2, .xz and .zst behind its name are unpacked.
      problems: collects rows that are none.
      needed: what a row must have to be one; rows may be longer or shorter otherwise.
      columns: the columns of a file whose first row does not name them; without, the first row must.
      quoted: whether quotes around a field of a tab-separated file are no part of it. (In CSV they never are;
        GLUE's files have quotes that are text.)

    Raises:
      InputError: there is no such file, it is no UTF-8, its first row lacks needed columns, or a quote in it never
        closes.
    """
    text = read_text(path)
    suffix = table_suffix(path)
    if suffix in (".jsonl", ".ndjson"):
        yield from _json_lines(text, path, problems)
        return
    if suffix == ".csv":
        rows = _csv_rows(text, path, problems)
    else:
        rows = _quoted_rows(text) if quoted else _plain_rows(text)
    yield from _named(rows, path, problems, needed, columns)


def read_text(path: Path) -> str:
    """A whole UTF-8 file, unpacked, without a byte order mark.

    Raises:
      InputError: there is no such file, it is empty, damaged or no UTF-8; names the line.
    """
    with UnpackedFile(path) as file:
        data = b"".join(file)
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"Texts must be UTF-8. {path}:{line} has the byte 0x{data[error.start]:02x}; "
            "convert the file, for instance with iconv."
        ) from None


def parse_json(text: str) -> Any:
    """The value of a JSON text, in which half of an escaped pair ("\\ud83d") is U+FFFD: it has no UTF-8 form.

    Raises:
      ValueError: it is no JSON, or nested beyond measure.
    """
    try:
        value = json.loads(text)
        return _without_surrogates(value) if _ESCAPED_SURROGATE.search(text) else value
    except RecursionError:
        raise ValueError("nested beyond measure") from None


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_without_surrogates(part) for part in value]
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(part) for key, part in value.items()}
    return value


def table_suffix(path: Path) -> str:
    """The suffix without that of a compression: ".tsv" of train.tsv.gz."""
    suffixes = [suffix for suffix in path.suffixes if suffix not in (".gz", ".bz2", ".xz", ".zst")]
    return suffixes[-1].lower() if suffixes else ""


def shown(value: Any) -> str:
    """A value as a message shows it."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 4] + " ..."


def _json_lines(text: str, path: Path, problems: Problems) -> Iterator[TableRow]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        source = f"{path}:{number}"
        try:
            values = parse_json(line)
        except ValueError as error:
            problems.add("line that is no JSON", source, str(error).replace(": line 1 column", " column"))
            continue
        if not isinstance(values, dict):
            problems.add("line that is no JSON object", source, f"received {shown(values)}")
            continue
        yield TableRow(values, source)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that are not blank; only a line feed ends one, for texts have U+2028 and U+0085 in them."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip("\r "):
            yield number, line.removesuffix("\r")


def _plain_rows(text: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in _lines(text):
        yield number, line.split("\t")


def _quoted_rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Lines cut at tabs, without the quotes around fields; in a line whose quotes do not pair they are text."""
    for number, line in _lines(text):
        try:
            fields = (
                next(csv.reader([line], delimiter="\t", strict=True)) if '"' in line else line.split("\t")
            )
        except csv.Error:
            fields = line.split("\t")
        yield number, fields


def _csv_rows(text: str, path: Path, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    limit = csv.field_size_limit(max(len(text), 1))
    try:
        while True:
            begin = reader.line_num + 1
            try:
                fields = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                if "unexpected end of data" in str(error):
                    raise InputError(
                        f"A quote that opens a field must close it. The one in {path}:{begin} never does; write "
                        'quotes inside a field twice ("").'
                    ) from None
                problems.add("line that is no CSV", f"{path}:{begin}", str(error))
                continue
            if any(fields):
                yield begin, fields
    finally:
        csv.field_size_limit(limit)


def _named(
    rows: Iterator[tuple[int, list[str]]],
    path: Path,
    problems: Problems,
    needed: Sequence[str],
    columns: Sequence[str] | None,
) -> Iterator[TableRow]:
    number, first = next(rows, (1, []))
    names = [name.strip() for name in first]
    if not set(needed) <= set(names):
        if columns is None or set(columns) & set(names):
            missing = ", ".join(name for name in needed if name not in names)
            raise InputError(
                f"The first row of a table must name its columns. {path} has no {missing}, "
                f"only: {', '.join(map(shown, names))}."
            )
        names = list(columns)
        rows = _and_then((number, first), rows)
    at_least = 1 + max((names.index(name) for name in needed), default=len(names) - 1)
    for number, fields in rows:
        source = f"{path}:{number}"
        if not at_least <= len(fields) <= len(names):
            problems.add(
                "wrong number of columns",
                source,
                f"received {len(fields)} of {len(names)}: {shown(fields[0])}",
            )
            continue
        yield TableRow(dict(zip(names, fields, strict=False)), source)


def _and_then(first: Any, rest: Iterator) -> Iterator:
    yield first
    yield from rest
