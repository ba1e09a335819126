"""A model as a LiteRT (TensorFlow Lite) file, for phones and boards.

model --trace--> SavedModel with signatures --TensorFlow's converter--> model.tflite
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf

from albert_tf.tasks.hub_names import MASKED_POSITIONS
from albert_tf.tasks.runner import FunctionRunner, Runner
from data_prep.console import silenced_stderr
from export.portable import Portable, Runtime

_FILE = "model.tflite"
_EXAMPLE = """
import numpy as np
from ai_edge_litert.interpreter import Interpreter

run = Interpreter("model.tflite").get_signature_runner("serving_default")
ids = np.array({ids}, "int32")
inputs = {{"input_word_ids": ids, "input_mask": np.ones_like(ids), "input_type_ids": {types}}}
print(run(**inputs)["{output}"].shape)
"""


def write_litert(portable: Portable, quantize: str, folder: Path, batches: Sequence = ()) -> Runner:
    """Writes model.tflite, which stores every weight that layers share once.

    Its signatures are the functions; their inputs are those of the TF2 hub encoder, int32, and for `mlm` also
    `masked_lm_positions` (B, P). `batches` is ignored: no quantization here needs calibration.
    """
    root = tf.Module()
    root.variables_of_the_model = [variable.value for variable in portable.model.variables]
    signatures = {name: _signature(function) for name, function in portable.functions.items()}
    with tempfile.TemporaryDirectory() as saved:
        tf.saved_model.save(root, saved, signatures=signatures)
        converter = tf.lite.TFLiteConverter.from_saved_model(saved, signature_keys=list(signatures))
        if quantize != "none":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if quantize == "float16":
            converter.target_spec.supported_types = [tf.float16]
        (folder / _FILE).write_bytes(converter.convert())
    return litert_runner(folder / _FILE)


def litert_runner(file: Path) -> Runner:
    """Runs a file that `write_litert` wrote: the signature `mlm` if positions are given."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(file))
    with silenced_stderr():  # LiteRT reports its delegate
        interpreter.allocate_tensors()
    runners = {name: interpreter.get_signature_runner(name) for name in interpreter.get_signature_list()}
    return FunctionRunner(
        lambda inputs: runners["mlm" if MASKED_POSITIONS in inputs else "serving_default"](**inputs)
    )


def _signature(function):
    """The function with its inputs by name, as in signatures."""

    @tf.function(autograph=False)
    def signature(**inputs):
        return function(inputs)

    return signature.get_concrete_function(**function.input_signature[0])


LITERT = Runtime("LiteRT", _FILE, _EXAMPLE, ("ai_edge_litert",), "litert", write_litert)
