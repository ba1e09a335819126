"""Strings for `fit`, `evaluate` and `predict`, as batches of similar lengths."""

from collections.abc import Generator, Mapping, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from albert_tf.tasks.features import LABEL_SET, Features
from albert_tf.tasks.preprocessor import Preprocessor, as_rows, class_name, each_row
from albert_tf.tasks.splits import padded_batch
from albert_tf.tasks.task_batches import BatchOrder, bucketed_batches, by_falling_length
from data_prep.errors import InputError

_NO_INPUTS = ("index", "label", LABEL_SET, "sample_weight")


def are_strings(x) -> bool:
    """Whether `x` holds strings or columns of strings, as opposed to a dict of arrays or a stream of batches.

    Raises:
      InputError: it is an array of numbers.
    """
    if not hasattr(x, "__array__"):
        return isinstance(x, Sequence)  # a list, a tuple of columns, or a column of Hugging Face's datasets
    dtype = np.asarray(x).dtype
    if dtype.kind in "biufc":
        raise InputError(
            "A task model takes strings, or a dict of integer arrays such as {'input_ids': ids}. Received an "
            f"array of {dtype}."
        )
    return True


def check_batch_size(batch_size: int | None) -> None:
    """Raises InputError if a batch would hold no example; None is Keras' default."""
    if batch_size is not None and batch_size < 1:
        raise InputError(f"`batch_size` must be at least 1. Received {batch_size}.")


def without_column(sample_weight):
    """Weights (N, 1), as a table of one column has them, as (N,); anything else unchanged."""
    shape: Any = getattr(sample_weight, "shape", ())
    is_column = len(shape) == 2 and shape[1] == 1
    return np.asarray(sample_weight).reshape(-1) if is_column else sample_weight


def check_no_steps(name: str, steps: int | None, what: str) -> None:
    """Raises InputError if only some batches of strings, which begin with the longest, are asked for.

    Args:
      name: the argument.
      steps: its value.
      what: takes the strings.
    """
    if steps is not None:
        raise InputError(
            f"`{name}` is for datasets; of strings, {what} takes all. Received {steps}: leave it out, or pass "
            "fewer strings."
        )


def is_empty(x) -> bool:
    """Whether `x` is a list or an array, or a tuple of them, without examples."""
    column = as_rows(x[0] if isinstance(x, tuple) and x else x)
    return hasattr(column, "__len__") and not len(column)


def is_dataset_of_strings(x) -> bool:
    """Whether `x` is a tf.data.Dataset whose first component holds strings."""
    if not isinstance(x, tf.data.Dataset):
        return False
    spec = x.element_spec
    leaves = tf.nest.flatten(spec[0] if isinstance(spec, tuple) else spec)
    return bool(leaves) and all(getattr(leaf, "dtype", None) == tf.string for leaf in leaves)


def without_strings(x):
    """A generator or a `PyDataset` of arrays; anything else unchanged.

    Raises:
      InputError: it yields strings; of a generator only when it does.
    """
    if isinstance(x, keras.utils.PyDataset):
        _check_arrays(x[0])
    return _arrays_of(x) if isinstance(x, Generator) else x


def _arrays_of(batches: Generator) -> Generator:
    for batch in batches:
        _check_arrays(batch)
        yield batch


def _check_arrays(batch) -> None:
    """Raises InputError if x of a batch, which is (x, y) or x alone, holds strings."""
    x = batch[0] if isinstance(batch, tuple | list) else batch
    if any(np.asarray(leaf).dtype.kind in "USO" for leaf in keras.tree.flatten(x)):
        raise InputError(
            "Generators and `PyDataset`s must yield dicts of integer arrays. Received strings: pass lists of "
            "strings, or a `tf.data.Dataset` of them."
        )


def numbers_of(y, classes: Sequence[str]) -> np.ndarray:
    """The numbers of classes, int32 (N,), which are given by name or number."""
    names = each_row(partial(class_name, classes=classes), np.ravel(y))
    return np.array([classes.index(name) for name in names], np.int32)


