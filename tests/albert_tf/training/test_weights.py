"""Initial weights from a run with another depth, length, dropout or optimizer."""

import dataclasses
import itertools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints.runs import find_checkpoint
from albert_tf.config import AlbertConfig
from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.optimizers import AdamW, Lamb
from albert_tf.training.checkpoints import RunCheckpoints
from albert_tf.training.weights import load_weights, tile_from
from data_prep.errors import InputError
from tests.reference.positions import tiled_rows
from tests.selection import all_but_very_slow

STEPS = 3


def made(config: AlbertConfig, seed: int, optimizer=Lamb):
    model, optimizer = AlbertPretrainer(config, seed=seed), optimizer(0.01)
    optimizer.build(model.trainable_variables)
    return model, optimizer


def saved(tmp_path, config: AlbertConfig):
    """A model after some steps, with its optimizer, and the folder of its run."""
    model, optimizer = made(config, 1)
    for step in range(STEPS):
        optimizer.apply([tf.random.stateless_normal(v.shape, [step, 0]) for v in model.trainable_variables])
    RunCheckpoints(tmp_path, model, optimizer).save()
    return model, optimizer


def values(variables) -> dict[str, np.ndarray]:
    return {variable.path: variable.numpy() for variable in variables}


def assert_same(ours, theirs) -> None:
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name], err_msg=name)


@pytest.mark.parametrize("part", ["weights", "moments"])
def test_values_that_are_not_finite_are_refused(tiny_config, tmp_path, part):
    model, optimizer = made(tiny_config, 1)
    variable, value = (
        (model.trainable_variables[3], np.nan) if part == "weights" else (optimizer.variables[-1], np.inf)
    )
    variable.assign(np.full(variable.shape, value))
    RunCheckpoints(tmp_path, model, optimizer).save()
    other, its_optimizer = made(tiny_config, 2)
    if part == "moments":
        load_weights(other, tmp_path)
    with pytest.raises(InputError, match=r"must be finite .*ckpt-0, .* holds NaN or infinity"):
        load_weights(other, tmp_path, optimizer=its_optimizer if part == "moments" else None)


@pytest.mark.slow
def test_a_run_is_the_current_folder(tiny_config, tmp_path, monkeypatch):
    saved(tmp_path, tiny_config)
    monkeypatch.chdir(tmp_path)
    assert find_checkpoint(".") == f"checkpoints/ckpt-{STEPS}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, marks=pytest.mark.very_slow),
        {"num_hidden_layers": 7},
        pytest.param({"num_hidden_layers": 1}, marks=pytest.mark.very_slow),
        {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.2},
    ],
)
def test_shared_layers_change_in_number_and_dropout(tiny_config, tmp_path, changes):
    model, optimizer = saved(tmp_path, tiny_config)
    grown, grown_optimizer = made(dataclasses.replace(tiny_config, **changes), 2)
    seeds = values(grown.non_trainable_variables)
    load_weights(grown, tmp_path)
    assert_same(values(grown.trainable_variables), values(model.trainable_variables))
    assert_same(values(grown.non_trainable_variables), seeds)
    assert int(grown_optimizer.iterations.numpy()) == 0
    load_weights(grown, tmp_path, optimizer=grown_optimizer)
    assert_same(values(grown_optimizer.variables), values(optimizer.variables))
    assert int(grown_optimizer.iterations.numpy()) == STEPS


