"""What every layer, head, model and optimizer must be able to do; cases.py lists them."""

import functools
import gc
import inspect
import json
import operator

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from albert_tf import load_adapters, save_adapters
from tests.conformance.cases import (
    CASES,
    MODELS,
    ON_REPLICAS,
    OPTIMIZERS,
    OWN,
    TWINS,
    all_results,
    is_float,
    make_variables,
    named_results,
    named_weights,
    optimizer_steps,
)
from tests.processes import run_together
from tests.selection import all_but_very_slow

POLICIES = ("float32", "bfloat16", "mixed_bfloat16")
EVERY_CASE = pytest.mark.parametrize("name", CASES)
EVERY_MODEL = pytest.mark.parametrize("name", MODELS)
EVERY_OPTIMIZER = pytest.mark.parametrize("name", OPTIMIZERS)
EVERY_POLICY = pytest.mark.parametrize("policy", all_but_very_slow(POLICIES, ("float32", "mixed_bfloat16")))


def policies(layer) -> list[tuple[str, str]]:
    """The dtype policy of a layer and of everything in it."""
    return [(part.name, part.dtype_policy.name) for part in layer._flatten_layers()]


def encoder_of(model):
    return getattr(model, "encoder", model)


def numpy(array) -> np.ndarray:
    return np.asarray(ops.cast(array, "float32") if is_float(array) else array)


@pytest.fixture
def other_global_policy():
    """Whatever is loaded must keep its own dtype policy."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("float16")
    yield
    keras.config.set_dtype_policy(before)


@EVERY_MODEL
def test_summary_has_the_shapes_of_outputs(name):
    lines = list[str]()
    MODELS[name].make("float32").summary(expand_nested=True, print_fn=lines.append)
    assert "(None, " in "".join(lines)
    assert "?" not in "".join(lines)


@pytest.mark.slow
@EVERY_POLICY
@EVERY_MODEL
def test_config_round_trip(name, policy, other_global_policy):
    model = MODELS[name].make(policy)
    config = model.get_config()
    again = type(model).from_config(model.get_config())
    assert again.get_config() == config == model.get_config()
    assert policies(again) == policies(model)
    assert {part.dtype_policy.name for part in model._flatten_layers()} == {policy}
    assert [(v.path, v.shape, v.dtype) for v in again.weights] == [
        (v.path, v.shape, v.dtype) for v in model.weights
    ]
    options = set(inspect.signature(type(model).__init__).parameters) - {"self", "kwargs"}
    if not getattr(model, "has_labels", True):
        options -= {"labels"}
    assert options | {"name", "dtype"} <= set(config)


@pytest.mark.slow
@EVERY_POLICY
@EVERY_MODEL
def test_save_and_load(name, policy, other_global_policy, tmp_path):
    case = MODELS[name]
    model = case.build(policy)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert type(loaded) is type(model)
    assert loaded.get_config() == model.get_config()
    assert policies(loaded) == policies(model)
    for one, other in zip(case.outputs(loaded), case.outputs(model), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(numpy(one), numpy(other))


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["float32", pytest.param("mixed_bfloat16", marks=pytest.mark.very_slow)])
@pytest.mark.parametrize("name", [name for name in MODELS if "Pretrainer" not in name])
def test_lora(name, policy, tmp_path):
    """It starts as the model that it adapts, trains little, and comes back from a file merged or alone."""
    case = MODELS[name]
    model, base = case.build(policy), case.build(policy)
    model.enable_lora(3)
    for one, other in zip(case.outputs(model), case.outputs(base), strict=True):
        np.testing.assert_array_equal(numpy(one), numpy(other))
    trained = [variable.path for variable in model.trainable_variables if "lora_kernel" in variable.path]
    others = {variable.path for variable in model.trainable_variables} - set(trained)
    assert len(trained) == 4 * sum(map(len, encoder_of(model).attentions))
    assert not any(path.startswith(encoder_of(model).name) for path in others)
    rng = np.random.default_rng(2)
    for variable in model.trainable_variables:
        variable.assign(rng.normal(0, 0.3, variable.shape))
    save_adapters(model, tmp_path / "adapters")
    load_adapters(base, tmp_path / "adapters")
    model.save(tmp_path / "model.keras")
    merged = keras.saving.load_model(tmp_path / "model.keras")
    assert sum("lora" in variable.path for variable in merged.variables) == 0
    for loaded, tolerance in ((base, 0.0), (merged, 1e-5 if policy == "float32" else 0.05)):
        for one, other in zip(case.outputs(loaded), case.outputs(model), strict=True):
            if loaded is merged and numpy(one).dtype.kind == "i" and policy != "float32":
                continue  # the best positions, whose order depends on rounding
            np.testing.assert_allclose(numpy(one), numpy(other), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", [name for name in MODELS if "Albert" not in name])
def test_frozen_encoder(name):
    model = MODELS[name].make("float32")
    assert not model.get_config()["freeze_encoder"]
    frozen = type(model).from_config({**model.get_config(), "freeze_encoder": True})
    assert frozen.get_config()["freeze_encoder"]
    head = {variable.path for variable in getattr(frozen, frozen.head_name).trainable_variables}
    assert {variable.path for variable in frozen.trainable_variables} == head


@pytest.mark.slow
@pytest.mark.parametrize("policy", all_but_very_slow(POLICIES[1:], ("mixed_bfloat16",)))
@EVERY_CASE
def test_bfloat16(name, policy):
    """Variables and results are in the policy's dtypes, and near those of float32."""
    case = CASES[name]
    exact, layer = case.build(), case.build(policy)
    assert {part.dtype_policy.name for part in layer._flatten_layers()} == {policy}
    variable_dtype = keras.DTypePolicy(policy).variable_dtype
    assert {variable.dtype for variable in layer.trainable_variables} == {variable_dtype}
    (outputs, gradients), (exact_outputs, exact_gradients) = case.results(layer), case.results(exact)
    for one, other in zip(outputs, exact_outputs, strict=True):
        if is_float(other):
            one, other = numpy(one), numpy(other)
            seen = np.abs(other) < 1e9
            assert np.isfinite(one).all()
            np.testing.assert_allclose(one[seen], other[seen], atol=0.1 * np.abs(other[seen]).max())
    largest = max(np.linalg.norm(gradient) for gradient in exact_gradients)
    for one, other in zip(gradients, exact_gradients, strict=True):
        assert one.dtype == variable_dtype
        # The exact gradient of a key's bias is 0.
        error = np.linalg.norm(numpy(one) - numpy(other))
        assert error <= 0.3 * np.linalg.norm(other) + 0.03 * largest


