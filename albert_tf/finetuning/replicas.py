"""What the replicas of a batch share: sums over all of them, and optimizers that clip the summed gradient."""

import keras
import tensorflow as tf

from albert_tf.optimizers import CLIP_NORM, AdamW, Lamb


def number_of_replicas() -> int:
    """How many replicas share a batch under the current strategy; 1 on backends without tf.distribute."""
    if keras.backend.backend() != "tensorflow":
        return 1
    return tf.distribute.get_strategy().num_replicas_in_sync


def sum_over_replicas(value):
    """The sum of a float32 array over all replicas, the same in each; carries no gradient."""
    if number_of_replicas() == 1:
        return value
    context = tf.distribute.get_replica_context()
    return context.all_reduce(tf.distribute.ReduceOp.SUM, value) if context else value


@keras.saving.register_keras_serializable(package="albert_tf")
class ClippedAdamW(AdamW):
    """`AdamW` that clips the gradient to the global norm 1 after it is summed over all replicas.

    Keras' own `global_clipnorm` clips each replica's part before the sum, so that training on several devices
    differs from training on one.

    Attributes:
      gradient_norm: a metric, the mean norm before clipping since the last reset.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.gradient_norm = keras.metrics.Mean(name="gradient_norm")

    def apply(self, grads, trainable_variables=None):
        pairs = [
            (tf.convert_to_tensor(gradient), variable)  # dense, so that all devices take the same path
            for gradient, variable in zip(
                grads, trainable_variables or self._trainable_variables, strict=True
            )
            if gradient is not None  # parts that the task does not use, such as the pooler, have none
        ]
        gradients, variables = map(list, zip(*pairs, strict=True))
        replicas = tf.distribute.get_replica_context()
        count = replicas.num_replicas_in_sync
        if count > 1:
            gradients = replicas.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        gradients, norm = tf.clip_by_global_norm(gradients, CLIP_NORM)
        self.gradient_norm.update_state(norm)
        super().apply([gradient / count for gradient in gradients], variables)  # sums them again


@keras.saving.register_keras_serializable(package="albert_tf")
class ClippedLamb(ClippedAdamW, Lamb):
    """The same with the update of `Lamb`."""
