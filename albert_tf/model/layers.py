"""The encoder's layers: embeddings, self-attention and feed-forward (paper, section 3.1).

Dimensions: B batch, T tokens, E embedding, H hidden, N heads, D = H / N, F feed-forward, V vocabulary,
P predictions, L layers. Between the embeddings and the output the activations stay flat, (B*T, H): a
matrix product with bias and activation is then one fused kernel on CPUs.
"""

import functools

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.kernels.formulas import (
    attention_probabilities,
    gelu_after_product,
    gelu_of_sum,
    normalize_rows,
    normalize_rows_without_gradient,
    normalize_sum,
    opaque,
)
from albert_tf.kernels.padding import remove_padding, restore_padding

# Added to the scores of masked keys, as in the original: large enough to vanish in the softmax, small
# enough that a row in which every key is masked stays finite in any dtype.
MASKED_SCORE = -10000.0


def initializer(config: AlbertConfig, seeds) -> keras.initializers.Initializer:
    """Truncated normal, the original's initializer of every matrix."""
    return keras.initializers.TruncatedNormal(stddev=config.initializer_range, seed=seeds)


def dense(units: int, config: AlbertConfig, seeds, **kwargs) -> keras.layers.Dense:
    """A dense layer with the original's initializer and zero bias; `kwargs` go to `keras.layers.Dense`."""
    return keras.layers.Dense(units, kernel_initializer=initializer(config, seeds), **kwargs)


def layer_norm(config: AlbertConfig, *, dtype) -> "LayerNorm":
    """LayerNorm under the name that excludes its parameters from weight decay and trust ratio."""
    return LayerNorm(epsilon=config.layer_norm_epsilon, name="layer_norm", dtype=dtype)


def activation(config: AlbertConfig):
    """The function that `hidden_act` names, from an array to an array of the same shape."""
    return {
        "gelu": gelu_after_product,
        "gelu_erf": lambda x: ops.gelu(x, approximate=False),
        "relu": ops.relu,
        "tanh": ops.tanh,
        "linear": lambda x: x,
    }[config.hidden_act]


def activation_of_sum(config: AlbertConfig):
    """`activation` for training: a function of a product (rows, width) and its bias (width,)."""
    if config.hidden_act == "gelu":
        return gelu_of_sum
    return lambda product, bias: activation(config)(ops.add(product, bias))


def product_and_bias(layer: keras.layers.Dense, x):
    """The two arrays whose sum is `layer(x)`: (rows, width) and (width,)."""
    bias = ops.cast(layer.bias, x.dtype)
    if layer.quantization_mode:  # the layer scales its product before it adds the bias
        return layer(x), ops.zeros_like(bias)
    return ops.matmul(x, layer.kernel), bias


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


class LayerNorm(keras.layers.LayerNormalization):
    """LayerNormalization of arrays (rows, width), with formulas of its own."""

    def call(self, x, training=False):
        formula = normalize_rows if training else normalize_rows_without_gradient
        return formula(x, self.gamma, self.beta, self.epsilon)

    def of_sum(self, x, product, bias):
        """The layer of x + (product + bias), for training: arrays (rows, width), but the bias (width,)."""
        return normalize_sum(x, product, bias, self.gamma, self.beta, self.epsilon)


class Embeddings(keras.layers.Layer):
    """Word + token type + position at width E, then LayerNorm, dropout and projection to width H."""

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
        x = ops.cast(ops.take(self.word_embeddings, input_ids, axis=0), dtype)  # (B, T, E)
        x = x + self._token_types(token_type_ids, training)
        x = x + ops.expand_dims(ops.cast(self.position_embeddings[:T], dtype), 0)
        x = ops.reshape(x, (-1, self.config.embedding_size))  # (B*T, E)
        x = dropout(self.layer_norm(x), self.config.hidden_dropout_prob, self.seeds, training)
        return x if self.projection is None else self.projection(x)  # (B*T, H)

    def _token_types(self, token_type_ids, training):
        """The rows of the token types' table, (B, T, E)."""
        table = ops.cast(self.token_type_embeddings, self.compute_dtype)
        if not training:
            return ops.take(table, token_type_ids, axis=0)
        # As a product, whose gradient is a product, too. That of a lookup adds all tokens of the batch to the same
        # few rows, one after the other.
        return ops.matmul(ops.one_hot(token_type_ids, self.config.type_vocab_size, dtype=table.dtype), table)