@pytest.mark.slow
@pytest.mark.parametrize("layers", [3, 6])
def test_layers_that_are_not_shared_cannot_change_in_number(tiny_config, tmp_path, layers):
    config = dataclasses.replace(tiny_config, parameter_sharing="attention")
    saved(tmp_path, config)
    grown, _ = made(dataclasses.replace(config, num_hidden_layers=layers), 2)
    before = values(grown.variables)
    expected = "it has no ffn_4_0, ffn_5_0;" if layers == 6 else "this model has no ffn_3_0;"
    with pytest.raises(InputError, match=f"{expected} layers that are not shared cannot change in number"):
        load_weights(grown, tmp_path)
    assert_same(values(grown.variables), before)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("length", "method"),
    all_but_very_slow(
        [*itertools.product([10, 16, 40], [True, "fresh"])], [(10, True), (40, True), (40, "fresh")]
    ),
)
def test_longer_and_shorter_sequences(tiny_config, tmp_path, length, method):
    model, optimizer = saved(tmp_path, tiny_config)
    other, other_optimizer = made(dataclasses.replace(tiny_config, max_position_embeddings=length), 2)
    table = other.encoder.embeddings.position_embeddings
    initial = table.numpy()
    if length != 16:
        with pytest.raises(InputError, match="--resize_positions repeats its rows or cuts them off"):
            load_weights(other, tmp_path)
        np.testing.assert_array_equal(table.numpy(), initial)
    load_weights(other, tmp_path, resize_positions=method, optimizer=other_optimizer)
    learned = model.encoder.embeddings.position_embeddings.numpy()
    beyond = initial[16:] if method == "fresh" else tiled_rows(learned, length)[16:]
    np.testing.assert_array_equal(table.numpy(), np.concatenate([learned[:length], beyond]))
    for name in ("position_embeddings_m", "position_embeddings_v"):
        of_run, ours = (
            next(v.numpy() for v in each.variables if v.path.endswith(name))
            for each in (optimizer, other_optimizer)
        )
        assert of_run.any()
        beyond = np.zeros_like(initial[16:]) if method == "fresh" else tiled_rows(of_run, length)[16:]
        np.testing.assert_array_equal(ours, np.concatenate([of_run[:length], beyond]))
    names = {path for path, value in values(model.trainable_variables).items() if value.shape[0] != 16}
    ours, theirs = values(other.trainable_variables), values(model.trainable_variables)
    assert_same({name: ours[name] for name in names}, {name: theirs[name] for name in names})


@pytest.mark.slow
def test_another_model_and_another_optimizer(tiny_config, tmp_path):
    saved(tmp_path, tiny_config)
    other, _ = made(dataclasses.replace(tiny_config, hidden_size=12), 2)
    with pytest.raises(
        InputError, match="does not fit this configuration: .* in the checkpoint and .* in this model"
    ):
        load_weights(other, tmp_path)
    model, optimizer = made(tiny_config, 2, AdamW)
    with pytest.raises(InputError, match="--init_optimizer needs a checkpoint of the same optimizer"):
        load_weights(model, tmp_path, optimizer=optimizer)


@pytest.mark.slow
def test_naming_a_damaged_checkpoint(tiny_config, tmp_path):
    model, _ = saved(tmp_path, tiny_config)
    path = tmp_path / "checkpoints" / f"ckpt-{STEPS}.data-00000-of-00001"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match="ckpt-3 is damaged: .* bytes instead of"):
        load_weights(model, tmp_path / "checkpoints" / f"ckpt-{STEPS}")


def test_the_best_checkpoint_of_a_run(tiny_config, tmp_path, capfd):
    """A run's folder means its best checkpoint, if it is recorded and intact; a checkpoint means itself."""
    model, optimizer = made(tiny_config, 1)
    checkpoints = RunCheckpoints(tmp_path, model, optimizer, keep=1)
    for step in (1, 2, 3):
        optimizer.iterations.assign(step)
        checkpoints.save()
        if step == 1:
            checkpoints.record_best(1, 5.0)
    folder = tmp_path / "checkpoints"
    checkpoints.record_best(2, 4.0)  # is deleted
    assert find_checkpoint(tmp_path) == str(folder / "ckpt-1")
    assert find_checkpoint(folder / "ckpt-3") == str(folder / "ckpt-3")
    assert find_checkpoint(folder) == str(folder / "ckpt-3")
    assert RunCheckpoints(tmp_path, model, optimizer).restore_latest() == 3
    (folder / "ckpt-1.data-00000-of-00001").write_bytes(b"")
    assert find_checkpoint(tmp_path) == str(folder / "ckpt-3")
    assert "the checkpoint with the best held-out loss is damaged" in capfd.readouterr().err


def test_rows_that_were_not_trained_repeat_the_others(tiny_config, tmp_path):
    model, optimizer = saved(tmp_path, tiny_config)
    before = values([*model.trainable_variables, *optimizer.variables])
    tables = {name for name in before if "position_embeddings" in name}
    assert len(tables) == 3, "the table and its two moments"
    tile_from(5, [*model.trainable_variables, *optimizer.variables])
    expected = {
        name: tiled_rows(value[:5], 16) if name in tables else value for name, value in before.items()
    }
    assert_same(values([*model.trainable_variables, *optimizer.variables]), expected)
