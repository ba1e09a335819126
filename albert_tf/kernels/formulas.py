"""Gelu, LayerNorm, the softmax of attention and cross-entropy, each with a gradient that stores little.

On CPUs TensorFlow passes over memory once for every operation of a formula. A training step may therefore have the
formulas compiled, one by one.
"""

import functools
import math
import operator
from collections.abc import Callable

import keras
from keras import ops

# How many numbers a compiled sum adds at a time.
SUMMANDS = 8
# Arrays with at least this many elements are compiled: below, the call costs more than the saved passes.
LARGE = 1 << 16


class Formulas:
    """The formulas, compiled or not.

    Attributes:
      compiler: turns a function of arrays into a faster one with the same values. None compiles nothing; the
        training step sets it.
      textbook_layer_norm: whether LayerNorm without gradient has the form that `export/onnx_graph.py` makes one
        operation; an export sets it.
    """

    def __init__(self):
        self.compiler: Callable | None = None
        self.textbook_layer_norm = keras.backend.backend() == "jax"  # XLA for GPUs makes it one kernel, too

    def compiles(self, x) -> bool:
        """Whether a formula of `x` is compiled: it is large, and its shape is known, so that it happens once."""
        shape = ops.shape(x)
        is_large = all(isinstance(length, int) for length in shape) and math.prod(shape) >= LARGE
        return self.compiler is not None and is_large

    def compute(self, formula: Callable, x, *others):
        """Applies one of the formulas below, compiled by itself if `x` is large.

        Args:
          formula: elementwise operations and sums of arrays; no variables, no random numbers. Arguments that are
            not arrays are constants. It has no gradient when compiled: wrap it in `keras.ops.custom_gradient`.
          x: its first argument.
          *others: its other arguments but the last, `in_blocks`, which is true if there is a compiler.
        """
        if self.compiler is None:
            return formula(x, *others, False)
        return (self.compiler(formula) if self.compiles(x) else formula)(x, *others, True)

    def gelu(self, x):
        """The tanh form of gelu, as compilers recognize it.

        TensorFlow for CPUs and XLA for GPUs compute it in the kernel of the matrix product with bias before it, if
        they recognize the formula. TensorFlow sorts operands by name first, and expects those of the product
        before those of gelu. A scope that comes late in the alphabet takes care of that.
        """
        with keras.name_scope("x_times_gate"):
            return ops.gelu(x, approximate=True)

    def gelu_of_sum(self, product, bias):
        """`gelu` of product + bias, (rows, width) and (width,), which keeps a single array for the backward pass.

        This is the slope, or with JAX the sum, from which XLA computes the slope in the pass that multiplies by
        it. Automatic differentiation would keep five arrays of this size and pass over them twice as often; in
        bfloat16 it would also round after each operation. If it is compiled, the addition and the gradient of the
        bias need no pass of their own. Otherwise the bias is added in the kernel of the product.
        """
        if not self.compiles(product):
            return self._gelu(ops.add(product, bias))

        @ops.custom_gradient
        def with_gradient(product, bias):
            value, slope = self.compute(_gelu_and_slope_of_sum, product, bias)
            return value, lambda upstream: self.compute(_gelu_gradients, upstream, slope)

        return with_gradient(product, bias)

    @property
    def _gelu(self) -> Callable:
        is_jax = keras.backend.backend() == "jax"

        @ops.custom_gradient
        def with_gradient(x):
            value, slope = (self.gelu(x), None) if is_jax else _gelu_and_slope(x)

            def backward(*upstreams, upstream=None):
                factor = _gelu_and_slope(*barrier(x))[1] if is_jax else slope
                return _gradient_of_output(upstreams, upstream) * factor

            return value, backward

        return with_gradient

    def softmax(self, scores, mask_scores, scale: float, training: bool):
        """softmax(scores * scale + mask_scores) over the last axis, in the dtype of `scores`.

        Args:
          scores: (B, N, P, T), products of queries with keys.
          mask_scores: (B, 1, 1, T), added for the keys.
          scale: 1 / sqrt(D).
          training: whether to use a gradient in float32 that keeps only the probabilities. `mask_scores` has none
            then.
        """
        if not training:
            return ops.softmax(scores * scale + mask_scores)

        @ops.custom_gradient
        def with_gradient(scores, mask_scores):
            probs = ops.softmax(scores * scale + mask_scores)

            def backward(*upstreams, upstream=None):
                upstream = _gradient_of_output(upstreams, upstream)
                return self.compute(_score_gradient, upstream, probs, scale), ops.zeros_like(mask_scores)

            return probs, backward

        return with_gradient(scores, mask_scores)

    def layer_norm(self, x, gamma, beta, epsilon: float, training: bool):
        """LayerNorm of x (rows, width), computed in float32.

        In training it keeps x and two numbers a row for the backward pass, where automatic differentiation would
        keep four float32 arrays.
        """
        gamma, beta = (ops.cast(array, "float32") for array in (gamma, beta))
        if not training:
            return self._layer_norm_without_gradient(x, gamma, beta, epsilon)

        @ops.custom_gradient
        def with_gradient(x, gamma, beta):
            y, mean, scale = self.compute(_normalize, x, gamma, beta, epsilon)

            def backward(*upstreams, upstream=None):
                upstream = _gradient_of_output(upstreams, upstream)
                return self.compute(_normalize_gradients, upstream, *barrier(x, mean, scale), gamma)

            return y, backward

        return with_gradient(
            x, gamma, beta
        )  # values: a function with its own gradient must not read variables

    def _layer_norm_without_gradient(self, x, gamma, beta, epsilon: float):
        """TensorFlow for CPUs computes the second form in one kernel if gamma and beta are constants.

        In the first form, LiteRT would multiply the next matrices by gamma, and store them for each layer.
        """
        wide = ops.cast(x, "float32")
        if self.textbook_layer_norm:
            centred = wide - ops.mean(wide, axis=1, keepdims=True)
            variance = ops.mean(centred * centred, axis=1, keepdims=True)
            return ops.cast(centred / ops.sqrt(variance + epsilon) * gamma + beta, x.dtype)
        mean, variance = ops.moments(wide, axes=[1], keepdims=True)
        scale = ops.rsqrt(variance + epsilon) * gamma
        return ops.cast(wide * scale + (beta - mean * scale), x.dtype)

    def layer_norm_of_sum(self, x, product, bias, gamma, beta, epsilon: float):
        """`layer_norm` in training of x + (product + bias): arrays (rows, width), but the bias (width,).

        Compiled as `gelu_of_sum` is.
        """
        if not self.compiles(product):
            return self.layer_norm(x + ops.add(product, bias), gamma, beta, epsilon, training=True)

        @ops.custom_gradient
        def with_gradient(x, product, bias, gamma, beta):
            total, y, mean, scale = self.compute(_normalize_sum, x, product, bias, gamma, beta, epsilon)

            def backward(upstream):
                gradients = self.compute(_normalize_sum_gradients, upstream, total, mean, scale, gamma)
                dx, dgamma, dbeta, dbias = gradients
                return dx, dx, dbias, dgamma, dbeta

            return y, backward

        return with_gradient(x, product, bias, ops.cast(gamma, "float32"), ops.cast(beta, "float32"))

    def cross_entropy(self, logits, labels):
        """What the textbook's `cross_entropy` returns, in one pass over memory, if `compiles(logits)`."""

        @ops.custom_gradient
        def with_gradient(logits):
            losses, is_best, log_sums = self.compute(_cross_entropy, logits, labels)

            def backward(upstream, _):
                return self.compute(_cross_entropy_gradient, logits, labels, log_sums, upstream)

            return (losses, is_best), backward

        return with_gradient(logits)


