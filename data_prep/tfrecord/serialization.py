"""tf.train.Example to bytes and back, without TensorFlow.

A tf.train.Example is nested protocol buffers; each level is a tag, a length and the content.

    Example { 1: Features { 1: entry { 1: name, 2: Feature { 1, 2 or 3: list { 1: values } } } ... } }

Integers are varints (7 bits a byte, lowest first; the top bit is set if more bytes follow), floats take 4 bytes.
The writer works on NumPy arrays, since a Python object for each number would be slow. It sorts the entries by
name, as `SerializeToString(deterministic=True)` does.
"""

import functools
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from data_prep.tfrecord.schema import Feature

_FIELD = descriptor_pb2.FieldDescriptorProto
_LISTS = {"bytes_list": _FIELD.TYPE_BYTES, "float_list": _FIELD.TYPE_FLOAT, "int64_list": _FIELD.TYPE_INT64}
_LIST_FIELD = {"float32": 2, "int64": 3}
_PADDING = {"float32": b"\x00" * 4, "int64": b"\x00"}


def serialize_examples(
    features: Mapping[str, Feature], columns: Mapping[str, Sequence[np.ndarray]]
) -> list[bytes]:
    """The bytes of each example that tf.train.Example's `SerializeToString(deterministic=True)` returns.

    Each feature that has a length is padded to it with zeros.

    Args:
      features: name -> type and length, as in `schema.py`.
      columns: name -> one array for each example, of any numeric type, at most `length` long, and not
        empty if the length varies; integers must not be negative.

    >>> serialize_examples({"x": Feature("int64", 3, "")}, {"x": [np.array([1, 300])]})[0].hex()
    '0a100a0e0a017812091a070a0501ac0200'
    """
    entries = [_entries(name, features[name], columns[name]) for name in sorted(features)]
    bodies = [b"".join(example_entries) for example_entries in zip(*entries, strict=True)]
    return [_field_header(1, len(body)) + body for body in bodies]


class FeatureValues(NamedTuple):
    """The values of one feature of a parsed example.

    Attributes:
      kind: "bytes_list", "float_list" or "int64_list"; empty if the feature has no list.
      values: bytes, floats or integers.
    """

    kind: str
    values: Sequence


def parse_example(record: bytes) -> dict[str, FeatureValues]:
    """The features of a tf.train.Example by name; none if the bytes are something else.

    >>> parse_example(bytes.fromhex("0a100a0e0a017812091a070a0501ac0200"))
    {'x': FeatureValues(kind='int64_list', values=[1, 300, 0])}
    """
    try:
        features = _Example.FromString(record).features.feature
    except DecodeError:
        return {}
    kinds = {name: feature.WhichOneof("kind") for name, feature in features.items()}
    return {
        name: FeatureValues(kind, getattr(features[name], kind).value) if kind else FeatureValues("", [])
        for name, kind in kinds.items()
    }


def varints(values: np.ndarray) -> tuple[bytes, np.ndarray]:
    """Integers >= 0 as varints, and the offset of each one in them, followed by their number, int64 [n + 1].

    >>> content, offsets = varints(np.array([5, 127, 128, 300]))
    >>> content.hex(" "), offsets
    ('05 7f 80 01 ac 02', array([0, 1, 2, 4, 6]))
    """
    largest = int(values.max(initial=0))
    if largest < 128:
        return values.astype(np.uint8).tobytes(), np.arange(len(values) + 1)
    sizes = np.ones(len(values), np.int64)
    for bits in range(7, largest.bit_length(), 7):
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
    """Encodes one feature of all examples at once and splits the bytes by example."""
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
        zeros = padding * (feature.length - len(row)) if feature.length else b""
        header = _entry_header(name, feature.dtype, end - begin + len(zeros))
        entries.append(b"".join((header, content[begin:end], zeros)))
    return entries


@functools.cache
def _entry_header(name: str, dtype: str, num_bytes: int) -> bytes:
    """The bytes in front of a feature's values; cached, since there are at most a few hundred lengths."""
    values = _field_header(1, num_bytes)
    value_list = _field_header(_LIST_FIELD[dtype], len(values) + num_bytes) + values
    key = _field_header(1, len(name.encode())) + name.encode()
    entry = key + _field_header(2, len(value_list) + num_bytes) + value_list
    return _field_header(1, len(entry) + num_bytes) + entry


@functools.cache
def _field_header(number: int, num_bytes: int) -> bytes:
    """The tag of a field that has a length (wire type 2), and the length."""
    return bytes([number << 3 | 2]) + varints(np.array([num_bytes]))[0]


def _example_class() -> Any:
    """Declares the messages of TensorFlow's feature.proto and example.proto for the protobuf library."""
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="tensorflow", syntax="proto3")
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, (name, kind) in enumerate(_LISTS.items(), start=1):
        values = file.message_type.add(name=name)
        values.field.add(name="value", number=1, type=kind, label=_FIELD.LABEL_REPEATED)
        _message(feature, name, number, name).oneof_index = 0
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=_FIELD.TYPE_STRING, label=_FIELD.LABEL_OPTIONAL)
    _message(entry, "value", 2, "Feature")
    _message(features, "feature", 1, "Features.FeatureEntry").label = _FIELD.LABEL_REPEATED
    _message(file.message_type.add(name="Example"), "features", 1, "Features")
    # A separate pool: TensorFlow, if loaded, declares the same names in the default one.
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tensorflow.Example"))


def _message(parent, name: str, number: int, message: str):
    return parent.field.add(
        name=name,
        number=number,
        type=_FIELD.TYPE_MESSAGE,
        label=_FIELD.LABEL_OPTIONAL,
        type_name=f".tensorflow.{message}",
    )


_Example = _example_class()
