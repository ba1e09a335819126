import json

import numpy as np
import pytest

from albert_tf.lab.sentence_probe import probe
from tests.processes import run_together


def vectors(number: int, signal: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = (rng.random(number) < 0.6).astype(int)
    points = rng.normal(size=(number, 8)) + signal * (2 * labels[:, None] - 1)
    return points.astype("float32"), labels


@pytest.mark.slow
def test_a_head_learns_information_in_the_vectors():
    found = probe(vectors(600, 1.0, 0), vectors(400, 1.0, 1), seed=1)
    assert found["accuracy"] > 0.95
    assert found["chance"] == pytest.approx(0.6, abs=0.06)
    assert (found["train_examples"], found["test_examples"]) == (600, 400)


def test_a_tenth_of_many_examples_determines_when_to_stop():
    found = probe(vectors(5000, 1.0, 0), vectors(400, 1.0, 1), seed=1)
    assert found["accuracy"] > 0.95


def test_a_head_learns_nothing_from_noise():
    found = probe(vectors(5000, 0.0, 0), vectors(4000, 0.0, 1), seed=1)
    assert found["accuracy"] < found["chance"] + 0.03


@pytest.mark.slow
def test_an_exclusive_or_needs_the_tanh_layer():
    """A classifier alone would get half of it."""
    rng = np.random.default_rng(0)
    points = rng.choice([-1.0, 1.0], (1200, 2)).astype("float32")
    labels = (points[:, 0] * points[:, 1] > 0).astype(int)
    points = np.repeat(points, 8, axis=1) + rng.normal(0, 0.1, (1200, 16)).astype("float32")
    found = probe((points[:1000], labels[:1000]), (points[1000:], labels[1000:]), seed=1)
    assert found["accuracy"] > 0.95


@pytest.mark.slow
def test_the_same_seed_gives_the_same_head():
    train, test = vectors(200, 0.2, 0), vectors(200, 0.2, 1)
    assert probe(train, test, seed=3) == probe(train, test, seed=3)


def test_a_handful_of_examples_will_do():
    assert 0 <= probe(vectors(20, 1.0, 0), vectors(10, 1.0, 1), seed=1)["accuracy"] <= 1


@pytest.mark.slow
def test_a_mistake_is_one_sentence(tmp_path):
    """As a program; the laboratory prints its standard error and refers to it."""
    request = ["checkpoint", "output", "examples", "train_examples", "test_examples", "seed"]
    words = json.dumps(dict.fromkeys(request, str(tmp_path / "none")))
    (told,) = run_together([["-m", "albert_tf.lab.sentence_probe", words]], [{}], timeout=240)
    assert told.returncode == 2
    assert told.stderr.splitlines()[-1].startswith(f"There is no checkpoint at {tmp_path}/none")
    assert "Traceback" not in told.stderr
