"""Google's TPU compiler compiles the training step of every preset (experiments/tpu_compile.py)."""

import importlib.util
import itertools
import json

import pytest

from albert_tf.config import PRESETS, AlbertConfig
from albert_tf.flops import training_flops
from albert_tf.parameters import count_parameters
from data_prep.errors import InputError
from experiments import tpu_compile
from experiments.tpu_compile import (
    Compiled,
    CompileSettings,
    Topology,
    check_for_tpu,
    collectives,
    largest,
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
        ("jax", "albert_xxlarge_v2", "--remat"),
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
    assert (compiled["devices"], compiled["batch_a_device"]) == (4, 1)
    # The compiler counts a loop's body once. If layers are shared, the loop stands for all but the last one.
    counted = (
        AlbertConfig.from_preset(preset, num_hidden_layers=2) if config.parameter_sharing == "all" else config
    )
    assert compiled["compiler_flops"] > 0.95 * training_flops(counted, 128, 20)
    assert compiled["host_transfers"] == 0
    if backend == "jax":  # the all-reduce of the gradients, and little more
        assert 1 <= compiled["collective_bytes"] / (4 * count_parameters(config).pretrainer) < 1.01


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
        assert found.batch_a_device <= expected
        assert found.batch_a_device >= min(expected, int(expected / 1.05))
    assert len(tried) <= 8
    if power <= 1 and expected >= 4:
        assert all(tried), "the compiler is slow to reject a step"
    assert largest(CompileSettings(), most=1) == (None if expected == 0 else compiled(None, 1))


def test_a_step_that_needs_the_host_is_rejected():
    with pytest.raises(ValueError, match="an unknown dimension: tensor<4x\\?"):
        check_for_tpu("%0 = stablehlo.add %1, %2 : tensor<4x?xf32>")
    with pytest.raises(ValueError, match="a call to the host: callback"):
        check_for_tpu("stablehlo.custom_call @xla_python_cpu_callback(%0) : (tensor<f32>) -> tensor<f32>")


def test_collectives():
    hlo = """
      %all-reduce.1 = f32[30000,128]{1,0:T(8,128)} all-reduce(f32[30000,128]{1,0:T(8,128)} %x), channel_id=1
      %all-reduce.2 = (f32[768]{0:T(1024)S(1)}, bf16[4,2]{1,0}, f32[]) all-reduce(%y, %z, %s), channel_id=2
      ROOT %add = f32[768]{0} add(f32[768]{0} %all-reduce.3, f32[768]{0} %c)
    """
    assert collectives(hlo) == (2, 4 * 30000 * 128 + 4 * 768 + 2 * 8 + 4)


def test_topologies():
    pod = Topology.named("v5e:4x4")
    assert (pod.devices, pod.memory, pod.peak) == (16, 16 << 30, 197e12)
    # Two links of 50 GB/s, over which 15/16 of the bytes travel twice.
    assert pod.all_reduce_seconds(1_600_000) == pytest.approx(2 * 1_500_000 / 100e9)
    halves = Topology.named("tpu7x:2x2x1")
    assert (halves.devices, halves.memory, halves.peak) == (8, 96 << 30, 2307e12 / 2)
    assert halves.all_reduce_seconds(1_600_000) == pytest.approx(2 * 1_200_000 / 200e9)
    assert Topology.named("v4:2x2x4").all_reduce_seconds(1) is None
    for wrong in ("v5e", "v1:2x2", "v5e:4"):
        with pytest.raises(InputError, match="--topology must be one of v4, v5e"):
            Topology.named(wrong)
