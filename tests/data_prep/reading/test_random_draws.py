"""Random numbers in the graph, against SplitMix64 in plain Python."""

import numpy as np
import tensorflow as tf

from data_prep.reading.random_draws import (
    count_drawn_sets,
    drawn_sets,
    example_keys,
    fair_binomial,
    subkeys,
    uniform_pairs,
)

GAMMA, WORD = 0x9E3779B97F4A7C15, 2**64


def mix(x: int) -> int:
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % WORD
    return x ^ (x >> 31)


def number(key: int, n: int) -> int:
    """The n-th number, from 1 on, of the generator that starts from `key`."""
    return mix((key + n * GAMMA) % WORD)


def keys_of(*values: int) -> tf.Tensor:
    return tf.constant(np.array(values, np.uint64))


def test_the_oracle_is_splitmix64():
    """The first numbers from 1234567, as in its authors' program."""
    assert [number(1234567, n) for n in (1, 2, 3)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


def test_pairs_of_both_streams():
    """Each number gives two of 24 bits; the streams take turns, so they have none in common."""
    keys = (0, 1234567, WORD - 1)
    for stream in (0, 1):
        first, second = (values.numpy() for values in uniform_pairs(keys_of(*keys), 5, stream))
        for row, key in enumerate(keys):
            numbers = [number(key, 2 * i + stream + 1) for i in range(5)]
            assert first[row].tolist() == [bits // 2**40 / 2**24 for bits in numbers]
            assert second[row].tolist() == [bits % 2**24 / 2**24 for bits in numbers]


def test_heads_are_the_ones_among_the_bits():
    trials = (0, 1, 31, 32, 33, 100)
    keys = tuple(range(7, 7 + len(trials)))
    expected = []
    for key, count in zip(keys, trials, strict=True):
        words = [number(key, 1 + i) % 2 ** min(32, count - 32 * i) for i in range((count + 31) // 32)]
        expected.append(sum(word.bit_count() for word in words))
    assert fair_binomial(keys_of(*keys), tf.constant(trials, tf.int32)).numpy().tolist() == expected
    assert fair_binomial(keys_of(*keys), tf.zeros(6, tf.int32)).numpy().tolist() == [0] * 6


def test_keys():
    positions = tf.constant([0, 1, 10**12], tf.int64)
    for seed in (0, 3, 2**70):
        base = mix(mix(seed % 2**63))
        expected = [mix((base + position) % WORD) for position in (0, 1, 10**12)]
        assert example_keys(seed, positions).numpy().tolist() == expected
    assert subkeys(keys_of(5), 3).numpy().tolist() == [mix(5 ^ (3 * GAMMA % WORD))]


def test_counted_sets_are_the_drawn_ones():
    """Over several blocks, with gaps between the places, far along the stream, and of empty stretches."""
    shares = [0.7, 0.0, 0.3 - 1e-9, 1e-9]
    for seed in (3, -5, 2**63):
        for places in (range(150_000), range(2**40 + 1, 2**40 + 150_000, 7), range(4, 4)):
            drawn = drawn_sets(seed, tf.constant(np.array(places), tf.int64), shares).numpy()
            counted = count_drawn_sets(seed, places, shares)
            assert counted.tolist() == np.bincount(drawn, minlength=4).tolist()
    assert count_drawn_sets(3, range(5), [1.0]).tolist() == [5]
    assert count_drawn_sets(3, range(5), [1.0, 0.0]).tolist() == [5, 0]
