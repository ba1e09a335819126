"""Which of several options is right."""

import keras
from keras import ops

from albert_tf.finetuning.heads import LinearHead, masked
from albert_tf.finetuning.preprocessor import ChoicePreprocessor
from albert_tf.finetuning.task_model import TaskModel, cross_entropy, pooled_output
from albert_tf.model.encoder import AlbertEncoder

_INPUTS = ("input_ids", "input_mask", "token_type_ids")


@keras.saving.register_keras_serializable(package="albert_tf")
class MultipleChoice(TaskModel):
    """A score for each option by the same head, and a softmax over the options (paper, section 4.1: RACE).

    Args:
      encoder: as for `TaskModel`.
      classifier_dropout: on the pooled output.
      preprocessor, seed: as for `TaskModel`.

    Call args:
      inputs: a dict of integers (B, C, T): `input_ids`, `input_mask`, `token_type_ids`; each option with the
        passage and the question before it. An option whose `input_mask` is all 0 is no option.

    Returns:
      float32 logits (B, C). Labels are integers (B,), `label` in the dict.
    """

    preprocessor_class = ChoicePreprocessor
    input_rank = 3

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
            encoder, preprocessor=preprocessor, seed=seed, **{"name": "multiple_choice", **kwargs}
        )
        self.classifier_dropout = classifier_dropout
        self.scorer = LinearHead(
            1, encoder.config, self.seeds, classifier_dropout, name="scorer", dtype=self.dtype_policy
        )
        self.build()

    def build(self, input_shape=None):
        self.scorer.build()
        self.built = True

    def call(self, inputs, training=False):
        _, C, T = ops.shape(inputs["input_ids"])
        flat = {name: ops.reshape(inputs[name], (-1, T)) for name in _INPUTS if name in inputs}
        pooled = pooled_output(self.encoder, flat, training)  # (B*C, H)
        logits = ops.reshape(self.scorer(pooled, training=training), (-1, C))
        if "input_mask" not in inputs:
            return logits
        return masked(logits, 1 - ops.max(inputs["input_mask"], axis=-1))

    def task_losses(self, y, outputs):
        return cross_entropy(y, outputs)

    def get_config(self):
        return {**super().get_config(), "classifier_dropout": self.classifier_dropout}
