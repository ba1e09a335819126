"""ALBERT in TensorFlow and Keras 3. Names are imported on first use, which keeps `albert --help` fast."""

import importlib

_HOME = {
    "AlbertConfig": "albert_tf.config",
    "InputError": "data_prep.errors",
    "AlbertEncoder": "albert_tf.model.encoder",
    "MaskedLMHead": "albert_tf.model.heads",
    "SentenceOrderHead": "albert_tf.model.heads",
    "AlbertPretrainer": "albert_tf.model.pretrainer",
    "AdamW": "albert_tf.optimizers",
    "Lamb": "albert_tf.optimizers",
    "WarmupPolynomialDecay": "albert_tf.optimizers",
    "load_pretrained": "albert_tf.pretrained.loading",
}
__all__ = list(_HOME)


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
