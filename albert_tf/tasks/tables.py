"""CSV, TSV, JSON, JSON Lines and Parquet files as rows: dicts of their columns.

path --read_table--> TableRow(values, source) ...
"""

import csv
import io
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from albert_tf.tasks.problems import Problems, shown
from data_prep.errors import InputError
from data_prep.files import ESCAPED_SURROGATE, encodable, utf8_command
from data_prep.text.parquet import open_parquet, rows_of
from data_prep.text.sources import InputFile, compression_of

_LONGEST_FIELD = 2**31 - 1  # characters; Python's own limit is 2 ** 17


class TableRow(NamedTuple):
    """One row.

    Attributes:
      values: column -> value; text in CSV and TSV, any value in the other formats.
      source: file and line or row for messages, "train.tsv:17".
    """

    values: dict[str, Any]
    source: str

    def value(self, column: str | None) -> Any:
        """The value in a column; None if the row lacks it, or there is no column."""
        return None if column is None else self.values.get(column)


def read_table(
    path: Path,
    problems: Problems,
    *,
    needed: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    quoted: bool = False,
) -> Iterator[TableRow]:
    """The rows of a file.

    .jsonl and .ndjson are JSON Lines, .json is an array of objects, .parquet is Parquet, .csv has commas, or
    semicolons if its first line has no comma, and anything else has tabs.

    Args:
      path: the file; .gz, .bz2, .xz and .zst files are unpacked, but for Parquet.
      problems: collects malformed rows.
      needed: the columns that every row must have; without them a row must have all columns.
      columns: the columns of a file whose first row does not name them.
      quoted: whether to remove the quotes around fields of a tab-separated file. (CSV fields are always
        unquoted; in GLUE's files quotes are part of the text.)

    Raises:
      InputError: the file is missing, damaged or not UTF-8; its first row lacks a needed column or repeats a name;
        a quote in it is never closed; or a .json file holds something else.
    """
    suffix = table_suffix(path)
    if suffix == ".parquet":
        yield from _parquet_rows(path)
        return
    text = read_unpacked(path)
    if suffix in (".jsonl", ".ndjson", ".json"):
        yield from (_json_array if suffix == ".json" else _json_lines)(text, path, problems)
        return
    if suffix == ".csv":
        rows = _csv_rows(text, path, problems)
    else:
        rows = quoted_rows(text) if quoted else _plain_rows(text)
    yield from _with_names(rows, path, problems, needed, columns)


def read_unpacked(path: Path) -> str:
    """The content of a UTF-8 file, decompressed, without a byte-order mark.

    Raises:
      InputError: the file is missing, empty, damaged or not UTF-8; the message names the line.
    """
    with InputFile(path) as file:
        data = b"".join(file)
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"Texts must be UTF-8. {path}:{line} has the byte 0x{data[error.start]:02x}; "
            f"convert the file, for example with {utf8_command(data)}."
        ) from None


def parse_json(text: str) -> Any:
    """The value of a JSON text.

    Lone surrogates ("\\ud83d"), which UTF-8 cannot encode, become U+FFFD, and NaN, with which pandas writes that a
    value is missing, None.

    Raises:
      ValueError: it is not JSON, or nested too deeply.
    """
    try:
        value = json.loads(text, parse_constant=lambda name: None if name == "NaN" else float(name))
        return _without_surrogates(value) if ESCAPED_SURROGATE.search(text) else value
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, list):
        return [_without_surrogates(part) for part in value]
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(part) for key, part in value.items()}
    return value


def table_suffix(path: Path) -> str:
    """The suffix before that of a compression: ".tsv" for train.tsv.gz."""
    return (path.with_suffix("") if compression_of(path) else path).suffix.lower()


def _json_lines(text: str, path: Path, problems: Problems) -> Iterator[TableRow]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        source = f"{path}:{number}"
        try:
            values = parse_json(line)
        except ValueError as error:
            problems.add("line that is not JSON", source, str(error).replace(": line 1 column", " column"))
            continue
        if not isinstance(values, dict):
            problems.add("line that is not a JSON object", source, f"received {shown(values)}")
            continue
        yield TableRow(values, source)


