import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.optimizers import AdamW, Lamb, WarmupPolynomialDecay
from albert_tf.optimizers.lamb import trust_ratio
from tests.reference.optimizers import ReferenceOptimizer, learning_rate

SHAPES = {
    "kernel": (7, 5),
    "bias": (5,),
    "layer_norm_gamma": (5,),
    "LayerNorm_beta": (5,),
    "table": (11, 3),
    "zero": (4, 4),  # |w| = 0: the trust ratio is 1
    "still": (3,),  # its gradient is 0
    "small": (3, 2),  # |w| is below 1
}


def make_weights(rng):
    weights = {name: rng.normal(0, 1, shape).astype("float32") for name, shape in SHAPES.items()}
    weights["zero"][:] = 0
    weights["still"][:] = 0
    weights["small"] *= 0.01
    return weights


def make_variables(weights):
    return [keras.Variable(array, name=name) for name, array in weights.items()]


@pytest.mark.slow
@pytest.mark.parametrize(("optimizer", "trust_ratio"), [(Lamb, True), (AdamW, False)])
def test_twenty_steps_equal_the_numpy_oracle(optimizer, trust_ratio):
    rng = np.random.default_rng(0)
    weights = make_weights(rng)
    variables = make_variables(weights)
    schedule = WarmupPolynomialDecay(0.01, num_train_steps=30, num_warmup_steps=5)
    ours = optimizer(schedule)
    expected = ReferenceOptimizer(
        weights, lambda step: learning_rate(step, 0.01, 30, 5), trust_ratio=trust_ratio
    )
    for _ in range(20):
        gradients = {name: rng.normal(0, 1, shape).astype("float32") for name, shape in SHAPES.items()}
        gradients["still"][:] = 0
        ours.apply([keras.ops.convert_to_tensor(g) for g in gradients.values()], variables)
        expected.step(gradients)
        for variable, (name, array) in zip(variables, expected.weights.items(), strict=True):
            np.testing.assert_allclose(variable.numpy(), array, atol=1e-6, rtol=0, err_msg=name)
    assert np.abs(variables[0].numpy() - weights["kernel"]).max() > 0.01  # it did move


@pytest.mark.parametrize("optimizer", [Lamb, AdamW])
def test_bias_and_layer_norm_are_not_decayed(optimizer):
    weights = {
        "kernel": np.ones((2, 2), "float32"),
        "bias": np.ones(2, "float32"),
        "layer_norm": np.ones(2, "f"),
    }
    variables = make_variables(weights)
    optimizer(0.1).apply([np.zeros_like(array) for array in weights.values()], variables)
    assert (variables[0].numpy() < 1).all()
    assert (variables[1].numpy() == 1).all()
    assert (variables[2].numpy() == 1).all()


def test_trust_ratios():
    """|w| / |m / (sqrt(v) + epsilon) + 0.01 w| of every matrix and vector that is decayed; 1 if a norm is 0."""
    rng = np.random.default_rng(3)
    variables = make_variables(make_weights(rng))
    optimizer = Lamb(0.001)
    for _ in range(2):
        gradients = [rng.normal(0, 0.01, shape).astype("float32") for shape in SHAPES.values()]
        gradients[list(SHAPES).index("still")][:] = 0
        optimizer.apply(gradients, variables)
    expected = []
    for name, variable in zip(SHAPES, variables, strict=True):
        if "bias" in name or "layer_norm" in name.lower().replace("layernorm", "layer_norm"):
            continue
        m, v = (np.asarray(moment, "float64") for moment in optimizer.moments_of(variable))
        weight = np.asarray(variable, "float64")
        norms = np.linalg.norm(weight), np.linalg.norm(m / (np.sqrt(v) + 1e-6) + 0.01 * weight)
        expected.append(norms[0] / norms[1] if all(norms) else 1.0)
    assert len(expected) == 5
    assert 1.0 in expected
    np.testing.assert_allclose(optimizer.trust_ratios(), expected, rtol=1e-5)


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("ratio", [0.5, 1.0, 3.0])
def test_the_trust_ratio_of_norms_of_any_size(scale, ratio):
    update = scale * np.array([[0.3, 0.4], [0.0, 0.0]], "float32")
    weight = ratio * scale * np.array([[0.0, 0.0], [0.4, 0.3]], "float32")
    assert float(trust_ratio(weight, update)) == pytest.approx(ratio)
    assert float(trust_ratio(weight, 0 * update)) == float(trust_ratio(0 * weight, update)) == 1.0


