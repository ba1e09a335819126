"""The runtimes that `experiments.identity` compares, each with the model in its own format."""

import importlib.metadata
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from data_prep.errors import InputError

LENGTH = 128  # tokens of a row, at most


class Outputs(NamedTuple):
    """Of each row the ids, None if the runtime takes them from us, the token types, and the vector."""

    version: str
    vectors: np.ndarray
    ids: list[list[int]] | None = None
    types: list[list[int]] | None = None


@dataclass
class Consumer:
    """A program that runs the model.

    Attributes:
      name: in the table.
      run: takes the rows, each of one text or two, and returns the outputs; raises `Missing` if it cannot run.
      share: of rows whose ids must be equal.
      why: what makes ids differ.
    """

    name: str
    run: Callable[[list[list[str]]], Outputs]
    share: float = 1.0
    why: str = ""


class Missing(Exception):  # noqa: N818 - no error
    """Why a consumer is skipped."""


class Failed(Missing):
    """Why a consumer that is installed did not run."""


def consumers(folder: Path, reference: Outputs, peers: str, transformers_js: str) -> Iterator[Consumer]:
    """All consumers.

    Args:
      folder: holds the model in each format.
      reference: the outputs of this library.
      peers: the Python that has transformers, sentence-transformers and keras-hub.
      transformers_js: a folder with node_modules, or "".
    """

    def peer(library: str, where: str) -> Callable[[list[list[str]]], Outputs]:
        return lambda rows: run_peer(peers, library, folder / where, rows)

    yield Consumer("Keras, converted to a SavedModel", lambda rows: run_savedmodel(folder, rows))
    for name, run in (
        ("ONNX Runtime", run_onnxruntime),
        ("OpenVINO", run_openvino),
        ("LiteRT", run_litert),
    ):
        yield Consumer(name, lambda rows, run=run: run(folder, reference))  # type: ignore[misc]
    ties = "two segmentations have the same score"
    yield Consumer("transformers", peer("transformers", "huggingface"), 0.998, ties)
    yield Consumer(
        "transformers, the folder for Transformers.js",
        peer("transformers", "onnx"),
        0.7,
        "AlbertTokenizer leaves Korean syllables in parts, drops vowel signs of Hindi, has no final sigma, and "
        "makes `` and '' quotation marks",
    )
    yield Consumer("sentence-transformers", peer("sentence_transformers", "huggingface"), 0.998, ties)
    yield Consumer(
        "KerasHub",
        peer("keras_hub", "kerashub"),
        0.2,
        "it does not lower-case, strip accents or replace quotes",
    )
    yield Consumer(
        "Transformers.js",
        lambda rows: run_javascript(transformers_js, folder / "onnx", rows),
        0.99,
        "it has NFKC in place of SentencePiece's table",
    )


def features_of(ids: list[list[int]], types: list[list[int]]) -> list[dict[str, np.ndarray]]:
    """Rows as the runner takes them."""
    arrays = (np.array(ids_row, np.int32) for ids_row in ids)
    return [
        {"input_ids": row, "token_type_ids": np.array(type_row, np.int32)}
        for row, type_row in zip(arrays, types, strict=True)
    ]


def means(run: Callable[[dict], Any], ids: list[list[int]], types: list[list[int]]) -> np.ndarray:
    """The mean of the vectors (B, T, H) that `run` returns for batches, of each row."""
    from albert_tf.tasks.runner import FunctionRunner

    def mean(batch):
        weights = batch["input_mask"][:, :, None].astype(np.float32)
        return {"mean": (np.asarray(run(batch)) * weights).sum(axis=1) / weights.sum(axis=1)}

    return np.stack([row["mean"] for row in FunctionRunner(mean).rows(features_of(ids, types))])


def run_reference(source: str | Path, rows: list[list[str]]) -> Outputs:
    """This library in Keras."""
    import keras

    from albert_tf.runtime.pretrained import load_pretrained
    from albert_tf.tasks.features import joined

    loaded = load_pretrained(source, dtype="float32")
    if loaded.tokenizer is None:
        raise InputError(f"--model must have a vocabulary. {source} has none.")
    encoded = [[*map(np.asarray, loaded.tokenizer.encode_batch(row)), None] for row in rows]
    features = [joined(row[0], row[1], loaded.tokenizer, LENGTH) for row in encoded]
    ids, types = ([row[name].tolist() for row in features] for name in ("input_ids", "token_type_ids"))
    vectors = means(lambda batch: loaded.encoder.predict_on_batch(batch)["sequence_output"], ids, types)
    return Outputs(f"Keras {keras.version()}", vectors, ids, types)


