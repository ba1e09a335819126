"""tf.train.Example without TensorFlow: its three messages, declared for the protobuf library.

The fields' names and numbers are those of TensorFlow's feature.proto and example.proto, which are the format.
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELD = descriptor_pb2.FieldDescriptorProto
_LISTS = {"bytes_list": _FIELD.TYPE_BYTES, "float_list": _FIELD.TYPE_FLOAT, "int64_list": _FIELD.TYPE_INT64}


def _example_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="tensorflow", syntax="proto3")
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, (name, kind) in enumerate(_LISTS.items(), start=1):
        values = file.message_type.add(name=name)
        values.field.add(name="value", number=1, type=kind, label=_FIELD.LABEL_REPEATED)
        _message(feature, name, number, name).oneof_index = 0
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=_FIELD.TYPE_STRING, label=_FIELD.LABEL_OPTIONAL)
    _message(entry, "value", 2, "Feature")
    _message(features, "feature", 1, "Features.FeatureEntry").label = _FIELD.LABEL_REPEATED
    _message(file.message_type.add(name="Example"), "features", 1, "Features")
    # A pool of its own: the usual one belongs to TensorFlow, where that is loaded too.
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tensorflow.Example"))


def _message(parent, name: str, number: int, message: str):
    return parent.field.add(
        name=name,
        number=number,
        type=_FIELD.TYPE_MESSAGE,
        label=_FIELD.LABEL_OPTIONAL,
        type_name=f".tensorflow.{message}",
    )


Example = _example_class()
