"""The task model that chooses one of several options."""

import keras
from keras import ops

from albert_tf.checkpoints.names import OPTIONS
from albert_tf.tasks.choice.features import ChoicePreprocessor
from albert_tf.tasks.heads import LinearHead, masked
from albert_tf.tasks.linear_task_model import LinearTaskModel

_INPUTS = ("input_ids", "input_mask", "token_type_ids")


@keras.saving.register_keras_serializable(package="albert_tf")
class MultipleChoice(LinearTaskModel):
    """Scores each option with the same head; a softmax over the options selects one (paper, section 4.1: RACE).

    Args:
      encoder, classifier_dropout, preprocessor, seed: as for `LinearTaskModel`.

    Call args:
      inputs: a dict of integers (B, C, T): `input_ids`, `input_mask`, `token_type_ids`; each of the C sequences
        is the passage, the question and one option. An `input_mask` of zeros marks padding, not an option.

    Returns:
      float32 logits (B, C). Labels are integers (B,), `label` in the dict.

    >>> model = MultipleChoice.from_pretrained("runs/base")
    >>> model.predict((["The captain sailed."], ["Who sailed?"], [["the cook", "the captain"]]), verbose=0).shape
    (1, 2)
    """

    default_name, kind, use = "multiple_choice", "multiple_choice", OPTIONS
    preprocessor_class, head_name, has_labels = ChoicePreprocessor, "scorer", False
    input_rank = 3
    scorer: LinearHead

    def labels_of_outputs(self, outputs):
        return outputs.argmax(axis=-1).tolist()

    def call(self, inputs, training=False):
        _, C, T = ops.shape(inputs["input_ids"])
        flat = {name: ops.reshape(inputs[name], (-1, T)) for name in _INPUTS if name in inputs}
        scores = self.scorer(self.pooled_output(flat, training), training=training)  # (B*C, 1)
        logits = ops.reshape(scores, (-1, C))
        if "input_mask" not in inputs:
            return logits
        # A sum of floats: OpenVINO finds wrong maxima of integers in some rows.
        tokens = ops.sum(ops.cast(inputs["input_mask"], "float32"), axis=-1)  # (B, C)
        return masked(logits, ops.cast(tokens == 0, "int32"))
