"""The encoder's layers: embeddings, self-attention and feed-forward (paper, section 3.1).

Dimensions: B batch, T tokens, E embedding, H hidden, N heads, D = H / N, F feed-forward, V vocabulary,
P predictions, L layers. Between the embeddings and the output the activations stay flat, (B*T, H).

Where a part has `kernels`, it computes the same in less time and memory (`albert_tf/kernels/`).
"""

import functools

import keras
from keras import ops

from albert_tf.config import AlbertConfig

# Added to the scores of masked keys, as in the original: large enough to vanish in the softmax, small
# enough that a row in which every key is masked stays finite in any dtype.
MASKED_SCORE = -10000.0


def make_kernels():
    """New kernels for a model; None if the folder `albert_tf/kernels/` is not there."""
    try:
        from albert_tf.kernels import Kernels
    except ModuleNotFoundError:
        return None
    return Kernels()


def initializer(config: AlbertConfig, seeds) -> keras.initializers.Initializer:
    """Truncated normal, the original's initializer of every matrix."""
    return keras.initializers.TruncatedNormal(stddev=config.initializer_range, seed=seeds)


def dense(units: int, config: AlbertConfig, seeds, **kwargs) -> keras.layers.Dense:
    """A dense layer with the original's initializer and zero bias; `kwargs` go to `keras.layers.Dense`."""
    return keras.layers.Dense(units, kernel_initializer=initializer(config, seeds), **kwargs)


def activation(config: AlbertConfig, kernels=None):
    """The function that `hidden_act` names, from an array to an array of the same shape."""
    return {
        "gelu": kernels.gelu if kernels else functools.partial(ops.gelu, approximate=True),
        "gelu_erf": functools.partial(ops.gelu, approximate=False),
        "relu": ops.relu,
        "tanh": ops.tanh,
        "linear": lambda x: x,
    }[config.hidden_act]


def dropout(x, rate: float, seeds: keras.random.SeedGenerator, training: bool):
    """Inverted dropout; the masks follow from the state of `seeds`, which checkpoints keep."""
    if not training or rate == 0:
        return x
    if keras.backend.standardize_dtype(x.dtype) not in ("bfloat16", "float16"):
        return keras.random.dropout(x, rate, seed=seeds)
    # TensorFlow draws numbers in bfloat16 with 7 bits: a rate of .1 would become .1013, and the lowest is .008.
    keep = keras.random.uniform(ops.shape(x), seed=seeds, dtype="float32") >= rate
    return ops.where(keep, x * (1 / (1 - rate)), 0)


def gather_positions(sequence, positions):
    """Vectors of `sequence` (B, T, H) at `positions` (B, P), flat: (B*P, H)."""
    B, T, H = ops.shape(sequence)
    first = ops.arange(B, dtype="int32") * T  # where each row starts in the flat sequence
    flat = ops.reshape(ops.cast(positions, "int32") + ops.expand_dims(first, 1), (-1,))
    return ops.take(ops.reshape(sequence, (-1, H)), flat, axis=0)


def layer_norm(config: AlbertConfig, kernels=None, *, dtype) -> "LayerNorm":
    """LayerNorm under the name that excludes its parameters from weight decay and trust ratio."""
    return LayerNorm(kernels, epsilon=config.layer_norm_epsilon, name="layer_norm", dtype=dtype)


class LayerNorm(keras.layers.LayerNormalization):
    """LayerNormalization of arrays (rows, width), computed in float32."""

    def __init__(self, kernels=None, **kwargs):
        super().__init__(**kwargs)
        self.kernels = kernels

    def call(self, x, training=False):
        if self.kernels:
            return self.kernels.layer_norm(x, self.gamma, self.beta, self.epsilon, training)
        wide, gamma, beta = (ops.cast(array, "float32") for array in (x, self.gamma, self.beta))
        centred = wide - ops.mean(wide, axis=1, keepdims=True)
        variance = ops.mean(ops.square(centred), axis=1, keepdims=True)
        normal = centred / ops.sqrt(variance + self.epsilon)
        return ops.cast(normal * gamma + beta, x.dtype)


class Embeddings(keras.layers.Layer):
    """Word + token type + position at width E, then LayerNorm, dropout and projection to width H."""

    def __init__(self, config: AlbertConfig, seeds, kernels=None, **kwargs):
        super().__init__(name="embeddings", **kwargs)
        self.config, self.seeds, self.kernels = config, seeds, kernels
        self.initializer = initializer(config, seeds)
        self.layer_norm = layer_norm(config, kernels, dtype=self.dtype_policy)
        self.projection = (
            dense(config.hidden_size, config, seeds, name="embedding_projection", dtype=self.dtype_policy)
            if config.embedding_size != config.hidden_size
            else None
        )

    def build(self, input_shape=None):
        config, E = self.config, self.config.embedding_size
        self.output_shape = (None, config.hidden_size)  # for `summary`, as that of all our layers
        self.word_embeddings = self._add_table("word_embeddings", config.vocab_size)
        self.position_embeddings = self._add_table("position_embeddings", config.max_position_embeddings)
        self.token_type_embeddings = self._add_table("token_type_embeddings", config.type_vocab_size)
        self.layer_norm.build((None, E))
        if self.projection is not None:
            self.projection.build((None, E))

    def _add_table(self, name: str, rows: int):
        shape = (rows, self.config.embedding_size)
        # Cast after the lookup, so that JAX adds the gradients of equal tokens in float32: of [MASK], a batch has
        # thousands, and their sum in bfloat16 would stop growing. GPUs are also faster at float32 here.
        return self.add_weight(shape=shape, initializer=self.initializer, name=name, autocast=False)

    def call(self, input_ids, token_type_ids, training=False):
        T, dtype = ops.shape(input_ids)[1], self.compute_dtype
        types = ops.cast(self.token_type_embeddings, dtype)  # a small table
        x = ops.cast(ops.take(self.word_embeddings, input_ids, axis=0), dtype)  # (B, T, E)
        if self.kernels:
            x = x + self.kernels.look_up(types, token_type_ids, training)
        else:
            x = x + ops.take(types, token_type_ids, axis=0)
        x = x + ops.expand_dims(ops.cast(self.position_embeddings[:T], dtype), 0)
        x = self.layer_norm(ops.reshape(x, (-1, self.config.embedding_size)), training=training)  # (B*T, E)
        x = dropout(x, self.config.hidden_dropout_prob, self.seeds, training)
        return x if self.projection is None else self.projection(x)  # (B*T, H)


