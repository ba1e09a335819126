"""Gelu, LayerNorm, the softmax of attention and cross-entropy, each with its own gradient, which stores little.

On CPUs TensorFlow passes over memory once for every operation of a formula. A training step may therefore have the
formulas compiled, each by itself (`formulas_compiled_by`).
"""

import contextlib
import contextvars
import functools
import math
import operator
from collections.abc import Callable, Iterator

import keras
from keras import ops

# How many numbers a compiled sum adds at a time.
SUMMANDS = 8
# Arrays with at least this many elements are compiled: below, the call costs more than the saved passes.
LARGE = 1 << 16

_compiler: contextvars.ContextVar[Callable | None] = contextvars.ContextVar("compiler", default=None)
_as_in_textbooks: contextvars.ContextVar[bool] = contextvars.ContextVar("as_in_textbooks", default=False)


@contextlib.contextmanager
def value_inside(variable: contextvars.ContextVar, value) -> Iterator[None]:
    """Gives a context variable this value inside the block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


@contextlib.contextmanager
def layer_norm_as_in_textbooks() -> Iterator[None]:
    """Inside the block, LayerNorm for inference has the form that `export/onnx_graph.py` makes one operation."""
    with value_inside(_as_in_textbooks, True):
        yield


@contextlib.contextmanager
def formulas_compiled_by(compiler: Callable | None) -> Iterator[None]:
    """Compiles the formulas used inside the block, one by one.

    Args:
      compiler: turns a function of arrays into a faster one with the same values; None compiles nothing.
    """
    with value_inside(_compiler, compiler):
        yield


def in_one_pass(formula: Callable) -> Callable:
    """Decorates a formula so that `formulas_compiled_by` compiles it if its first argument is large.

    Arrays of unknown shape are not compiled, because every new shape would be compiled again.

    Args:
      formula: elementwise operations and sums of arrays; no variables, no random numbers. Arguments that are not
        arrays are constants. It has no gradient when compiled: wrap it in `keras.ops.custom_gradient`.
    """

    @functools.wraps(formula)
    def function(x, *others):
        compiler = _compiler_for(x)
        return (formula if compiler is None else compiler(formula))(x, *others)

    return function


def _compiler_for(x) -> Callable | None:
    """What compiles a formula whose first argument is `x`; None if nothing does."""
    shape = ops.shape(x)
    is_large = all(isinstance(length, int) for length in shape) and math.prod(shape) >= LARGE
    return _compiler.get() if is_large else None


def sum_in_blocks(x, axis: int):
    """The sums along an axis, which is kept with length 1.

    XLA for CPUs adds one number after the other; if blocks of the array are added first, it adds vectors.
    """
    return ops.sum(_block(x, axis, operator.add), axis, keepdims=True)


def max_in_blocks(x, axis: int):
    """The maxima along an axis, which is kept with length 1; see `sum_in_blocks`."""
    return ops.max(_block(x, axis, ops.maximum), axis, keepdims=True)


def _block(x, axis: int, combine: Callable):
    """Blocks of the array, combined; the array itself if nothing is compiled, or its length is not divisible."""
    if _compiler.get() is None or ops.shape(x)[axis] % SUMMANDS:
        return x
    return functools.reduce(combine, ops.split(x, SUMMANDS, axis))


def opaque(*arrays) -> tuple:
    """The same arrays; on JAX, XLA's optimizer does not see how they were computed.

    It then reads them, and computes none of them again. Use it where the optimizer for GPUs would store more, or
    pass over memory more often, than necessary.
    """
    if keras.backend.backend() != "jax":
        return arrays
    import jax

    return tuple(jax.lax.optimization_barrier(arrays))


def _gradient_of_output(upstreams: tuple, upstream):
    """The gradient of a function's only output: some backends pass it by position, others by name."""
    return upstreams[0] if upstream is None else upstream


def gelu_after_product(x):
    """The tanh form of gelu, as compilers recognize it.

    TensorFlow for CPUs and XLA for GPUs compute it in the kernel of the matrix product with bias before it, if
    they recognize the formula. TensorFlow sorts operands by name first, and expects those of the product before
    those of gelu. A scope that comes late in the alphabet takes care of that.
    """
    with keras.name_scope("x_times_gate"):
        return ops.gelu(x, approximate=True)


@ops.custom_gradient
def gelu_with_gradient(x):
    """The tanh form of gelu, which keeps a single array for the backward pass.

    This is the slope, or with JAX `x`, from which XLA computes the slope in the pass that multiplies by it.
    Automatic differentiation would keep five arrays of this size and pass over them twice as often; in bfloat16 it
    would also round after each operation.
    """
    is_jax = keras.backend.backend() == "jax"
    value, slope = (gelu_after_product(x), None) if is_jax else _gelu_and_slope(x)

    def backward(*upstreams, upstream=None):
        factor = _gelu_and_slope(*opaque(x))[1] if is_jax else slope
        return _gradient_of_output(upstreams, upstream) * factor

    return value, backward


