"""The encoder: factorized embeddings, layers that share parameters, pooler (paper, section 3.1).

Dimensions: B batch, T tokens, E embedding, H hidden, N heads, D = H / N, F feed-forward, V vocabulary,
P predictions, L layers. Between the embeddings and the output the activations stay flat, (B*T, H): a
matrix product with bias and activation is then one fused kernel on CPUs.
"""

import itertools

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.model.activations import activation
from albert_tf.model.layer_norm import layer_norm
from albert_tf.model.padding import Unpadding, dropped, restored, zero_padded
from albert_tf.model.remat import Remat, remat_level
from albert_tf.model.repetition import repeated
from albert_tf.model.softmax import attention_probabilities
from albert_tf.parameters import distinct_layers

# Added to the scores of masked keys, as in the original: large enough to vanish in the softmax, small
# enough that a row in which every key is masked stays finite in any dtype.
MASKED_SCORE = -10000.0
MASKS_PER_BLOCK = 3  # dropout masks: attention probabilities, attention output, feed-forward output


def initializer(config: AlbertConfig, seeds) -> keras.initializers.Initializer:
    """Truncated normal, the original's initializer of every matrix."""
    return keras.initializers.TruncatedNormal(stddev=config.initializer_range, seed=seeds)


def dense(
    units: int, config: AlbertConfig, seeds, *, name: str, dtype, activation=None
) -> keras.layers.Dense:
    """A dense layer with the original's initializer and zero bias."""
    return keras.layers.Dense(
        units, activation=activation, kernel_initializer=initializer(config, seeds), name=name, dtype=dtype
    )


def compiling_pays() -> bool:
    """Whether Keras `fit` should compile the model with XLA where it may choose (`jit_compile="auto"`).

    Not with TensorFlow on CPUs: the kernels that XLA makes there are slower than TensorFlow's own, in bfloat16
    by a factor of 2 to 3.5.
    """
    if keras.backend.backend() != "tensorflow":
        return True
    return any(keras.distribution.list_devices(kind) for kind in ("gpu", "tpu"))


def dropout(x, rate: float, seeds: keras.random.SeedGenerator, training: bool):
    """Inverted dropout; the masks follow from the state of `seeds`, which checkpoints keep."""
    return keras.random.dropout(x, rate, seed=seeds) if training and rate > 0 else x


def gather_positions(sequence, positions):
    """Vectors of `sequence` (B, T, H) at `positions` (B, P), flat: (B*P, H)."""
    B, T, H = ops.shape(sequence)
    first = ops.arange(B, dtype=positions.dtype) * T  # where each row starts in the flat sequence
    flat = ops.reshape(positions + ops.expand_dims(first, 1), (-1,))
    return ops.take(ops.reshape(sequence, (-1, H)), flat, axis=0)


class Embeddings(keras.layers.Layer):
    """Word + token type + position at width E, normalised, dropped out and projected to width H."""

    def __init__(self, config: AlbertConfig, seeds, **kwargs):
        super().__init__(name="embeddings", **kwargs)
        self.config, self.seeds = config, seeds
        self.initializer = initializer(config, seeds)
        self.layer_norm = layer_norm(config, dtype=self.dtype_policy)
        self.projection = (
            dense(config.hidden_size, config, seeds, name="embedding_projection", dtype=self.dtype_policy)
            if config.embedding_size != config.hidden_size
            else None
        )

    def build(self, input_shape=None):
        config, E = self.config, self.config.embedding_size
        self.word_embeddings = self._table("word_embeddings", config.vocab_size)
        self.position_embeddings = self._table("position_embeddings", config.max_position_embeddings)
        self.token_type_embeddings = self._table("token_type_embeddings", config.type_vocab_size)
        self.layer_norm.build((None, E))
        if self.projection is not None:
            self.projection.build((None, E))

    def _table(self, name: str, rows: int):
        shape = (rows, self.config.embedding_size)
        return self.add_weight(shape=shape, initializer=self.initializer, name=name)

    def call(self, input_ids, token_type_ids, training=False):
        T = ops.shape(input_ids)[1]
        x = ops.take(self.word_embeddings, input_ids, axis=0)  # (B, T, E)
        x = x + ops.take(self.token_type_embeddings, token_type_ids, axis=0)
        x = x + ops.expand_dims(self.position_embeddings[:T], 0)
        x = ops.reshape(x, (-1, self.config.embedding_size))  # (B*T, E)
        x = dropout(self.layer_norm(x), self.config.hidden_dropout_prob, self.seeds, training)
        return x if self.projection is None else self.projection(x)  # (B*T, H)


