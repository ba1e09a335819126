"""What the backward pass computes again in place of keeping it."""

from typing import Literal

Remat = bool | Literal["activations", "layers"]


def remat_level(remat: Remat) -> Literal[False, "activations", "layers"]:
    """Of a model's argument `remat` the level; True is what it was when there was one level, whole layers.

    Levels:
      activations: what is large between the matrix products, attention probabilities and gelu.
      layers: all that is inside a layer, matrix products included.
    """
    if remat is True:
        return "layers"
    if remat is not False and remat not in ("activations", "layers"):
        raise ValueError(f"`remat` must be a bool, 'activations' or 'layers'. Received {remat!r}.")
    return remat
