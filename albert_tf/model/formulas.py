"""Formulas over arrays that a compiler may make one pass over memory of."""

import contextlib
import contextvars
import functools
import operator
from collections.abc import Callable, Iterator

from keras import ops

# How many numbers a compiled sum adds at a time.
SUMMANDS = 8
# Elements of an array from which on a call of a compiled formula costs less than the passes that it saves.
LARGE = 1 << 16

_compiler: contextvars.ContextVar[Callable | None] = contextvars.ContextVar("compiler", default=None)


@contextlib.contextmanager
def formulas_compiled_by(compiler: Callable | None) -> Iterator[None]:
    """What is computed inside has its formulas compiled one by one.

    Args:
      compiler: of a function of arrays makes a faster one with the same values; None: nothing is compiled.
    """
    token = _compiler.set(compiler)
    try:
        yield
    finally:
        _compiler.reset(token)


def in_one_pass(formula: Callable) -> Callable:
    """The same function, compiled inside `formulas_compiled_by` if its first argument is large, of a known shape.

    Shapes that differ from batch to batch are left alone, since each of them would be compiled.

    Args:
      formula: elementwise operations and sums of arrays; no variables, no random numbers. Arguments that are no
        arrays are constants. It has no gradient when compiled: wrap it in `keras.ops.custom_gradient`.
    """

    @functools.wraps(formula)
    def function(x, *others):
        compiler = _compiler.get()
        return (formula if compiler is None or not _is_large(x) else compiler(formula))(x, *others)

    return function


def summed(x, axis: int):
    """The sums of a formula's array along an axis, which stays, of length 1.

    XLA for CPUs adds one number after the other. Blocks of the array added first are vectors to it.
    """
    if _compiler.get() is not None and ops.shape(x)[axis] % SUMMANDS == 0:
        x = functools.reduce(operator.add, ops.split(x, SUMMANDS, axis))
    return ops.sum(x, axis, keepdims=True)


def _is_large(x) -> bool:
    size = 1
    for length in ops.shape(x):
        if not isinstance(length, int):
            return False
        size *= length
    return size >= LARGE
