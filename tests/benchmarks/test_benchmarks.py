"""The benchmarks' arithmetic against plain NumPy, the documentation's commands, and runs of the harness."""

import importlib
import inspect
import json
import re
import shlex
from types import SimpleNamespace

import numpy as np
import pytest

from albert_cli import program
from benchmarks import accelerator, finetuning, inference, train_step
from benchmarks.batches import MASK, training_batch
from benchmarks.inference import Cell, InferenceSettings
from benchmarks.libraries.ours import make_training_step, task_batches
from benchmarks.report import compare
from benchmarks.step_profile import by_purpose, operation_seconds
from benchmarks.task_examples import padded_batches
from data_prep.errors import InputError
from tests.processes import ROOT, run_together

PAGE = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8").replace("\\\n", " ")
COMMANDS = re.findall(r"^    python -m ((?:benchmarks|experiments)\..*)$", PAGE, re.MULTILINE)


def peer(name: str, seconds: list[float], **facts):
    """A peer that has taken turns of these times, and of twice the CPU time."""
    replies = [{"seconds": s, "user_seconds": 2 * s, "peak_megabytes": 10 + s, **facts} for s in seconds]
    return SimpleNamespace(name=name, first_turn_seconds=3.0, replies=replies)


def test_rates_and_ratios_are_medians_over_turns():
    rng = np.random.default_rng(0)
    times = {name: rng.uniform(1, 3, 5) for name in ("albert_tf", "keras_hub", "hugging_face", "peak")}
    work = {name: rng.uniform(10, 20, 5) for name in times}
    peers = [peer(name, list(seconds)) for name, seconds in times.items()]
    rows = compare(peers, lambda each: list(work[each.name]), ["keras_hub", "hugging_face"])
    rates = {name: work[name] / times[name] for name in times}
    best = max(("keras_hub", "hugging_face"), key=lambda name: np.median(rates[name]))
    for name, row in rows.items():
        assert row["per_second"] == pytest.approx(np.median(rates[name]))
        assert row["per_user_second"] == pytest.approx(np.median(rates[name]) / 2)
        assert row["of_best_peer_by_seconds"] == pytest.approx(np.median(rates[name] / rates[best]))
        ratios = rates["albert_tf"] / rates[name]
        assert row["albert_tf_times_by_user_seconds"] == pytest.approx(np.median(ratios))
        assert row["range_of_times_by_seconds"] == pytest.approx([ratios.min(), ratios.max()])
        assert row["peak_megabytes"] == pytest.approx(10 + times[name].max())


def test_ours_must_run_and_others_need_not():
    with pytest.raises(InputError, match="albert_tf must run to the end.* its error is in albert_tf.log"):
        compare([peer("openvino", [1.0])], lambda _: [1.0], ["openvino"])
    rows = compare([peer("albert_tf", [1.0])], lambda _: [2.0], [])
    assert rows["albert_tf"]["per_second"] == 2
    assert "of_best_peer_by_seconds" not in rows["albert_tf"]


def test_a_batch_predicts_each_position_once():
    data = training_batch(2, 32, 5, 100)
    assert all(len(set(row)) == 5 and row.max() < 32 for row in data["masked_lm_positions"])
    is_mask = data["input_ids"] == MASK
    assert 0 < is_mask.sum() <= 10
    assert np.isin(np.nonzero(is_mask[0])[0], data["masked_lm_positions"][0]).all()
    assert data["input_ids"].min() >= MASK


def test_a_turn_has_all_lengths_in_batches_of_similar_lengths():
    lengths = np.random.default_rng(1).geometric(0.1, 5000)
    rows = finetuning.sample(lengths, 32, 16, seed=3)
    assert len(set(rows)) == 512
    turns = [lengths[finetuning.sample(lengths, 32, 16, seed)].mean() for seed in range(20)]
    assert np.mean(turns) == pytest.approx(lengths.mean(), rel=0.02)
    batches = lengths[rows].reshape(16, 32)
    assert (batches.max(axis=1) - batches.min(axis=1)).mean() < 3
    assert (batches[:-1].min(axis=1) >= batches[1:].max(axis=1)).all()


