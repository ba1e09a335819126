"""The mathematics of a step does not depend on the devices that share it, nor on how they compute it.

tests/albert_tf/kernels has each way to compute the layers alone; here they are combined.
"""

import json

import pytest

from albert_tf.pretraining.devices import compiles_for_cpus
from albert_tf.training.tensorflow_devices import TensorFlowDevices
from tests.albert_tf.pretraining.same_steps import B, train
from tests.processes import run_python, run_workers

PROGRAM = ("-m", "tests.albert_tf.pretraining.same_steps")
ALL = {"accumulation_steps": 2, "jit_compile": True, "remat": True}


@pytest.fixture(scope="module")
def one() -> dict:
    """On one device, the whole batch at once."""
    return train(TensorFlowDevices())


def assert_same(result: dict, one: dict) -> None:
    assert result["trace"] == pytest.approx(one["trace"], abs=1e-5)
    assert result["weights"] == pytest.approx(one["weights"], abs=1e-5)
    assert result["evaluation"] == pytest.approx(one["evaluation"], abs=1e-5)


FORMULAS = {"large": 1}  # every formula is compiled, as for a large model on CPUs
FOUR_LAYERS = {"num_hidden_layers": 4}
LOOP = {"shape": FOUR_LAYERS, "scan_layers": True}
# If all examples are equal and the weights do not change, micro-batches of one example that share their masks
# have the same number of correct predictions, so that the sum is a multiple of their number.
SAME_EXAMPLE = {"dropout": 0.5, "same_example": True, "peak": 1e-9}
WITH_DROPOUT = {"steps": 5, "dropout": 0.1, "shape": {"attention_probs_dropout_prob": 0.1}}
ON_REPLICAS = {
    "masks": {"accumulation_steps": 4, **SAME_EXAMPLE},
    "kept": WITH_DROPOUT,
    "recomputed": {**WITH_DROPOUT, "remat": "layers"},
    "formulas": FORMULAS,
    "loop-all": {**LOOP, **ALL},
}
ON_WORKERS = {"plain": {}, "loop-all": ON_REPLICAS["loop-all"]}
COMPILED = ("formulas", "loop-all")  # tensorflow-tpu cannot compile for CPUs


def possible(options: dict[str, dict]) -> dict[str, dict]:
    """The options that this TensorFlow can compute."""
    compiled = () if compiles_for_cpus() else COMPILED
    return {name: each for name, each in options.items() if name not in compiled}


@pytest.fixture(scope="module")
def on_two_devices() -> dict[str, dict]:
    """The results of all options in one process."""
    flags, options = {"strategy": "mirrored", "num_devices": 2}, possible(ON_REPLICAS)
    output = run_python(*PROGRAM, json.dumps(flags), json.dumps([*options.values()]), timeout=500)
    return dict(zip(options, json.loads(output), strict=True))


@pytest.fixture(scope="module")
def on_two_workers() -> list[dict[str, dict]]:
    """The results of all options on each of two workers, one process each."""
    options = possible(ON_WORKERS)
    command = [*PROGRAM, json.dumps({"strategy": "multi_worker"}), json.dumps([*options.values()])]
    workers = run_workers(command, command, timeout=500)
    for worker in workers:
        assert worker.returncode == 0, worker.stderr
    return [dict(zip(options, json.loads(worker.stdout), strict=True)) for worker in workers]


@pytest.mark.slow
def test_it_learns(one):
    assert one["trace"][-1] < one["trace"][0] - 0.1
    assert one["evaluation"]["eval_examples"] == 64


@pytest.mark.slow
@pytest.mark.parametrize(
    "accumulation_steps",
    [2, pytest.param(B, marks=pytest.mark.very_slow)],
)
def test_accumulated_micro_batches_equal_the_batch(one, accumulation_steps):
    assert_same(train(TensorFlowDevices(), accumulation_steps=accumulation_steps), one)