def barrier(*arrays) -> tuple:
    """The same arrays; on JAX, XLA's optimizer does not see how they were computed.

    It then reads them, and computes none of them again. Use it where the optimizer for GPUs would store more, or
    pass over memory more often, than necessary.
    """
    if keras.backend.backend() != "jax":
        return arrays
    import jax

    return tuple(jax.lax.optimization_barrier(arrays))


def block_sum(x, axis: int, in_blocks: bool):
    """The sums along an axis, which is kept with length 1.

    XLA for CPUs adds one number after the other; if blocks of the array are added first, it adds vectors.
    """
    return ops.sum(_blocks(x, axis, operator.add) if in_blocks else x, axis, keepdims=True)


def _block_max(x, axis: int, in_blocks: bool):
    return ops.max(_blocks(x, axis, ops.maximum) if in_blocks else x, axis, keepdims=True)


def _blocks(x, axis: int, combine: Callable):
    """Blocks of the array, combined; the array itself if its length is not divisible."""
    return x if ops.shape(x)[axis] % SUMMANDS else functools.reduce(combine, ops.split(x, SUMMANDS, axis))


def _gradient_of_output(upstreams: tuple, upstream):
    """The gradient of a function's only output: some backends pass it by position, others by name."""
    return upstreams[0] if upstream is None else upstream