@pytest.mark.slow
def test_grouped_batches_have_the_lengths_of_ours():
    """All of a turn, so that both libraries train on the same examples with the same padding."""
    examples = [
        {
            "input_ids": np.full(length, 100 + row, np.int32),
            "token_type_ids": np.zeros(length, np.int32),
            "label": np.array(row % 2, np.int32),
        }
        for row, length in enumerate(np.random.default_rng(0).integers(3, 20, 40))
    ]
    batches = [*padded_batches(examples, 5, 8, seed=1, grouped=True)]
    shapes = [batch["input_ids"].shape for batch in batches]
    assert sorted(shapes) == sorted(task_batches(examples, 5, None, 8)[1])
    rows = np.concatenate([batch["input_ids"][:, 0] for batch in batches])
    assert sorted(rows) == list(range(100, 140))
    for batch in batches:
        sizes = batch["attention_mask"].sum(axis=1)
        np.testing.assert_array_equal(sizes, (batch["input_ids"] > 0).sum(axis=1))
        np.testing.assert_array_equal(batch["labels"], batch["input_ids"][:, 0] % 2)


def test_cells_of_full_rows_and_of_real_lengths(tmp_path, model_file):
    lines = [f"{'the captain sailed ' * n}\t1" for n in range(1, 6)]
    (tmp_path / "dev.tsv").write_text("\n".join(["sentence\tlabel", *lines]) + "\n")
    settings = InferenceSettings(
        shapes=(), tasks=(f"sst-2={tmp_path}",), task_batch=2, turns=2, spm_model_file=str(model_file)
    )
    cell = inference.task_cell(settings.tasks[0], settings)
    assert cell.name == "sst-2, 2 rows"
    assert [len(rows) for rows in cell.batches] == [2, 2]
    assert cell.requests(3)[2] == {"lengths": cell.batches[0], "T": max(cell.batches[0])}
    assert Cell("", ((3, 1), (2, 2))).filled == 0.8


def test_libraries_with_the_same_weights_must_agree():
    peers = [peer("albert_tf", [1.0], value=1.0), peer("openvino", [2.0], value=1.0005)]
    peers += [peer("onnx_runtime", [1.0], value=1.1), peer("keras_hub", [1.0], value=7.0)]
    rows = inference.rows_of(peers, [32], "float32")
    agreed = {name: row["agrees"] for name, row in rows.items()}
    assert agreed == {"albert_tf": True, "openvino": True, "onnx_runtime": False, "keras_hub": None}
    starts = {name: {"start_seconds": 3.0, "load_seconds": 1.0} for name in rows}
    run = {"dtype": "float32", "starts": starts, "filled": {"2 x 16": 0.75}, "cells": {"2 x 16": rows}}
    line = "| 2 x 16, 75% tokens | 32 (1.00) | 16 (2.00) | 32 (1.00) differs | 32 (1.00) | 1.00 |"
    assert line in inference.latency_table(run)


@pytest.mark.very_slow
def test_the_times_of_all_operations_add_up(tiny_config):
    step = make_training_step(tiny_config, training_batch(4, 16, 2, tiny_config.vocab_size), "float32")
    step()
    seconds = operation_seconds(step)
    assert min(seconds.values()) >= 0
    totals = by_purpose(seconds)
    assert sum(totals.values()) == pytest.approx(sum(seconds.values()))
    assert {"matrix products with their biases", "casts"} <= set(totals)


def parse(module, words: list[str]):
    """The settings that a program's `main` receives; its exit status if there are none."""
    (parameter,) = inspect.signature(module.main).parameters.values()
    received = []
    status = program.run_with_settings(received.append, parameter.annotation, None, words)
    return received[0] if received else status


@pytest.mark.parametrize("command", [command for command in COMMANDS if "..." not in command])
def test_the_documentation_quotes_valid_commands(command):
    name, *words = shlex.split(command)
    assert parse(importlib.import_module(name), words) != 2