def mask_scores_of(input_mask, dtype: str):
    """What is added to the scores of the keys, (B, 1, 1, T): 0 for tokens, MASKED_SCORE for padding."""
    return ops.expand_dims((1.0 - ops.cast(input_mask, dtype)) * MASKED_SCORE, (1, 2))


def has_fused_attention(T: int, dtype: str) -> bool:
    """Whether `fused_attention` is one kernel, which keeps no probabilities.

    With PyTorch; with JAX on GPUs, whose cuDNN has it for even lengths in half precision. JAX otherwise, and
    TensorFlow, would keep more for the backward pass than `attention_probabilities` does.
    """
    if keras.backend.backend() == "jax":
        is_gpu = keras.distribution.list_devices()[0].startswith("gpu")
        return T % 2 == 0 and dtype != "float32" and is_gpu
    return keras.backend.backend() == "torch"


def fused_attention(query, key, value, mask_scores):
    """The mean of `value` for each query, weighted by softmax(query key^T / sqrt(D) + mask_scores).

    Args:
      query: (B, T, N, D).
      key: (B, T, N, D).
      value: (B, T, N, D).
      mask_scores: (B, 1, 1, T), for the keys: 0, or MASKED_SCORE.
    """
    B, T = ops.shape(query)[:2]
    mask_scores = ops.broadcast_to(mask_scores, (B, 1, T, T))  # in full, because cuDNN takes no other
    if keras.backend.backend() == "jax":  # which would compute the gradient of a bias
        return ops.dot_product_attention(query, key, value, mask=mask_scores == 0)
    # PyTorch's result would not be finite for a mask of all keys.
    return ops.dot_product_attention(query, key, value, bias=mask_scores)


def add_and_normalize(block: "SelfAttention | FeedForward", x, product, bias):
    """What a block ends with in training: dropout of product + bias, residual connection and LayerNorm."""
    rate = block.config.hidden_dropout_prob
    if rate > 0:
        return block.layer_norm(
            x + dropout(ops.add(product, bias), rate, block.seeds, training=True), training=True
        )
    return block.layer_norm.of_sum(x, product, bias)


