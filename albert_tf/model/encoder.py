"""The encoder: factorized embeddings, layers that share parameters, pooler (paper, section 3.1)."""

import contextlib
import itertools
from collections.abc import Iterator
from types import SimpleNamespace

import keras
import numpy as np

from albert_tf.config import AlbertConfig, Remat
from albert_tf.model.execution import Blocks, Execution, remat_level, xla_is_faster
from albert_tf.model.inputs import check_names, encoder_arrays
from albert_tf.model.keras_model import AlbertModel
from albert_tf.model.layers import Embeddings, FeedForward, SelfAttention, dense, mask_scores_of
from albert_tf.parameters import distinct_layers

_LORA = "lora_"  # begins the names of its matrices in files of weights


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertEncoder(AlbertModel):
    """Token ids to contextual vectors (paper, section 3.1).

    Every sharing strategy of the paper's Table 4 is the same loop over two lists, the different attention
    and the different feed-forward parts: a shared list is shorter than the loop.

    Args:
      config: the model's shape.
      seed: seed of the initial weights and the dropout masks.
      remat: what the backward pass recomputes instead of storing it; the gradients are the same. False: nothing.
        "activations": attention probabilities and gelu, for a few percent more time. "layers" or True:
        everything inside each layer, for about a third more time.
      scan_layers: whether layers that share their parameters run as a loop. XLA then compiles one layer instead
        of L; shapes must be known.
      unpad: whether to skip padding if `training` is off, which is faster. The outputs at padding are then 0,
        and shapes inside depend on the mask, which TPUs and XLA do not support.

    Call args:
      inputs: a dict of integer arrays of shape (B, T): `input_ids`; `input_mask`, 1 for tokens and 0 for
        padding (default: all 1); `token_type_ids` (default: all 0).
      training: whether dropout is on.
      intermediates: whether to also return every layer's output.
      positions: integers (B, P) in [0, T). If given, only the outputs at these positions and `pooled_output` are
        computed in the last layer, which is all that pretraining needs.

    Returns:
      A dict: `sequence_output` (B, T, H), or (B, P, H) with `positions`; `pooled_output` (B, H), a tanh layer
      on the first token; and with `intermediates` also `embedding_output` (B, T, H), the input of the first
      layer, and `encoder_outputs`, a list of L arrays (B, T, H).

    >>> config = AlbertConfig(vocab_size=50, embedding_size=8, hidden_size=16, num_hidden_layers=2,
    ...                       num_attention_heads=2, intermediate_size=32)
    >>> outputs = AlbertEncoder(config)({"input_ids": np.array([[2, 7, 9, 3]])})
    >>> tuple(outputs["sequence_output"].shape), tuple(outputs["pooled_output"].shape)
    ((1, 4, 16), (1, 16))
    """

    def __init__(
        self,
        config: AlbertConfig,
        *,
        seed: int | None = None,
        remat: Remat = False,
        scan_layers: bool = False,
        unpad: bool = False,
        **kwargs,
    ):
        super().__init__(**{"name": "albert_encoder", **kwargs})
        self.config = config
        self.seed = seed
        self.remat = remat_level(remat)
        self.scan_layers = scan_layers
        self.unpad = unpad
        self.supports_jit = xla_is_faster()
        self.seeds = seeds = keras.random.SeedGenerator(seed, name="seeds")
        self._file_of_weights = SimpleNamespace(has_lora=False, lora={})  # not tracked as a part of the model
        dtype = self.dtype_policy
        attentions, ffns = distinct_layers(config)
        parts = {"remat": self.remat == "activations", "dtype": dtype}
        blocks = range(config.inner_group_num)
        self.embeddings = Embeddings(config, seeds, dtype=dtype)
        self.attentions = [
            [SelfAttention(config, seeds, name=f"attention_{g}_{i}", **parts) for i in blocks]
            for g in range(attentions)
        ]
        self.ffns = [
            [FeedForward(config, seeds, name=f"ffn_{g}_{i}", **parts) for i in blocks] for g in range(ffns)
        ]
        self.pooler = dense(config.hidden_size, config, seeds, name="pooler", dtype=dtype, activation="tanh")
        self.build((None, None))

    def build(self, input_shape=None):
        self.output_shape = (None, None, self.config.hidden_size)
        self.embeddings.build((None, None))
        for part in self._parts():
            part.build((None, self.config.hidden_size))
        self.pooler.build((None, self.config.hidden_size))
        self.built = True

    def call(self, inputs, training=False, intermediates=False, positions=None):
        if intermediates and positions is not None:
            raise ValueError(
                "`intermediates` covers all tokens and excludes `positions`. Received both; leave `positions` out."
            )
        input_ids, input_mask, token_type_ids = encoder_arrays(inputs, self.config)  # (B, T)
        x = self.embeddings(input_ids, token_type_ids, training=training)  # (B*T, H)
        execution = Execution(self, input_mask, positions, training)
        hidden = [execution.start(x)]
        # One layer at a time, or with `scan_layers` equal ones as a loop.
        for layers in execution.stretches(rolled=self.scan_layers and not intermediates):
            hidden.append(execution.run(layers, hidden[-1]))
        execution.finish()
        sequence = execution.to_sequence(hidden[-1])  # (B, T, H), or (B, 1 + P, H) with the first token
        outputs = {
            "sequence_output": sequence if positions is None else sequence[:, 1:],
            "pooled_output": self.pooler(sequence[:, 0]),  # (B, H)
        }
        if intermediates:
            embedded, *layer_outputs = map(execution.to_sequence, hidden)
            outputs |= {"embedding_output": embedded, "encoder_outputs": layer_outputs}
        return outputs

    def attention_maps(self, inputs) -> list:
        """What each token attends to in every layer, without dropout.

        Args:
          inputs: as for a call.

        Returns:
          L arrays (B, N, T, T): for each head and token, the weights of all tokens, which sum to 1; padding has 0.
          With `inner_group_num`, one array for each attention block.
        """
        check_names(inputs, *self.required_inputs)
        input_ids, input_mask, token_type_ids = encoder_arrays(inputs, self.config)
        mask_scores = mask_scores_of(input_mask, self.compute_dtype)
        x, maps = self.embeddings(input_ids, token_type_ids), []
        for layer in range(self.config.num_hidden_layers):
            for attention, ffn in self.blocks(layer):
                maps.append(attention.probabilities(x, mask_scores))
                x = ffn(attention(x, mask_scores))
        return maps

    def blocks(self, layer: int) -> Blocks:
        """The attention and feed-forward parts of a layer: of each list, the one at floor(layer * length / L)."""
        L = self.config.num_hidden_layers
        attentions = self.attentions[layer * len(self.attentions) // L]
        ffns = self.ffns[layer * len(self.ffns) // L]
        return list(zip(attentions, ffns, strict=True))

    def enable_lora(self, rank: int, alpha: float | None = None) -> None:
        """Freezes the encoder, and adds trainable low-rank matrices a and b to those of queries and values.

        LoRA (Hu et al. 2021): a matrix W becomes W + alpha / rank * a b, where b starts at 0. Layers that share a
        matrix share a and b, too. Call it once, before `compile`.

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

    def _lora_layers(self) -> list[keras.layers.Dense]:
        """The layers that LoRA changes."""
        return [
            layer
            for attention in itertools.chain(*self.attentions)
            for layer in (attention.query, attention.value)
        ]

    def save_own_variables(self, store):
        """Saves LoRA's matrices and those beside them, too, in a file of weights: Keras stores only their sum."""
        super().save_own_variables(store)
        if self.lora_rank and self._file_of_weights.has_lora:
            for name, variable in self._lora_variables().items():
                store[name] = keras.ops.convert_to_numpy(variable)

    @contextlib.contextmanager
    def lora_in_files(self) -> Iterator[None]:
        """Within this context, files have LoRA's matrices; a whole model is saved without, as an ordinary one."""
        self._file_of_weights.has_lora = True
        try:
            yield
        finally:
            self._file_of_weights.has_lora = False

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

    def _lora_variables(self) -> dict[str, keras.Variable]:
        """The matrices of the layers that LoRA changes, by the names in files of weights."""
        return {
            f"{_LORA}{number}_{variable.name.removeprefix(_LORA)}": variable
            for number, layer in enumerate(self._lora_layers())
            for variable in layer.variables
            if variable.name in ("kernel", "lora_kernel_a", "lora_kernel_b")
        }

    @property
    def lora_rank(self) -> int | None:
        """The rank of LoRA; None unless it is enabled."""
        return self.attentions[0][0].query.lora_rank

    @property
    def lora_alpha(self) -> float | None:
        """The numerator of LoRA's scale; None unless it is enabled."""
        return self.attentions[0][0].query.lora_alpha

    def _parts(self) -> list[keras.layers.Layer]:
        return list(itertools.chain[keras.layers.Layer](*self.attentions, *self.ffns))

    def layer_variables(self) -> list:
        """The variables of all layers, without embeddings and pooler."""
        return [variable for part in self._parts() for variable in part.weights]

    def get_config(self):
        return {
            **super().get_config(),
            "config": self.config.to_dict(),
            "seed": self.seed,
            "remat": self.remat,
            "scan_layers": self.scan_layers,
            "unpad": self.unpad,
        }

    @classmethod
    def arguments_of(cls, config):
        return {**config, "config": AlbertConfig.from_dict(config["config"])}
