"""The training step of every preset goes through Google's TPU compiler (benchmarks/tpu_compile.py)."""

import importlib.util
import json

import pytest

from albert_tf.config import PRESETS, AlbertConfig
from albert_tf.errors import InputError
from albert_tf.flops import training_flops
from benchmarks.tpu_compile import CompileSettings, check_for_tpu, compile_step, main, number_of_chips

needs_the_compiler = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("jax", "libtpu"))),
    reason="jax and libtpu are an extra: pip install 'albert-tf[tpu-compile]'",
)


@needs_the_compiler
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("remat", [False, True])
@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_compiles(preset, remat):
    """Static shapes only and no calls to the host are checked on the way."""
    settings = CompileSettings(preset=preset, max_seq_length=128, remat=remat, scan_layers=True)
    compiled = compile_step(settings, batch_a_chip=1)
    assert compiled
    config = AlbertConfig.from_preset(preset)
    # The compiler counts a loop's body once: the last layer is apart, all others are one where they are shared.
    counted = (
        AlbertConfig.from_preset(preset, num_hidden_layers=2) if config.parameter_sharing == "all" else config
    )
    assert compiled.compiler_flops > 0.95 * training_flops(counted, 128, 20)


@needs_the_compiler
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_report(tmp_path):
    output = tmp_path / "report.json"
    settings = CompileSettings(topology="v5e:2x2", batch_size=8, max_seq_length=128, output=output)
    report = main(settings)
    assert json.loads(output.read_text(encoding="utf-8")) == json.loads(json.dumps(report))
    assert report["chips"] == 4
    assert report["batch_a_chip"] == 2
    assert 0 < report["of_the_chips_memory"] < 0.1
    assert report["flops"] < report["compiler_flops"] < 1.5 * report["flops"]


def test_a_step_that_needs_the_host_is_noticed():
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
