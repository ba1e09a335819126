"""The loop over the layers: weights cast once, layers recomputed, equal ones as one loop or function."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence

import keras
from keras import ops

from albert_tf.kernels.blocks import Attention, Blocks, FeedForward, Tokens

Layer = Sequence[tuple[Attention, FeedForward]]  # `inner_group_num` pairs

MASKS_PER_PAIR = 3  # dropout masks: attention probabilities, attention output, feed-forward output


class Execution:
    """Runs the layers in one call of an encoder.

    Matrices and biases are cast to the compute dtype once, not in every layer that uses them. Each layer is a pure
    function of its input, its weights and the dropout state, which follows from its number: the backward pass can
    run it again and draw the same masks.

    Args:
      blocks: computes the parts of a layer.
      layers: the parts of each layer, after the embeddings have drawn their dropout mask.
      tokens: the rows of the layers' arrays; the last layer computes only those that are wanted.
      recompute: whether the backward pass runs each layer again.
      make_function: as in `Kernels`.
    """

    def __init__(
        self,
        blocks: Blocks,
        layers: Sequence[Layer],
        tokens: Tokens,
        *,
        recompute: bool = False,
        make_function: Callable | None = None,
    ):
        self.blocks, self.layers = blocks, layers
        self.tokens, self.tokens_inside = tokens, dataclasses.replace(tokens, wanted=None)
        self.recompute, self.make_function = recompute, make_function
        self.functions: dict[tuple, Callable] = {}
        self.seeds = layers[0][0][0].seeds
        self.dropout_state = self.seeds.state * 1  # a copy
        weights = {} if make_function else {id(each): each for layer in layers for each in _weights(layer)}
        self.values = {key: self._cast(weight) for key, weight in weights.items()}

    def run(self, x, scan: bool) -> list:
        """The input of the first layer and the outputs of all; with `scan`, of equal layers only the last.

        Args:
          x: (R, H), the input of the first layer.
          scan: whether equal layers are a loop.
        """
        L, hidden = len(self.layers), [x]
        for numbers in equal_layers(self.layers) if scan else [range(i, i + 1) for i in range(L)]:
            hidden.append(fold(functools.partial(self._run_layer, numbers), numbers, hidden[-1]))
        if self.blocks.training:  # moves the seeds past the masks of all layers
            self.seeds.state.assign(self._state_before(L))
        return hidden

    def _run_layer(self, numbers: range, number, x):
        """The output of the layer with this number, one of several equal ones."""
        layer, is_last = self.layers[numbers[0]], len(self.layers) - 1 in numbers
        weights, state = _weights(layer), self._state_before(number)

        def run(x, *values):
            with keras.StatelessScope([(self.seeds.state, state)]) as scope:
                for weight, value in zip(weights, values, strict=True):
                    scope.add_update((weight, value))  # the constructor would cast them back to float32
                for pair, (attention, ffn) in enumerate(layer, 1):
                    tokens = self.tokens if is_last and pair == len(layer) else self.tokens_inside
                    x = self.blocks.feed_forward(ffn, self.blocks.attention(attention, x, tokens))
            return x

        if self.make_function is not None:
            key = (*(id(part) for pair in layer for part in pair), is_last and self.tokens.wanted is not None)
            if key not in self.functions:
                self.functions[key] = self.make_function(
                    lambda x, *values: run(x, *map(self._cast, values)), weights
                )
            return self.functions[key](x)
        # keras.remat computes gradients for all arguments; what else `run` reads needs none.
        return (keras.remat(run) if self.recompute else run)(
            x, *(self.values[id(weight)] for weight in weights)
        )

    def _cast(self, weight):
        # int8 matrices, too: TensorFlow multiplies whole numbers as floats faster than as integers on CPUs.
        of_product = len(weight.shape) == 2 or weight.name == "bias"
        return ops.cast(weight, self.tokens.mask_scores.dtype if of_product else weight.dtype)

    def _state_before(self, number):
        """The dropout state that a layer starts from."""
        masks = ops.array([0, MASKS_PER_PAIR * len(self.layers[0])], "int32")
        return self.dropout_state + ops.cast(masks * number, self.dropout_state.dtype)


def _weights(layer: Layer) -> list[keras.Variable]:
    return [weight for pair in layer for part in pair for weight in part.weights]


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
