"""A step whose loss or gradient is not finite changes nothing, on any devices."""

import itertools
import json
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import AlbertPretrainer, Lamb, WarmupPolynomialDecay
from albert_tf.model.pretrainer import SUMS
from albert_tf.pretraining.flags import PretrainingFlags
from albert_tf.pretraining.objective import PretrainingObjective
from albert_tf.pretraining.steps import step_metrics, trust_ratios
from albert_tf.training.devices import make_devices
from albert_tf.training.steps import STEP_SUMS
from albert_tf.training.tensorflow_devices import TensorFlowDevices
from tests.albert_tf.pretraining.same_steps import CONFIG, B, examples
from tests.processes import run_python

POISONED = 3  # the last example of this step has an infinite weight; only one of two replicas sees it


def train(devices, poison: float = np.inf, **options) -> dict:
    """Six steps; the values of all variables after each, and the last sums."""
    data = examples()
    data["masked_lm_weights"][POISONED * B + B - 1, 0] = poison
    with devices.scope():
        model = AlbertPretrainer(CONFIG, seed=1)
        optimizer = Lamb(WarmupPolynomialDecay(0.02, 30))
        optimizer.build(model.trainable_variables)

    def batches(context):
        dataset = tf.data.Dataset.from_tensor_slices(data).repeat()
        return dataset.batch(context.get_per_replica_batch_size(B), drop_remainder=True)

    iterator = devices.batches(batches)
    step = devices.optimizer_step(PretrainingObjective(model), optimizer, **options)
    variables = [v for v in (*model.trainable_variables, *optimizer.variables) if "iteration" not in v.path]
    states, iterations, sums = [], [], step.zero_sums()
    for _ in range(6):
        sums = step(iterator, 1, sums)
        states.append(np.concatenate([v.numpy().ravel() for v in variables]).tolist())
        iterations.append(int(optimizer.iterations.numpy()))
    return {
        "states": states,
        "iterations": iterations,
        "metrics": step_metrics(sums),
        "sums": {name: float(value) for name, value in sums.items()},
        "trust_ratios": trust_ratios(optimizer),
    }


def assert_skipped(result: dict) -> None:
    states = result["states"]
    same = [before == after for before, after in itertools.pairwise(states)]
    assert same == [False, False, True, False, False], "only the poisoned step is skipped"
    assert result["iterations"] == [1, 2, 3, 4, 5, 6], "the next step reads the next batch"
    assert np.isfinite(states).all()
    assert result["metrics"]["skipped_steps"] == 1
    assert result["sums"]["steps"] == 5
    assert result["sums"]["examples"] == 5 * B
    assert np.isfinite(list(result["metrics"].values())).all()
    assert 0 < result["metrics"]["gradient_norm"] < 100
    ratios = result["trust_ratios"]
    assert 0 < ratios["trust_ratio_min"] < ratios["trust_ratio_mean"] < ratios["trust_ratio_max"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "poison",
    [
        pytest.param(np.inf, marks=pytest.mark.very_slow),
        np.nan,
        pytest.param(-np.inf, marks=pytest.mark.very_slow),
    ],
)
def test_not_finite(poison):
    assert_skipped(train(TensorFlowDevices(), poison))


@pytest.mark.very_slow
def test_accumulated():
    assert_skipped(train(TensorFlowDevices(), accumulation_steps=4))


@pytest.mark.very_slow
@pytest.mark.xla
def test_compiled():
    assert_skipped(train(TensorFlowDevices(), jit_compile=True))


@pytest.mark.very_slow
@pytest.mark.parametrize(
    "options", [{}, pytest.param({"jit_compile": True, "accumulation_steps": 2}, marks=pytest.mark.xla)]
)
def test_only_one_of_two_devices_has_the_bad_example(options):
    output = run_python("-m", "tests.albert_tf.pretraining.test_skipped_steps", json.dumps(options))
    assert_skipped(json.loads(output))


def test_all_steps_skipped():
    zeros = dict.fromkeys((*SUMS, *STEP_SUMS), 0.0)
    assert step_metrics({**zeros, "skipped_steps": 7.0}) == {"skipped_steps": 7}


if __name__ == "__main__":
    flags = PretrainingFlags("", "", do_train=True, strategy="mirrored", num_devices=2)
    print(json.dumps(train(make_devices(flags), **json.loads(sys.argv[1]))))