def has_labels(dataset: tf.data.Dataset) -> bool:
    """Whether a dataset yields more than x."""
    return isinstance(dataset.element_spec, tuple) and len(dataset.element_spec) > 1


def for_class_weight(x, y, sample_weight) -> tuple:
    """x, y and sample_weight as Keras' `class_weight` needs them: beside a dict of ids, not in it.

    Raises:
      InputError: a dataset has them in its dicts.
    """
    if isinstance(x, Mapping):
        y = x.get("label") if y is None else y
        sample_weight = x.get("sample_weight") if sample_weight is None else sample_weight
        x = {name: array for name, array in x.items() if name not in ("label", "sample_weight")}
    if isinstance(x, tf.data.Dataset):
        spec = x.element_spec
        if not has_labels(x) or (isinstance(spec[0], dict) and "sample_weight" in spec[0]):
            raise InputError(
                "`class_weight` needs a dataset of (x, y) without other weights. Received one that yields "
                f"{spec}; use `map` to take labels out of a dict, or to give each example its `sample_weight`."
            )
    return x, y, sample_weight


class OrderOfEpochs(keras.callbacks.Callback):
    """The order of the examples in each epoch of `fit`, for `bucketed_batches`.

    Keras iterates over a dataset once in each epoch, after it has called the callbacks, and so gets the batches of
    that epoch, also if it starts at a later one. Of an endless stream, `steps_per_execution` would take more than
    an epoch.

    Args:
      seed: determines the order; None keeps that of the features.
      steps: number of batches in an epoch of `fit`; the next epoch continues where it ends.
    """

    def __init__(self, seed: int | None, steps: int):
        super().__init__()
        self._seed, self._steps = seed, steps

    def rows(self, lengths: np.ndarray, batch_size: int) -> tf.data.Dataset:
        """The rows of each batch of the epoch, as `BatchOrder.rows`."""
        self._sizes = lengths, batch_size
        self.on_epoch_begin(0)
        signature = tf.TensorSpec([self._steps, batch_size], tf.int32)
        epoch = tf.data.Dataset.from_generator(lambda: [self._rows], output_signature=signature)
        return epoch.unbatch().apply(tf.data.experimental.assert_cardinality(self._steps))

    def on_epoch_begin(self, epoch, logs=None):
        order = BatchOrder(self._seed, num_epochs=None, skip_batches=epoch * self._steps)
        batches = order.rows(*self._sizes).take(self._steps).batch(self._steps)
        self._rows = batches.get_single_element().numpy()


def fit_batches(
    features: list[Features], sample_weight, batch_size: int, order: OrderOfEpochs
) -> tf.data.Dataset:
    """The batches of an epoch of `fit`.

    Args:
      features: with labels.
      sample_weight: one number per example, or None.
      batch_size: B.
      order: of the examples, one of the callbacks of `fit`.
    """
    return _for_keras(bucketed_batches(features, batch_size, order), sample_weight)


def evaluate_batches(features: list[Features], sample_weight, batch_size: int) -> tf.data.Dataset:
    """Batches of all examples for `evaluate`, the longest first."""
    batches = bucketed_batches(features, batch_size, BatchOrder(None, by_length=True))
    return _for_keras(batches, sample_weight)


def predict_batches(
    features: list[Features], batch_size: int, equal_lengths: bool
) -> tuple[tf.data.Dataset, np.ndarray]:
    """Batches for `predict`, and for each example the number of its row in the predictions.

    Args:
      features: without labels.
      batch_size: B.
      equal_lengths: pad all batches to the longest example, for outputs that are as long as the sequences.
    """
    lengths = np.array([example["input_ids"].shape[-1] for example in features])
    pad_to = int(lengths.max(initial=0)) if equal_lengths else None
    batches = bucketed_batches(features, batch_size, BatchOrder(None, by_length=True), pad_to=pad_to)
    return _for_keras(batches, None), np.argsort(by_falling_length(lengths))


