"""Lines as examples, in the order in which they arrive: texts, fields, JSON objects, or rows of a table."""

import csv
import dataclasses
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from albert_tf.tasks.columns import Columns
from albert_tf.tasks.kind import Split, Task
from albert_tf.tasks.own_data import examples_of_rows
from albert_tf.tasks.problems import Problems, shown
from albert_tf.tasks.splits import Example
from albert_tf.tasks.tables import (
    TableRow,
    check_different,
    csv_delimiter,
    csv_records,
    is_open_quote,
    open_quote_error,
    parse_json,
    quoted_rows,
)
from albert_tf.tasks.values import as_number
from data_prep.errors import InputError

LineFormat = Literal["auto", "text", "tsv", "csv", "jsonl"]
_LONGEST_NAME = 40  # characters of a column's name, to tell a header from a sentence with a comma
_LONGEST_ROW = 1 << 26  # characters
_ARRAY = re.compile(r"""\s*\[\s*(\{\s*(".*)?)?""")  # the first line of a JSON array of objects


UNNAMED = Columns()


class InputLines:
    """Reads examples, without their labels; the id of each is the number of its line.

    Args:
      task: determines the fields of a line.
      columns: the columns that a model was trained on. If the lines lack one of them, the usual names apply.
      line_format: text for one text per line, which may contain tabs; tsv for texts with a tab between them; jsonl
        for JSON objects; csv for a table with commas, whose first line names the columns. auto recognizes the
        format by the first line, and also a table with tabs.
      plain: the format that auto assumes for lines that are neither objects nor a table.
      named: the columns that the user names. If there are any, auto assumes objects or a table, which must have
        these columns.
    """

    def __init__(
        self,
        task: Task,
        columns: Columns,
        line_format: LineFormat = "auto",
        plain: Literal["tsv", "text"] = "tsv",
        named: Columns = UNNAMED,
    ):
        self._task, self._columns = task, dataclasses.replace(columns, id=None)
        self._plain, self._named = plain, dataclasses.replace(named, id=None)
        self._format, self._table = line_format, _Table() if line_format == "csv" else None
        self._done = 0  # lines
        self._headers: dict[str, list[str]] = {}  # delimiter -> column names, if the first line is a header

    def examples(self, lines: Sequence[str]) -> list[Example]:
        """The examples in lines that have arrived, without line ends.

        Raises:
          InputError: a line is not an example of the task; names the line.
        """
        first = self._done + 1
        self._done += len(lines)
        if first == 1:
            lines = [lines[0].removeprefix("\ufeff"), *lines[1:]]  # a byte-order mark
            if self._format == "auto":
                self._recognize(lines[0])
        if self._headers and self._done > 1:
            self._check_no_table(lines[1:] if first == 1 else lines)
        if self._table:
            return [self._example(values, number) for number, values in self._table.rows(lines)]
        numbered = enumerate(lines, start=first)
        if self._format == "jsonl":  # as in files, a blank line is no object
            return [self._example(_object(line, number), number) for number, line in numbered if line.strip()]
        return [self._example(self._fields(line, number), number) for number, line in numbered]

    def finish(self) -> None:
        """Raises InputError if the last row of a table is not complete."""
        if self._table:
            self._table.finish()

    def _recognize(self, line: str) -> None:
        """Sets the format.

        Raises:
          InputError: the line begins a JSON array, or a table with known columns but without the texts.
        """
        if _is_object(line):
            self._format = "jsonl"
            return
        if _ARRAY.fullmatch(line):
            raise InputError(
                "JSON must have one object per line. Received an array, which begins in line 1; write its objects "
                "as lines, for instance with `jq -c '.[]'`. --input_format=text reads lines as texts."
            )
        if self._named != UNNAMED:
            self._table = _Table("\t" if "\t" in line else csv_delimiter(line))
            return
        self._format = self._plain
        needed = self._task.kind.needed
        for delimiter in ",;\t":
            names = _header(line, delimiter, self._columns)
            columns = self._columns.present_in(names)
            if all(columns.find(what, names, "") for what in needed):
                self._table, self._headers = _Table(delimiter), {}
                logging.getLogger(__name__).warning(
                    "the first line names the columns: %s; --input_format=text reads it as a text",
                    ", ".join(names),
                )
                return
            if _are_names(names):
                self._headers[delimiter] = names
        for names in self._headers.values():
            if any(map(self._columns.knows, names)):
                self._refuse_table(names)
        if self._plain == "tsv":
            self._headers.pop("\t", None)  # a pair of texts

    def _check_no_table(self, lines: Sequence[str]) -> None:
        """Raises InputError if most lines after the first have as many fields as it has."""
        for delimiter, names in self._headers.items():
            rows = [row for _, row in _records(lines, delimiter) if row]
            fitting = sum(
                is_open_quote(row) or (isinstance(row, list) and len(row) == len(names)) for row in rows
            )
            if 2 * fitting > len(rows):
                self._refuse_table(names)
        self._headers = {}

    def _refuse_table(self, names: Sequence[str]) -> None:
        """Raises InputError, since a table with these columns lacks columns of the task."""
        columns = self._columns.present_in(names)
        for what in self._task.kind.needed:
            columns.need(what, names, "Line 1, which --input_format=text reads as a text,")

    def _fields(self, line: str, number: int) -> Mapping[str, Any]:
        """The columns of a line, as texts."""
        fields = [line] if self._format == "text" else line.split("\t")
        return self._task.kind.values(fields, f"line {number}")

    def _example(self, values: Mapping[str, Any], number: int) -> Example:
        problems = Problems()
        row = TableRow({**values, "id": str(number)}, f"line {number}")
        columns = self._columns.present_in(row.values).replaced_by(self._named)
        for what in self._task.kind.texts:
            name = columns.find(what, values, row.source)
            given = values.get(name, "") if name else ""
            if isinstance(given, list | dict) or (given is None and what in self._task.kind.needed):
                raise InputError(f"`{name}` must be a text. Received {shown(given)} in {row.source}.")
        split = Split(self._task, "test", problems, columns)
        for example in examples_of_rows([row], split):
            return self._task.kind.without_label(example)
        raise InputError(
            f"Every line must be an example of {self._task.kind}. {'; '.join(problems.lines())}."
        )


