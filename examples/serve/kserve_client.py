"""Answers texts with a portable model whose model.onnx a server runs: OpenVINO Model Server, Triton, KServe.

python -m examples.serve.kserve_client portable "A quiet neighbour."

The client reads the whole exported folder, but uses only its vocabulary and tables; the server receives ids.
"""

import argparse
from collections.abc import Iterable, Iterator

import numpy as np

from albert_tf.runtime.engines import Arrays, Engine
from albert_tf.runtime.portable_folder import PortableFolder
from albert_tf.runtime.portable_loading import model_class
from albert_tf.runtime.portable_text_model import TextModel
from albert_tf.tasks.hub_names import MASKED_POSITIONS, TEXT_INPUTS
from data_prep.errors import InputError
from examples.serve.json_request import post

URL = "http://localhost:8000/v2/models/albert"
_TYPES = {"FP32": np.float32, "INT32": np.int32, "INT64": np.int64}


class KServeEngine(Engine):
    """A server with the REST form of KServe's protocol, version 2.

    Args:
      url: of the model, as `URL`.
      inputs: the names of the model's inputs.
      timeout: seconds.
    """

    def __init__(self, url: str = URL, inputs: tuple[str, ...] = TEXT_INPUTS, timeout: float = 60.0):
        self.name, self.inputs = "kserve", inputs
        self._url, self._timeout = url, timeout

    def outputs(self, batches: Iterable[Arrays]) -> Iterator[Arrays]:
        for batch in batches:
            yield self._infer(batch)

    def _infer(self, batch: Arrays) -> Arrays:
        inputs = [
            {
                "name": name,
                "shape": batch[name].shape,
                "datatype": "INT32",
                "data": batch[name].ravel().tolist(),
            }
            for name in self.inputs
        ]
        outputs = post(f"{self._url}/infer", {"inputs": inputs}, self._timeout)["outputs"]
        return {
            each["name"]: np.array(each["data"], _TYPES[each["datatype"]]).reshape(each["shape"])
            for each in outputs
        }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", help="what `albert export --format=onnx` wrote")
    parser.add_argument("texts", nargs="+")
    parser.add_argument("--url", default=URL)
    flags = parser.parse_args()
    try:
        print_answers(flags.folder, flags.url, flags.texts)
    except InputError as error:
        parser.error(str(error))


def print_answers(path: str, url: str, texts: list[str]) -> None:
    """Prints the answer to each text, of the model at `url` that was exported to the folder `path`."""
    folder = PortableFolder(path)
    inputs = (*TEXT_INPUTS, MASKED_POSITIONS) if folder.facts.kind == "fill-mask" else TEXT_INPUTS
    model = model_class(folder.facts)(folder, KServeEngine(url, inputs))
    if not isinstance(model, TextModel) or model.columns != ("text",):
        raise InputError(
            f"the folder must hold a model of single texts. Received --kind={folder.facts.kind}."
        )
    model.try_out()
    for text, answer in zip(texts, model.stream(texts), strict=True):
        print(text)
        for name, value in answer.items():
            print("   ", name, np.asarray(value).tolist())


if __name__ == "__main__":
    main()