@pytest.mark.parametrize(("optimizer", "rate"), [(Lamb, 0.00176), (AdamW, 0.0001)])
def test_the_default_is_the_rate_of_the_papers_of_albert_and_bert(optimizer, rate):
    assert float(optimizer().learning_rate) == pytest.approx(rate)


@pytest.mark.parametrize("power", [1.0, 2.0])
@pytest.mark.parametrize("start", [0, 40])
def test_schedule_equals_the_oracle(power, start):
    schedule = WarmupPolynomialDecay(0.00176, 100, 10, power, start)
    for step in (0, 1, 9, 10, 11, 39, 40, 41, 49, 50, 99, 100, 150):
        expected = learning_rate(step, 0.00176, 100, 10, power, start)
        assert float(schedule(step)) == pytest.approx(expected, abs=1e-9)
    assert float(schedule(start)) == 0
    assert float(schedule(100)) == 0


def test_a_decay_at_the_end():
    schedule = WarmupPolynomialDecay(0.5, 100, 10, 2.0, num_decay_steps=20)
    expected = {0: 0, 9: 0.45, 10: 0.5, 80: 0.5, 81: 0.5 * 0.95**2, 90: 0.125, 100: 0, 150: 0}
    assert {step: float(schedule(step)) for step in expected} == pytest.approx(expected)
    assert WarmupPolynomialDecay.from_config(schedule.get_config())(90) == schedule(90)


def test_schedule_without_warmup_starts_at_the_peak():
    assert float(WarmupPolynomialDecay(0.5, 10)(0)) == 0.5
    assert float(WarmupPolynomialDecay(0.5, num_train_steps=1)(0)) == 0.5
    with pytest.raises(ValueError, match="`num_train_steps` must be at least 1"):
        WarmupPolynomialDecay(0.5, 0)


@pytest.mark.parametrize("optimizer", [Lamb, AdamW])
@pytest.mark.parametrize("decay", [0.1, 0.0])
def test_the_other_weight_decay_of_keras_is_refused(optimizer, decay):
    """It would be added to ours, for biases too, and 0 would not switch ours off."""
    with pytest.raises(
        ValueError, match=f"`weight_decay` must be None.*Received {decay}; give `weight_decay_rate`"
    ):
        optimizer(0.1, weight_decay=decay)
    config = optimizer(0.1, weight_decay_rate=0.3).get_config()
    assert config["weight_decay"] is None
    assert optimizer.from_config(config).weight_decay_rate == 0.3


@pytest.mark.parametrize("optimizer", [Lamb, AdamW])
def test_only_the_argument_excludes_variables(optimizer):
    message = "must be named by `exclude`.* since 'LayerNorm.layer_norm.bias' is excluded already"
    with pytest.raises(ValueError, match=message):
        optimizer(0.1).exclude_from_weight_decay(var_names=["kernel"])
    weights = {"kernel": np.ones((2, 2), "float32"), "bias": np.ones(2, "float32")}
    variables = make_variables(weights)
    optimizer(0.1, exclude="kernel").apply([np.zeros_like(array) for array in weights.values()], variables)
    assert (variables[0].numpy() == 1).all()
    assert (variables[1].numpy() < 1).all()


@pytest.mark.parametrize("optimizer", [Lamb, AdamW])
def test_sparse_gradients_of_lookups_equal_dense_ones(optimizer):
    """Decay and moments move all rows, not only those that were looked up."""
    values, rows = np.array([[1.0, 2.0], [3.0, 4.0]], "float32"), np.array([2, 0])
    dense = np.zeros((4, 2), "float32")
    dense[rows] = values
    results = []
    for gradient in (tf.IndexedSlices(tf.constant(values), tf.constant(rows), (4, 2)), tf.constant(dense)):
        table = keras.Variable(np.ones((4, 2), "float32"), name="table")
        made = optimizer(0.05)
        made.build([table])
        made.apply([gradient], [table])
        made.apply([gradient], [table])
        results.append(table.numpy())
    np.testing.assert_array_equal(*results)


def test_the_norm_of_sparse_gradients_is_that_of_their_sum():
    """Rows that a batch looks up twice are added before they are squared."""
    rows = tf.IndexedSlices(tf.constant([[3.0], [1.0], [3.0]]), tf.constant([1, 0, 1]), (2, 1))
    clipped = []
    for gradient in (rows, tf.constant([[1.0], [6.0]])):
        table = keras.Variable(np.zeros((2, 1), "float32"), name="table")
        made = AdamW(0.05, global_clipnorm=0.1)
        made.build([table])
        made.apply([gradient], [table])
        clipped.append(made.moments_of(table)[0].numpy())
    np.testing.assert_allclose(*clipped, rtol=1e-6)
