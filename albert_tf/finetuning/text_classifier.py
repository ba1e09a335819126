"""A class for a text or a pair of texts."""

from collections.abc import Sequence

import keras

from albert_tf.finetuning.heads import LinearHead
from albert_tf.finetuning.task_model import TaskModel, cross_entropy, pooled_output
from albert_tf.model.encoder import AlbertEncoder


@keras.saving.register_keras_serializable(package="albert_tf")
class TextClassifier(TaskModel):
    """Logits of classes from the pooled output (paper, section 4.1: GLUE).

    Args:
      encoder: as for `TaskModel`.
      labels: the classes' names; a label is a number of this list.
      classifier_dropout: on the pooled output.
      preprocessor, seed: as for `TaskModel`.

    Call args:
      inputs: a dict of integers (B, T): `input_ids`, `input_mask`, `token_type_ids`.

    Returns:
      float32 logits (B, C). Labels are integers (B,), `label` in the dict.
    """

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
            encoder, preprocessor=preprocessor, seed=seed, **{"name": "text_classifier", **kwargs}
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
        self.build()

    def build(self, input_shape=None):
        self.classifier.build()
        self.built = True

    def call(self, inputs, training=False):
        pooled = pooled_output(self.encoder, inputs, training)
        return self.classifier(pooled, training=training)

    def task_losses(self, y, outputs):
        return cross_entropy(y, outputs)

    def get_config(self):
        return {
            **super().get_config(),
            "labels": list(self.labels),
            "classifier_dropout": self.classifier_dropout,
        }
