"""How the vector of a text follows from the vectors of its tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from data_prep.errors import InputError

if TYPE_CHECKING:  # --help does without NumPy
    import numpy as np

# sentence-transformers' names; "pooled" is the encoder's pooled output, which is not one of them.
Pooling = Literal["mean", "cls", "max", "weightedmean", "pooled"]


@dataclass(frozen=True)
class VectorDense:
    """A dense layer on the pooled vector.

    Attributes:
      kernel: float32 (H, D).
      bias: float32 (D,).
      activation: a name in Keras, such as "tanh"; "linear" for none.
    """

    kernel: np.ndarray = field(repr=False)
    bias: np.ndarray = field(repr=False)
    activation: str = "tanh"


@dataclass(frozen=True)
class SentenceVectors:
    """What makes one vector from the vectors of a text's tokens.

    Attributes:
      pooling: the mean of all tokens, [CLS] and [SEP] included; the vector of [CLS]; each element's maximum; the
        mean with the weights 1, 2, 3 and so on of the tokens' positions; or the encoder's pooled output.
      dense: a layer on the pooled vector.
      normalize: whether the vector is divided by its length.
      max_seq_length: longest text, in tokens with [CLS] and [SEP]; None for as many as the model has positions.
      unsupported: what modules.json of sentence-transformers names and nothing here computes; "" if all is.
    """

    pooling: Pooling = "mean"
    dense: VectorDense | None = None
    normalize: bool = False
    max_seq_length: int | None = None
    unsupported: str = ""

    def __str__(self) -> str:
        layer = f", a dense layer to {len(self.dense.bias)} numbers" if self.dense else ""
        return f"pooling {self.pooling}{layer}{', normalized' if self.normalize else ''}"

    def check(self) -> None:
        """Raises InputError if the vectors that the model was trained for cannot be computed here."""
        if self.unsupported:
            raise InputError(
                f"modules.json beside the model asks for {self.unsupported}, which is not computed here: use "
                "sentence-transformers, or remove modules.json for the mean of the tokens' vectors."
            )


MEAN = SentenceVectors()
