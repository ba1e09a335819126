"""The kinds of tasks on a text or a pair of texts: a class, an ordered class, several labels, or a number."""

import math
from types import MappingProxyType

from albert_tf.tasks.collapse import entropy, labelled, one_answer, one_number
from albert_tf.tasks.kind import SPLIT_GROUPS, Kind
from albert_tf.tasks.prediction_files import read_label_lists, read_labels, read_numbers
from albert_tf.tasks.probabilities import sigmoid
from albert_tf.tasks.texts.features import LabelSetPreprocessor, TextPreprocessor
from albert_tf.tasks.texts.rows import (
    as_ordinals,
    find_columns,
    read_class,
    read_classes,
    read_number,
    text_examples,
)
from albert_tf.tasks.texts.strings import TextAnswering
from albert_tf.tasks.values import known_label


class TextKind(Kind):
    """What these kinds share.

    Attributes:
      may_lack_label: whether an empty text is a label.
    """

    export = "classifier"
    preprocessor = TextPreprocessor
    answering = TextAnswering
    may_lack_label = False

    @staticmethod
    def read_label(value, source, split):
        """The label in a table's value; None if it cannot be used, which is a problem of the row."""
        raise NotImplementedError

    def examples(self, rows, first, split):
        return text_examples(rows, find_columns(first, split), split)

    def from_strings(self, model, tokenizer, null_threshold, **options):
        from albert_tf.tasks.texts.serving import texts_from_strings

        return texts_from_strings(model, tokenizer)

    def from_ids(self, model, **options):
        from albert_tf.tasks.texts.serving import texts_from_ids

        return texts_from_ids(model)


class Classes(TextKind):
    """A text, or a pair of texts, has one class."""

    name = "classification"
    metrics = ("accuracy", "macro_f1")
    has_classes = has_one_class = takes_class_weights = True
    read_label = staticmethod(read_class)

    @property
    def model(self):
        from albert_tf.tasks.texts.model import TextClassifier

        return TextClassifier

    def groups(self, split):
        group = SPLIT_GROUPS.get(split.name)
        return (group,) * len(split.examples) if group else None

    def collapse(self, splits, parts):
        return one_answer([(predicted, label) for _, predicted, label in labelled(parts)])

    def loss_of_guess(self, labels):
        return entropy(labels)

    def score(self, task, predictions, labels, groups=(), classes=()):
        from albert_tf.tasks.texts.metrics import class_metrics

        return class_metrics(task.metrics, predictions, labels, groups)

    def line(self, example, value, guess, predictions):
        probabilities = dict(zip(predictions.classes, value.tolist(), strict=True))
        return {"label": guess, "probability": max(probabilities.values()), "probabilities": probabilities}

    def read_predictions(self, task, path):
        return dict(read_labels(path, task.labels))

    def comparable(self, labels, found):
        known = list(dict.fromkeys(labels.values()))
        return {id_: known_label(label, known) for id_, label in found.items()}


class Ordinals(Classes):
    """A text, or a pair of texts, has one of several ordered classes, such as 1 to 5 stars."""

    name = "ordinal_classification"
    metrics = ("quadratic_kappa", "accuracy")
    has_order = True

    @property
    def model(self):
        from albert_tf.tasks.texts.model import OrdinalClassifier

        return OrdinalClassifier

    def check_classes(self, labels, order):
        as_ordinals(labels, order)

    def loss_of_guess(self, labels):
        return math.inf  # the target of a label is a distribution over all classes

    def score(self, task, predictions, labels, groups=(), classes=()):
        from albert_tf.tasks.texts.metrics import ordinal_metrics

        return ordinal_metrics(predictions, labels, classes)


class LabelSets(TextKind):
    """A text, or a pair of texts, has any number of labels."""

    name = "multi_label_classification"
    metrics = ("micro_f1", "macro_f1")
    preprocessor = LabelSetPreprocessor
    has_classes = True
    may_lack_label = has_thresholds = True
    predictions_suffix = ".json"
    read_label = staticmethod(read_classes)

    @property
    def model(self):
        from albert_tf.tasks.texts.model import MultiLabelClassifier

        return MultiLabelClassifier

    def probabilities(self, logits):
        return sigmoid(logits)

    def collapse(self, splits, parts):
        classes = parts[
            0
        ].classes  # the best thresholds may separate texts with nearly the same probabilities
        return one_number(
            [(value, [name in label for name in classes]) for value, _, label in labelled(parts)]
        )

    def score(self, task, predictions, labels, groups=(), classes=()):
        from albert_tf.tasks.texts.metrics import label_set_metrics

        return label_set_metrics(predictions, labels)

    def with_best_thresholds(self, parts):
        from albert_tf.tasks.texts.metrics import with_best_thresholds

        return with_best_thresholds(parts)

    def line(self, example, value, guess, predictions):
        probabilities = dict(zip(predictions.classes, value.tolist(), strict=True))
        return {"labels": guess, "probabilities": probabilities}

    def read_predictions(self, task, path):
        return dict(read_label_lists(path))

    def comparable(self, labels, found):
        known = list({name for names in labels.values() for name in names})
        return {id_: [known_label(name, known) for name in names] for id_, names in found.items()}


class Numbers(TextKind):
    """A text, or a pair of texts, has a number."""

    name = "regression"
    metrics = ("pearson", "spearman")
    outputs = MappingProxyType({"score": "B"})
    output = "score"
    read_label = staticmethod(read_number)

    @property
    def model(self):
        from albert_tf.tasks.texts.model import TextRegressor

        return TextRegressor

    def value(self, example, features, output, labels):
        return output

    def collapse(self, splits, parts):
        return one_number([(value, label) for value, _, label in labelled(parts)])

    def score(self, task, predictions, labels, groups=(), classes=()):
        from albert_tf.tasks.texts.metrics import number_metrics

        return number_metrics(predictions, labels)

    def line(self, example, value, guess, predictions):
        return {"score": guess}

    def read_predictions(self, task, path):
        return dict(read_numbers(path))


CLASSES, ORDINALS, LABEL_SETS, NUMBERS = Classes(), Ordinals(), LabelSets(), Numbers()
