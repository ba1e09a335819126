"""Inputs whose rows are texts: JSON lines, TFRecord files, Parquet tables and datasets, read row by row.

path --rows_reader(path)--> Row(text, source, position) ...
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from data_prep.errors import InputError
from data_prep.files import encodable
from data_prep.storage.paths import file_size, shown
from data_prep.text.hub_rows import is_hub, read_hub
from data_prep.text.parquet import open_parquet, rows_of
from data_prep.text.sources import InputFile, compression_of, is_dataset, is_json_array
from data_prep.text.tfds_rows import read_tfds
from data_prep.tfrecord.records import is_gzip, read_payloads
from data_prep.tfrecord.serialization import parse_example


class Row(NamedTuple):
    """One text of an input.

    Attributes:
      text: any number of paragraphs; may be empty.
      source: its place, for messages: "wiki.jsonl, line 12".
      position: bytes of the input file read so far.
    """

    text: str
    source: str
    position: int


def rows_reader(path: Path) -> Callable[[Path, str], Iterator[Row]] | None:
    """The reader for an input, chosen by its name; None for text files.

    The names: *.jsonl, *.ndjson and *.json, *.tfrecord and *.tfrecords (also followed by -00000-of-00005), each
    also followed by .gz, .bz2, .xz or .zst; *.parquet; tfds:NAME/CONFIG:SPLIT;
    hf://datasets/OWNER/NAME/CONFIG:SPLIT. Suffixes may have capital letters.

    >>> rows_reader(Path("wiki.jsonl.gz"))
    <function _read_json_lines>
    """
    if is_dataset(path):
        return _read_dataset
    name = path.name.lower().removesuffix(compression_of(path))
    if name.endswith((".jsonl", ".ndjson")):
        return _read_json_lines
    if name.endswith(".json"):
        return _read_json
    if re.search(r"\.tfrecords?(-\d+-of-\d+)?$", name):
        return _read_tfrecords
    return _read_parquet if path.name.lower().endswith(".parquet") else None


def are_rows(inputs: Iterable[str]) -> bool:
    """Whether all inputs hold rows, which are always prose; --input_format does not apply to them."""
    return all(rows_reader(Path(name)) for name in inputs)


def _read_json(path: Path, text_field: str) -> Iterator[Row]:
    """An array of objects, or JSON lines under another name."""
    if not is_json_array(path):
        rule = "A .json file must hold an array of objects, or one JSON object per line."
        yield from _read_json_lines(path, text_field, rule)
        return
    with InputFile(path) as file:
        try:
            rows = json.loads(b"".join(file).removeprefix(b"\xef\xbb\xbf"))
        except (ValueError, RecursionError) as error:
            raise InputError(f"A .json file must hold JSON. {file.name} does not: {error}.") from None
        for number, row in enumerate(rows, start=1):
            source = f"{file.name}, element {number}"
            text = _text_of(row, "The elements of a .json file must be objects.", text_field, source)
            yield Row(text, source, file.position)


def _read_json_lines(
    path: Path, text_field: str, rule: str = "Every line of a .jsonl file must be a JSON object."
) -> Iterator[Row]:
    with InputFile(path) as file:
        for number, line in enumerate(file, start=1):
            source = f"{file.name}, line {number}"
            if line.isspace():
                continue
            try:
                # JSON does not allow the byte-order mark of Windows editors.
                row = json.loads(line.strip().removeprefix(b"\xef\xbb\xbf" if number == 1 else b""))
            except (ValueError, RecursionError) as error:
                reason = str(error).replace(": line 1 column", " column")  # always line 1
                raise InputError(f"{rule} {source} is not: {reason}.") from None
            text = _text_of(row, rule, text_field, source)
            yield Row(text, source, file.position)


def _text_of(row: Any, rule: str, text_field: str, source: str) -> str:
    """The text of a JSON value, which must be an object; `rule` is the message if it is not."""
    if not isinstance(row, dict):
        raise InputError(f"{rule} {source} is a {type(row).__name__}.")
    if text_field not in row:
        raise _missing_field(text_field, source, row)
    return _as_text(row[text_field], text_field, source)


def _read_tfrecords(path: Path, text_field: str) -> Iterator[Row]:
    is_unnamed_gzip = not compression_of(path) and file_size(path) is not None and is_gzip(path)
    with InputFile(path, ".gz" if is_unnamed_gzip else None) as file:
        for number, record in enumerate(read_payloads(file.read, file.name), start=1):
            source = f"{file.name}, record {number}"
            features = parse_example(record)
            if not features:
                raise InputError(
                    f"The records of a TFRecord file must be tf.train.Examples with features. {source} is not."
                )
            if text_field not in features:
                raise _missing_field(text_field, source, features)
            if features[text_field].kind not in ("", "bytes_list"):
                raise InputError(f"The feature `{text_field}` must hold text. In {source} it holds numbers.")
            texts = [_as_text(value, text_field, source) for value in features[text_field].values]
            yield Row("\n\n".join(texts), source, file.position)


def _read_parquet(path: Path, text_field: str) -> Iterator[Row]:
    with open_parquet(path) as table:
        names = table.schema_arrow.names
        if text_field not in names:
            raise _missing_field(text_field, str(path), names)
        size, total = file_size(path) or 0, table.metadata.num_rows
        for number, row in enumerate(rows_of(table, [text_field]), start=1):
            source = f"{path}, row {number}"
            # A table does not tell the size of a row; assume that all are equal.
            yield Row(_as_text(row[text_field], text_field, source), source, size * number // total)


def _read_dataset(path: Path, text_field: str) -> Iterator[Row]:
    read: Callable[[Path, str], Iterator[str | bytes | None]] = read_hub if is_hub(path) else read_tfds
    name, position = shown(path), 0
    for number, value in enumerate(read(path, text_field), start=1):
        source = f"{name}, example {number}"
        text = _as_text(value, text_field, source)
        position += len(text.encode())
        yield Row(text, source, position)


def _as_text(value: Any, text_field: str, source: str) -> str:
    """A field's value as text that UTF-8 can encode; a missing value becomes an empty text."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"Texts must be UTF-8. `{text_field}` in {source} has the byte 0x{value[error.start]:02x} "
                f"at offset {error.start}."
            ) from None
    if not isinstance(value, str):
        raise InputError(f"`{text_field}` must be text. In {source} it is a {type(value).__name__}.")
    # Half of an escaped pair such as "\\ud83d" is legal JSON but not text; editors show U+FFFD for it.
    return encodable(value)


def _missing_field(text_field: str, source: str, names) -> InputError:
    found = ", ".join(sorted(map(str, names))) or "none"
    return InputError(
        f"`text_field` must name a field of the input. {source} has no {text_field!r}, only: {found}."
    )