def assert_near(found: dict, expected: dict, name: str) -> None:
    """Compares a case's results with those in this process, relative to the largest of their kind."""
    for kind in ("output", "gradient", "weight"):
        keys = [key for key in expected if key.startswith(f"{name}/{kind} ")]
        assert keys == [key for key in found if key.startswith(f"{name}/{kind} ")]
        seen = {key: np.where(np.abs(expected[key]) < 1e9, np.abs(expected[key]), 0) for key in keys}
        scale = max((array.max(initial=0.0) for array in seen.values()), default=0.0)
        for key in keys:
            np.testing.assert_allclose(found[key], expected[key], rtol=1e-4, atol=2e-5 * scale, err_msg=key)


@pytest.fixture(scope="module")
def expected() -> dict[str, np.ndarray]:
    return all_results(CASES)


@pytest.mark.parametrize("name", TWINS)
def test_kernels_equal_the_textbook(name, expected):
    """Outputs without dropout, and gradients in training."""
    ours = name.removesuffix(", without kernels")
    twin = {key.replace(name, ours): array for key, array in expected.items() if key.startswith(f"{name}/")}
    assert_near(twin, expected, ours)


@pytest.fixture(scope="module")
def in_processes(tmp_path_factory) -> dict[str, dict[str, np.ndarray]]:
    """The results with the kernels on two replicas and on JAX; each takes one process for all cases."""
    folder = tmp_path_factory.mktemp("conformance")
    environments = {"mirrored": {}, "one": {"KERAS_BACKEND": "jax"}}
    commands = [["-m", "tests.conformance.cases", kind, folder / f"{kind}.npz"] for kind in environments]
    for finished in run_together(commands, list(environments.values()), timeout=500):
        assert finished.returncode == 0, finished.stderr[-3000:]
    return {kind: dict(np.load(folder / f"{kind}.npz")) for kind in environments}


@pytest.mark.very_slow
@pytest.mark.parametrize("name", [*ON_REPLICAS, *OPTIMIZERS])
def test_two_replicas_equal_one(name, in_processes, expected):
    assert_near(in_processes["mirrored"], expected, name)


@pytest.mark.very_slow
@pytest.mark.parametrize("name", [*OWN, *OPTIMIZERS])
def test_jax_backend_equals_tensorflow(name, in_processes, expected):
    assert_near(in_processes["one"], expected, name)


