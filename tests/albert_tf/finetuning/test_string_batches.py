"""Strings as batches of arrays."""

import pytest
import tensorflow as tf

from albert_tf.finetuning.string_batches import map_strings
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
