"""Clipping by the whole gradient's norm under any strategy, for Keras `fit`."""

import keras
import tensorflow as tf

from albert_tf.optimizers import CLIP_NORM, AdamW


@keras.saving.register_keras_serializable(package="albert_tf")
class ClippedAdamW(AdamW):
    """`AdamW` whose gradients are clipped to the global norm 1 once they are summed over all replicas.

    Keras' own `global_clipnorm` clips what each replica has before the sum, so that several devices train
    another model than one.

    Attributes:
      gradient_norm: a metric, the mean norm before clipping of the steps since it was reset.
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
            if gradient is not None  # of parts that the task does not use, such as the pooler
        ]
        gradients, variables = map(list, zip(*pairs, strict=True))
        replicas = tf.distribute.get_replica_context()
        count = replicas.num_replicas_in_sync
        if count > 1:
            gradients = replicas.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        gradients, norm = tf.clip_by_global_norm(gradients, CLIP_NORM)
        self.gradient_norm.update_state(norm)
        super().apply([gradient / count for gradient in gradients], variables)  # sums them again