def mask_scores_of(input_mask, dtype: str):
    """What is added to the scores of the keys, (B, 1, 1, T): 0 for tokens, MASKED_SCORE for padding."""
    return ops.expand_dims((1.0 - ops.cast(input_mask, dtype)) * MASKED_SCORE, (1, 2))


class SelfAttention(keras.layers.Layer):
    """Multi-head self-attention with its output projection, residual connection and LayerNorm.

    Call args:
      x: (B*T, H).
      mask_scores: (B, 1, 1, T), added to the scores.
    """

    def __init__(self, config: AlbertConfig, seeds, kernels=None, **kwargs):
        super().__init__(**kwargs)
        self.config, self.seeds = config, seeds
        H, dtype = config.hidden_size, self.dtype_policy
        self.query = dense(H, config, seeds, name="query", dtype=dtype)
        self.key = dense(H, config, seeds, name="key", dtype=dtype)
        self.value = dense(H, config, seeds, name="value", dtype=dtype)
        self.output_dense = dense(H, config, seeds, name="output", dtype=dtype)
        self.layer_norm = layer_norm(config, kernels, dtype=dtype)
        self.attention_dropout = functools.partial(
            dropout, rate=config.attention_probs_dropout_prob, seeds=seeds
        )
        self.dropout = functools.partial(dropout, rate=config.hidden_dropout_prob, seeds=seeds)

    def build(self, input_shape=None):
        self.output_shape = (None, self.config.hidden_size)
        for layer in (self.query, self.key, self.value, self.output_dense, self.layer_norm):
            layer.build((None, self.config.hidden_size))

    def call(self, x, mask_scores, training=False):
        probs = self.attention_dropout(self.probabilities(x, mask_scores), training=training)  # (B, N, T, T)
        value = self._heads(self.value, x, mask_scores)  # (B, N, T, D)
        context = ops.transpose(ops.matmul(probs, value), (0, 2, 1, 3))  # (B, T, N, D)
        output = self.output_dense(ops.reshape(context, (-1, self.config.hidden_size)))  # (B*T, H)
        return self.layer_norm(x + self.dropout(output, training=training), training=training)

    def probabilities(self, x, mask_scores):
        """The weight of each key for each query: x (B*T, H) -> (B, N, T, T)."""
        query, key = (self._heads(layer, x, mask_scores) for layer in (self.query, self.key))  # (B, N, T, D)
        scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))
        return ops.softmax(scores * ops.shape(query)[-1] ** -0.5 + mask_scores)

    def _heads(self, layer, x, mask_scores):
        """The output of a dense layer, a matrix (T, D) for each head: (B*T, H) -> (B, N, T, D)."""
        N, T = self.config.num_attention_heads, ops.shape(mask_scores)[-1]
        return ops.transpose(ops.reshape(layer(x), (-1, T, N, self.config.hidden_size // N)), (0, 2, 1, 3))


class FeedForward(keras.layers.Layer):
    """H -> F -> H with residual connection and LayerNorm.

    Call args:
      x: (B*T, H).
    """

    def __init__(self, config: AlbertConfig, seeds, kernels=None, **kwargs):
        super().__init__(**kwargs)
        self.config, self.seeds = config, seeds
        F, H, dtype = config.intermediate_size, config.hidden_size, self.dtype_policy
        self.intermediate = dense(F, config, seeds, name="intermediate", dtype=dtype)
        self.activation = activation(config, kernels)
        self.output_dense = dense(H, config, seeds, name="output", dtype=dtype)
        self.layer_norm = layer_norm(config, kernels, dtype=dtype)
        self.dropout = functools.partial(dropout, rate=config.hidden_dropout_prob, seeds=seeds)

    def build(self, input_shape=None):
        self.output_shape = (None, self.config.hidden_size)
        self.intermediate.build((None, self.config.hidden_size))
        self.output_dense.build((None, self.config.intermediate_size))
        self.layer_norm.build((None, self.config.hidden_size))

    def call(self, x, training=False):
        hidden = self.activation(self.intermediate(x))  # (B*T, F)
        output = self.output_dense(hidden)  # (B*T, H)
        return self.layer_norm(x + self.dropout(output, training=training), training=training)
