import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from data_prep.tfrecord.schema import Feature
from data_prep.tfrecord.serialization import parse_example, serialize_examples


def by_tensorflow(features, values) -> bytes:
    record = tf.train.Example()
    for name, feature in features.items():
        padded = values[name].tolist() + [0] * ((feature.length or 0) - len(values[name]))
        target = record.features.feature[name]
        (target.int64_list if feature.dtype == "int64" else target.float_list).value.extend(padded)
    return record.SerializeToString(deterministic=True)


@settings(deadline=None)  # the first example imports TensorFlow
@given(
    st.lists(
        st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 40_000), max_size=200), min_size=1, max_size=4
    ),
    st.lists(st.floats(width=32, allow_nan=False), max_size=40),
    st.integers(1, 300),
    st.sampled_from([np.uint8, np.int32, np.int64]),
)
def test_equals_tensorflow(rows, floats, padding, dtype):
    """Several rows of any integer type, with long and short lists of values and with names of several bytes."""
    features = {
        "numbers": Feature("int64", max(map(len, rows)) + padding, ""),
        "a": Feature("float32", len(floats) + padding, ""),
        "é" * 70: Feature("int64", 1, ""),
        "of any length": Feature("int64", None, ""),
    }
    examples = []
    for row in rows:
        numbers = (np.array(row, np.int64) & np.iinfo(dtype).max).astype(dtype)
        others = {
            "a": np.array(floats),
            "é" * 70: np.array([1]),
            "of any length": np.array([7, *numbers], np.int64),
        }
        examples.append({"numbers": numbers, **others})
    columns = {name: [example[name] for example in examples] for name in features}
    assert serialize_examples(features, columns) == [by_tensorflow(features, one) for one in examples]


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
    for record in (b"", b"\xffno example", b"plain text"):
        assert parse_example(record) == {}
