"""Strings as batches of arrays."""

import keras
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from albert_tf.tasks.string_batches import (
    for_class_weight,
    map_strings,
    one_batch,
    predict_batches,
    without_strings,
)
from albert_tf.tasks.task_batches import BatchOrder, bucketed_batches
from albert_tf.tasks.texts.features import TextPreprocessor
from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Vocabulary
from tests.albert_tf.tasks.task_models import CASES


@pytest.fixture(scope="module")
def preprocessor(model_file):
    return TextPreprocessor(Vocabulary.read(model_file))


def test_a_dataset_with_columns_by_name_is_refused(preprocessor):
    """TensorFlow sorts them by name: the texts of a pair would be swapped."""
    columns = {"text": ["a", "b"], "other": ["c", "d"]}
    for content in (columns, (columns, [0, 1])):
        dataset = tf.data.Dataset.from_tensor_slices(content).batch(2)
        with pytest.raises(InputError, match="a tuple of several columns of strings. Received a dict of"):
            map_strings(dataset, preprocessor, 2, ())


def test_labels_and_weights_leave_the_dict_for_class_weights():
    """Keras multiplies weights by the rows of `y`, and refuses a `sample_weight` beside `class_weight`."""
    ids, labels, weights = {"input_ids": np.ones((2, 3))}, np.zeros(2), np.ones(2)
    inside = {**ids, "label": labels, "sample_weight": weights}
    x, y, sample_weight = for_class_weight(inside, None, None)
    assert (list(x), y is labels, sample_weight is weights) == (["input_ids"], True, True)
    for content in (inside, {**ids, "label": labels}, ({**ids, "sample_weight": weights}, labels)):
        dataset = tf.data.Dataset.from_tensor_slices(content).batch(2)
        with pytest.raises(InputError, match=r"needs a dataset of \(x, y\) without other weights. Received"):
            for_class_weight(dataset, None, None)
    dataset = tf.data.Dataset.from_tensor_slices((ids, labels)).batch(2)
    assert for_class_weight(dataset, None, None) == (dataset, None, None)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_one_batch_has_the_arrays_of_a_stream(name, model_file):
    case = CASES[name]
    preprocessor = case.model.preprocessor_class(Vocabulary.read(model_file), max_seq_length=40)
    features = preprocessor.features(case.x, case.y, case.arguments.get("labels", ()))
    (expected,) = bucketed_batches(features, len(features), BatchOrder(None)).as_numpy_iterator()
    x, y, weights = one_batch(features, np.arange(len(features)))
    found = {**x, **({} if y is None else {"label_set" if name == "topics" else "label": y})}
    assert found.keys() == expected.keys() - {"index", "sample_weight"}
    for key, values in found.items():
        np.testing.assert_array_equal(values, expected[key], err_msg=key)
        assert values.dtype == expected[key].dtype, key
    assert weights.tolist() == list(range(len(features)))


def test_one_batch_makes_no_pipeline(preprocessor, monkeypatch):
    """Which would take a fifth of a second for each batch."""
    monkeypatch.setattr(tf.data.Dataset, "map", pytest.fail)
    x, y, weights = one_batch(preprocessor.features(["a b", "c"]))
    assert (len(x["input_ids"]), y, weights) == (2, None, None)


def test_a_dataset_of_strings_makes_no_pipelines_of_its_own(preprocessor, monkeypatch):
    dataset = map_strings(tf.data.Dataset.from_tensor_slices(["a b", "c", "d"]).batch(2), preprocessor, 2, ())
    monkeypatch.setattr(tf.data.Dataset, "map", pytest.fail)
    assert [len(batch["input_ids"]) for batch in dataset.as_numpy_iterator()] == [2, 1]


class Batches(keras.utils.PyDataset):
    """One batch."""

    def __init__(self, batch):
        super().__init__()
        self.batch = batch

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return self.batch


def test_generators_of_strings_are_refused():
    numbers = ({"input_ids": np.ones((1, 2), int)}, np.zeros(1))
    assert list(without_strings(batch for batch in [numbers])) == [numbers]
    assert isinstance(without_strings(Batches(numbers)), Batches)
    for strings in ((np.array(["a"]), np.zeros(1)), (["a"], [0]), np.array(["a"], object)):
        for make in (lambda strings: list(without_strings(batch for batch in [strings])), Batches):
            with pytest.raises(InputError, match="must yield dicts of integer arrays. Received strings"):
                without_strings(make(strings))


def test_no_examples():
    with pytest.raises(InputError, match="at least one example. Received none"):
        predict_batches([], 8, equal_lengths=True)


def test_names_of_classes_beside_ids():
    model = CASES["text"].build(None)
    ids = {"input_ids": np.ones((2, 3), int)}
    assert model._one_batch(ids, ["big", "small"])[1].tolist() == [1, 0]
    assert model._one_batch(ids, [1, 0])[1] == [1, 0]
    with pytest.raises(InputError, match="must be one of small, big"):
        model.fit(ids, ["huge", "big"])
    with pytest.raises(InputError, match="must be one of small, big"):
        model.fit(ids, [0, 1], validation_data=(ids, ["huge", "big"]))


def test_columns_of_labels_beside_ids():
    model, ids = CASES["topics"].build(None), {"input_ids": np.ones((1, 3), int)}
    labels = pd.DataFrame({"clocks": [1], "captain": [0], "apples": [0]})
    np.testing.assert_array_equal(model._one_batch(ids, labels)[1], [[0, 0, 1]])
    with pytest.raises(InputError, match="must have the columns apples, captain, clocks. Received a, b, c"):
        model.evaluate(ids, labels.set_axis(["a", "b", "c"], axis=1))