class SelfAttention(keras.layers.Layer):
    """Multi-head self-attention with its output projection, residual connection and LayerNorm.

    Args:
      remat: whether the backward pass computes the probabilities again, from queries and keys.

    Call args:
      x: (B*T, H), or (R, H) with `unpadding`.
      mask_scores: (B, 1, 1, T), added to the scores.
      positions: integers (B, P), the tokens whose output is wanted; None for all of `x`.
      unpadding: where the tokens of `x` are, if it is without padding. Only products of tokens with tokens
        need rows of one length; everything else costs what there are tokens.

    Returns:
      As `x`, or (B*P, H) with `positions`.
    """

    def __init__(self, config: AlbertConfig, seeds, *, remat: bool = False, **kwargs):
        super().__init__(**kwargs)
        self.config, self.seeds, self.remat = config, seeds, remat
        H, dtype = config.hidden_size, self.dtype_policy
        self.query = dense(H, config, seeds, name="query", dtype=dtype)
        self.key = dense(H, config, seeds, name="key", dtype=dtype)
        self.value = dense(H, config, seeds, name="value", dtype=dtype)
        self.output_dense = dense(H, config, seeds, name="output", dtype=dtype)
        self.layer_norm = layer_norm(config, dtype=dtype)

    def build(self, input_shape=None):
        for layer in (self.query, self.key, self.value, self.output_dense, self.layer_norm):
            layer.build((None, self.config.hidden_size))

    def call(self, x, mask_scores, positions=None, unpadding=None, training=False):
        H, N = self.config.hidden_size, self.config.num_attention_heads
        T, D = ops.shape(mask_scores)[-1], H // N
        asking, P, asked = x, T, unpadding  # from here on P is T where all outputs are wanted
        if positions is not None:
            sequence = ops.reshape(restored(x, unpadding), (-1, T, H))
            asking, P, asked = gather_positions(sequence, positions), ops.shape(positions)[1], None

        def split_heads(projected, length, axes):
            return ops.transpose(ops.reshape(projected, (-1, length, N, D)), axes)

        query = split_heads(restored(self.query(asking), asked), P, (0, 2, 1, 3))  # (B, N, P, D)
        key = split_heads(restored(self.key(x), unpadding), T, (0, 2, 3, 1))  # (B, N, D, T)
        value = split_heads(restored(self.value(x), unpadding), T, (0, 2, 1, 3))  # (B, N, T, D)
        rate = self.config.attention_probs_dropout_prob
        # Outside the function, so that it draws the same mask again.
        seed = self.seeds.next() if training and rate > 0 else None

        def attend(query, key, value):
            scores = ops.matmul(query, key)
            probs = attention_probabilities(scores, mask_scores, D**-0.5, training)  # (B, N, P, T)
            if seed is not None:
                with keras.StatelessScope([(self.seeds.state, seed)]):
                    probs = dropout(probs, rate, self.seeds, training)
            return ops.matmul(probs, value)  # (B, N, P, D)

        attended = (keras.remat(attend) if self.remat and training else attend)(query, key, value)
        context = ops.transpose(attended, (0, 2, 1, 3))  # (B, P, N, D)
        context = dropped(ops.reshape(context, (-1, H)), asked)  # (B*P, H)
        output = self.output_dense(context)
        output = dropout(output, self.config.hidden_dropout_prob, self.seeds, training)
        return self.layer_norm(asking + output)


