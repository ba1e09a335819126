"""The soak of an export: models that answer wrongly now and then, or keep what they receive, are noticed."""

import random

import numpy as np
import pytest

from data_prep.errors import InputError
from experiments import serving_soak
from experiments.serving_soak import SoakSettings, main, make_batches, same


@pytest.fixture
def settings(tmp_path) -> SoakSettings:
    (tmp_path / "text.txt").write_text("one two three four five six seven\n" * 20)
    return SoakSettings(
        tmp_path / "model", str(tmp_path / "*.txt"), calls=40, threads=4, batches=10, growth=24
    )


def lengths(texts) -> dict[str, np.ndarray]:
    return {"length": np.array([len(text) for text in texts], "float32")}


def test_equal_answers_pass(settings, monkeypatch):
    monkeypatch.setattr(serving_soak, "load", lambda folder: lengths)
    result = main(settings)
    assert (result["calls"], result["different"]) == (40, 0)
    assert len(result["megabytes"]) == 5


def test_an_answer_of_another_thread_is_noticed(settings, monkeypatch):
    calls = []

    def answer(texts):
        calls.append(texts)
        return lengths(texts if len(calls) < 30 else calls[0] + ["more"])

    monkeypatch.setattr(serving_soak, "load", lambda folder: answer)
    with pytest.raises(InputError, match=r"Received \d+ different answers"):
        main(settings)


def test_growing_memory_is_noticed(settings, monkeypatch):
    kept = []

    def answer(texts):
        kept.append(np.ones(1 << 18))  # 2 MB
        return lengths(texts)

    monkeypatch.setattr(serving_soak, "load", lambda folder: answer)
    with pytest.raises(InputError, match="memory must not grow by more than 24 MB. Received 0 different"):
        main(settings)


def test_batches(settings):
    batches = make_batches(settings, random.Random(0))
    assert batches == make_batches(settings, random.Random(0))
    assert all(text.count("[MASK]") == 1 for batch in batches for text in batch)
    assert {len(batch) for batch in batches} > {1}
    assert not same({"a": np.ones(2)}, {"a": np.ones(3)})
    assert not same({"a": np.array(["x"])}, {"a": np.array(["y"])})
