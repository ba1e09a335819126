"""The attention and feed-forward parts of a layer in fewer kernels, with less kept for the backward pass."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.kernels.formulas import Formulas, barrier
from albert_tf.kernels.padding import Unpadding, remove_padding, restore_padding

RematLevel = Literal[False, "activations", "layers"]


class Part(Protocol):
    """What is read of a part of either kind."""

    config: AlbertConfig
    seeds: Any
    output_dense: Any
    layer_norm: Any
    dropout: Callable
    weights: list[keras.Variable]


class Attention(Part, Protocol):
    """What is read of `albert_tf.model.layers.SelfAttention`."""

    query: Any
    key: Any
    value: Any
    attention_dropout: Callable


class FeedForward(Part, Protocol):
    """What is read of `albert_tf.model.layers.FeedForward`."""

    intermediate: Any
    activation: Callable


@dataclass(frozen=True)
class Tokens:
    """Which tokens the rows of an array (R, H) are.

    Attributes:
      mask_scores: (B, 1, 1, T), added to the scores of the keys.
      unpadding: where the rows are in the batch if padding was removed; otherwise R = B*T.
      wanted: integers (B, P), the rows whose outputs are wanted; None for all.
    """

    mask_scores: Any
    unpadding: Unpadding | None = None
    wanted: Any = None


class Blocks:
    """Computes the parts.

    Args:
      formulas: the formulas that they consist of.
      training: whether dropout is on.
      remat: with "activations", the backward pass recomputes attention probabilities and gelu.
    """

    def __init__(self, formulas: Formulas, training: bool, remat: RematLevel):
        self.formulas, self.training = formulas, training
        self.recomputes = training and remat == "activations"

    def attention(self, part: Attention, x, tokens: Tokens):
        """What `SelfAttention` computes: (R, H) -> (R, H), or (B*P, H) for the wanted rows.

        Padding is restored only for the products of tokens with tokens, which need rows of equal length.
        """
        H, N, T = part.config.hidden_size, part.config.num_attention_heads, ops.shape(tokens.mask_scores)[-1]
        padding, queried, P = tokens.unpadding, x, T  # P is T if all outputs are wanted
        if tokens.wanted is not None:
            padding, P = None, ops.shape(tokens.wanted)[1]
            queried = ops.take(x, ops.reshape(tokens.wanted, (-1,)), axis=0)

        # As three arrays: XLA would compute two of the products as one, which it then copies apart.
        queried, for_key, for_value = barrier(queried, x, x)
        query = restore_padding(part.query(queried), padding)
        key = restore_padding(part.key(for_key), tokens.unpadding)
        value = restore_padding(part.value(for_value), tokens.unpadding)
        query = ops.reshape(query, (-1, P, N, H // N))
        key, value = (ops.reshape(projected, (-1, T, N, H // N)) for projected in (key, value))
        has_dropout = (
            self.training and part.config.attention_probs_dropout_prob > 0
        )  # fused kernels have none
        if tokens.wanted is None and not has_dropout and has_fused_attention(T, x.dtype):
            context = fused_attention(query, key, value, tokens.mask_scores)
        else:
            context = self._attend(part, query, key, value, tokens.mask_scores)
        context = remove_padding(ops.reshape(context, (-1, H)), padding)
        if not self.training:
            return part.layer_norm(queried + part.output_dense(context))
        return self._add_and_normalize(part, queried, *_product_and_bias(part.output_dense, context))

    def _attend(self, part: Attention, query, key, value, mask_scores):
        """The weighted mean of `value` for each query: (B, P, N, D), with `key` and `value` (B, T, N, D)."""
        scale, has_dropout = ops.shape(query)[-1] ** -0.5, part.config.attention_probs_dropout_prob > 0
        # Drawn outside the function, so that recomputing it draws the same mask.
        seed = part.seeds.next() if self.training and has_dropout else None

        def attend(query, key, value):
            probs = self.formulas.softmax(ops.matmul(query, key), mask_scores, scale, self.training)
            if seed is not None:
                with keras.StatelessScope([(part.seeds.state, seed)]):
                    probs = part.attention_dropout(probs, training=True)  # (B, N, P, T)
            return ops.matmul(probs, value)

        query, value = (ops.transpose(array, (0, 2, 1, 3)) for array in (query, value))  # (B, N, P or T, D)
        key = ops.transpose(key, (0, 2, 3, 1))  # (B, N, D, T)
        attended = (keras.remat(attend) if self.recomputes else attend)(query, key, value)
        return ops.transpose(attended, (0, 2, 1, 3))

    def feed_forward(self, part: FeedForward, x):
        """What `FeedForward` computes: (R, H) -> (R, H)."""
        if not self.training:
            return part.layer_norm(x + part.output_dense(part.activation(part.intermediate(x))))
        product, bias = _product_and_bias(part.intermediate, x)
        if self.recomputes and not part.output_dense.quantization_mode:
            # Together with the product, whose gradient needs the activation's value. The kernel is an argument,
            # because the scope that holds its value is already closed when the backward pass runs.
            project = keras.remat(
                lambda product, bias, kernel: ops.matmul(self._activate(part, product, bias), kernel)
            )
            weights = (part.output_dense.kernel, part.output_dense.bias)
            kernel, output_bias = (ops.cast(variable, x.dtype) for variable in weights)
            return self._add_and_normalize(part, x, project(product, bias, kernel), output_bias)
        hidden = self._activate(part, product, bias)  # (R, F)
        return self._add_and_normalize(part, x, *_product_and_bias(part.output_dense, hidden))

    def _activate(self, part: FeedForward, product, bias):
        if part.config.hidden_act == "gelu":
            return self.formulas.gelu_of_sum(product, bias)
        return part.activation(ops.add(product, bias))

    def _add_and_normalize(self, part: Part, x, product, bias):
        """What a part ends with in training: dropout of product + bias, residual connection and LayerNorm."""
        if part.config.hidden_dropout_prob > 0:
            output = part.dropout(ops.add(product, bias), training=True)
            return part.layer_norm(x + output, training=True)
        norm = part.layer_norm
        return self.formulas.layer_norm_of_sum(x, product, bias, norm.gamma, norm.beta, norm.epsilon)


def _product_and_bias(layer: keras.layers.Dense, x):
    """The two arrays whose sum is `layer(x)`: (rows, width) and (width,)."""
    bias = ops.cast(layer.bias, x.dtype)
    if layer.quantization_mode:  # the layer scales its product before it adds the bias
        return layer(x), ops.zeros_like(bias)
    return ops.matmul(x, layer.kernel), bias


def has_fused_attention(T: int, dtype) -> bool:
    """Whether `fused_attention` is one kernel, which keeps no probabilities.

    With PyTorch; with JAX on GPUs, whose cuDNN has it for even lengths in half precision. JAX otherwise, and
    TensorFlow, would keep more for the backward pass than `Formulas.softmax` does.
    """
    if keras.backend.backend() == "jax":
        is_gpu = keras.distribution.list_devices()[0].startswith("gpu")
        return T % 2 == 0 and keras.backend.standardize_dtype(dtype) != "float32" and is_gpu
    return keras.backend.backend() == "torch"


def fused_attention(query, key, value, mask_scores):
    """The mean of `value` for each query, weighted by softmax(query key^T / sqrt(D) + mask_scores).

    Args:
      query: (B, T, N, D).
      key: (B, T, N, D).
      value: (B, T, N, D).
      mask_scores: (B, 1, 1, T), for the keys: 0 for tokens.
    """
    B, T = ops.shape(query)[:2]
    mask_scores = ops.broadcast_to(mask_scores, (B, 1, T, T))  # in full, because cuDNN takes no other
    if keras.backend.backend() == "jax":  # which would compute the gradient of a bias
        return ops.dot_product_attention(query, key, value, mask=mask_scores == 0)
    # PyTorch's result would not be finite for a mask of all keys.
    return ops.dot_product_attention(query, key, value, bias=mask_scores)