def one_batch(features: list[Features], sample_weight=None) -> tuple:
    """All examples, in their order, as one batch of arrays: x, y and sample_weight, or None.

    Raises:
      InputError: there are no examples.
    """
    if not features:
        raise InputError("A batch needs at least one example. Received none.")
    batch = padded_batch(features)
    x = {name: values for name, values in batch.items() if name not in _NO_INPUTS}
    y = batch.get("label", batch.get(LABEL_SET))
    return x, y, None if sample_weight is None else np.asarray(sample_weight, np.float32)


def map_strings(
    dataset: tf.data.Dataset, preprocessor: Preprocessor, rank: int, classes: Sequence[str]
) -> tf.data.Dataset:
    """Replaces batches of strings in a dataset by the model's arrays.

    Args:
      dataset: x, (x, y) or (x, y, sample_weight); x as the preprocessor takes it, y numbers or names of classes.
      preprocessor: the model's.
      rank: number of axes of the arrays.
      classes: names of the labels.

    Raises:
      InputError: the dataset yields single examples, columns by name, or labels that are strings for a task
        without classes.
    """
    _check_dataset(dataset, classes)
    names = ("input_ids", "input_mask", "token_type_ids")

    def arrays(x):
        def padded(*columns):
            batch = padded_batch(preprocessor.features(columns[0] if len(columns) == 1 else columns))
            return [batch[name] for name in names]

        values = tf.numpy_function(padded, tf.nest.flatten(x), [tf.int32] * len(names))
        return {
            name: tf.ensure_shape(value, [None] * rank) for name, value in zip(names, values, strict=True)
        }

    def numbered(y):
        """Class numbers of names, or of numbers, which `class_name` checks."""
        dtype = getattr(y, "dtype", None)
        are_numbers = dtype is not None and dtype.is_integer and y.shape.rank == 1
        if dtype != tf.string and not (classes and are_numbers):
            return y

        numbers = tf.numpy_function(lambda names: numbers_of(names, classes), [y], tf.int32)
        return tf.ensure_shape(numbers, [None])

    if isinstance(dataset.element_spec, tuple):
        return dataset.map(
            lambda x, *others: (arrays(x), *map(numbered, others[:1]), *others[1:]),
            num_parallel_calls=tf.data.AUTOTUNE,
        )
    return dataset.map(arrays, num_parallel_calls=tf.data.AUTOTUNE)


def _check_dataset(dataset: tf.data.Dataset, classes: Sequence[str]) -> None:
    """Raises InputError if `map_strings` cannot take a dataset."""
    spec = dataset.element_spec[0] if isinstance(dataset.element_spec, tuple) else dataset.element_spec
    if isinstance(spec, dict):  # whose order is that of the alphabet, not the user's
        raise InputError(
            "A dataset must yield strings, or a tuple of several columns of strings. Received a dict of "
            f"{', '.join(map(str, spec))}; use `map` to make for instance ((text_a, text_b), label) of it."
        )
    if any(leaf.shape.rank == 0 for leaf in tf.nest.flatten(dataset.element_spec)):
        raise InputError(
            "A dataset of strings must yield batches. This one yields single examples; use `batch`."
        )
    if has_labels(dataset) and not classes and getattr(dataset.element_spec[1], "dtype", None) == tf.string:
        raise InputError(
            "The labels of this task must be numbers. Received a dataset with strings as labels."
        )


def _for_keras(batches: tf.data.Dataset, sample_weight) -> tf.data.Dataset:
    """(x, y) or (x, y, sample_weight); x alone if the labels are several arrays."""
    weights = None if sample_weight is None else tf.constant(np.asarray(sample_weight, np.float32))

    def split(batch: dict) -> Any:
        x = {name: values for name, values in batch.items() if name not in _NO_INPUTS}
        if weights is not None:
            x["sample_weight"] = tf.gather(weights, batch["index"])
        for name in ("label", LABEL_SET):
            if name in batch:
                return x, batch[name], *([x.pop("sample_weight")] if weights is not None else [])
        return x

    return batches.map(split)
