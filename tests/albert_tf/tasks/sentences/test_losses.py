"""The losses of sentence vectors against plain NumPy."""

import numpy as np
import pytest
from keras import ops

from albert_tf.tasks.sentences.losses import class_losses, cosine_losses, pair_losses, text_prints
from tests.albert_tf.tasks.sentences.same_steps import B, batch

TEMPERATURE = 0.3


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def words(arrays: dict[str, np.ndarray], *place: int) -> tuple[int, ...]:
    return tuple(arrays["input_ids"][place][arrays["input_mask"][place] > 0].tolist())


def cross_entropy(right: list[float], wrong: list[float]) -> float:
    """The mean over right cosines of -log of their share among all."""
    total = sum(np.exp(value / TEMPERATURE) for value in (*right, *wrong))
    return float(np.mean([-np.log(np.exp(value / TEMPERATURE) / total) for value in right]))


@pytest.fixture
def vectors() -> np.ndarray:
    return np.random.default_rng(3).normal(size=(B, 3, 4)).astype("float32")


def known(arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    is_example = np.reshape(arrays["sample_weight"] > 0, (-1, *[1] * (arrays["input_ids"].ndim - 2)))
    texts = (arrays["input_mask"].max(-1) > 0) & is_example
    return texts.astype("float32"), text_prints(arrays["input_ids"], arrays["input_mask"], 12)


@pytest.mark.parametrize("symmetric", [False, True])
def test_pairs(vectors, symmetric):
    arrays = batch("pairs")
    texts, prints = known(arrays)
    assert not texts[3, 2] and not texts[B - 1].any()
    found = ops.convert_to_numpy(pair_losses(vectors, texts, prints, TEMPERATURE, symmetric))
    firsts, seconds = ([words(arrays, i, c) for i in range(B)] for c in (0, 1))
    assert seconds[0] == seconds[1] and firsts[2] == firsts[5]
    for i in range(B - 1):
        wrong = [
            cosine(vectors[i, 0], vectors[j, c])
            for j in range(B)
            for c in (1, 2)
            if texts[j, c]
            and words(arrays, j, c) not in (firsts[i], seconds[i])
            and not (c == 1 and firsts[j] == firsts[i])
        ]
        expected = cross_entropy([cosine(vectors[i, 0], vectors[i, 1])], wrong)
        if symmetric:
            others = [
                cosine(vectors[i, 1], vectors[j, 0])
                for j in range(B)
                if texts[j, 0] and firsts[j] not in (firsts[i], seconds[i]) and seconds[j] != seconds[i]
            ]
            expected = (expected + cross_entropy([cosine(vectors[i, 0], vectors[i, 1])], others)) / 2
        assert found[i] == pytest.approx(expected, abs=1e-5)


def test_classes(vectors):
    arrays, vectors = batch("classes"), vectors[:, 0]
    texts, prints = known(arrays)
    groups = arrays["group"]
    found = ops.convert_to_numpy(class_losses(vectors, texts, prints, groups, TEMPERATURE))
    names = [words(arrays, i) for i in range(B)]
    for i in range(B - 1):
        others = [j for j in range(B) if texts[j] and names[j] != names[i]]
        right = [cosine(vectors[i], vectors[j]) for j in others if groups[j] == groups[i]]
        wrong = [cosine(vectors[i], vectors[j]) for j in others if groups[j] != groups[i]]
        assert found[i] == pytest.approx(cross_entropy(right, wrong) if right else 0, abs=1e-5)
    assert found[3] == 0, "the only one of its class"


def test_scores(vectors):
    scores = np.linspace(0, 1, B)
    expected = [(cosine(*pair[:2]) - score) ** 2 for pair, score in zip(vectors, scores, strict=True)]
    np.testing.assert_allclose(ops.convert_to_numpy(cosine_losses(vectors, scores)), expected, atol=1e-6)


def test_prints_do_not_depend_on_padding():
    ids, mask = np.array([[5, 6, 7, 0, 0]]), np.array([[1, 1, 1, 0, 0]])
    alone = text_prints(ids, mask, 12)
    np.testing.assert_array_equal(alone, text_prints(ids[:, :3], mask[:, :3], 12))
    for other in ([[6, 5, 7, 0, 0]], [[5, 6, 8, 0, 0]]):
        assert not np.array_equal(alone, text_prints(np.array(other), mask, 12))
