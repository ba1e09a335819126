"""Encoding a batch with ALBERT-base in each library, in processes that benchmarks/inference.py controls.

There is one process per library. A line of JSON on standard input, {"lengths": [..], "T": ..}, requests a batch of
random pieces whose rows have these numbers of tokens and are padded to T. The reply is a line of JSON on standard
output.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from albert_tf.lab.peer_processes import open_replies, serve_steps

CALIBRATION_FILE, CALIBRATION_ROWS = "calibration.npz", 64  # what 8-bit peers are calibrated on, (B, T) each
V, E, H, L, N, F = 30_000, 128, 768, 12, 12, 3072
# (ids, mask), int32 (B, T) each -> `sequence_output` as a NumPy array.
Encoder = Callable[[np.ndarray, np.ndarray], np.ndarray]


def batch(lengths: list[int], T: int) -> tuple[np.ndarray, np.ndarray]:
    """The ids and mask of a request, which are the same for every library."""
    mask = (np.arange(T) < np.array(lengths)[:, None]).astype("int32")
    ids = np.random.default_rng(T).integers(5, V, mask.shape).astype("int32")
    return ids * mask, mask


def albert_tf(files: Path, dtype: str) -> Encoder:
    """Our SavedModel, called from Python; its signature `tokens` returns what the other libraries return."""
    import tensorflow as tf

    exported = "bfloat16" if dtype == "int8" else dtype  # TensorFlow has no fast products of integers on CPUs
    tokens = tf.saved_model.load(str(files / f"saved_model_{exported}")).signatures["tokens"]

    def encode(ids, mask):
        inputs = {"input_ids": ids, "input_mask": mask, "segment_ids": np.zeros_like(ids)}
        return tokens(**{name: tf.constant(array) for name, array in inputs.items()})[
            "sequence_output"
        ].numpy()

    return encode


def _inputs(ids, mask) -> dict[str, np.ndarray]:
    """The inputs of our ONNX and LiteRT files."""
    return {"input_word_ids": ids, "input_mask": mask, "input_type_ids": np.zeros_like(ids)}


def portable(files: Path, dtype: str, engine: str) -> Encoder:
    """Our portable model."""
    from albert_tf import load_portable

    if dtype == "int8":  # what the engine leaves in floats is in its fastest float type
        folder, dtype = ("onnx_int8-static", "bfloat16") if engine == "openvino" else ("onnx_int8", "float32")
    else:
        folder = "onnx"
    encoder = load_portable(files / folder, engine=engine, precision=dtype)
    return lambda ids, mask: encoder(_inputs(ids, mask))["sequence_output"]


def onnx_runtime(files: Path, dtype: str) -> Encoder:
    """Our portable model on ONNX Runtime."""
    if dtype == "bfloat16":
        raise SystemExit("ONNX Runtime has no bfloat16 products on CPUs")
    return portable(files, dtype, "onnxruntime")


def openvino(files: Path, dtype: str) -> Encoder:
    """Our portable model on OpenVINO."""
    return portable(files, dtype, "openvino")


def litert(files: Path, dtype: str) -> Encoder:
    """Our LiteRT file."""
    from export.litert import litert_runner

    if dtype != "float32":
        raise SystemExit("LiteRT computes in float32")
    run = litert_runner(files / "litert/model.tflite")
    return lambda ids, mask: run(_inputs(ids, mask))["sequence_output"]


def hugging_face(files: Path, dtype: str, compiled: bool = False) -> Encoder:
    """AlbertModel, loaded from our Hugging Face export, with weights in `dtype`; int8 is PyTorch's dynamic one."""
    import torch
    from transformers import AlbertModel

    floats = "float32" if dtype == "int8" else dtype
    model = AlbertModel.from_pretrained(files / "huggingface", dtype=getattr(torch, floats)).eval()
    if dtype == "int8":
        model = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, torch.qint8)
    if compiled:
        torch._dynamo.config.recompile_limit = 64  # more shapes than its default of 8
        static, dynamic = torch.compile(model, dynamic=False), torch.compile(model, dynamic=True)

    def encode(ids, mask):
        # Batches without padding repeat a few shapes, which are worth compiling; real lengths rarely repeat.
        forward = model if not compiled else static if mask.all() else dynamic
        with torch.inference_mode():
            outputs = forward(input_ids=torch.from_numpy(ids), attention_mask=torch.from_numpy(mask))
            return outputs.last_hidden_state.float().numpy()

    return encode


def hugging_face_compiled(files: Path, dtype: str) -> Encoder:
    return hugging_face(files, dtype, compiled=True)


