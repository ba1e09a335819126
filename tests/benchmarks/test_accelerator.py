import json

import pytest

from albert_tf.config import AlbertConfig
from benchmarks.accelerator import AcceleratorSettings, compare_with_best, flops, row, table
from benchmarks.accelerator_peers import Cell, largest_batch
from data_prep.errors import InputError
from tests.benchmarks.finished_peers import finished_peer
from tests.processes import ROOT, run_together


@pytest.mark.parametrize("largest", [0, 1, 2, 3, 7, 8, 63, 64, 100, 1000])
@pytest.mark.parametrize("most", [1, 7, 64, 1000])
@pytest.mark.parametrize("first", [1, 32])
@pytest.mark.parametrize("memory", [None, 1000.0])
def test_largest_batch(largest, most, first, memory):
    """Also if the memory says little about it: here 10 MB and 1 MB a row, whatever `memory` there is."""
    tried = []

    def peak(B):
        assert B not in tried
        tried.append(B)
        return 10.0 + B if largest >= B else None

    found = largest_batch(peak, memory, first, most)
    assert found <= min(largest, most) <= found + max(1, found // 16) - 1 + (found == 0)
    assert len(tried) <= 16


@pytest.mark.parametrize("megabytes_a_row", [1.0, 7.0, 90.0])
def test_memory_says_where_the_largest_batch_is(megabytes_a_row):
    tried = []

    def peak(B):
        tried.append(B)
        used = 500 + megabytes_a_row * B
        return used if used <= 80_000 else None

    found = largest_batch(peak, 81_000.0, 8, 65_536)
    exact = min(int(79_500 / megabytes_a_row), 65_536)
    assert found <= exact <= found + max(1, found // 16)
    assert len(tried) <= 5


def test_figures_of_a_library():
    cell = Cell(AlbertConfig().to_dict(), "training", "bfloat16", T=128, P=19)
    turn = {"steps": 10, "peak_megabytes": 5.0, "device": "NVIDIA H100 80GB HBM3", "versions": {}}
    turns = {
        "albert_tf": [1.0, 2.0, 1.0],
        "hugging_face": [3.0, 3.0, 3.0],
        "hugging_face_compiled": [1.5, 4.0, 1.5],
    }
    settings = AcceleratorSettings()
    rows = {
        name: row(finished_peer(name, [{**turn, "seconds": s} for s in seconds]), cell, 256, settings)
        for name, seconds in turns.items()
    }
    compare_with_best(rows)
    ours = rows["albert_tf"]
    assert ours["step_milliseconds"] == pytest.approx(100)
    assert ours["tokens_per_second"] == pytest.approx(256 * 128 / 0.1)
    assert ours["share_of_peak"] == pytest.approx(flops(cell) * 256 / 0.1 / 989e12)
    assert [row["times_best_peer"] for row in rows.values()] == pytest.approx([1.5, 0.5, 1.0])
    assert "| albert_tf | 100.00 | 327,680 |" in table("base", rows)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            {"models": ("huge",)},
            "--models must be among base, large, xlarge, xxlarge, tiny. Received 'huge'.",
        ),
        ({"lengths": (1024,)}, "--lengths must be from 8 to 512"),
        ({"steps": 0}, "at least 1"),
        ({"peers": ("keras_hub",)}, "Received 'keras_hub'"),
    ],
)
def test_mistakes(flags, message):
    with pytest.raises(InputError, match=message):
        AcceleratorSettings(**flags)


@pytest.mark.very_slow
@pytest.mark.parametrize("largest", [False, True])
def test_our_side_runs_without_tensorflow(tmp_path, largest):
    pytest.importorskip("jax", reason="Keras' JAX backend needs jax")
    (tmp_path / "tensorflow.py").write_text("raise ModuleNotFoundError('No module named tensorflow')")
    flags = ["--peers", "albert_tf", "--models", "tiny", "--lengths", "16", "--batch_size=2", "--turns=1"]
    flags += ["--steps=2", "--peak_tflops=1", f"--logs={tmp_path}", f"--output={tmp_path / 'report.json'}"]
    command = ["-m", "benchmarks.accelerator", *flags, *(["--largest", "--remat=layers"] if largest else [])]
    environment = {"KERAS_BACKEND": "", "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    (result,) = run_together([command], [environment], timeout=400)
    assert result.returncode == 0, result.stderr
    runs = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["runs"]
    assert [run["kind"] for run in runs] == ["training", "inference"]
    for run in runs:
        ours = run["peers"]["albert_tf"]  # absent if the process failed
        assert ours["largest"] == 2 if largest else 0 < ours["share_of_peak"] < 1
