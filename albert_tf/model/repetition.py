"""One computation many times, as a loop in the graph: compilers then see it once."""

from collections.abc import Callable

import keras
from keras import ops


def repeated(function: Callable, numbers: range, x):
    """function(last, ... function(first, x)) over `numbers`; an array of the shape and dtype of `x`.

    Differentiable. One number is a plain call; more are a loop, in which `function` gets an integer array and
    its shapes must be known.
    """
    if len(numbers) == 1:
        return function(numbers[0], x)
    if keras.backend.backend() == "jax":  # whose while_loop has no gradient
        return ops.fori_loop(numbers.start, numbers.stop, function, x)
    # TensorFlow's fori_loop does not say how long it is, without which XLA compiles no gradient of it.
    _, x = ops.while_loop(
        lambda number, x: number < numbers.stop,
        lambda number, x: (number + 1, function(number, x)),
        (ops.convert_to_tensor(numbers.start, "int32"), x),
        maximum_iterations=len(numbers),
    )
    return x