def hugging_face_openvino(files: Path, dtype: str) -> Encoder:
    """AlbertModel, converted by OpenVINO from PyTorch, as optimum-intel does; int8 is NNCF's, on our batches."""
    import openvino
    import torch
    from transformers import AlbertModel

    model = AlbertModel.from_pretrained(files / "huggingface").eval()
    names = ("input_ids", "attention_mask", "token_type_ids")
    example = {name: torch.ones((2, 8), dtype=torch.int64) for name in names}
    with torch.inference_mode():
        graph = openvino.convert_model(model, example_input=example)
    if dtype == "int8":
        graph = _calibrated(graph, dict(np.load(files / CALIBRATION_FILE)))
    hints = {
        "INFERENCE_PRECISION_HINT": "f32" if dtype == "float32" else "bf16",
        "PERFORMANCE_HINT": "LATENCY",
    }
    compiled = openvino.Core().compile_model(graph, "CPU", hints)

    def encode(ids, mask):
        inputs = (ids.astype("int64"), mask.astype("int64"), np.zeros(ids.shape, "int64"))
        return compiled(dict(zip(names, inputs, strict=True)))[0]

    return encode


def _calibrated(graph, batch: dict[str, np.ndarray]):
    """OpenVINO's graph in 8 bits, calibrated on the rows of a batch."""
    import nncf

    rows = [
        {name: array[i : i + 1].astype("int64") for name, array in batch.items()}
        for i in range(CALIBRATION_ROWS)
    ]
    return nncf.quantize(graph, nncf.Dataset(rows), model_type=nncf.ModelType.TRANSFORMER)


def keras_hub(files: Path, dtype: str) -> Encoder:
    """KerasHub's backbone in a tf.function; its weights are random."""
    if dtype == "int8":
        raise SystemExit("TensorFlow has no fast products of integers on CPUs")
    import keras
    import keras_hub
    import tensorflow as tf

    keras.config.set_dtype_policy("mixed_bfloat16" if dtype == "bfloat16" else "float32")
    backbone = keras_hub.models.AlbertBackbone(
        vocabulary_size=V, num_layers=L, num_heads=N, embedding_dim=E, hidden_dim=H, intermediate_dim=F
    )
    forward = tf.function(lambda inputs: backbone(inputs, training=False), reduce_retracing=True)

    def encode(ids, mask):
        inputs = {"token_ids": ids, "padding_mask": mask, "segment_ids": np.zeros_like(ids)}
        outputs = forward({name: tf.constant(array) for name, array in inputs.items()})
        return tf.cast(outputs["sequence_output"], tf.float32).numpy()

    return encode


def tensorflow_products(files: Path, dtype: str) -> Encoder:
    """Only the layers' products with weights, in TensorFlow: a lower bound for the time of `albert_tf`."""
    import tensorflow as tf

    shapes = {"query": (H, H), "key": (H, H), "value": (H, H), "output": (H, H), "up": (H, F), "down": (F, H)}
    weights = {
        name: tf.Variable(tf.cast(tf.random.stateless_normal(shape, (0, 0), stddev=0.02), dtype))
        for name, shape in shapes.items()
    }

    @tf.function(input_signature=[tf.TensorSpec((None, H), dtype)])
    def products(x):
        for _ in range(L):
            heads = [tf.matmul(x, weights[name]) for name in ("query", "key", "value")]
            x = tf.matmul(
                tf.matmul(tf.matmul(tf.add_n(heads), weights["output"]), weights["up"]), weights["down"]
            )
        return tf.cast(x, tf.float32)

    def encode(ids, mask):
        tokens = tf.cast(tf.ones((int(mask.sum()), H)), dtype)  # without padding, as in albert_tf
        return products(tokens).numpy()[np.newaxis]

    return encode


PEERS = {
    function.__name__: function
    for function in (
        albert_tf,
        tensorflow_products,
        onnx_runtime,
        openvino,
        litert,
        hugging_face,
        hugging_face_compiled,
        hugging_face_openvino,
        keras_hub,
    )
}
OURS = ("albert_tf", "onnx_runtime", "openvino", "litert")  # run what `albert export` wrote
SAME_WEIGHTS = (*OURS, "hugging_face", "hugging_face_compiled", "hugging_face_openvino")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "int8"), required=True)
    parser.add_argument("--files", type=Path, required=True, help="the folder of exports")
    flags = parser.parse_args()
    replies = open_replies()
    began = time.perf_counter()
    encode = PEERS[flags.peer](flags.files, flags.dtype)
    load_seconds = time.perf_counter() - began

    def step(request: str) -> dict:
        output = encode(*batch(**json.loads(request)))
        # Libraries differ in what they compute for padding; the first position of each row is never padding.
        return {"load_seconds": load_seconds, "value": float(np.mean(np.abs(output[:, 0])))}

    serve_steps(replies, step)


if __name__ == "__main__":
    main()
