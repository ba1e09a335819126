"""Formulas are compiled where that is asked for and pays, and have the same values then."""

import numpy as np
import pytest
from keras import ops

from albert_tf.model.formulas import LARGE, SUMMANDS, formulas_compiled_by, in_one_pass, summed


@in_one_pass
def centred(x, by: float):
    """Sums and elementwise operations, several results, a constant."""
    return by * (x - ops.mean(x, axis=-1, keepdims=True)), ops.sum(ops.square(x), axis=0)


class Compiler:
    """Compiles nothing, but keeps what it was given."""

    def __init__(self):
        self.given = []

    def __call__(self, formula):
        self.given.append(formula.__name__)
        return formula


def compiled(x) -> list[str]:
    """The formulas that were handed to the compiler."""
    compiler = Compiler()
    with formulas_compiled_by(compiler):
        centred(x, 2.0)
    centred(x, 2.0)  # no longer
    return compiler.given


def test_large_arrays_are_compiled_and_no_others():
    assert compiled(np.zeros((LARGE // 64, 64), "float32")) == ["centred"]
    assert compiled(np.zeros((LARGE // 64 - 1, 64), "float32")) == []


def test_an_inner_scope_can_ask_for_none():
    outer = Compiler()
    with formulas_compiled_by(outer), formulas_compiled_by(None):
        centred(np.zeros((LARGE, 1), "float32"), 2.0)
    assert outer.given == []


def test_the_scope_ends_with_an_error():
    outer = Compiler()
    with pytest.raises(KeyError), formulas_compiled_by(outer):
        raise KeyError
    centred(np.zeros((LARGE, 1), "float32"), 2.0)
    assert outer.given == []


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("length", [SUMMANDS - 1, SUMMANDS, 3 * SUMMANDS])
def test_sums(axis, length):
    """With a compiler and without one, of lengths that blocks divide and that they do not."""
    x = np.random.default_rng(0).normal(size=[length if n == axis else 5 for n in range(3)])
    for compiler in (None, Compiler()):
        with formulas_compiled_by(compiler):
            np.testing.assert_allclose(summed(x, axis), x.sum(axis=axis, keepdims=True), rtol=1e-6)
