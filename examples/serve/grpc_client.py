"""Asks a fill-mask export that TensorFlow Serving holds, over gRPC.

pip install tensorflow-serving-api
python -m examples.serve.grpc_client "The captain [MASK] past the lighthouse."
"""

import argparse

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

ADDRESS = "localhost:8500"


def predict(channel: grpc.Channel, model: str, texts: list[str], timeout: float = 60.0) -> dict:
    """The outputs of the signature `serving_default` as arrays whose first axis is the texts.

    Args:
      channel: to Serving.
      model: its name there.
      texts: with [MASK] in them.
      timeout: seconds.
    """
    request = predict_pb2.PredictRequest()
    request.model_spec.name = model
    request.model_spec.signature_name = "serving_default"
    request.inputs["text"].CopyFrom(tf.make_tensor_proto(texts))
    response = prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict(request, timeout)
    return {name: tf.make_ndarray(tensor) for name, tensor in response.outputs.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("texts", nargs="+")
    parser.add_argument("--address", default=ADDRESS)
    parser.add_argument("--model", default="albert")
    flags = parser.parse_args()
    with grpc.insecure_channel(flags.address) as channel:
        try:
            outputs = predict(channel, flags.model, flags.texts)
        except grpc.RpcError as error:  # gRPC's errors of a call are also calls
            parser.error(
                f"{flags.address} must be the address of a server that holds {flags.model}. Received: "
                f"{error.details()}."
            )
    for text, pieces in zip(flags.texts, outputs["pieces"], strict=True):
        print(text, *("\n    " + "  ".join(piece.decode() for piece in row) for row in np.array(pieces)))


if __name__ == "__main__":
    main()