def _json_array(text: str, path: Path, problems: Problems) -> Iterator[TableRow]:
    try:
        rows = parse_json(text)
    except ValueError as error:
        raise InputError(
            f"{path} must hold JSON. It does not: {error}. A file with an object in each line is .jsonl."
        ) from None
    if not isinstance(rows, list):
        raise InputError(f"{path} must hold an array of objects, one for each row. Received {shown(rows)}.")
    for number, values in enumerate(rows, start=1):
        source = f"{path}, row {number}"
        if isinstance(values, dict):
            yield TableRow(values, source)
        else:
            problems.add("element that is not a JSON object", source, f"received {shown(values)}")


def _parquet_rows(path: Path) -> Iterator[TableRow]:
    with open_parquet(path) as table:
        for number, values in enumerate(rows_of(table), start=1):
            yield TableRow(values, f"{path}, row {number}")


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that are not blank. Only a line feed ends one, since texts contain U+2028 and U+0085."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip("\r "):
            yield number, line.removesuffix("\r")


def _plain_rows(text: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in _lines(text):
        yield number, line.split("\t")


def quoted_rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Lines split at tabs, fields unquoted; in a line with unbalanced quotes these are text."""
    for number, line in _lines(text):
        try:
            fields = (
                next(csv.reader([line], delimiter="\t", strict=True)) if '"' in line else line.split("\t")
            )
        except csv.Error:
            fields = line.split("\t")
        yield number, fields


def _csv_rows(text: str, path: Path, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    delimiter = csv_delimiter(text.partition("\n")[0])
    for begin, fields in csv_records(io.StringIO(text, newline=""), delimiter):
        if is_open_quote(fields):
            raise open_quote_error(f"{path}:{begin}")
        if isinstance(fields, csv.Error):
            problems.add("line that is not CSV", f"{path}:{begin}", str(fields))
        elif fields:  # a blank line has none
            yield begin, fields


def csv_delimiter(first: str) -> str:
    """A comma, or the semicolon of spreadsheets where commas are decimal points.

    Args:
      first: the first line, with the names of the columns.
    """
    return ";" if ";" in first and "," not in first else ","


def csv_records(lines: Iterable[str], delimiter: str = ",") -> Iterator[tuple[int, list[str] | csv.Error]]:
    """The number of the first line of each row, from 1, and the row's fields, or why they cannot be read.

    Args:
      lines: with line ends; a field in quotes may have some, too.
      delimiter: between fields.
    """
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    limit = csv.field_size_limit(_LONGEST_FIELD)
    try:
        while True:
            begin = reader.line_num + 1
            try:
                yield begin, next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield begin, error
    finally:
        csv.field_size_limit(limit)


def is_open_quote(fields: list[str] | csv.Error) -> bool:
    """Whether a row of `csv_records` ends inside quotes."""
    return isinstance(fields, csv.Error) and "unexpected end of data" in str(fields)


def open_quote_error(source: str, within: str = "") -> InputError:
    """The error for a row that ends inside quotes, or goes on for longer than `within` says."""
    return InputError(
        f"A quote that opens a field must close it. The one in {source} never does{within}; write quotes inside a "
        'field twice ("").'
    )


def check_different(names: Sequence[str], source: str) -> None:
    """Raises InputError if two columns have the same name."""
    if repeated := sorted({name for name in names if name and names.count(name) > 1}):
        raise InputError(
            f"The columns of a table must have different names. {source} has more than one "
            f"{', '.join(map(shown, repeated))}; rename or remove the others."
        )


def _with_names(
    rows: Iterator[tuple[int, list[str]]],
    path: Path,
    problems: Problems,
    needed: Sequence[str],
    columns: Sequence[str] | None,
) -> Iterator[TableRow]:
    header = next(rows, (1, []))
    names = [name.strip() for name in header[1]]
    if not set(needed) <= set(names):
        if columns is None or set(columns) & set(names):
            missing = ", ".join(name for name in needed if name not in names)
            raise InputError(
                f"The first row of a table must name its columns. {path} has no {missing}, "
                f"only: {', '.join(map(shown, names))}."
            )
        names = list(columns)
        rows = itertools.chain([header], rows)
    else:
        check_different(names, str(path))
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
