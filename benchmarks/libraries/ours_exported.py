"""Inference with what `albert export` wrote: a SavedModel and the portable model."""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.batches import encoding_turns


def saved_model(files: str, config: dict[str, Any], dtype: str) -> Callable[..., dict]:
    """The SavedModel, called from Python; its signature `tokens` returns what the other libraries return."""
    import tensorflow as tf

    exported = "bfloat16" if dtype == "int8" else dtype  # TensorFlow has no fast products of integers on CPUs
    tokens = tf.saved_model.load(f"{files}/saved_model_{exported}").signatures["tokens"]

    def encode(ids, mask):
        inputs = {"input_ids": ids, "input_mask": mask, "segment_ids": np.zeros_like(ids)}
        outputs = tokens(**{name: tf.constant(array) for name, array in inputs.items()})
        return outputs["sequence_output"].numpy()

    return encoding_turns(encode, config["vocab_size"])


def portable(files: str, config: dict[str, Any], dtype: str, engine: str) -> Callable[..., dict]:
    """The portable model."""
    if engine == "onnxruntime" and dtype == "bfloat16":
        raise SystemExit("ONNX Runtime has no bfloat16 products on CPUs")
    from albert_tf import load_portable

    if dtype == "int8":  # what the engine leaves in floats is in its fastest float type
        folder, dtype = ("onnx_int8-static", "bfloat16") if engine == "openvino" else ("onnx_int8", "float32")
    else:
        folder = "onnx"
    encoder = load_portable(f"{files}/{folder}", engine=engine, precision=dtype)

    def encode(ids, mask):
        inputs = {"input_word_ids": ids, "input_mask": mask, "input_type_ids": np.zeros_like(ids)}
        return encoder(inputs)["sequence_output"]

    return encoding_turns(encode, config["vocab_size"])
