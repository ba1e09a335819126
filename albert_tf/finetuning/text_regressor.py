"""A number for a text or a pair of texts."""

import keras
from keras import ops

from albert_tf.finetuning.heads import LinearHead
from albert_tf.finetuning.task_model import TaskModel, pooled_output
from albert_tf.model.encoder import AlbertEncoder


@keras.saving.register_keras_serializable(package="albert_tf")
class TextRegressor(TaskModel):
    """A number from the pooled output, trained with squared error (paper, section 4.1: STS-B).

    Args:
      encoder: as for `TaskModel`.
      classifier_dropout: on the pooled output.
      preprocessor, seed: as for `TaskModel`.

    Call args:
      inputs: a dict of integers (B, T): `input_ids`, `input_mask`, `token_type_ids`.

    Returns:
      float32 (B,). Labels are floats (B,), `label` in the dict.
    """

    def __init__(
        self,
        encoder: AlbertEncoder,
        *,
        classifier_dropout: float = 0.1,
        preprocessor=None,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(
            encoder, preprocessor=preprocessor, seed=seed, **{"name": "text_regressor", **kwargs}
        )
        self.classifier_dropout = classifier_dropout
        self.regressor = LinearHead(
            1, encoder.config, self.seeds, classifier_dropout, name="regressor", dtype=self.dtype_policy
        )
        self.build()

    def build(self, input_shape=None):
        self.regressor.build()
        self.built = True

    def call(self, inputs, training=False):
        pooled = pooled_output(self.encoder, inputs, training)
        return self.regressor(pooled, training=training)[:, 0]

    def task_losses(self, y, outputs):
        return ops.square(outputs - ops.reshape(ops.cast(y, "float32"), (-1,)))

    def get_config(self):
        return {**super().get_config(), "classifier_dropout": self.classifier_dropout}