class _Table:
    """The rows of a table that arrives in parts; its first line names the columns."""

    def __init__(self, delimiter: str | None = None):
        self._delimiter = delimiter  # None: CSV, whose first line decides
        self._names: list[str] = []
        self._done = 0  # lines of complete rows
        self._rest: list[str] = []  # the lines of a row whose quote is open
        self._rest_size = 0  # their characters

    def rows(self, lines: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
        """The number of the first line of each complete row, and its values by column."""
        self._delimiter = self._delimiter or csv_delimiter(lines[0])
        if self._rest and all(map(self._stays_open, lines)):
            self._keep(lines)
            return
        lines, before = [*self._rest, *lines], self._done
        self._rest, self._rest_size, self._done = [], 0, before + len(lines)
        for begin, fields in _records(lines, self._delimiter):
            if is_open_quote(fields):
                self._done = before + begin - 1
                self._keep(lines[begin - 1 :])
                return
            source = f"line {before + begin}"
            if isinstance(fields, csv.Error):
                raise InputError(f"Every row must be CSV. Received {source}: {fields}.")
            if self._names and fields:
                yield before + begin, self._by_column(fields, source)
            elif fields:
                self._names = [name.strip() for name in fields]
                check_different(self._names, source.capitalize())

    def _stays_open(self, line: str) -> bool:
        """Whether a quote is open at the end of a line, if one is open at its beginning.

        Thus each line is parsed at most twice, however many parts a row arrives in.
        """
        return '"' not in line or any(
            is_open_quote(fields) for _, fields in csv_records([f'"{line}\n'], self._delimiter or ",")
        )

    def _keep(self, lines: Sequence[str]) -> None:
        """Keeps lines of a row that is not complete."""
        self._rest += lines
        self._rest_size += sum(map(len, lines))
        if self._rest_size > _LONGEST_ROW:
            raise open_quote_error(f"line {self._done + 1}", f" in {_LONGEST_ROW:,} characters")

    def finish(self) -> None:
        """Raises InputError if a quote is open."""
        if self._rest:
            raise open_quote_error(f"line {self._done + 1}")

    def _by_column(self, fields: list[str], source: str) -> dict[str, str]:
        if len(fields) != len(self._names):
            raise InputError(
                f"Every row must have the {len(self._names)} columns that the first line names. Received "
                f"{len(fields)} fields in {source}."
            )
        return dict(zip(self._names, fields, strict=True))


def _records(lines: Sequence[str], delimiter: str) -> Iterator[tuple[int, list[str] | csv.Error]]:
    """Reads lines as files are read: quotes may enclose line ends in CSV; in TSV, unbalanced ones are text."""
    if delimiter == "\t":
        return quoted_rows("\n".join(lines))
    return csv_records((f"{line}\n" for line in lines), delimiter)


def _header(line: str, delimiter: str, columns: Columns) -> list[str]:
    """The names in the first line of a table; [] if it is text, which has a space after a comma.

    Names of columns that are known may have one, too.
    """
    try:
        names = next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error:
        return []
    stripped = [name.strip() for name in names]
    return stripped if names == stripped or all(map(columns.knows, stripped)) else []


def _are_names(names: Sequence[str]) -> bool:
    """Whether fields of a first line may be names of columns; pandas leaves that of its index empty."""
    return (
        len(names) > 1
        and len(set(names)) == len(names)
        and all(names[1:])
        and all(len(name) <= _LONGEST_NAME and as_number(name) is None for name in names)
    )


def _is_object(line: str) -> bool:
    try:
        return isinstance(parse_json(line), dict)
    except ValueError:
        return False


def _object(line: str, number: int) -> Mapping[str, Any]:
    try:
        values = parse_json(line)
    except ValueError as error:
        raise InputError(f"Every line must be a JSON object. Received line {number}: {error}.") from None
    if not isinstance(values, dict):
        raise InputError(f"Every line must be a JSON object. Received line {number}: {line[:60]!r}.")
    return values
