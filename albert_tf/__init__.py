"""ALBERT in TensorFlow and Keras 3. Names are imported on first use, so that `albert --help` is quick."""

import importlib

_HOME = {
    "AlbertConfig": "config",
    "InputError": "errors",
    "AlbertEncoder": "encoder",
    "MaskedLMHead": "heads",
    "SentenceOrderHead": "heads",
    "AlbertPretrainer": "models",
    "AdamW": "optimizers",
    "Lamb": "optimizers",
    "WarmupPolynomialDecay": "optimizers",
    "load_pretrained": "pretrained.loading",
}
__all__ = list(_HOME)


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
