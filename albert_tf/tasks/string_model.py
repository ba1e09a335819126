"""A model whose `fit`, `evaluate` and `predict` also take strings."""

import math
from collections.abc import Mapping

import keras
import numpy as np

from albert_tf.model.inputs import report_padding
from albert_tf.model.keras_model import AlbertModel
from albert_tf.tasks.features import Features
from albert_tf.tasks.preprocessor import class_name
from albert_tf.tasks.runner import FunctionRunner
from albert_tf.tasks.splits import BatchSize
from albert_tf.tasks.string_batches import (
    OrderOfEpochs,
    are_strings,
    check_batch_size,
    check_no_steps,
    evaluate_batches,
    fit_batches,
    for_class_weight,
    is_dataset_of_strings,
    map_strings,
    numbers_of,
    one_batch,
    predict_batches,
    without_column,
    without_strings,
)
from albert_tf.tasks.task_batches import batches_per_epoch
from data_prep.errors import InputError


class StringModel(AlbertModel):
    """A Keras model with a preprocessor, which turns strings and labels into the model's arrays.

    Attributes:
      preprocessor: None for a model without vocabulary, which takes arrays alone.
      has_token_outputs: whether outputs are as long as the sequences.
      has_one_class: whether each text has one of `labels`.
      has_windows: whether an example may become several sequences.
      labels: the classes in the model's order.
      seeds: the seed of the order of examples.
    """

    has_token_outputs = False
    has_one_class = False
    has_windows = False
    labels: tuple[str, ...] = ()
    seeds: keras.random.SeedGenerator

    def fit(self, x=None, y=None, batch_size=None, epochs=1, *, validation_data=None, **kwargs):
        """Keras' `fit`, which also takes strings, as the preprocessor does, with labels by name or number.

        Strings are grouped into batches of similar lengths, in an order that follows from the seed and the epoch,
        also after `initial_epoch`; `shuffle=False` keeps the given order. The keys of `class_weight` may be names.

        Raises:
          InputError: strings, labels or weights do not have the task's form, `batch_size` is below 1, or
            `validation_steps` is given with strings, which are sorted by length before they form batches.
        """
        check_batch_size(batch_size)
        check_batch_size(kwargs.get("validation_batch_size"))
        if isinstance(validation_data, tuple | list) and are_strings(validation_data[0]):
            if isinstance(validation_data[0], str) or not 2 <= len(validation_data) <= 3:
                raise InputError(
                    "`validation_data` must be (texts, labels) or (texts, labels, weights). Received a "
                    f"{type(validation_data).__name__} of {len(validation_data)} items."
                )
            check_no_steps("validation_steps", kwargs.get("validation_steps"), "validation")
            size = kwargs.get("validation_batch_size") or batch_size
            validation_data = self._evaluation_batches(*validation_data, batch_size=size)
        elif isinstance(validation_data, tuple | list) and len(validation_data) > 1:
            ids, labels, *rest = validation_data
            validation_data = (ids, self.numbered(ids, labels), *rest)
        kwargs |= {"epochs": epochs, "validation_data": self.mapped(validation_data)}
        kwargs["sample_weight"] = without_column(kwargs.get("sample_weight"))
        if kwargs.get("class_weight"):
            kwargs["class_weight"] = self._weight_of_each_class(kwargs["class_weight"])
            x, y, kwargs["sample_weight"] = for_class_weight(x, y, kwargs["sample_weight"])
        if are_strings(x):
            return self._fit_strings(x, y, batch_size or 32, **kwargs)
        return super().fit(self.mapped(x), self.numbered(x, y), batch_size, **kwargs)

    def _weight_of_each_class(self, weights: Mapping[str | int, float]) -> dict[int, float]:
        """`class_weight` as Keras needs it: by number, and for all classes.

        Raises:
          InputError: it is no dict, or a key is neither the name nor the number of a class.
        """
        if not isinstance(weights, Mapping):
            raise InputError(
                "`class_weight` must be a dict of a weight for each class. Received "
                f"{weights!r}; of N labels, balanced weights are N / (classes * count of the class)."
            )
        if not self.has_one_class:
            raise ValueError(
                f"`class_weight` needs one class for each text. `{type(self).__name__}` has others: give each "
                "example a `sample_weight`."
            )
        given = {class_name(key, self.labels): weight for key, weight in weights.items()}
        return {number: given.get(label, 1.0) for number, label in enumerate(self.labels)}

    def _fit_strings(
        self,
        x,
        y,
        batch_size,
        *,
        sample_weight=None,
        validation_split=0.0,
        validation_batch_size=None,
        shuffle=True,
        **kwargs,
    ):
        if not 0 <= validation_split < 1:
            raise InputError(
                f"`validation_split` must be at least 0 and below 1. Received {validation_split}."
            )
        if kwargs["validation_data"] is not None:
            validation_split = 0.0  # as in Keras
        if validation_split:
            check_no_steps("validation_steps", kwargs.get("validation_steps"), "validation")
            self._check_one_sequence()
        features = self._features(x, y, sample_weight)
        self._needed_preprocessor().note_columns(x, y)
        held_out = len(features) - math.floor(len(features) * (1 - validation_split))
        if held_out:  # the last examples, as many as in Keras
            weights = None if sample_weight is None else np.asarray(sample_weight)[-held_out:]
            size = validation_batch_size or batch_size
            kwargs["validation_data"] = evaluate_batches(features[-held_out:], weights, size)
            features = features[:-held_out]
        steps = kwargs.pop("steps_per_epoch", None) or batches_per_epoch(len(features), batch_size)
        order = OrderOfEpochs(self.seeds.get_config()["seed"] if shuffle else None, steps)
        batches = fit_batches(features, sample_weight, batch_size, order)
        given = kwargs.get("callbacks")
        given = getattr(given, "callbacks", given)  # those of a CallbackList
        kwargs["callbacks"] = [order, *keras.tree.flatten(given or ())]
        return super().fit(batches, shuffle=False, **kwargs)  # the batches are shuffled

    def evaluate(self, x=None, y=None, batch_size=None, verbose="auto", sample_weight=None, **kwargs):
        """Keras' `evaluate`, which also takes strings.

        Raises:
          InputError: `steps` is given with strings, as for `predict`; strings, labels or weights do not have the
            task's form.
        """
        check_batch_size(batch_size)
        sample_weight = without_column(sample_weight)
        if are_strings(x):
            check_no_steps("steps", kwargs.get("steps"), "`evaluate`")
            x = self._evaluation_batches(x, y, sample_weight, batch_size=batch_size)
            y = batch_size = sample_weight = None
        y = self.numbered(x, y)
        return super().evaluate(self.mapped(x), y, batch_size, verbose, sample_weight, **kwargs)

    def predict(self, x, batch_size=None, verbose="auto", **kwargs):
        """Keras' `predict`, which also takes strings.

        Raises:
          InputError: `steps` is given with strings, which are sorted by length before they form batches.
        """
        check_batch_size(batch_size)
        if are_strings(x):
            check_no_steps("steps", kwargs.get("steps"), "`predict`")
            features = self._needed_preprocessor().features(x)
            return self._predict_features(features, batch_size or 32, verbose, **kwargs)
        return super().predict(self.mapped(x), batch_size, verbose, **kwargs)

    def train_on_batch(self, x, y=None, sample_weight=None, class_weight=None, return_dict=False):
        """Keras' `train_on_batch`, which also takes strings."""
        if class_weight:
            class_weight = self._weight_of_each_class(class_weight)
            x, y, sample_weight = for_class_weight(x, y, sample_weight)
        return super().train_on_batch(*self._one_batch(x, y, sample_weight), class_weight, return_dict)

    def test_on_batch(self, x, y=None, sample_weight=None, return_dict=False):
        """Keras' `test_on_batch`, which also takes strings."""
        return super().test_on_batch(*self._one_batch(x, y, sample_weight), return_dict)

    def predict_on_batch(self, x):
        """Keras' `predict_on_batch`, which also takes strings."""
        return super().predict_on_batch(self._one_batch(x)[0])

    def _one_batch(self, x, y=None, sample_weight=None) -> tuple:
        """x, y and sample_weight as arrays."""
        sample_weight = without_column(sample_weight)
        if not are_strings(x):
            return x, self.numbered(x, y), sample_weight
        return one_batch(self._features(x, y, sample_weight), sample_weight)

    def _features(self, x, y, sample_weight) -> list[Features]:
        """The arrays of each example with its labels.

        Raises:
          InputError: strings or labels do not have the task's form, or there is not one weight for each example.
        """
        features = self._needed_preprocessor().features(x, y, self.labels)
        if sample_weight is not None:
            self._check_one_sequence()
            if len(sample_weight) != len(features):
                raise InputError(
                    "`sample_weight` must have a number for each example. Received "
                    f"{len(sample_weight)} and {len(features)} examples."
                )
        return features

    def _predict_features(self, features, batch_size, verbose, **kwargs):
        """Outputs in the order of the features."""
        batches, rows = predict_batches(features, batch_size, self.has_token_outputs)
        outputs = super().predict(batches, None, verbose, **kwargs)
        return keras.tree.map_structure(lambda array: array[rows], outputs)

    def _rows_of(self, features, batch_size, verbose) -> list[dict[str, np.ndarray]]:
        """The outputs of each example, as long as its batch; a single array is named "output".

        `predict` pads all examples to the longest, because Keras joins the outputs of all batches. One long text
        would make many short ones slow.
        """
        verbose = 1 if verbose == "auto" else verbose
        progress = keras.utils.Progbar(len(features), verbose=verbose, unit_name="example")

        def outputs(batch):
            found = self.predict_on_batch({name: batch[name] for name in self.input_names})
            progress.add(len(batch["input_ids"]))
            return found if isinstance(found, dict) else {"output": found}

        return FunctionRunner(outputs).rows(features, BatchSize(batch_size))

    def _needed_preprocessor(self):
        if self.preprocessor is None:
            raise InputError(
                "A model needs a vocabulary to take strings. This one has none: pass `vocab_file` to "
                "`from_pretrained`, or arrays of ids to the model."
            )
        return self.preprocessor

    def _check_one_sequence(self) -> None:
        """Raises InputError if an example may become several sequences."""
        if self.has_windows:
            raise InputError(
                "`sample_weight`, `validation_split` and datasets of strings are for tasks with one sequence per "
                "example; questions may have several windows."
            )

    def _evaluation_batches(self, x, y=None, sample_weight=None, *, batch_size=None):
        sample_weight = without_column(sample_weight)
        return evaluate_batches(self._features(x, y, sample_weight), sample_weight, batch_size or 32)

    def numbered(self, x, y):
        """The labels beside a dict of ids, as numbers if they are names; anything else unchanged."""
        are_names = (
            isinstance(x, Mapping)
            and y is not None
            and self.has_one_class
            and np.asarray(y).dtype.kind in "USO"
        )
        return numbers_of(y, self.labels) if are_names else y

    def mapped(self, x):
        """A dataset of strings as a dataset of arrays; anything else unchanged.

        Raises:
          InputError: a generator or a `PyDataset` yields strings.
        """
        if not is_dataset_of_strings(x):
            if isinstance(x, Mapping):
                report_padding(x)
            return without_strings(x)
        self._check_one_sequence()
        return map_strings(x, self._needed_preprocessor(), self.input_rank, self.labels)
