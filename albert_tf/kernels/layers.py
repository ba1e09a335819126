"""The layers of an encoder in fewer passes, with less kept for the backward pass, without padding, as loops."""

import functools
import itertools
from collections.abc import Callable, Sequence

import keras
from keras import ops

from albert_tf.kernels.formulas import Formulas, barrier
from albert_tf.kernels.padding import Unpadding, remove_padding, restore_padding, restore_zero_padding

# Pairs of a `SelfAttention` and a `FeedForward` (albert_tf/model/layers.py), `inner_group_num` of them.
Layer = Sequence[tuple]

MASKS_PER_PAIR = 3  # dropout masks: attention probabilities, attention output, feed-forward output


class LayerRun:
    """Computes the layers in one call of an encoder, from the weights of their parts.

    - Matrices and biases are cast to the compute dtype once, not in every layer that uses them.
    - With `unpad`, outside training, the activations hold no padding: (R, H), R the number of tokens.
    - The last layer computes only the wanted positions.
    - Each layer is a pure function of its input, its weights and the dropout state, which follows from its
      number. With `remat="layers"` the backward pass runs it again and draws the same masks; with "activations"
      it recomputes only attention probabilities and gelu.

    Args:
      formulas: what the layers compute with.
      layers: the parts of each layer, after the embeddings have drawn their dropout mask.
      mask_scores: (B, 1, 1, T), added to the scores of the keys.
      input_mask: integers (B, T), 1 for tokens.
      positions: integers (B, P), the wanted positions; None for all.
      training: whether dropout is on.
      remat: as in `AlbertEncoder`.
      unpad: as in `AlbertEncoder`.
      make_function: as `Kernels.make_layer_function`.
    """

    def __init__(
        self,
        formulas: Formulas,
        layers: Sequence[Layer],
        mask_scores,
        input_mask,
        positions,
        *,
        training: bool,
        remat: bool | str,
        unpad: bool,
        make_function: Callable | None,
    ):
        self.formulas, self.layers = formulas, layers
        self.mask_scores, self.positions = mask_scores, positions
        self.training, self.remat, self.make_function = training, remat, make_function
        self.config, self.seeds = layers[0][0][0].config, layers[0][0][0].seeds
        self.T, self.H = ops.shape(input_mask)[1], self.config.hidden_size
        self.unpadding = Unpadding(input_mask) if unpad and not training else None
        self.dropout_state = self.seeds.state * 1  # a copy
        weights = {} if make_function else {id(each): each for layer in layers for each in _weights(layer)}
        self.values = {key: self._cast(weight) for key, weight in weights.items()}
        self.functions: dict[tuple, Callable] = {}

    def __call__(self, x, scan: bool, intermediates: bool) -> list:
        """See `Kernels.run_layers`; with `scan`, equal layers are a loop."""
        L, hidden = len(self.layers), [remove_padding(x, self.unpadding)]
        for numbers in equal_layers(self.layers) if scan else [range(i, i + 1) for i in range(L)]:
            hidden.append(fold(functools.partial(self._layer, numbers), numbers, hidden[-1]))
        if self.training:  # moves the seeds past the masks of all layers
            self.seeds.state.assign(self._state_before(L))
        if self.positions is not None:
            return [ops.reshape(hidden[-1], (-1, ops.shape(self.positions)[1], self.H))]
        padded = (restore_zero_padding(each, self.unpadding) for each in hidden[0 if intermediates else -1 :])
        return [ops.reshape(each, (-1, self.T, self.H)) for each in padded]

    def _layer(self, numbers: range, number, x):
        """The output of a layer, one of equal `numbers`: (R, H) -> (R, H), or (B*P, H) at the end."""
        layer, is_last = self.layers[numbers[0]], len(self.layers) - 1 in numbers
        positions = self.positions if is_last else None
        weights, state = _weights(layer), self._state_before(number)

        def run(x, *values):
            with keras.StatelessScope([(self.seeds.state, state)]) as scope:
                for weight, value in zip(weights, values, strict=True):
                    scope.add_update((weight, value))  # the constructor would cast them back to float32
                for attention, ffn in layer:
                    with keras.name_scope(attention.name):  # in the graph, as in that of the textbook
                        x = self._attention(attention, x, positions if ffn is layer[-1][1] else None)
                    with keras.name_scope(ffn.name):
                        x = self._feed_forward(ffn, x)
            return x

        if self.make_function is not None:
            key = (*(id(part) for pair in layer for part in pair), positions is None)
            if key not in self.functions:
                uncast = lambda x, *values: run(x, *map(self._cast, values))  # noqa: E731
                self.functions[key] = self.make_function(uncast, weights)
            return self.functions[key](x)
        # keras.remat computes gradients for all arguments of `run`; its other inputs need none.
        run = keras.remat(run) if self.remat == "layers" else run
        return run(x, *(self.values[id(weight)] for weight in weights))

    def _cast(self, weight):
        # int8 matrices, too: TensorFlow multiplies whole numbers as floats faster than as integers on CPUs.
        in_product = len(weight.shape) == 2 or weight.name == "bias"
        return ops.cast(weight, self.mask_scores.dtype if in_product else weight.dtype)

    def _state_before(self, number):
        """The dropout state that a layer starts from."""
        masks = ops.array([0, MASKS_PER_PAIR * len(self.layers[0])], "int32")
        return self.dropout_state + ops.cast(masks * number, self.dropout_state.dtype)

    def _attention(self, part, x, positions):
        """What `SelfAttention` computes, with `positions` only for these tokens: (R, H) -> (R, H) or (B*P, H).

        Padding is restored only for the products of tokens with tokens, which need rows of equal length.
        """
        padding, queried, P = self.unpadding, x, self.T
        if positions is not None:
            padding, queried, P = None, self._rows_at(x, positions), ops.shape(positions)[1]
        # As three arrays: XLA would compute two of the products as one, which it then copies apart.
        queried, for_key, for_value = barrier(queried, x, x)
        query = self._heads(restore_padding(part.query(queried), padding), P)
        key = self._heads(restore_padding(part.key(for_key), self.unpadding), self.T)
        value = self._heads(restore_padding(part.value(for_value), self.unpadding), self.T)
        has_dropout = (
            self.training and self.config.attention_probs_dropout_prob > 0
        )  # fused kernels have none
        if positions is None and not has_dropout and has_fused_attention(self.T, x.dtype):
            context = fused_attention(query, key, value, self.mask_scores)
        else:
            context = self._attend(part, query, key, value)
        context = remove_padding(ops.reshape(context, (-1, self.H)), padding)
        if not self.training:
            return part.layer_norm(queried + part.output_dense(context), training=False)
        return self._add_and_normalize(part, queried, *_product_and_bias(part.output_dense, context))

    def _rows_at(self, x, positions):
        """The rows of x (R, H) for positions (B, P): (B*P, H)."""
        starts = ops.arange(ops.shape(positions)[0], dtype="int32") * self.T
        rows = ops.reshape(ops.cast(positions, "int32") + ops.expand_dims(starts, 1), (-1,))
        rows = rows if self.unpadding is None else ops.take(self.unpadding.ranks, rows, axis=0)
        # Reshaped for nothing but the order in which TensorFlow adds the gradients of x.
        return ops.take(ops.reshape(x, (-1, self.H)), rows, axis=0)

    def _heads(self, x, length):
        """(B*length, H) -> (B, length, N, D)."""
        N = self.config.num_attention_heads
        return ops.reshape(x, (-1, length, N, self.H // N))

    def _attend(self, part, query, key, value):
        """The weighted mean of `value` for each query: (B, P, N, D), with `key` and `value` (B, T, N, D)."""
        scale, has_dropout = ops.shape(query)[-1] ** -0.5, self.config.attention_probs_dropout_prob > 0
        # Drawn outside the function, so that recomputing it draws the same mask.
        seed = self.seeds.next() if self.training and has_dropout else None

        def attend(query, key, value):
            probs = self.formulas.softmax(ops.matmul(query, key), self.mask_scores, scale, self.training)
            if seed is not None:
                with keras.StatelessScope([(self.seeds.state, seed)]):
                    probs = part.attention_dropout(probs, training=True)  # (B, N, P, T)
            return ops.matmul(probs, value)

        query, value = (ops.transpose(array, (0, 2, 1, 3)) for array in (query, value))  # (B, N, P or T, D)
        key = ops.transpose(key, (0, 2, 3, 1))  # (B, N, D, T)
        attend = keras.remat(attend) if self.training and self.remat == "activations" else attend
        return ops.transpose(attend(query, key, value), (0, 2, 1, 3))

    def _feed_forward(self, part, x):
        """What `FeedForward` computes: (R, H) -> (R, H)."""
        if not self.training:
            output = part.output_dense(part.activation(part.intermediate(x)))
            return part.layer_norm(x + output, training=False)
        activate, last = self._activation_of_sum(part), part.output_dense
        product, bias = _product_and_bias(part.intermediate, x)
        if self.remat != "activations" or last.quantization_mode:
            return self._add_and_normalize(part, x, *_product_and_bias(last, activate(product, bias)))
        # Recomputed together with the product, whose gradient needs the activation's value. The kernel is an
        # argument, because the scope that holds its value is already closed when the backward pass runs.
        project = keras.remat(lambda product, bias, kernel: ops.matmul(activate(product, bias), kernel))
        kernel, output_bias = (ops.cast(variable, x.dtype) for variable in (last.kernel, last.bias))
        return self._add_and_normalize(part, x, project(product, bias, kernel), output_bias)

    def _activation_of_sum(self, part) -> Callable:
        if self.config.hidden_act == "gelu":
            return self.formulas.gelu_of_sum
        return lambda product, bias: part.activation(ops.add(product, bias))

    def _add_and_normalize(self, part, x, product, bias):
        """What a part ends with in training: dropout of product + bias, residual connection and LayerNorm."""
        if self.config.hidden_dropout_prob > 0:
            output = part.dropout(ops.add(product, bias), training=True)
            return part.layer_norm(x + output, training=True)
        norm = part.layer_norm
        return self.formulas.layer_norm_of_sum(x, product, bias, norm.gamma, norm.beta, norm.epsilon)


def _weights(layer: Layer) -> list[keras.Variable]:
    return [weight for pair in layer for part in pair for weight in part.weights]


def _product_and_bias(layer: keras.layers.Dense, x):
    """The two arrays whose sum is `layer(x)`: (rows, width) and (width,)."""
    bias = ops.cast(layer.bias, x.dtype)
    if layer.quantization_mode:  # the layer scales its product before it adds the bias
        return layer(x), ops.zeros_like(bias)
    return ops.matmul(x, ops.cast(layer.kernel, x.dtype)), bias


def equal_layers(layers: Sequence[Layer]) -> list[range]:
    """Numbers of neighbouring layers with the same parts; the last is alone, as it may compute less."""
    L = len(layers)
    starts = [layer for layer in range(L) if layer in (0, L - 1) or layers[layer] != layers[layer - 1]]
    return [range(start, stop) for start, stop in itertools.pairwise([*starts, L])]


def fold(function: Callable, numbers: range, x):
    """function(last, ... function(first, x)) over `numbers`; an array of the shape and dtype of `x`.

    Differentiable. A single number is a plain call; more are a loop in the graph, which compilers see once. There
    `function` gets an integer array, and its shapes must be known.
    """
    if len(numbers) == 1:
        return function(numbers[0], x)
    if keras.backend.backend() == "jax":  # whose while_loop has no gradient
        return ops.fori_loop(numbers.start, numbers.stop, function, x)
    # XLA compiles a loop's gradient only if the number of iterations is known, which TensorFlow's fori_loop hides.
    _, x = ops.while_loop(
        lambda number, x: number < numbers.stop,
        lambda number, x: (number + 1, function(number, x)),
        (ops.convert_to_tensor(numbers.start, "int32"), x),
        maximum_iterations=len(numbers),
    )
    return x


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
