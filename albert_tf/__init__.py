"""ALBERT in TensorFlow and Keras 3.

The public names are those that `__init__.pyi` imports. Each is imported on first use, which keeps `albert --help`
fast. So that Keras loads a file of the package's models all the same, it knows their names, too.
"""

import ast
import importlib
import os
from pathlib import Path

from albert_tf.keras_registry import register_when_imported

__version__ = "0.1.0"

# TensorFlow's C++ code reads this when it starts. 3 hides its errors, too: without a GPU it prints one for the
# missing driver; with a GPU they may say why it is not used. Some notes are printed all the same.
_HAS_GPU = any(Path("/dev", name).exists() for name in ("nvidiactl", "dxg"))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2" if _HAS_GPU else "3")

_HOME = {
    name.name: statement.module
    for statement in ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")).body
    if isinstance(statement, ast.ImportFrom) and statement.module
    for name in statement.names
}
__all__ = sorted(_HOME)


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


register_when_imported(__all__, __getattr__)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