def _gelu_and_slope_of_sum(product, bias, in_blocks: bool):
    return _gelu_and_slope(product + bias)


def _gelu_and_slope(x):
    wide = ops.cast(x, "float32")
    root, square = math.sqrt(2 / math.pi), ops.square(wide)
    gate = 0.5 * ops.tanh(wide * (root + 0.044715 * root * square)) + 0.5
    value = wide * gate
    slope = gate + value * (1.0 - gate) * (2 * root + 6 * 0.044715 * root * square)
    return ops.cast(value, x.dtype), ops.cast(slope, x.dtype)


def _gelu_gradients(upstream, slope, in_blocks: bool):
    """The gradients for the product and the bias."""
    dx = ops.cast(upstream, "float32") * ops.cast(slope, "float32")
    return ops.cast(dx, upstream.dtype), ops.cast(block_sum(dx, 0, in_blocks)[0], upstream.dtype)


def _score_gradient(upstream, probs, scale: float, in_blocks: bool):
    dprobs, wide = ops.cast(upstream, "float32"), ops.cast(probs, "float32")
    return ops.cast(wide * (dprobs - block_sum(dprobs * wide, 3, in_blocks)) * scale, upstream.dtype)


def _normalize(x, gamma, beta, epsilon: float, in_blocks: bool):
    """LayerNorm of x, and what its gradients need: each row's mean and scale (rows, 1)."""
    wide, width = ops.cast(x, "float32"), ops.shape(x)[1]
    mean = block_sum(wide, 1, in_blocks) / width
    centred = wide - mean
    scale = ops.rsqrt(block_sum(ops.square(centred), 1, in_blocks) / width + epsilon)
    return ops.cast(centred * scale * gamma + beta, x.dtype), mean, scale


def _normalize_sum(x, product, bias, gamma, beta, epsilon: float, in_blocks: bool):
    """The sum, and what `_normalize` returns of it."""
    total = x + (product + bias)
    return total, *_normalize(total, gamma, beta, epsilon, in_blocks)


def _normalize_gradients(upstream, x, mean, scale, gamma, in_blocks: bool):
    """The gradients for x, gamma and beta."""
    dy, normal = ops.cast(upstream, "float32"), (ops.cast(x, "float32") - mean) * scale
    dnormal, width = dy * gamma, ops.shape(normal)[1]
    along = normal * (block_sum(dnormal * normal, 1, in_blocks) / width)
    dx = (dnormal - block_sum(dnormal, 1, in_blocks) / width - along) * scale
    dgamma, dbeta = (block_sum(array, 0, in_blocks)[0] for array in (dy * normal, dy))
    return ops.cast(dx, upstream.dtype), dgamma, dbeta


def _normalize_sum_gradients(upstream, total, mean, scale, gamma, in_blocks: bool):
    """The gradients for the sum, gamma, beta and the bias."""
    dx, dgamma, dbeta = _normalize_gradients(upstream, total, mean, scale, gamma, in_blocks)
    dbias = block_sum(ops.cast(dx, "float32"), 0, in_blocks)[0]
    return dx, dgamma, dbeta, ops.cast(dbias, dx.dtype)


def _cross_entropy(logits, labels, in_blocks: bool):
    """What `cross_entropy` returns, and the logarithms of softmax's denominators (..., 1)."""
    wide, labels = ops.cast(logits, "float32"), ops.expand_dims(ops.cast(labels, "int32"), -1)
    highest, of_label = _block_max(wide, -1, in_blocks), ops.take_along_axis(wide, labels, axis=-1)
    log_sums = ops.log(block_sum(ops.exp(wide - highest), -1, in_blocks)) + highest
    before = ops.arange(ops.shape(wide)[-1], dtype="int32") < labels
    as_high_before = block_sum(ops.cast((wide == highest) & before, "float32"), -1, in_blocks)
    is_best = ops.cast((of_label == highest) & (as_high_before == 0), "float32")
    return ops.squeeze(log_sums - of_label, -1), ops.squeeze(is_best, -1), log_sums


def _cross_entropy_gradient(logits, labels, log_sums, upstream, in_blocks: bool):
    probs = ops.exp(ops.cast(logits, "float32") - log_sums)
    expected = ops.one_hot(labels, ops.shape(logits)[-1], dtype="float32")
    return ops.cast((probs - expected) * ops.expand_dims(upstream, -1), logits.dtype)