class SelfAttention(keras.layers.Layer):
    """Multi-head self-attention with its output projection, residual connection and LayerNorm.

    Args:
      remat: whether the backward pass recomputes the probabilities from queries and keys.

    Call args:
      x: (B*T, H), or (R, H) with `unpadding`.
      mask_scores: (B, 1, 1, T), added to the scores.
      positions: integers (B, P), the tokens whose output is wanted; None for all of `x`.
      unpadding: where the tokens of `x` are, if its padding was removed. Padding is restored only for the products
        of tokens with tokens, which need rows of equal length.

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
        self.output_shape = (None, self.config.hidden_size)
        for layer in (self.query, self.key, self.value, self.output_dense, self.layer_norm):
            layer.build((None, self.config.hidden_size))

    def call(self, x, mask_scores, positions=None, unpadding=None, training=False):
        H, N = self.config.hidden_size, self.config.num_attention_heads
        T, D = ops.shape(mask_scores)[-1], H // N
        asking, P, asking_unpadding = x, T, unpadding  # from here on P is T if all outputs are wanted
        if positions is not None:
            sequence = ops.reshape(restore_padding(x, unpadding), (-1, T, H))
            asking, P, asking_unpadding = gather_positions(sequence, positions), ops.shape(positions)[1], None

        # As three arrays: XLA would compute two of the products as one, which it then copies apart.
        asking, for_key, for_value = opaque(asking, x, x)
        query = restore_padding(self.query(asking), asking_unpadding)
        key = restore_padding(self.key(for_key), unpadding)
        value = restore_padding(self.value(for_value), unpadding)
        query = ops.reshape(query, (-1, P, N, D))
        key, value = (ops.reshape(projected, (-1, T, N, D)) for projected in (key, value))
        has_dropout = training and self.config.attention_probs_dropout_prob > 0  # the fused kernels have none
        is_fused = positions is None and not has_dropout and has_fused_attention(T, self.compute_dtype)
        attend = fused_attention if is_fused else functools.partial(self._attend, training=training)
        context = ops.reshape(attend(query, key, value, mask_scores), (-1, H))  # (B*P, H)
        context = remove_padding(context, asking_unpadding)
        if training:
            return add_and_normalize(self, asking, *product_and_bias(self.output_dense, context))
        return self.layer_norm(asking + self.output_dense(context))

    def probabilities(self, x, mask_scores):
        """The weight of each key for each query, without dropout: x (B*T, H) -> (B, N, T, T)."""
        N, T = self.config.num_attention_heads, ops.shape(mask_scores)[-1]
        D = self.config.hidden_size // N
        query, key = (ops.reshape(layer(x), (-1, T, N, D)) for layer in (self.query, self.key))
        scores = ops.einsum("btnd,bsnd->bnts", query, key)
        return attention_probabilities(scores, mask_scores, D**-0.5)

    def _attend(self, query, key, value, mask_scores, training):
        """The weighted mean of `value` for each query: (B, P, N, D), with `key` and `value` (B, T, N, D)."""
        rate, scale = self.config.attention_probs_dropout_prob, ops.shape(query)[-1] ** -0.5
        # Drawn outside the function, so that recomputing it draws the same mask.
        seed = self.seeds.next() if training and rate > 0 else None

        def attend(query, key, value):
            scores = ops.matmul(query, key)
            probs = attention_probabilities(scores, mask_scores, scale, training)  # (B, N, P, T)
            if seed is not None:
                with keras.StatelessScope([(self.seeds.state, seed)]):
                    probs = dropout(probs, rate, self.seeds, training)
            return ops.matmul(probs, value)

        query, value = (ops.transpose(array, (0, 2, 1, 3)) for array in (query, value))  # (B, N, P or T, D)
        key = ops.transpose(key, (0, 2, 3, 1))  # (B, N, D, T)
        attended = (keras.remat(attend) if self.remat and training else attend)(query, key, value)
        return ops.transpose(attended, (0, 2, 1, 3))


class FeedForward(keras.layers.Layer):
    """H -> F -> H with residual connection and LayerNorm.

    Args:
      remat: whether the backward pass recomputes the activation function.
    """

    def __init__(self, config: AlbertConfig, seeds, *, remat: bool = False, **kwargs):
        super().__init__(**kwargs)
        self.config, self.seeds, self.remat = config, seeds, remat
        F, H, dtype = config.intermediate_size, config.hidden_size, self.dtype_policy
        self.intermediate = dense(F, config, seeds, name="intermediate", dtype=dtype)
        self.output_dense = dense(H, config, seeds, name="output", dtype=dtype)
        self.layer_norm = layer_norm(config, dtype=dtype)

    def build(self, input_shape=None):
        self.output_shape = (None, self.config.hidden_size)
        self.intermediate.build((None, self.config.hidden_size))
        self.output_dense.build((None, self.config.intermediate_size))
        self.layer_norm.build((None, self.config.hidden_size))

    def call(self, x, training=False):
        if not training:
            hidden = activation(self.config)(self.intermediate(x))  # (B*T, F)
            return self.layer_norm(x + self.output_dense(hidden))  # (B*T, H)
        function, (product, bias) = activation_of_sum(self.config), product_and_bias(self.intermediate, x)
        if self.remat and not self.output_dense.quantization_mode:
            # Recomputed together with the product, whose gradient needs the activation's value. The kernel is an
            # argument, because the scope that holds its value is already closed when the backward pass runs.
            project = keras.remat(lambda product, bias, kernel: ops.matmul(function(product, bias), kernel))
            weights = (self.output_dense.kernel, self.output_dense.bias)
            kernel, output_bias = (ops.cast(variable, x.dtype) for variable in weights)
            output = project(product, bias, kernel), output_bias
        else:
            output = product_and_bias(self.output_dense, function(product, bias))
        return add_and_normalize(self, x, *output)
