"""Which devices to train on. The only place that names a device."""

import tensorflow as tf

from albert_tf.errors import InputError


def make_strategy(tpu: str | None = None) -> tf.distribute.Strategy:
    """The strategy for a TPU, for all GPUs of this machine, or for one device.

    Args:
      tpu: a TPU's name, its grpc:// address, or "local" on a TPU VM; None for GPUs or the CPU.

    Raises:
      InputError: no TPU answers to that name.
    """
    if tpu:
        return _tpu_strategy(tpu)
    if len(tf.config.list_logical_devices("GPU")) > 1:
        return tf.distribute.MirroredStrategy()
    return tf.distribute.get_strategy()


def _tpu_strategy(tpu: str) -> tf.distribute.Strategy:
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=tpu)
        if tpu != "local":
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except Exception as error:  # the resolver raises anything from ValueError to googleapiclient's own
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(
            f"`--tpu` must name a TPU that this machine can reach. Received {tpu!r}, which failed with: "
            f"{reason} On a TPU VM use --tpu=local; without a TPU leave the flag out."
        ) from None
    return tf.distribute.TPUStrategy(resolver)
