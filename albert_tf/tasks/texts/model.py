"""The task models of texts and pairs of texts."""

from collections.abc import Mapping, Sequence

import keras
import numpy as np
from keras import ops

from albert_tf.checkpoints.names import CLASSES, LABEL_SETS, NUMBERS
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.tasks.features import LABEL_SET
from albert_tf.tasks.heads import LinearHead
from albert_tf.tasks.linear_task_model import LinearTaskModel
from albert_tf.tasks.preprocessor import in_order_of
from albert_tf.tasks.texts.features import LabelSetPreprocessor, TextPreprocessor
from albert_tf.tasks.texts.rows import as_ordinals


@keras.saving.register_keras_serializable(package="albert_tf")
class TextClassifier(LinearTaskModel):
    """Classifies a text or a pair of texts by the pooled output (paper, section 4.1: GLUE).

    Args:
      encoder, labels, classifier_dropout, preprocessor, seed: as for `LinearTaskModel`.

    Call args:
      inputs: a dict of integers (B, T): `input_ids`, `input_mask`, `token_type_ids`.

    Returns:
      float32 logits (B, C). Labels are integers (B,), `label` in the dict.

    >>> model = TextClassifier.from_pretrained("runs/base", labels=("bad", "good"))
    >>> model.compile(AdamW(2e-5), metrics=["accuracy"])
    >>> history = model.fit(["What a film!", "Two hours wasted."], ["good", "bad"], verbose=0)
    >>> model.predict(["Well worth two hours."], verbose=0).shape
    (1, 2)
    >>> model.predict_labels(["Well worth two hours."], verbose=0)[0] in model.labels
    True
    """

    default_name, kind, use = "text_classifier", "classification", CLASSES
    preprocessor_class = TextPreprocessor
    has_one_class = True
    classifier: LinearHead

    def call(self, inputs, training=False):
        return self.classifier(self.pooled_output(inputs, training), training=training)


@keras.saving.register_keras_serializable(package="albert_tf")
class OrdinalClassifier(TextClassifier):
    """Classifies a text into ordered classes, such as 1 to 5 stars: a near miss costs less than a far one.

    The head is a classifier's. The target is not one class but the distribution softmax(-(k - y)^2) over the
    classes k, for a label y (soft labels: Diaz and Marathe, CVPR 2019).

    Args:
      encoder, classifier_dropout, preprocessor, seed: as for `LinearTaskModel`.
      labels: C whole numbers as strings, or C names, the lowest class first.

    Call args:
      inputs: as for `TextClassifier`.

    Returns:
      As `TextClassifier`.

    >>> model = OrdinalClassifier.from_pretrained("runs/base", labels=("1", "2", "3"))
    >>> model.predict(["Well worth two hours."], verbose=0).shape
    (1, 3)
    """

    default_name, kind = "ordinal_classifier", "ordinal_classification"

    def __init__(self, encoder: AlbertEncoder, labels: Sequence[str] = (), **kwargs):
        super().__init__(encoder, labels, **kwargs)
        self.numbers = as_ordinals(self.labels, order=self.labels)

    def task_losses(self, y, outputs):
        numbers = ops.cast(self.numbers, "float32")  # (C,)
        distances = ops.expand_dims(ops.take(numbers, ops.cast(y, "int32")), -1) - numbers  # (B, C)
        targets = ops.softmax(-ops.square(distances))
        return ops.categorical_crossentropy(targets, outputs, from_logits=True)

    @classmethod
    def _fits(cls, head, arguments):
        """A classifier's head, as which other formats hold it, fits, too."""
        return super()._fits(head, arguments) or (head is not None and head.kind == TextClassifier.kind)


@keras.saving.register_keras_serializable(package="albert_tf")
class MultiLabelClassifier(TextClassifier):
    """Assigns any number of labels to a text or a pair of texts: a sigmoid and binary cross-entropy per label.

    Args:
      encoder, labels, classifier_dropout, preprocessor, seed: as for `LinearTaskModel`.
      thresholds: C probabilities, from which a text has the label. Default: 0.5.

    Call args:
      inputs: a dict of integers (B, T): `input_ids`, `input_mask`, `token_type_ids`.

    Returns:
      float32 logits (B, C). Labels are 0 or 1 (B, C), `label_set` in the dict.

    >>> model = MultiLabelClassifier.from_pretrained("runs/base", labels=("drama", "comedy"))
    >>> model.compile(AdamW(2e-5))
    >>> history = model.fit(["What a film!", "Two hours wasted."], [["drama", "comedy"], []], verbose=0)
    """

    default_name, kind, use = "multi_label_classifier", "multi_label_classification", LABEL_SETS
    preprocessor_class, label_key, has_one_class = LabelSetPreprocessor, LABEL_SET, False

    def __init__(
        self,
        encoder: AlbertEncoder,
        labels: Sequence[str] = (),
        *,
        thresholds: Sequence[float] = (),
        **kwargs,
    ):
        super().__init__(encoder, labels, **kwargs)
        self.thresholds = tuple(thresholds) or (0.5,) * len(self.labels)
        if len(self.thresholds) != len(self.labels):
            raise ValueError(
                f"`thresholds` must have one number for each label. Received {len(self.thresholds)} numbers and "
                f"{len(self.labels)} labels."
            )

    def task_losses(self, y, outputs):
        """The mean over the labels, float32 (B,)."""
        return ops.mean(ops.binary_crossentropy(ops.cast(y, "float32"), outputs, from_logits=True), axis=-1)

    def labels_of_outputs(self, outputs):
        """The labels whose probability reaches their threshold."""
        reached = ops.convert_to_numpy(ops.sigmoid(outputs)) >= np.array(self.thresholds, np.float32)
        return [
            [name for name, is_there in zip(self.labels, row, strict=True) if is_there] for row in reached
        ]

    def numbered(self, x, y):
        """The columns of a table in the order of the classes."""
        return in_order_of(self.labels, y) if isinstance(x, Mapping) else y

    def get_config(self):
        return {**super().get_config(), "thresholds": list(self.thresholds)}

    @classmethod
    def _head_arguments(cls, head, labels=(), **arguments):
        head, arguments = super()._head_arguments(head, labels, **arguments)
        return head, {"thresholds": head.thresholds, **arguments}


@keras.saving.register_keras_serializable(package="albert_tf")
class TextRegressor(LinearTaskModel):
    """Predicts a number from the pooled output, trained with squared error (paper, section 4.1: STS-B).

    Args:
      encoder, classifier_dropout, preprocessor, seed: as for `LinearTaskModel`.

    Call args:
      inputs: a dict of integers (B, T): `input_ids`, `input_mask`, `token_type_ids`.

    Returns:
      float32 (B,). Labels are floats (B,), `label` in the dict.

    >>> model = TextRegressor.from_pretrained("runs/base")
    >>> model.predict((["A man sails."], ["A captain sails."]), verbose=0).shape
    (1,)
    """

    default_name, kind, use = "text_regressor", "regression", NUMBERS
    preprocessor_class, head_name, has_labels = TextPreprocessor, "regressor", False
    regressor: LinearHead

    def call(self, inputs, training=False):
        return self.regressor(self.pooled_output(inputs, training), training=training)[:, 0]

    def labels_of_outputs(self, outputs):
        return outputs.tolist()

    def task_losses(self, y, outputs):
        return ops.square(outputs - ops.reshape(ops.cast(y, "float32"), (-1,)))
