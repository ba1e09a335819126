"""The optimizers and the learning-rate schedule of ALBERT's pretraining."""

from albert_tf.optimizers.adamw import CLIP_NORM, AdamW, adamw_update
from albert_tf.optimizers.lamb import Lamb, lamb_update
from albert_tf.optimizers.schedule import WarmupPolynomialDecay

__all__ = ["CLIP_NORM", "AdamW", "Lamb", "WarmupPolynomialDecay", "adamw_update", "lamb_update"]
