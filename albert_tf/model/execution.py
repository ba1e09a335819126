"""How the encoder computes its layers: in less memory and time, with the same results."""

import contextlib
import contextvars
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import keras
from keras import ops

from albert_tf.config import Remat
from albert_tf.kernels.formulas import value_inside
from albert_tf.kernels.padding import Unpadding, remove_padding, restore_zero_padding
from albert_tf.model.layers import FeedForward, SelfAttention, mask_scores_of

Blocks = list[tuple[SelfAttention, FeedForward]]  # of one layer, `inner_group_num` of them

MASKS_PER_BLOCK = 3  # dropout masks: attention probabilities, attention output, feed-forward output

_layer_maker: contextvars.ContextVar[Callable | None] = contextvars.ContextVar("layer_maker", default=None)


@contextlib.contextmanager
def layers_made_by(maker: Callable | None) -> Iterator[None]:
    """Inside the block, layers without dropout call functions that `maker` makes, one for all equal layers.

    Args:
      maker: turns a function of (x, *values) and the variables that have these values into a function of x (R, H);
        None changes nothing.
    """
    with value_inside(_layer_maker, maker):
        yield


def remat_level(remat: Remat) -> Literal[False, "activations", "layers"]:
    """The level that a model's argument `remat` names; True, from when there was one level, is "layers".

    Raises:
      ValueError: there is no such level.
    """
    if remat is True:
        return "layers"
    if remat is not False and remat not in ("activations", "layers"):
        raise ValueError(f"`remat` must be a bool, 'activations' or 'layers'. Received {remat!r}.")
    return remat


def xla_is_faster() -> bool:
    """Whether Keras `fit` should compile the model with XLA where it may choose (`jit_compile="auto"`).

    Not with TensorFlow on CPUs: XLA's kernels are slower there than TensorFlow's own, in bfloat16 by a factor of
    2 to 3.5.
    """
    if keras.backend.backend() != "tensorflow":
        return True
    return any(keras.distribution.list_devices(kind) for kind in ("gpu", "tpu"))


class Execution:
    """Computes the layers of one call of an encoder.

    - Matrices and biases are cast to the compute dtype once, not in every layer that uses them.
    - With `unpad`, outside training, the activations hold no padding: (R, H), R the number of tokens.
    - The last layer computes only the wanted positions.
    - Each layer is a pure function of its input, its weights and the dropout state, which follows from its
      number. With `remat="layers"` the backward pass runs it again and draws the same masks.
    - With `scan_layers`, layers that share all parameters are one loop.
    - Inside `layers_made_by`, equal layers call one function.

    Args:
      encoder: an `AlbertEncoder`, after its embeddings have drawn their dropout mask.
      input_mask: integers (B, T), 1 for tokens.
      positions: integers (B, P), the wanted positions; None for all.
      training: whether dropout is on.
    """

    def __init__(self, encoder, input_mask, positions, training: bool):
        self.encoder, self.T, self.training = encoder, ops.shape(input_mask)[1], training
        self.mask_scores = mask_scores_of(input_mask, encoder.compute_dtype)
        self.unpadding = Unpadding(input_mask) if encoder.unpad and not training else None
        if positions is not None:  # the pooler reads the first token
            positions = ops.concatenate([ops.zeros_like(positions[:, :1]), positions], axis=1)
        self.positions = positions
        self.maker = None if training else _layer_maker.get()
        variables = [] if self.maker else encoder.layer_variables()
        self.values = {id(variable): self._cast(variable) for variable in variables}
        self.dropout_state = encoder.seeds.state * 1  # a copy
        self.functions: dict[tuple, Callable] = {}

    def _cast(self, weight):
        # int8 matrices, too: TensorFlow multiplies whole numbers as floats faster than as integers on CPUs.
        of_product = len(weight.shape) == 2 or weight.name == "bias"
        return ops.cast(weight, self.encoder.compute_dtype if of_product else weight.dtype)

    def start(self, embedded):
        """The input of the first layer, without padding if it is removed: (B*T, H) -> (R, H)."""
        return remove_padding(embedded, self.unpadding)

    def stretches(self, *, rolled: bool) -> list[range]:
        """The layers' numbers in order, one by one or, if `rolled`, equal layers together."""
        L = self.encoder.config.num_hidden_layers
        if rolled:
            return equal_stretches([self.encoder.blocks(layer) for layer in range(L)])
        return [range(layer, layer + 1) for layer in range(L)]

    def run(self, layers: range, x):
        """Computes equal layers, one after the other: (R, H) -> (R, H), or (B*(1+P), H) after the last layer."""
        L, blocks = self.encoder.config.num_hidden_layers, self.encoder.blocks(layers[0])
        positions = self.positions if L - 1 in layers else None
        return repeat(lambda layer, x: self._run_layer(layer, blocks, x, positions), layers, x)

    def _run_layer(self, layer, blocks: Blocks, x, positions):
        variables = [variable for block in blocks for part in block for variable in part.weights]
        seeds, state = self.encoder.seeds, self._state_before(layer)

        def run(x, *values):
            with keras.StatelessScope([(seeds.state, state)]) as scope:
                for variable, value in zip(variables, values, strict=True):
                    scope.add_update((variable, value))  # the constructor would cast them back to float32
                for attention, ffn in blocks:
                    wanted = positions if ffn is blocks[-1][1] else None
                    x = attention(
                        x, self.mask_scores, wanted, unpadding=self.unpadding, training=self.training
                    )
                    x = ffn(x, training=self.training)
            return x

        if self.maker is not None:
            key = (*(id(part) for block in blocks for part in block), positions is None)
            if key not in self.functions:
                self.functions[key] = self.maker(
                    lambda x, *values: run(x, *map(self._cast, values)), variables
                )
            return self.functions[key](x)
        # keras.remat computes gradients for all arguments; what else `run` reads needs none.
        run = keras.remat(run) if self.encoder.remat == "layers" else run
        return run(x, *(self.values[id(variable)] for variable in variables))

    def _state_before(self, layer):
        """The dropout state that a layer starts from."""
        masks = ops.array([0, MASKS_PER_BLOCK * self.encoder.config.inner_group_num], "int32")
        return self.dropout_state + ops.cast(masks * layer, self.dropout_state.dtype)

    def finish(self) -> None:
        """Moves the encoder's seeds past the masks of all layers."""
        if self.training:
            self.encoder.seeds.state.assign(self._state_before(self.encoder.config.num_hidden_layers))

    def to_sequence(self, x):
        """A layer's output with its padding, which is 0: (B, T, H), or (B, 1 + P, H) with `positions`."""
        H = self.encoder.config.hidden_size
        if self.positions is not None:
            return ops.reshape(x, (-1, ops.shape(self.positions)[1], H))
        return ops.reshape(restore_zero_padding(x, self.unpadding), (-1, self.T, H))


def equal_stretches(layers: Sequence[Blocks]) -> list[range]:
    """Numbers of neighbouring layers with the same blocks; the last is alone, as it may compute less."""
    L = len(layers)
    starts = [layer for layer in range(L) if layer in (0, L - 1) or layers[layer] != layers[layer - 1]]
    return [range(start, stop) for start, stop in itertools.pairwise([*starts, L])]


def repeat(function: Callable, numbers: range, x):
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
