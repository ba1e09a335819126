"""Google's TPU compiler compiles the training step of every preset (experiments/tpu_compile.py)."""

import importlib.util
import itertools
import json

import pytest

from albert_tf.config import PRESETS, AlbertConfig
from albert_tf.flops import training_flops
from data_prep.errors import InputError
from experiments import tpu_compile
from experiments.tpu_compile import (
    Compiled,
    CompileSettings,
    check_for_tpu,
    largest,
    number_of_chips,
)
from tests.processes import run_together

needs_the_compiler = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("jax", "libtpu"))),
    reason="jax and libtpu are an extra: pip install '.[tpu-compile]'",
)


@needs_the_compiler
@pytest.mark.very_slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("backend", "preset", "remat"),
    [
        *itertools.product(["tensorflow"], PRESETS, ("--noremat", "--remat")),
        *itertools.product(["tensorflow", "jax"], ["albert_base_v2"], ["--remat=activations"]),
        ("jax", "albert_base_v2", "--noremat"),
    ],
)
def test_every_preset_compiles(backend, preset, remat, tmp_path):
    """The program also checks that all shapes are static and that nothing calls the host."""
    output = tmp_path / "report.json"
    # In its own process, because the compiler keeps some GB after compiling a large model.
    flags = ["--topology=v5e:2x2", "--batch_size=4", "--max_seq_length=128", "--scan_layers"]
    flags += [f"--preset={preset}", f"--output={output}", remat]
    command = ["-m", "experiments.tpu_compile", *flags]
    (result,) = run_together([command], [{"KERAS_BACKEND": backend, "XLA_FLAGS": ""}], timeout=3600)
    assert result.returncode == 0, result.stderr
    compiled = json.loads(output.read_text(encoding="utf-8"))
    assert compiled["fits"]
    config = AlbertConfig.from_preset(preset)
    assert (compiled["chips"], compiled["batch_a_chip"]) == (4, 1)
    # The compiler counts a loop's body once. If layers are shared, the loop stands for all but the last one.
    counted = (
        AlbertConfig.from_preset(preset, num_hidden_layers=2) if config.parameter_sharing == "all" else config
    )
    assert compiled["compiler_flops"] > 0.95 * training_flops(counted, 128, 20)


@pytest.mark.parametrize("power", [0.9, 1.0, 1.1])
@pytest.mark.parametrize("an_example", [30e6, 1e9, 5e9, 20e9])
def test_the_largest_batch(monkeypatch, power, an_example):
    """Temporaries grow more slowly or faster than the batch; the fake compiler rejects what does not fit."""
    weights, limit = 1_000_000_000, 16 << 30
    tried = []

    def compiled(_settings, batch):
        found = Compiled(batch, 1.0, weights, int(an_example * batch**power), 0, 1.0)
        tried.append(found.memory <= limit)
        return found if tried[-1] else None

    monkeypatch.setattr(tpu_compile, "compile_step", compiled)
    found = largest(CompileSettings(), most=10_000)
    expected = int(((limit - weights) / an_example) ** (1 / power))
    if expected == 0:
        assert found is None
    else:
        assert found.batch_a_chip <= expected
        assert found.batch_a_chip >= min(expected, int(expected / 1.05))
    assert len(tried) <= 8
    if power <= 1 and expected >= 4:
        assert all(tried), "the compiler is slow to reject a step"
    assert largest(CompileSettings(), most=1) == (None if expected == 0 else compiled(None, 1))


def test_a_step_that_needs_the_host_is_rejected():
    with pytest.raises(ValueError, match="an unknown dimension: tensor<4x\\?"):
        check_for_tpu("%0 = stablehlo.add %1, %2 : tensor<4x?xf32>")
    with pytest.raises(ValueError, match="a call to the host: callback"):
        check_for_tpu("stablehlo.custom_call @xla_python_cpu_callback(%0) : (tensor<f32>) -> tensor<f32>")


def test_topologies():
    assert number_of_chips("v5e:4x4") == 16
    assert number_of_chips("v4:2x2x4") == 16
    for wrong in ("v5e", "v1:2x2", "v5e:4"):
        with pytest.raises(InputError, match="--topology must be one of v4, v5e"):
            number_of_chips(wrong)
