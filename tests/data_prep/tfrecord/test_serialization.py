import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from data_prep.tfrecord.schema import Feature, pretraining_features
from data_prep.tfrecord.serialization import parse_example, serialize_examples, varints

integers = st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 40_000), max_size=40)


def by_tensorflow(features, values) -> bytes:
    record = tf.train.Example()
    for name, feature in features.items():
        padded = values[name].tolist() + [0] * ((feature.length or 0) - len(values[name]))
        target = record.features.feature[name]
        (target.int64_list if feature.dtype == "int64" else target.float_list).value.extend(padded)
    return record.SerializeToString(deterministic=True)


@settings(deadline=None)  # the first example imports TensorFlow
@given(integers, st.lists(st.floats(width=32, allow_nan=False), max_size=40), st.integers(1, 300))
def test_equals_tensorflow(numbers, floats, padding):
    features = {
        "numbers": Feature("int64", len(numbers) + padding, ""),
        "a": Feature("float32", len(floats) + padding, ""),
        "é" * 70: Feature("int64", 1, ""),
        "of any length": Feature("int64", None, ""),
    }
    values = {"numbers": np.array(numbers, np.int64), "a": np.array(floats), "é" * 70: np.array([1])}
    values["of any length"] = np.array([7, *numbers], np.int64)
    assert serialize_examples(features, {name: [row] for name, row in values.items()}) == [
        by_tensorflow(features, values)
    ]


@pytest.mark.parametrize(("tokens", "predictions"), [(512, 77), (128, 20), (5, 1)])
@pytest.mark.parametrize("largest", [99, 29_999, 2_000_000])
def test_pretraining_examples(tokens, predictions, largest):
    """Rows of several sizes, so that lengths take one and two bytes, some with large numbers."""
    rng = np.random.default_rng(0)
    features = pretraining_features(tokens, predictions)
    examples = [
        {
            name: rng.integers(limit, size=min(size, feature.length), dtype=np.int32)
            for name, feature in features.items()
        }
        for size in (0, 1, tokens // 2, tokens)
        for limit in (2, largest)
    ]
    columns = {name: [example[name] for example in examples] for name in features}
    assert serialize_examples(features, columns) == [by_tensorflow(features, one) for one in examples]


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64])
def test_varints_of_any_type(dtype):
    values = np.array([0, 1, 100, 127, np.iinfo(dtype).max], dtype)
    content, offsets = varints(values)
    assert content[:4] == bytes([0, 1, 100, 127])
    assert offsets[:5].tolist() == [0, 1, 2, 3, 4]
    assert offsets[-1] == len(content)
    assert sum((byte & 127) << 7 * i for i, byte in enumerate(content[4:])) == values[-1]


def test_parses_what_tensorflow_writes():
    example = tf.train.Example()
    example.features.feature["texts"].bytes_list.value.extend([b"one", b"\xff"])
    example.features.feature["numbers"].int64_list.value.extend([-1, 2**62, -(2**63)])
    example.features.feature["floats"].float_list.value.extend([0.5, -2.0])
    example.features.feature["empty"].int64_list.value.extend([])
    example.features.feature["nothing"].SetInParent()
    parsed = {
        name: (kind, list(values))
        for name, (kind, values) in parse_example(example.SerializeToString()).items()
    }
    assert parsed == {
        "texts": ("bytes_list", [b"one", b"\xff"]),
        "numbers": ("int64_list", [-1, 2**62, -(2**63)]),
        "floats": ("float_list", [0.5, -2.0]),
        "empty": ("int64_list", []),
        "nothing": ("", []),
    }


@pytest.mark.parametrize("record", [b"", b"\xffno example", b"plain text"])
def test_other_bytes_have_no_features(record):
    assert parse_example(record) == {}