def gelu_of_sum(product, bias):
    """`gelu_with_gradient` of product + bias, (rows, width) and (width,).

    If it is compiled, the addition and the gradient of the bias need no pass of their own. Otherwise the bias is
    added in the kernel of the product.
    """
    if _compiler_for(product) is None:
        return gelu_with_gradient(ops.add(product, bias))

    @ops.custom_gradient
    def with_gradient(product, bias):
        value, slope = _gelu_and_slope_of_sum(product, bias)

        def backward(upstream):
            return _gelu_gradients(upstream, slope)

        return value, backward

    return with_gradient(product, bias)


@in_one_pass
def _gelu_and_slope_of_sum(product, bias):
    return _gelu_and_slope(product + bias)


@in_one_pass
def _gelu_and_slope(x):
    wide = ops.cast(x, "float32")
    root, square = math.sqrt(2 / math.pi), ops.square(wide)
    gate = 0.5 * ops.tanh(wide * (root + 0.044715 * root * square)) + 0.5
    value = wide * gate
    slope = gate + value * (1.0 - gate) * (2 * root + 6 * 0.044715 * root * square)
    return ops.cast(value, x.dtype), ops.cast(slope, x.dtype)


@in_one_pass
def _gelu_gradients(upstream, slope):
    """The gradients for the product and the bias."""
    dx = ops.cast(upstream, "float32") * ops.cast(slope, "float32")
    return ops.cast(dx, upstream.dtype), ops.cast(sum_in_blocks(dx, 0)[0], upstream.dtype)


def attention_probabilities(scores, mask_scores, scale: float, training: bool = False):
    """softmax(scores * scale + mask_scores) over the last axis, in the dtype of `scores`.

    Args:
      scores: (B, N, P, T), products of queries with keys.
      mask_scores: (B, 1, 1, T), added for the keys.
      scale: 1 / sqrt(D).
      training: whether to use a gradient formula in float32 that keeps only the probabilities. It has no gradient
        for `mask_scores`.
    """
    if not training:
        return ops.softmax(scores * scale + mask_scores)

    @ops.custom_gradient
    def with_gradient(scores, mask_scores):
        probs = ops.softmax(scores * scale + mask_scores)

        def backward(*upstreams, upstream=None):
            dprobs = _gradient_of_output(upstreams, upstream)
            return _score_gradient(dprobs, probs, scale), ops.zeros_like(mask_scores)

        return probs, backward

    return with_gradient(scores, mask_scores)


@in_one_pass
def _score_gradient(upstream, probs, scale: float):
    dprobs, wide = ops.cast(upstream, "float32"), ops.cast(probs, "float32")
    return ops.cast(wide * (dprobs - sum_in_blocks(dprobs * wide, 3)) * scale, upstream.dtype)


def normalize_rows_without_gradient(x, gamma, beta, epsilon: float):
    """LayerNorm of x (rows, width), computed in float32, for inference.

    TensorFlow for CPUs computes the second form in one kernel if gamma and beta are constants. In the first form,
    LiteRT would multiply the next matrices by gamma, and store them for each layer. XLA for GPUs computes only the
    first form in one kernel.
    """
    wide, gamma, beta = (ops.cast(array, "float32") for array in (x, gamma, beta))
    if _as_in_textbooks.get() or keras.backend.backend() == "jax":
        centred = wide - ops.mean(wide, axis=1, keepdims=True)
        variance = ops.mean(centred * centred, axis=1, keepdims=True)
        return ops.cast(centred / ops.sqrt(variance + epsilon) * gamma + beta, x.dtype)
    mean, variance = ops.moments(wide, axes=[1], keepdims=True)
    scale = ops.rsqrt(variance + epsilon) * gamma
    return ops.cast(wide * scale + (beta - mean * scale), x.dtype)


def normalize_rows(x, gamma, beta, epsilon: float):
    """LayerNorm of x (rows, width), computed in float32.

    For the backward pass it keeps x and two numbers a row, where automatic differentiation would keep four float32
    arrays.
    """

    @ops.custom_gradient
    def with_gradient(x, gamma, beta):
        y, mean, scale = _normalize(x, gamma, beta, epsilon)

        def backward(*upstreams, upstream=None):
            upstream = _gradient_of_output(upstreams, upstream)
            return _normalize_gradients(upstream, *opaque(x, mean, scale), gamma)

        return y, backward

    # As values: a function with its own gradient must not read variables.
    return with_gradient(x, ops.cast(gamma, "float32"), ops.cast(beta, "float32"))


