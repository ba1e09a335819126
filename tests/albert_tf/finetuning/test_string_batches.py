"""Strings as batches of arrays."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.finetuning.string_batches import for_class_weight, map_strings
from albert_tf.prediction.preprocessor import PREPROCESSORS
from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Vocabulary
from tests.data_prep.conftest import model_file, story

__all__ = ["model_file", "story"]


@pytest.fixture(scope="module")
def preprocessor(model_file):
    return PREPROCESSORS["classification"](Vocabulary.read(model_file))


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
