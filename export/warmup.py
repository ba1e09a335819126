"""Requests with which TensorFlow Serving warms a model up before it takes traffic.

Serving reads a TFRecord of PredictionLog messages. They are written here byte by byte, because the package that
defines them, tensorflow-serving-api, brings gRPC along for four small messages:

    PredictionLog { 6: PredictLog { 1: PredictRequest { 1: ModelSpec { 3: signature_name }
                                                        2: inputs { 1: key, 2: TensorProto } } } }
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import tensorflow as tf

_FILE = "assets.extra/tf_serving_warmup_requests"


def write_warmup(folder: Path, batches: Sequence[Sequence[str] | Mapping[str, Sequence]]) -> Path:
    """Writes requests of texts into a SavedModel.

    Args:
      folder: of the SavedModel.
      batches: of each request the texts for the input `text`, or the strings for each input.

    Returns:
      The file.
    """
    file = folder / _FILE
    file.parent.mkdir()
    with tf.io.TFRecordWriter(str(file)) as writer:
        for batch in batches:
            inputs = batch if isinstance(batch, Mapping) else {"text": batch}
            writer.write(
                prediction_log(
                    {name: tf.make_tensor_proto(values, tf.string) for name, values in inputs.items()}
                )
            )
    return file


def prediction_log(inputs: dict, signature_name: str = "serving_default") -> bytes:
    """A serialized PredictionLog of one request.

    Args:
      inputs: name -> TensorProto, the signature's inputs.
      signature_name: which signature is called.
    """
    model_spec = _field(3, signature_name.encode())
    entries = [
        _field(1, name.encode()) + _field(2, tensor.SerializeToString()) for name, tensor in inputs.items()
    ]
    request = _field(1, model_spec) + b"".join(_field(2, entry) for entry in entries)
    return _field(6, _field(1, request))


def _field(number: int, content: bytes) -> bytes:
    """A field with a length: its tag (wire type 2), the length in groups of seven bits, the lowest first."""
    length, groups = len(content), []
    while length > 127:
        groups.append(length & 127 | 128)
        length >>= 7
    return bytes([number << 3 | 2, *groups, length]) + content
