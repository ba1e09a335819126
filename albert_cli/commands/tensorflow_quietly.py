"""TensorFlow without its greeting."""

import os
import sys
from pathlib import Path


def import_tensorflow() -> None:
    """Imports TensorFlow without the notes on CUDA and oneDNN that it writes from C++ while starting."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.stderr.flush()
    saved = os.dup(2)
    try:
        with Path(os.devnull).open("wb") as silence:
            os.dup2(silence.fileno(), 2)
        import tensorflow as tf

        tf.config.list_physical_devices()
    finally:
        os.dup2(saved, 2)
        os.close(saved)