def normalize_sum(x, product, bias, gamma, beta, epsilon: float):
    """`normalize_rows` of x + (product + bias): arrays (rows, width), but the bias (width,).

    Compiled as `gelu_of_sum` is.
    """
    if _compiler_for(product) is None:
        return normalize_rows(x + ops.add(product, bias), gamma, beta, epsilon)

    @ops.custom_gradient
    def with_gradient(x, product, bias, gamma, beta):
        total, y, mean, scale = _normalize_sum(x, product, bias, gamma, beta, epsilon)

        def backward(upstream):
            dx, dgamma, dbeta, dbias = _normalize_sum_gradients(upstream, total, mean, scale, gamma)
            return dx, dx, dbias, dgamma, dbeta

        return y, backward

    return with_gradient(x, product, bias, ops.cast(gamma, "float32"), ops.cast(beta, "float32"))


@in_one_pass
def _normalize_sum(x, product, bias, gamma, beta, epsilon: float):
    """The sum, and what `_normalize` returns of it."""
    total = x + (product + bias)
    return total, *_normalize(total, gamma, beta, epsilon)


@in_one_pass
def _normalize_sum_gradients(upstream, total, mean, scale, gamma):
    """The gradients for the sum, gamma, beta and the bias."""
    dx, dgamma, dbeta = _normalize_gradients(upstream, total, mean, scale, gamma)
    return dx, dgamma, dbeta, ops.cast(sum_in_blocks(ops.cast(dx, "float32"), 0)[0], dx.dtype)


@in_one_pass
def _normalize(x, gamma, beta, epsilon: float):
    """LayerNorm of x, and what its gradients need: each row's mean and scale (rows, 1)."""
    wide, width = ops.cast(x, "float32"), ops.shape(x)[1]
    mean = sum_in_blocks(wide, 1) / width
    centred = wide - mean
    scale = ops.rsqrt(sum_in_blocks(ops.square(centred), 1) / width + epsilon)
    return ops.cast(centred * scale * gamma + beta, x.dtype), mean, scale


@in_one_pass
def _normalize_gradients(upstream, x, mean, scale, gamma):
    """The gradients for x, gamma and beta."""
    dy, normal = ops.cast(upstream, "float32"), (ops.cast(x, "float32") - mean) * scale
    dnormal, width = dy * gamma, ops.shape(normal)[1]
    along = normal * (sum_in_blocks(dnormal * normal, 1) / width)
    dx = (dnormal - sum_in_blocks(dnormal, 1) / width - along) * scale
    return ops.cast(dx, upstream.dtype), sum_in_blocks(dy * normal, 0)[0], sum_in_blocks(dy, 0)[0]


def cross_entropy(logits, labels):
    """The loss of each prediction in nats, and 1 where its label is the most probable, else 0: float32 (...).

    Args:
      logits: (..., classes).
      labels: integers (...), the classes. Of equal logits, the first counts as the most probable.
    """
    if _compiler_for(logits) is None:
        wide = ops.cast(logits, "float32")
        is_best = ops.equal(ops.argmax(wide, axis=-1), ops.cast(labels, "int32"))
        losses = ops.sparse_categorical_crossentropy(labels, wide, from_logits=True)
        return losses, ops.cast(is_best, "float32")

    @ops.custom_gradient
    def with_gradient(logits):
        losses, is_best, log_sums = _cross_entropy(logits, labels)

        def backward(upstream, _):
            return _cross_entropy_gradient(logits, labels, log_sums, upstream)

        return (losses, is_best), backward

    return with_gradient(logits)


@in_one_pass
def _cross_entropy(logits, labels):
    """What `cross_entropy` returns, and the logarithms of softmax's denominators (..., 1)."""
    wide, labels = ops.cast(logits, "float32"), ops.expand_dims(ops.cast(labels, "int32"), -1)
    highest, of_label = max_in_blocks(wide, -1), ops.take_along_axis(wide, labels, axis=-1)
    log_sums = ops.log(sum_in_blocks(ops.exp(wide - highest), -1)) + highest
    before = ops.arange(ops.shape(wide)[-1], dtype="int32") < labels
    as_high_before = sum_in_blocks(ops.cast((wide == highest) & before, "float32"), -1)
    is_best = ops.cast((of_label == highest) & (as_high_before == 0), "float32")
    return ops.squeeze(log_sums - of_label, -1), ops.squeeze(is_best, -1), log_sums


@in_one_pass
def _cross_entropy_gradient(logits, labels, log_sums, upstream):
    probs = ops.exp(ops.cast(logits, "float32") - log_sums)
    expected = ops.one_hot(labels, ops.shape(logits)[-1], dtype="float32")
    return ops.cast((probs - expected) * ops.expand_dims(upstream, -1), logits.dtype)
