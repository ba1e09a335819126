"""tf.train.Example's bytes straight from NumPy, without TensorFlow and without an object for every number.

A tf.train.Example is nested protocol buffers: each level is a tag, a length and what is inside.

    Example { 1: Features { 1: entry { 1: name, 2: Feature { 2 or 3: list { 1: values } } } ... } }

Integers are varints (7 bits a byte, the lowest first; the top bit says that more follow), floats are four bytes
each. Entries stand in the order of their names, as in `SerializeToString(deterministic=True)`.
"""

import functools
from collections.abc import Mapping

import numpy as np

from data_prep.schema import Feature

_LIST_FIELD = {"float32": 2, "int64": 3}
_PADDING = {"float32": b"\x00" * 4, "int64": b"\x00"}


def serialize_example(features: Mapping[str, Feature], values: Mapping[str, np.ndarray]) -> bytes:
    """One tf.train.Example in which every feature has its full length, zeros at the end.

    Args:
      features: name -> type and length, as in `schema.py`.
      values: name -> its values, of any numeric type, at most `length` of them; integers are not negative.

    Returns:
      The same bytes as tf.train.Example's own `SerializeToString(deterministic=True)`.

    >>> serialize_example({"x": Feature("int64", 3, "")}, {"x": np.array([1, 300])}).hex()
    '0a100a0e0a017812091a070a0501ac0200'
    """
    entries = []
    for name in sorted(features):
        feature = features[name]
        content = _content(values[name], feature)
        entries += [_entry_header(name, feature.dtype, len(content)), content]
    body = b"".join(entries)
    return _field_header(1, len(body)) + body


def varints(values: np.ndarray) -> bytes:
    """Integers >= 0 as varints.

    >>> varints(np.array([5, 127, 128, 300])).hex(" ")
    '05 7f 80 01 ac 02'
    """
    if values.dtype == bool:
        return values.tobytes()
    most = int(values.max(initial=0))
    if most < 128:
        return values.astype(np.uint8).tobytes()
    num_bytes = -(-most.bit_length() // 7)
    # [n, num_bytes]: what is left of a number after each 7 bits; where more than 7 are left, more bytes follow.
    rest = values[:, np.newaxis] >> np.arange(0, 7 * num_bytes, 7, dtype=values.dtype)
    present = rest > 0
    present[:, 0] = True
    groups = (rest & 127 | ((rest > 127) << 7)).astype(np.uint8)
    return groups[present].tobytes()


def _content(values: np.ndarray, feature: Feature) -> bytes:
    encoded = values.astype("<f4").tobytes() if feature.dtype == "float32" else varints(values)
    return encoded + _PADDING[feature.dtype] * (feature.length - len(values))


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
    return bytes([number << 3 | 2]) + varints(np.array([num_bytes]))