@pytest.mark.very_slow
@pytest.mark.xla
@pytest.mark.parametrize(
    "name",
    [  # the other task models have the computations of one of these
        *(name for name in ON_REPLICAS if MODELS[name].has_fixed_shapes),
        "TextClassifier",
        "TokenClassifier",
        "MultipleChoice",
        "QuestionAnswering, answerable",
    ],
)
def test_xla(name, expected):
    case = MODELS[name]
    layer = case.build()
    found = named_results(name, *tf.function(lambda: case.results(layer), jit_compile=True)())
    assert_near(found, expected, name)


@pytest.mark.very_slow
@pytest.mark.filterwarnings("ignore:Layer LayerNorm does not have a `quantize` method")
@pytest.mark.parametrize(
    ("name", "policy"),
    [  # one of each base class: it takes seconds, and they share the code
        ("AlbertEncoder, groups", "mixed_bfloat16"),
        ("AlbertPretrainer", "float32"),
        ("MultipleChoice", "float32"),
        ("QuestionAnswering, answerable", "float32"),
    ],
)
def test_quantized(name, policy, other_global_policy, tmp_path):
    """The outputs stay near, and the file and the configuration hold the quantized model."""
    case = MODELS[name]
    model, exact = case.build(policy), case.build()
    model.quantize("int8")
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert gc.get_freeze_count() == 0, "objects are hidden from the garbage collector only meanwhile"
    assert policies(loaded) == policies(model)
    assert json.dumps(loaded.get_config()) == json.dumps(model.get_config())
    matrices = {layer.path for layer in model._flatten_layers() if isinstance(layer, keras.layers.Dense)}
    assert {layer.path for layer in loaded._flatten_layers() if layer.quantization_mode == "int8"} == matrices
    for one, other, near in zip(*map(case.outputs, (loaded, model, exact)), strict=True):
        np.testing.assert_array_equal(numpy(one), numpy(other))
        if is_float(near):
            np.testing.assert_allclose(numpy(one), numpy(near), atol=0.2, rtol=0.1)
    with pytest.raises(ValueError, match='`mode` must be "int8". Received .int4.'):
        exact.quantize("int4")


@pytest.mark.very_slow
@EVERY_MODEL
def test_export(name, tmp_path):
    """Keras' own export of a model that was never called, with named inputs of any size."""
    case = MODELS[name]
    model = case.build()
    model.save(tmp_path / "model.keras")
    names = set(model.input_names)
    assert set(case.inputs) - names <= {"start_positions"}
    inputs = {key: case.inputs.get(key, np.zeros_like(case.inputs["input_ids"])) for key in names}
    expected = case.outputs(model, inputs)
    keras.saving.load_model(tmp_path / "model.keras").export(tmp_path / "saved", verbose=False)
    loaded = tf.saved_model.load(tmp_path / "saved")  # has a name because it owns the variables of `serve`
    signature = loaded.signatures["serving_default"].structured_input_signature[1]
    assert {(spec.name, spec.dtype) for spec in signature.values()} == {(key, tf.int32) for key in names}
    served = loaded.serve({key: tf.constant(array) for key, array in inputs.items()})
    for one, other in zip(keras.tree.flatten(served), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@EVERY_OPTIMIZER
def test_config_round_trip_of_an_optimizer(name):
    optimizer = OPTIMIZERS[name]()
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert type(again) is type(optimizer)
    assert again.get_config() == optimizer.get_config()
    options = set(inspect.signature(type(optimizer)).parameters) - {"kwargs"}
    assert options | {"global_clipnorm"} <= set(optimizer.get_config())


@pytest.mark.slow
@pytest.mark.parametrize("name", all_but_very_slow(OPTIMIZERS, ("AdamW", "Lamb")))
def test_save_and_load_of_an_optimizer(name, tmp_path):
    """A loaded model resumes with the moments, the steps and the schedule that it had."""
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile(OPTIMIZERS[name](), loss="mse", jit_compile=False)
    x, y = np.ones((4, 3), "float32"), np.ones((4, 2), "float32")
    model.fit(x, y, epochs=4, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.optimizer.get_config() == model.optimizer.get_config()
    for one in (model, loaded):
        one.fit(x, y, verbose=0)
    for kind in ("weights", "optimizer.variables"):
        for one, other in zip(*(operator.attrgetter(kind)(each) for each in (loaded, model)), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.very_slow
@pytest.mark.xla
@EVERY_OPTIMIZER
def test_an_optimizer_with_xla(name):
    weights = []
    for run in (lambda steps: steps(), lambda steps: tf.function(steps, jit_compile=True)()):
        variables, optimizer = make_variables(), OPTIMIZERS[name]()
        optimizer.build(variables)
        run(functools.partial(optimizer_steps, optimizer, variables))
        weights.append(named_weights(name, variables))
    assert_near(weights[1], weights[0], name)
