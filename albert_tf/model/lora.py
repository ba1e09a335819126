"""LoRA (Hu et al. 2021): a frozen encoder with trainable low-rank matrices beside those of queries and values."""

import contextlib
import itertools
from collections.abc import Iterator
from types import SimpleNamespace

import keras
import numpy as np

from albert_tf.model.keras_model import AlbertModel

_LORA = "lora_"  # begins the names of its matrices in files of weights


class LowRankAdaptation(AlbertModel):
    """What LoRA adds to an encoder.

    Files of weights hold its matrices, too. Keras itself stores only their sum with those that they adapt, and so
    does a whole model, which is saved as an ordinary one.
    """

    seeds: keras.random.SeedGenerator
    attentions: list  # of lists of `SelfAttention`

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._file_of_weights = SimpleNamespace(has_lora=False, lora={})  # not tracked as a part of the model

    def enable_lora(self, rank: int, alpha: float | None = None) -> None:
        """Freezes the encoder, and adds trainable low-rank matrices a and b to those of queries and values.

        A matrix W becomes W + alpha / rank * a b, where b starts at 0. Layers that share a matrix share a and b,
        too. Call it once, before `compile`.

        Args:
          rank: number of columns of a and of rows of b.
          alpha: numerator of the scale. Default: the rank.

        Raises:
          ValueError: the rank is less than 1, or LoRA is enabled already.
        """
        if rank < 1:
            raise ValueError(f"`rank` must be at least 1. Received {rank}.")
        if self.lora_rank:
            raise ValueError(f"LoRA is enabled already, with rank {self.lora_rank}. Call `enable_lora` once.")
        for variable in self.trainable_variables:
            variable.trainable = False
        for layer in self._lora_layers():
            layer.enable_lora(rank, alpha, a_initializer=keras.initializers.HeUniform(self.seeds))

    @property
    def lora_rank(self) -> int | None:
        """The rank of LoRA; None unless it is enabled."""
        return self.attentions[0][0].query.lora_rank

    @property
    def lora_alpha(self) -> float | None:
        """The numerator of LoRA's scale; None unless it is enabled."""
        return self.attentions[0][0].query.lora_alpha

    def _lora_layers(self) -> list[keras.layers.Dense]:
        """The layers that LoRA changes."""
        return [
            layer
            for attention in itertools.chain(*self.attentions)
            for layer in (attention.query, attention.value)
        ]

    def _lora_variables(self) -> dict[str, keras.Variable]:
        """The matrices of the layers that LoRA changes, by the names in files of weights."""
        return {
            f"{_LORA}{number}_{variable.name.removeprefix(_LORA)}": variable
            for number, layer in enumerate(self._lora_layers())
            for variable in layer.variables
            if variable.name in ("kernel", "lora_kernel_a", "lora_kernel_b")
        }

    @contextlib.contextmanager
    def lora_in_files(self) -> Iterator[None]:
        """Within this context, what Keras saves has LoRA's matrices."""
        self._file_of_weights.has_lora = True
        try:
            yield
        finally:
            self._file_of_weights.has_lora = False

    def save_own_variables(self, store):
        super().save_own_variables(store)
        if self.lora_rank and self._file_of_weights.has_lora:
            for name, variable in self._lora_variables().items():
                store[name] = keras.ops.convert_to_numpy(variable)

    def load_own_variables(self, store):
        super().load_own_variables(store)
        names = [name for name in store.keys() if name.startswith(_LORA)]  # noqa: SIM118  an HDF5 group
        self._file_of_weights.lora = {name: np.array(store[name]) for name in names}

    def restore_lora(self) -> None:
        """Sets LoRA's matrices to those of the file of weights that Keras has read, which sets them to 0.

        If the file has none of this rank, they are as after `enable_lora`, beside the file's weights.
        """
        stored, self._file_of_weights.lora = self._file_of_weights.lora, {}
        if not self.lora_rank:
            return
        variables = self._lora_variables()
        fits = {name: array.shape for name, array in stored.items()} == {
            name: tuple(variable.shape) for name, variable in variables.items()
        }
        for name, variable in variables.items():
            if fits:
                variable.assign(stored[name])
            elif name.endswith("_a"):
                variable.assign(keras.initializers.HeUniform(self.seeds)(variable.shape))