def run_savedmodel(folder: Path, rows: list[list[str]]) -> Outputs:
    """The exports of the preprocessor and of the encoder in TensorFlow."""
    import tensorflow as tf

    from albert_tf.tasks.hub_names import to_hub_names

    if importlib.util.find_spec("tensorflow_text") is None:
        raise Missing("tensorflow-text is not installed")
    preprocessor = tf.saved_model.load(str(folder / "preprocessor"))
    encoder = tf.saved_model.load(str(folder / "encoder"))
    ids, types = [], []
    for length in (1, 2):
        chosen = [row for row in rows if len(row) == length]
        for first in range(0, len(chosen), 256):
            columns = zip(*chosen[first : first + 256], strict=True)
            segments = [preprocessor.tokenize(tf.constant(list(column))) for column in columns]
            packed = preprocessor.bert_pack_inputs(segments, tf.constant(LENGTH))
            masks = packed["input_mask"].numpy() > 0
            for name, found in (("input_word_ids", ids), ("input_type_ids", types)):
                found += [row[m].tolist() for row, m in zip(packed[name].numpy(), masks, strict=True)]
    vectors = means(lambda batch: encoder(to_hub_names(batch))["sequence_output"], ids, types)
    return Outputs(f"TensorFlow {tf.__version__}", vectors, ids, types)


def _hub_inputs(batch: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    names = {"input_ids": "input_ids", "attention_mask": "input_mask", "token_type_ids": "token_type_ids"}
    return {theirs: batch[ours].astype(np.int64) for theirs, ours in names.items()}


def run_onnxruntime(folder: Path, reference: Outputs) -> Outputs:
    """onnx/model.onnx of Hugging Face's layout."""
    import onnxruntime

    session = onnxruntime.InferenceSession(
        folder / "onnx" / "onnx" / "model.onnx", providers=["CPUExecutionProvider"]
    )
    run = lambda batch: session.run(["last_hidden_state"], _hub_inputs(batch))[0]  # noqa: E731
    return Outputs(f"ONNX Runtime {onnxruntime.__version__}", means(run, reference.ids, reference.types))


def run_openvino(folder: Path, reference: Outputs) -> Outputs:
    """The same file."""
    if importlib.util.find_spec("openvino") is None:
        raise Missing("openvino is not installed")
    import openvino

    options = {"INFERENCE_PRECISION_HINT": "f32"}
    model = openvino.Core().compile_model(str(folder / "onnx" / "onnx" / "model.onnx"), "CPU", options)
    run = lambda batch: model(_hub_inputs(batch))["last_hidden_state"]  # noqa: E731
    version = importlib.metadata.version("openvino")
    return Outputs(f"OpenVINO {version}", means(run, reference.ids, reference.types))


def run_litert(folder: Path, reference: Outputs) -> Outputs:
    """model.tflite of the encoder."""
    from albert_tf.tasks.hub_names import to_hub_names
    from export.litert import litert_runner

    if importlib.util.find_spec("ai_edge_litert") is None:
        raise Missing("ai-edge-litert is not installed")
    runner = litert_runner(folder / "litert" / "model.tflite")
    vectors = means(
        lambda batch: runner(to_hub_names(batch))["sequence_output"], reference.ids, reference.types
    )
    return Outputs(f"LiteRT {importlib.metadata.version('ai-edge-litert')}", vectors)


def run_peer(python: str, library: str, folder: Path, rows: list[list[str]]) -> Outputs:
    """A library of the extra [peers], in a process of its own."""
    if library == "sentence_transformers":
        rows = [row for row in rows if len(row) == 1]
    probe = subprocess.run([python, "-c", f"import {library}"], capture_output=True, check=False)
    if probe.returncode:
        raise Missing(f"{library.replace('_', '-')} is not installed for --peers={python}")
    with tempfile.TemporaryDirectory() as scratch:
        rows_file, outputs = Path(scratch, "rows.json"), Path(scratch, "outputs.npz")
        rows_file.write_text(json.dumps(rows), encoding="utf-8")
        script = Path(__file__).with_name("identity_peers.py")
        _run([python, "-P", str(script), library, str(folder), str(rows_file), str(outputs)])
        with np.load(outputs) as arrays:
            ends = np.cumsum(arrays["lengths"])[:-1]
            ids, types = (
                [part.tolist() for part in np.split(arrays[name], ends)] for name in ("ids", "types")
            )
            return Outputs(str(arrays["version"]), arrays["vectors"], ids, types)


def run_javascript(modules: str, folder: Path, rows: list[list[str]]) -> Outputs:
    """Transformers.js on Node.js."""
    if not modules or shutil.which("node") is None:
        raise Missing("--transformers_js is not given" if not modules else "Node.js is not installed")
    with tempfile.TemporaryDirectory() as scratch:
        rows_file, outputs = Path(scratch, "rows.json"), Path(scratch, "outputs.jsonl")
        rows_file.write_text(json.dumps(rows), encoding="utf-8")
        script = Path(__file__).with_name("identity.mjs")
        _run(
            [
                "node",
                str(script),
                str(folder.absolute()),
                str(rows_file),
                str(outputs),
                str(Path(modules).absolute()),
            ]
        )
        version, *found = [json.loads(line) for line in outputs.read_text(encoding="utf-8").splitlines()]
    ids, types, vectors = zip(*found, strict=True)
    return Outputs(version, np.array(vectors), list(ids), list(types))


def _run(command: list[str]) -> None:
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        print(f"{' '.join(command)} failed:\n{process.stderr[-3000:]}", file=sys.stderr)
        raise Failed(f"failed: {(process.stderr.strip() or 'no reason').splitlines()[-1]}")