@pytest.mark.parametrize(
    ("module", "words", "message"),
    [
        (train_step, ["--peers", "other"], "Received 'other'"),
        (train_step, ["--shapes", "16,128,129"], "and P of at most T. Received 16,128,129."),
        (inference, ["--peers", "keras_hub"], "must name albert_tf"),
        (inference, ["--shapes", "1x16"], "--shapes must be positive numbers B,T, such as 8,128."),
        (inference, ["--shapes"], "--shapes without values needs --tasks to measure."),
        (inference, ["--dtypes", "int8"], "--dtypes=int8 need --spm_model_file"),
        (accelerator, ["--models", "huge"], "--models must be among base, large"),
    ],
)
def test_mistakes_are_reported(capsys, module, words, message):
    assert parse(module, words) == 2
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.very_slow
def test_training_steps_beside_the_peak(tiny_config, tmp_path):
    settings = train_step.TrainStepSettings(
        peers=("albert_tf", "albert_tf_micro_batches"), steps=2, logs=tmp_path
    )
    run = train_step.measure(tiny_config, "float32", (2, 16, 3), settings)
    ours, micro = run["peers"]["albert_tf"], run["peers"]["albert_tf_micro_batches"]
    assert ours["last_loss"] == pytest.approx(micro["last_loss"], rel=1e-4)
    assert len(ours["seconds"]) == 2
    assert ours["tokens_per_second"] > 0
    assert "| albert_tf_micro_batches |" in train_step.step_table(run)


@pytest.mark.very_slow
def test_fine_tuning_on_real_text(model_file, tmp_path, capsys):
    words = ["the", "captain", "had", "forgotten", "painted", "apples", "lighthouse", "old", "gardener"]
    rng = np.random.default_rng(0)
    lines = [f"{' '.join(rng.choice(words, rng.integers(1, 12)))}\t{i % 2}" for i in range(40)]
    (tmp_path / "train.tsv").write_text("\n".join(["sentence\tlabel", *lines]) + "\n", encoding="utf-8")
    settings = finetuning.FinetuningBenchmarkSettings(
        str(tmp_path),
        str(model_file),
        output=tmp_path / "report.json",
        peers=("albert_tf", "albert_tf_fit"),
        num_hidden_layers=1,
        dtypes=("float32",),
        batch_size=4,
        turns=2,
        bucketed_batches=5,
        logs=tmp_path / "logs",
    )
    finetuning.main(settings)
    (run,) = json.loads((tmp_path / "report.json").read_text())["runs"]
    for row in run["peers"].values():
        assert row["batch_size"] == 4
        assert row["tokens_per_example"] < 30
        assert len(row["user_seconds"]) == 2
    assert "| albert_tf_fit | 4 |" in capsys.readouterr().out


@pytest.mark.very_slow
def test_our_side_of_the_accelerator_needs_no_tensorflow(tmp_path):
    pytest.importorskip("jax", reason="Keras' JAX backend needs jax")
    (tmp_path / "tensorflow.py").write_text("raise ModuleNotFoundError('No module named tensorflow')")
    flags = ["--peers", "albert_tf", "keras_fit", "--models", "tiny", "--lengths", "16", "--batch_size=2"]
    flags += ["--turns=1", "--steps=2", "--peak_tflops=1", f"--logs={tmp_path}"]
    flags += [f"--output={tmp_path / 'report.json'}"]
    environment = {"KERAS_BACKEND": "", "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    (result,) = run_together([["-m", "benchmarks.accelerator", *flags]], [environment], timeout=400)
    assert result.returncode == 0, result.stderr
    runs = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["runs"]
    assert [run["kind"] for run in runs] == ["training", "inference"]
    assert [list(run["peers"]) for run in runs] == [["albert_tf", "keras_fit"], ["albert_tf"]]
    assert all(0 < row["share_of_peak"] < 1 for run in runs for row in run["peers"].values())
