"""The encoder: factorized embeddings, layers that share parameters, pooler (paper, section 3.1)."""

import itertools
from typing import Literal

import keras
from keras import ops

from albert_tf.config import AlbertConfig, Remat
from albert_tf.model.inputs import check_names, encoder_arrays
from albert_tf.model.keras_model import xla_is_faster
from albert_tf.model.layers import (
    Embeddings,
    FeedForward,
    SelfAttention,
    dense,
    gather_positions,
    make_kernels,
    mask_scores_of,
)
from albert_tf.model.lora import LowRankAdaptation
from albert_tf.parameters import distinct_layers


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertEncoder(LowRankAdaptation):
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
      plain: whether to compute without `albert_tf/kernels/`: the same in more time and memory. `remat`,
        `scan_layers` and `unpad` then change nothing.

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
        plain: bool = False,
        **kwargs,
    ):
        super().__init__(**{"name": "albert_encoder", **kwargs})
        self.config = config
        self.seed = seed
        if remat not in (False, True, "activations", "layers"):
            raise ValueError(f"`remat` must be a bool, 'activations' or 'layers'. Received {remat!r}.")
        self.remat: Literal[False, "activations", "layers"] = "layers" if remat is True else remat
        self.scan_layers = scan_layers
        self.unpad = unpad
        self.plain = plain
        self.kernels = None if plain else make_kernels()
        self.supports_jit = xla_is_faster()
        self.seeds = keras.random.SeedGenerator(seed, name="seeds")
        attentions, ffns = distinct_layers(config)
        blocks, parts, dtype = (
            range(config.inner_group_num),
            (config, self.seeds, self.kernels),
            self.dtype_policy,
        )
        self.embeddings = Embeddings(*parts, dtype=dtype)
        self.attentions = [
            [SelfAttention(*parts, name=f"attention_{g}_{i}", dtype=dtype) for i in blocks]
            for g in range(attentions)
        ]
        self.ffns = [
            [FeedForward(*parts, name=f"ffn_{g}_{i}", dtype=dtype) for i in blocks] for g in range(ffns)
        ]
        self.pooler = dense(
            config.hidden_size, config, self.seeds, name="pooler", dtype=dtype, activation="tanh"
        )
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
        if positions is not None:  # with the first token, which the pooler reads
            positions = ops.concatenate([ops.zeros_like(positions[:, :1]), positions], axis=1)
        x = self.embeddings(input_ids, token_type_ids, training=training)  # (B*T, H)
        hidden = self._run_layers(x, input_mask, positions, training, intermediates)
        sequence = hidden[-1]  # (B, T, H), or (B, 1 + P, H)
        outputs = {
            "sequence_output": sequence if positions is None else sequence[:, 1:],
            "pooled_output": self.pooler(sequence[:, 0]),  # (B, H)
        }
        if intermediates:
            outputs |= {"embedding_output": hidden[0], "encoder_outputs": hidden[1:]}
        return outputs

    def _run_layers(self, x, input_mask, positions, training: bool, intermediates: bool) -> list:
        """The input of the first layer and the outputs of all: (B*T, H) -> arrays (B, T, H).

        With positions (B, P), the last is (B, P, H).
        """
        mask_scores = mask_scores_of(input_mask, self.compute_dtype)
        layers = [self.blocks(layer) for layer in range(self.config.num_hidden_layers)]
        if self.kernels:
            options = {"remat": self.remat, "scan_layers": self.scan_layers, "unpad": self.unpad}
            options |= {"training": training, "intermediates": intermediates}
            return self.kernels.run_layers(layers, x, mask_scores, input_mask, positions, **options)
        hidden = [x]
        for blocks in layers:
            for attention, ffn in blocks:
                x = ffn(attention(x, mask_scores, training=training), training=training)
            hidden.append(x)
        hidden = [ops.reshape(x, (*ops.shape(input_mask), self.config.hidden_size)) for x in hidden]
        if positions is not None:
            wanted = gather_positions(hidden[-1], positions)  # (B*P, H)
            hidden[-1] = ops.reshape(wanted, (*ops.shape(positions), self.config.hidden_size))
        return hidden

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

    def blocks(self, layer: int) -> list[tuple[SelfAttention, FeedForward]]:
        """The attention and feed-forward parts of a layer: of each list, the one at floor(layer * length / L)."""
        L = self.config.num_hidden_layers
        attentions = self.attentions[layer * len(self.attentions) // L]
        ffns = self.ffns[layer * len(self.ffns) // L]
        return list(zip(attentions, ffns, strict=True))

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
            "plain": self.plain,
        }

    @classmethod
    def arguments_of(cls, config):
        return {**config, "config": AlbertConfig.from_dict(config["config"])}
