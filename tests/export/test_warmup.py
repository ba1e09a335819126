import pytest
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tensorflow.core.framework import tensor_pb2

from export.savedmodel import write_warmup

REQUESTS = [{"text": ["a"]}, {"text": ["b" * 50_000, "c [MASK]"]}]
MESSAGES = {  # tensorflow_serving/apis/{prediction_log,predict,model}.proto, the fields in use
    "PredictionLog": [(6, "predict_log", "PredictLog")],
    "PredictLog": [(1, "request", "PredictRequest")],
    "PredictRequest": [(1, "model_spec", "ModelSpec"), (2, "inputs", "Entry")],
    "ModelSpec": [(1, "name", None), (3, "signature_name", None)],
    "Entry": [(1, "key", None), (2, "value", "bytes")],
}


@pytest.fixture(scope="module")
def log_class():
    """The PredictionLog class, built by the protobuf library; a map is a repeated field of entries."""
    file = descriptor_pb2.FileDescriptorProto(name="log.proto", package="p", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    for message, fields in MESSAGES.items():
        made = file.message_type.add(name=message)
        for number, name, kind in fields:
            field = made.field.add(
                name=name, number=number, label=kinds.LABEL_OPTIONAL, type=kinds.TYPE_STRING
            )
            if kind == "bytes":
                field.type = kinds.TYPE_BYTES
            elif kind:
                field.type, field.type_name = kinds.TYPE_MESSAGE, f".p.{kind}"
            if kind == "Entry":
                field.label = kinds.LABEL_REPEATED
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("p.PredictionLog"))


def texts_of(tensor) -> list[str]:
    return [text.decode() for text in tf.make_ndarray(tensor)]


def test_requests_parse_as_protocol_buffers(tmp_path, log_class):
    file = write_warmup(tmp_path, REQUESTS)
    assert file == tmp_path / "assets.extra" / "tf_serving_warmup_requests"
    records = [record.numpy() for record in tf.data.TFRecordDataset(str(file))]
    for record, expected in zip(records, REQUESTS, strict=True):
        log = log_class.FromString(record)
        assert log.SerializeToString() == record  # without unknown fields
        request = log.predict_log.request
        assert request.model_spec.signature_name == "serving_default"
        (entry,) = request.inputs
        assert entry.key == "text"
        assert texts_of(tensor_pb2.TensorProto.FromString(entry.value)) == expected["text"]
