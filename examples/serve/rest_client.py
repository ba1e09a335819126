"""Asks a fill-mask export that TensorFlow Serving holds, over REST.

python -m examples.serve.rest_client "The captain [MASK] past the lighthouse."
"""

import argparse

from data_prep.errors import InputError
from examples.serve.json_request import post

URL = "http://localhost:8501/v1/models/albert"


def predict(url: str, texts: list[str], timeout: float = 60.0) -> list[dict]:
    """The outputs of each text, in Serving's row format: for fill-mask "pieces" and "probabilities".

    Args:
      url: of the model, as `URL`.
      texts: with [MASK] in them.
      timeout: seconds.

    Raises:
      InputError: no server answers, or it refuses the request.
    """
    return post(f"{url}:predict", {"instances": texts}, timeout)["predictions"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("texts", nargs="+")
    parser.add_argument("--url", default=URL)
    flags = parser.parse_args()
    try:
        predictions = predict(flags.url, flags.texts)
    except InputError as error:
        parser.error(str(error))
    for text, outputs in zip(flags.texts, predictions, strict=True):
        print(text)
        for pieces, probabilities in zip(outputs["pieces"], outputs["probabilities"], strict=True):
            print("   ", "  ".join(f"{p} {q:.3f}" for p, q in zip(pieces, probabilities, strict=True)))


if __name__ == "__main__":
    main()
