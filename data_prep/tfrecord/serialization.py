"""tf.train.Example's bytes straight from NumPy, without TensorFlow and without an object for every number.

A tf.train.Example is nested protocol buffers: each level is a tag, a length and what is inside.

    Example { 1: Features { 1: entry { 1: name, 2: Feature { 2 or 3: list { 1: values } } } ... } }

Integers are varints (7 bits a byte, the lowest first; the top bit says that more follow), floats are four bytes
each. Entries stand in the order of their names, as in `SerializeToString(deterministic=True)`.
"""

import functools
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from data_prep.tfrecord.schema import Feature

_LIST_FIELD = {"float32": 2, "int64": 3}
_PADDING = {"float32": b"\x00" * 4, "int64": b"\x00"}


def serialize_examples(
    features: Mapping[str, Feature], columns: Mapping[str, Sequence[np.ndarray]]
) -> list[bytes]:
    """tf.train.Examples in which every feature has its full length, zeros at the end.

    Args:
      features: name -> type and length, as in `schema.py`.
      columns: name -> its values in each example, of any numeric type, at most `length` of them; integers are
        not negative.

    Returns:
      For each example the same bytes as tf.train.Example's own `SerializeToString(deterministic=True)`.

    >>> serialize_examples({"x": Feature("int64", 3, "")}, {"x": [np.array([1, 300])]})[0].hex()
    '0a100a0e0a017812091a070a0501ac0200'
    """
    entries = [_entries(name, features[name], columns[name]) for name in sorted(features)]
    bodies = [b"".join(of_example) for of_example in zip(*entries, strict=True)]
    return [_field_header(1, len(body)) + body for body in bodies]


def varints(values: np.ndarray) -> tuple[bytes, np.ndarray]:
    """Integers >= 0 as varints.

    Args:
      values: any integer type, [n].

    Returns:
      All of them, one behind the other, and the number of bytes before each and in all, int64 [n + 1].

    >>> content, offsets = varints(np.array([5, 127, 128, 300]))
    >>> content.hex(" "), offsets
    ('05 7f 80 01 ac 02', array([0, 1, 2, 4, 6]))
    """
    most = int(values.max(initial=0))
    if most < 128:
        return values.astype(np.uint8).tobytes(), np.arange(len(values) + 1)
    sizes = np.ones(len(values), np.int64)
    for bits in range(7, most.bit_length(), 7):
        sizes += values >> bits > 0
    offsets = np.concatenate([[0], sizes.cumsum()])
    content = np.empty(offsets[-1], np.uint8)
    place, rest = offsets[:-1], values
    while len(rest):
        more = rest > 127
        content[place] = rest & 127 | more.view(np.uint8) << 7
        place, rest = place[more] + 1, rest[more] >> 7
    return content.tobytes(), offsets


def _entries(name: str, feature: Feature, rows: Sequence[np.ndarray]) -> list[bytes]:
    """One feature of every example: all values are encoded at once, and then taken apart."""
    values = np.concatenate(rows)
    begins = np.cumsum([0, *map(len, rows)])
    if feature.dtype == "float32":
        content, offsets = values.astype("<f4").tobytes(), 4 * begins
    else:
        content, ends_of_values = varints(values)
        offsets = ends_of_values[begins]
    padding = _PADDING[feature.dtype]
    entries = []
    for row, (begin, end) in zip(rows, pairwise(offsets.tolist()), strict=True):
        zeros = padding * (feature.length - len(row))
        header = _entry_header(name, feature.dtype, end - begin + len(zeros))
        entries.append(b"".join((header, content[begin:end], zeros)))
    return entries


@functools.cache
def _entry_header(name: str, dtype: str, num_bytes: int) -> bytes:
    """All that stands before the values of a feature; it takes a few hundred different lengths at most."""
    values = _field_header(1, num_bytes)
    value_list = _field_header(_LIST_FIELD[dtype], len(values) + num_bytes) + values
    key = _field_header(1, len(name.encode())) + name.encode()
    entry = key + _field_header(2, len(value_list) + num_bytes) + value_list
    return _field_header(1, len(entry) + num_bytes) + entry


@functools.cache
def _field_header(number: int, num_bytes: int) -> bytes:
    """The tag of a field with a length (wire type 2), and the length."""
    return bytes([number << 3 | 2]) + varints(np.array([num_bytes]))[0]