@pytest.mark.very_slow
@pytest.mark.parametrize(
    "options",
    [
        {"parallel_parts": 4, "accumulation_steps": 2},
        {"parallel_parts": 3},
    ],
)
def test_parallel_parts_equal_the_batch(one, options):
    """A batch of eight cannot be split into three parts, so it is computed in one."""
    assert_same(train(TensorFlowDevices(), **options), one)


@pytest.mark.very_slow
@pytest.mark.xla
def test_compiled_equals_uncompiled(one):
    assert_same(train(TensorFlowDevices(), **ALL), one)


@pytest.mark.very_slow
def test_micro_batches_of_a_model_of_full_width():
    """Its gradients are long sums of large arrays, which TensorFlow's memory optimizer gets wrong in two loops."""
    shape = {"embedding_size": 128, "hidden_size": 768, "intermediate_size": 3072}
    shape |= {"num_attention_heads": 12, **FOUR_LAYERS}
    options = {"shape": shape, "steps": 2}
    whole = train(TensorFlowDevices(), **options)
    parts = train(TensorFlowDevices(), accumulation_steps=2, **options)
    assert parts["trace"] == pytest.approx(whole["trace"], abs=1e-5)


@pytest.mark.very_slow
@pytest.mark.xla
@pytest.mark.parametrize("name", COMPILED)
def test_two_mirrored_devices_equal_one(one, four_layers, on_two_devices, name):
    assert_same(on_two_devices[name], four_layers if "loop" in name else one)


@pytest.mark.very_slow
@pytest.mark.parametrize("name", ["plain", pytest.param("loop-all", marks=pytest.mark.xla)])
def test_two_workers_equal_one(one, four_layers, on_two_workers, name):
    for worker in on_two_workers:
        assert_same(worker[name], four_layers if "loop" in name else one)


@pytest.fixture(scope="module")
def four_layers() -> dict:
    """On one device, layer by layer. Two layers would not make a loop, since the last one is outside."""
    return train(TensorFlowDevices(), shape=FOUR_LAYERS)


@pytest.mark.very_slow
@pytest.mark.xla
def test_a_loop_of_compiled_formulas_equals_the_layers_unrolled(four_layers):
    options = {**LOOP, **FORMULAS, "remat": "activations"}
    assert_same(train(TensorFlowDevices(), **options), four_layers)


@pytest.mark.very_slow
def test_bfloat16_learns_as_float32_does(one):
    half = train(TensorFlowDevices(), dtype="mixed_bfloat16")
    assert half["trace"] != one["trace"]
    assert half["trace"] == pytest.approx(one["trace"], abs=0.05)
    assert half["dtypes"] == ["float32", "int64"], "weights and moments; the count of steps"


def assert_masks_differ(result: dict, streams: int) -> None:
    assert any(correct % streams for correct in result["correct"]), result["correct"]
    assert len(set(result["trace"])) == len(result["trace"]), "nor do two steps share their masks"


@pytest.mark.very_slow
@pytest.mark.parametrize("jit_compile", [False, pytest.param(True, marks=pytest.mark.xla)])
def test_micro_batches_do_not_share_dropout_masks(jit_compile):
    options = {"accumulation_steps": B, "jit_compile": jit_compile, **SAME_EXAMPLE}
    assert_masks_differ(train(TensorFlowDevices(), **options), B)


@pytest.mark.very_slow
def test_parallel_parts_do_not_share_dropout_masks():
    assert_masks_differ(train(TensorFlowDevices(), parallel_parts=B, **SAME_EXAMPLE), B)


@pytest.mark.very_slow
def test_replicas_do_not_share_dropout_masks(on_two_devices):
    assert_masks_differ(on_two_devices["masks"], 2)


@pytest.mark.very_slow
def test_recomputed_layers_have_the_masks_of_their_replica(on_two_devices):
    assert_same(on_two_devices["recomputed"], on_two_devices["kept"])


@pytest.mark.very_slow
def test_dropout_is_a_pure_function_of_the_step():
    first, second = (train(TensorFlowDevices(), dropout=0.5) for _ in range(2))
    assert first["trace"] == second["trace"]
    assert first["weights"] == second["weights"]
