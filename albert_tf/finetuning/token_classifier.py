"""A class for each word of a sentence."""

from collections.abc import Sequence

import keras
from keras import ops

from albert_tf.finetuning.heads import LinearHead
from albert_tf.finetuning.preprocessor import WordsPreprocessor
from albert_tf.finetuning.task_model import TaskModel, cross_entropy
from albert_tf.model.encoder import AlbertEncoder


@keras.saving.register_keras_serializable(package="albert_tf")
class TokenClassifier(TaskModel):
    """Logits of classes from each token, of which the first of a word counts (as BERT does named entities).

    Args:
      encoder: as for `TaskModel`.
      labels: the classes' names; a label is a number of this list.
      classifier_dropout: on the encoder's output.
      preprocessor, seed: as for `TaskModel`.

    Call args:
      inputs: a dict of integers (B, T): `input_ids`, `input_mask`, `token_type_ids`.

    Returns:
      float32 logits (B, T, C). Labels are integers (B, T), below 0 for tokens that do not count; or `label` in the
      dict, with `label_weights` (B, T).
    """

    preprocessor_class = WordsPreprocessor
    has_token_outputs = True

    def __init__(
        self,
        encoder: AlbertEncoder,
        labels: Sequence[str],
        *,
        classifier_dropout: float = 0.1,
        preprocessor=None,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(
            encoder, preprocessor=preprocessor, seed=seed, **{"name": "token_classifier", **kwargs}
        )
        self.labels = tuple(labels)
        self.classifier_dropout = classifier_dropout
        self.classifier = LinearHead(
            len(self.labels),
            encoder.config,
            self.seeds,
            classifier_dropout,
            name="classifier",
            dtype=self.dtype_policy,
        )
        encoder.pooler.trainable = False  # nothing is made of it
        self.build()

    def build(self, input_shape=None):
        self.classifier.build()
        self.built = True

    def call(self, inputs, training=False):
        tokens = self.encoder(inputs, training=training)["sequence_output"]
        return self.classifier(tokens, training=training)

    def labels_of(self, x, y, sample_weight):
        """Labels of 0 and more, and a weight (B, T) that is 0 for those that do not count."""
        label_weights = x.get("label_weights") if isinstance(x, dict) else None
        y, sample_weight = super().labels_of(x, y, sample_weight)
        if y is None:
            return None, sample_weight
        weights = ops.cast(ops.cast(y, "int32") >= 0, "float32")
        for given in (label_weights, sample_weight):
            if given is not None:
                weights = weights * (given if ops.ndim(given) == 2 else ops.expand_dims(given, 1))
        return ops.maximum(ops.cast(y, "int32"), 0), weights

    def task_losses(self, y, outputs):
        return cross_entropy(y, outputs)

    def get_config(self):
        return {
            **super().get_config(),
            "labels": list(self.labels),
            "classifier_dropout": self.classifier_dropout,
        }
