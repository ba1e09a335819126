"""RUN/model.keras: the best weights of a fine-tuning run."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import keras

MODEL_FILE = "model.keras"


def save_model(model: keras.Model, run: Path) -> None:
    """Writes a model without its optimizer to RUN/model.keras; a failure leaves what is there."""
    aside = run / ".unfinished-model"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    try:
        with _not_compiled(model):
            model.save(aside / MODEL_FILE)
        (aside / MODEL_FILE).replace(run / MODEL_FILE)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


@contextlib.contextmanager
def _not_compiled(model: keras.Model) -> Iterator[None]:
    """Keras would write the moments too, three times the size, and whoever loads the file would need them."""
    optimizer, compiled = model.optimizer, model.compiled
    model.optimizer, model.compiled = None, False
    try:
        yield
    finally:
        model.optimizer, model.compiled = optimizer, compiled
