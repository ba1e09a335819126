"""Random numbers from a key for each example, since TensorFlow's stateless generators take one seed per call.

(seed, place in the endless stream) --example_keys--> key --> uniform, binomial, ... numbers, by a counter
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

_GAMMA = 0x9E3779B97F4A7C15
_SET_PURPOSE = 4  # of `subkeys`; pairs have those before
_COUNTED_TOGETHER = 1 << 16  # positions, which stay in the processor's cache
_ROUNDS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))  # of `_mix`
_WORD = 32  # random bits that a binomial draw takes from each number


def example_keys(seed: int, positions: tf.Tensor) -> tf.Tensor:
    """Hashes positions in the endless stream, epoch * examples + place, int64 [B], into keys, uint64 [B]."""
    base = _mix(_mix(tf.constant(seed % 2**63, tf.uint64)))
    return _mix(base + tf.cast(positions, tf.uint64))


def subkeys(keys: tf.Tensor, purpose: int) -> tf.Tensor:
    """Keys for independent draws, another for each purpose; uint64 [B]."""
    return _mix(tf.bitwise.bitwise_xor(keys, tf.constant(purpose * _GAMMA % 2**64, tf.uint64)))


def drawn_sets(seed: int, positions: tf.Tensor, shares: Sequence[float]) -> tf.Tensor:
    """Draws the set of files that each place in the endless stream of a mixture reads from; int64 [B]."""
    bits = tf.bitwise.right_shift(
        subkeys(example_keys(seed, positions), _SET_PURPOSE), tf.constant(2, tf.uint64)
    )
    bounds = tf.constant(_set_bounds(shares))
    return tf.searchsorted(bounds, tf.cast(bits, tf.int64), side="right", out_type=tf.int64)


def count_drawn_sets(seed: int, positions: range, shares: Sequence[float]) -> np.ndarray:
    """How many of these places `drawn_sets` gives to each set; int64 [sets].

    In NumPy, as a run that resumes counts all places that it has read: 512 million take five seconds.
    """
    bounds = _set_bounds(shares).astype(np.uint64)
    base = _mix_array(_mix_array(np.array([seed % 2**63], np.uint64)))
    purpose = np.uint64(_SET_PURPOSE * _GAMMA % 2**64)
    below = np.zeros(len(bounds), np.int64)
    for begin in range(0, len(positions), _COUNTED_TOGETHER):
        some = positions[begin : begin + _COUNTED_TOGETHER]
        keys = _mix_array(np.arange(some.start, some.stop, some.step, dtype=np.uint64) + base)
        bits = _mix_array(keys ^ purpose) >> np.uint64(2)
        below += np.array([np.count_nonzero(bits < bound) for bound in bounds], np.int64)
    return np.diff(below, prepend=0, append=len(positions))


def _set_bounds(shares: Sequence[float]) -> np.ndarray:
    """The ends of the sets but the last among 62 random bits; int64, to be exact anywhere."""
    return (np.cumsum(shares)[:-1] * 2.0**62).astype(np.int64)


def uniform_pairs(keys: tf.Tensor, count, stream: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Two float32 [B, count] in [0, 1) from keys, uint64 [B]; `stream` is 0 or 1, for two independent draws."""
    bits = _numbers(keys, tf.range(count) * 2 + stream + 1)
    high = tf.bitwise.right_shift(bits, tf.constant(40, tf.uint64))
    low = tf.bitwise.bitwise_and(bits, tf.constant(0xFFFFFF, tf.uint64))
    return tf.cast(high, tf.float32) / 2**24, tf.cast(low, tf.float32) / 2**24


def fair_binomial(keys: tf.Tensor, trials: tf.Tensor) -> tf.Tensor:
    """How many of `trials` fair coins, int32 [B], show heads, int32 [B]: the ones among so many random bits."""
    words = tf.range((tf.reduce_max(trials) + _WORD - 1) // _WORD)
    used = tf.clip_by_value(trials[:, tf.newaxis] - words * _WORD, 0, _WORD)
    one = tf.constant(1, tf.uint64)
    mask = tf.bitwise.left_shift(one, tf.cast(used, tf.uint64)) - one
    bits = tf.bitwise.bitwise_and(_numbers(keys, words + 1), mask)
    return tf.reduce_sum(tf.cast(tf.raw_ops.PopulationCount(x=bits), tf.int32), axis=1)


def _numbers(keys: tf.Tensor, counter: tf.Tensor) -> tf.Tensor:
    """One 64-bit number for each key and counter; uint64 [B, counters]."""
    return _mix(
        tf.cast(keys, tf.uint64)[:, tf.newaxis] + tf.cast(counter, tf.uint64) * tf.constant(_GAMMA, tf.uint64)
    )


def _mix(x: tf.Tensor) -> tf.Tensor:
    """The finalizer of SplitMix64 (Steele, Lea and Flood, 2014): every bit of x changes half of the result's."""
    for shift, factor in _ROUNDS:
        x = tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, tf.constant(shift, tf.uint64)))
        x *= tf.constant(factor, tf.uint64)
    return tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, tf.constant(31, tf.uint64)))


def _mix_array(x: np.ndarray) -> np.ndarray:
    """`_mix` for a NumPy array, which it overwrites."""
    for shift, factor in _ROUNDS:
        x ^= x >> np.uint64(shift)
        x *= np.uint64(factor)
    x ^= x >> np.uint64(31)
    return x
