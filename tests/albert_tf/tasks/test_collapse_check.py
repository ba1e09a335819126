"""The callback of `fit` that says when a model learns nothing."""

import keras
import numpy as np
import pytest

from albert_tf import CollapseCheck
from tests.albert_tf.tasks.task_models import CASES


def checked(name: str, model_file, change=lambda head: None, **logs) -> CollapseCheck:
    """The check after an epoch of a fresh model whose head is changed."""
    case = CASES[name]
    model = case.build(model_file)
    model.compile("sgd")
    change(model)
    check = CollapseCheck(case.x, case.y, batch_size=8)
    check.set_model(model)
    check.on_epoch_end(0, logs)
    return check


def without_texts(model) -> None:
    """The head no longer sees its input."""
    kernel = getattr(model, model.head_name).output_dense.kernel
    kernel.assign(np.zeros(kernel.shape))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("text", "21 of 21 predictions are 'small'"),
        pytest.param("stars", "21 of 21 predictions are '1'", marks=pytest.mark.very_slow),
        pytest.param("topics", "all 21 predictions are about 0.5, 0.5, 0.5", marks=pytest.mark.very_slow),
        pytest.param("pair", "all 21 predictions are about 0", marks=pytest.mark.very_slow),
        pytest.param("choice", "21 of 21 predictions are 'A'", marks=pytest.mark.very_slow),
        pytest.param("words", "predictions are 'O'", marks=pytest.mark.very_slow),
    ],
)
def test_a_head_that_sees_nothing(name, message, model_file, capfd):
    check = checked(name, model_file, without_texts)
    assert message in check.seen
    assert f"warning: epoch 1: {check.seen}; try a lower learning rate" in capfd.readouterr().err


@pytest.mark.very_slow
@pytest.mark.parametrize("name", ["span", "span or none"])
def test_questions_are_read_like_in_a_run(name, model_file):
    assert isinstance(checked(name, model_file).seen, str)


@pytest.mark.very_slow
def test_a_loss_that_is_that_of_a_guess(model_file, monkeypatch, capfd):
    monkeypatch.setattr("albert_tf.tasks.texts.kind.Classes.collapse", lambda *_: "")
    assert checked("text", model_file, loss=0.69).seen == "the loss, 0.690, is that of a guess"
    assert checked("text", model_file, loss=0.5).seen == ""
    assert "loss" not in checked("pair", model_file, loss=9.0).seen  # that of a guess is unknown

    def with_own_loss(model):
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))

    assert checked("text", model_file, with_own_loss, loss=9.0).seen == ""


@pytest.mark.slow
def test_it_is_called_by_fit(model_file, capfd):
    """At a rate of 0 nothing is learned."""
    case = CASES["text"]
    model = case.build(model_file)
    model.compile(keras.optimizers.SGD(0.0))
    check = CollapseCheck(case.x, case.y)
    model.fit(case.x, case.y, batch_size=8, epochs=1, verbose=0, callbacks=[check])
    assert check.seen
    assert "warning: epoch 1: " in capfd.readouterr().err
