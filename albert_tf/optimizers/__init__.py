"""The optimizers and the learning-rate schedule of ALBERT's pretraining."""

from albert_tf.optimizers.adamw import AdamW, adamw_update
from albert_tf.optimizers.lamb import Lamb, lamb_update
from albert_tf.optimizers.schedule import WarmupPolynomialDecay

__all__ = ["AdamW", "Lamb", "WarmupPolynomialDecay", "adamw_update", "lamb_update"]