class FeedForward(keras.layers.Layer):
    """H -> F -> H with residual connection and LayerNorm.

    Args:
      remat: whether the backward pass computes the activation function again, from what it is of.
    """

    def __init__(self, config: AlbertConfig, seeds, *, remat: bool = False, **kwargs):
        super().__init__(**kwargs)
        self.config, self.seeds, self.remat = config, seeds, remat
        F, H, dtype = config.intermediate_size, config.hidden_size, self.dtype_policy
        self.intermediate = dense(F, config, seeds, name="intermediate", dtype=dtype)
        self.output_dense = dense(H, config, seeds, name="output", dtype=dtype)
        self.layer_norm = layer_norm(config, dtype=dtype)

    def build(self, input_shape=None):
        self.intermediate.build((None, self.config.hidden_size))
        self.output_dense.build((None, self.config.intermediate_size))
        self.layer_norm.build((None, self.config.hidden_size))

    def call(self, x, training=False):
        function, hidden = activation(self.config, training), self.intermediate(x)  # (B*T, F)
        if self.remat and training:
            # Together with the product, whose gradient needs the function's value. Its variables are arguments, as
            # the scope that gives their values is closed in the backward pass.
            product = keras.remat(lambda x, kernel, bias: ops.add(ops.matmul(function(x), kernel), bias))
            kernel, bias = self.output_dense.kernel, self.output_dense.bias
            output = product(hidden, ops.convert_to_tensor(kernel), ops.convert_to_tensor(bias))
        else:
            output = self.output_dense(function(hidden))  # (B*T, H)
        output = dropout(output, self.config.hidden_dropout_prob, self.seeds, training)
        return self.layer_norm(x + output)


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertEncoder(keras.Model):
    """Token ids to contextual vectors (paper, section 3.1).

    Every sharing strategy of the paper's Table 4 is the same loop over two lists, the different attention
    and the different feed-forward parts: a shared list is shorter than the loop.

    Args:
      config: the model's shape.
      seed: seeds the initial weights and the dropout masks.
      remat: what the backward pass recomputes instead of keeping it, for the same gradients from less memory:
        False, nothing; "activations", what is large between the matrix products (attention probabilities and
        gelu), for a few percent more time; "layers" or True, all inside each layer, for about a third more.
      scan_layers: whether layers that share their parameters are a loop, compiled once and run as often as there
        are layers. For XLA, whose compilation takes as long as the code is; shapes must be known.
      unpad: whether to compute nothing for padding where `training` is off. The outputs there are 0. Shapes
        inside then depend on the mask, so not for TPUs and XLA.

    Call args:
      inputs: a dict of integer arrays of shape (B, T): `input_ids`; `input_mask`, 1 for tokens and 0 for
        padding (default: all 1); `token_type_ids` (default: all 0).
      training: whether dropout is on.
      intermediates: whether to return every layer's output too.
      positions: integers (B, P) in [0, T), if only the outputs there and `pooled_output` are wanted, as in
        pretraining: the last layer then computes nothing else.

    Returns:
      A dict: `sequence_output` (B, T, H), or (B, P, H) with `positions`; `pooled_output` (B, H), a tanh layer
      on the first token; and with `intermediates` also `embedding_output` (B, T, H), what enters the first
      layer, and `encoder_outputs`, a list of L arrays (B, T, H).
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
        self.supports_jit = compiling_pays()
        self.seeds = seeds = keras.random.SeedGenerator(seed, name="seeds")
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
        self.build()

    def build(self, input_shape=None):
        self.embeddings.build()
        for part in itertools.chain[keras.layers.Layer](*self.attentions, *self.ffns):
            part.build()
        self.pooler.build((None, self.config.hidden_size))
        self.built = True

    def call(self, inputs, training=False, intermediates=False, positions=None):
        if intermediates and positions is not None:
            raise ValueError("`intermediates` are those of all tokens: leave `positions` out.")
        input_ids = inputs["input_ids"]
        input_mask = inputs.get("input_mask", None)
        token_type_ids = inputs.get("token_type_ids", None)
        if input_mask is None:
            input_mask = ops.ones_like(input_ids)
        if token_type_ids is None:
            token_type_ids = ops.zeros_like(input_ids)
        L, T, H = self.config.num_hidden_layers, ops.shape(input_ids)[1], self.config.hidden_size
        self._check_length(T)

        mask_scores = (1.0 - ops.cast(input_mask, self.compute_dtype)) * MASKED_SCORE  # (B, T)
        mask_scores = ops.expand_dims(mask_scores, (1, 2))  # (B, 1, 1, T)
        unpadding = Unpadding(input_mask) if self.unpad and not training else None
        x = dropped(self.embeddings(input_ids, token_type_ids, training=training), unpadding)  # (B*T, H)
        values = self._values()
        if positions is not None:
            positions = ops.concatenate([ops.zeros_like(positions[:, :1]), positions], axis=1)  # the pooler's
        state = self.seeds.state * 1  # a copy, from which each layer's masks follow
        layer_outputs = [x]
        for layers in self._stretches(rolled=self.scan_layers and not intermediates):
            blocks, wanted = self._blocks(layers[0]), positions if L - 1 in layers else None

            def run(layer, x, blocks=blocks, wanted=wanted):
                first_masks = state + ops.cast(self._masks_a_layer * layer, state.dtype)
                return self._layer(blocks, values, x, mask_scores, wanted, unpadding, first_masks, training)

            x = repeated(run, layers, x)
            layer_outputs.append(x)
        if training:
            self.seeds.state.assign(state + ops.cast(self._masks_a_layer * L, state.dtype))

        if positions is None:
            sequence_output = ops.reshape(zero_padded(x, unpadding), (-1, T, H))
        else:
            sequence_output = ops.reshape(x, (-1, ops.shape(positions)[1], H))
        outputs = {
            "sequence_output": sequence_output if positions is None else sequence_output[:, 1:],
            "pooled_output": self.pooler(sequence_output[:, 0]),
        }
        if intermediates:
            shaped = [ops.reshape(zero_padded(output, unpadding), (-1, T, H)) for output in layer_outputs]
            outputs |= {"embedding_output": shaped[0], "encoder_outputs": shaped[1:]}
        return outputs

    def _values(self) -> dict:
        """The layers' variables by id, matrices in the compute dtype: cast once rather than at each use."""
        parts = itertools.chain[keras.layers.Layer](*self.attentions, *self.ffns)
        variables = itertools.chain.from_iterable(part.weights for part in parts)
        return {
            id(variable): ops.cast(
                variable, self.compute_dtype if len(variable.shape) == 2 else variable.dtype
            )
            for variable in variables
        }

    @property
    def _masks_a_layer(self):
        """By how much a layer moves the state of the seeds."""
        return ops.array([0, MASKS_PER_BLOCK * self.config.inner_group_num], "int32")

    def _blocks(self, layer: int) -> list[tuple[SelfAttention, FeedForward]]:
        """The attention and feed-forward parts that a layer is made of."""
        L = self.config.num_hidden_layers
        attentions = self.attentions[layer * len(self.attentions) // L]
        ffns = self.ffns[layer * len(self.ffns) // L]
        return list(zip(attentions, ffns, strict=True))

    def _stretches(self, rolled: bool) -> list[range]:
        """The layers in order, each by itself or, `rolled`, those together that are the same; the last one is
        always by itself, since it may compute less."""
        L = self.config.num_hidden_layers
        starts = [
            layer
            for layer in range(L)
            if not rolled or layer in (0, L - 1) or self._blocks(layer) != self._blocks(layer - 1)
        ]
        return [range(start, stop) for start, stop in itertools.pairwise([*starts, L])]

    def _layer(self, blocks, values, x, mask_scores, positions, unpadding, state, training):
        """One layer, a pure function of its input and its variables' `values` that can be run again.

        The masks follow from `state`, what the seeds' is before the layer, so running it again draws the same.
        """
        variables = [variable for block in blocks for part in block for variable in part.weights]

        def run(x, *values):
            with keras.StatelessScope([(self.seeds.state, state)]) as scope:
                for variable, value in zip(variables, values, strict=True):
                    scope.add_update((variable, value))  # the constructor would cast them back to float32
                for attention, ffn in blocks:
                    wanted = positions if ffn is blocks[-1][1] else None
                    x = attention(x, mask_scores, wanted, unpadding=unpadding, training=training)
                    x = ffn(x, training=training)
            return x

        # Everything else that `run` reads has no gradient, and keras.remat would compute one for an argument.
        return (keras.remat(run) if self.remat == "layers" else run)(x, *(values[id(v)] for v in variables))

    def _check_length(self, T):
        longest = self.config.max_position_embeddings
        if isinstance(T, int) and T > longest:
            raise ValueError(
                f"`input_ids` must not be longer than `max_position_embeddings`. Received {T} and {longest}."
            )

    def get_config(self):
        return {
            "config": self.config.to_dict(),
            "seed": self.seed,
            "remat": self.remat,
            "scan_layers": self.scan_layers,
            "unpad": self.unpad,
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config):
        return cls(AlbertConfig.from_dict(config.pop("config")), **config)
