"""Cached arrays equal the computed ones."""

import numpy as np
import pytest

from albert_tf.tasks.feature_cache import cached_features
from albert_tf.tasks.spans.features import QuestionPreprocessor
from albert_tf.tasks.spans.rows import QuestionExample
from data_prep.tokenizers.vocabulary import Vocabulary

LENGTHS = (24, 8, 6)


def features():
    return [
        {
            "input_ids": np.arange(2 * size, dtype=np.int32).reshape(2, size),
            "weights": np.ones((0, 2), np.float32),
            "label": np.array(size, np.int32),
            "id": np.array("ä" * size),
        }
        for size in (3, 0, 5)
    ]


def never(*_):
    raise AssertionError("made again")


def assert_same(received, expected):
    assert len(received) == len(expected)
    for one, other in zip(received, expected, strict=True):
        assert list(one) == list(other)
        for name, values in one.items():
            assert values.shape == other[name].shape
            assert values.dtype.kind == other[name].dtype.kind
            assert (values == other[name]).all()


def test_a_second_call_reads_the_file(tmp_path):
    folder = tmp_path / "cache"
    assert_same(cached_features(folder / "train", {"a": 1}, features), features())
    assert_same(cached_features(folder / "train", {"a": 1}, never), features())
    assert [path.suffix for path in folder.iterdir()] == [".npz"]


@pytest.mark.parametrize("key", [{"a": 2}, {"b": 1}, None])
def test_another_key_gives_another_file(tmp_path, key):
    cached_features(tmp_path / "train", {"a": 1}, features)
    with pytest.raises(AssertionError, match="made again"):
        cached_features(tmp_path / "train", key, never)


def test_an_empty_list_is_cached(tmp_path):
    assert cached_features(tmp_path / "train", {}, list) == []
    assert cached_features(tmp_path / "train", {}, never) == []


def unknown_compression(data):
    place = data.index(b"PK\x01\x02") + 10  # the method of the first array, in the directory at the end
    return data[:place] + b"\x63" + data[place + 1 :]


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"x" * 99, unknown_compression],
)
def test_a_damaged_file_is_replaced(tmp_path, damage):
    cached_features(tmp_path / "train", {}, features)
    [path] = tmp_path.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    assert_same(cached_features(tmp_path / "train", {}, features), features())
    assert_same(cached_features(tmp_path / "train", {}, never), features())


def test_a_failure_leaves_no_file(tmp_path):
    with pytest.raises(AssertionError):
        cached_features(tmp_path / "train", {}, never)
    assert list(tmp_path.iterdir()) == []


def test_windows(tmp_path, model_file, monkeypatch):
    context = "The captain painted 300 apples. " * 4
    examples = [
        QuestionExample("ä1", "Who?", context, ("captain",), (4,)),
        QuestionExample("2", "Why was that?", "Nobody noticed.", (), (), True),
    ]
    preprocessor = QuestionPreprocessor(Vocabulary.read(model_file), *LENGTHS)
    made = preprocessor.windows(examples)
    first = preprocessor.split("dev", examples, cache=tmp_path / "dev").windows
    monkeypatch.setattr(preprocessor, "windows", never)
    again = preprocessor.split("dev", examples, cache=tmp_path / "dev").windows
    for windows in (first, again):
        assert len(windows) == len(made) > 3
        for one, other in zip(windows, made, strict=True):
            for name in vars(other):
                values, expected = np.asarray(getattr(one, name)), np.asarray(getattr(other, name))
                assert values.dtype.kind == expected.dtype.kind
                assert values.tolist() == expected.tolist()
