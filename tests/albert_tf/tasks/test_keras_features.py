"""What Keras' `compile` and `fit` offer works for task models; docs/finetune.md lists it."""

import dataclasses
import importlib
import warnings

import keras
import numpy as np
import pytest

from albert_tf.model.encoder import AlbertEncoder
from albert_tf.optimizers import AdamW
from albert_tf.runtime.pretrained import load_pretrained
from data_prep.errors import InputError
from tests.albert_tf.tasks.task_models import CASES, CONFIG

N, T = 16, 12
_RNG = np.random.default_rng(0)
IDS = {"input_ids": _RNG.integers(5, CONFIG.vocab_size, (N, T)).astype("int32")}
LABELS = _RNG.integers(0, 2, N)
FIT = {"batch_size": 4, "shuffle": False, "verbose": 0}


def fitted(optimizer=None, epochs=2, fit=(), dropout=0.0, **compiled):
    """A classifier after training on ids, and its history."""
    model = CASES["text"].build(None, dropout=dropout)
    model.compile(optimizer or keras.optimizers.SGD(0.1), **compiled)
    history = model.fit(IDS, LABELS, epochs=epochs, **{**FIT, **dict(fit)}).history
    return model, history


def assert_same_weights(one, other, **tolerance):
    for ours, theirs in zip(one.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, **{"rtol": 1e-5, "atol": 1e-6, **tolerance})


@pytest.fixture(scope="module")
def plain():
    return fitted()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "batch_size", "parts"),
    [
        pytest.param({"steps_per_execution": 2}, 4, None, marks=pytest.mark.very_slow, id="several a call"),
        pytest.param({"run_eagerly": True}, 4, None, id="eager"),
        pytest.param({}, 2, 2, marks=pytest.mark.very_slow, id="half batches, two for each update"),
    ],
)
def test_other_ways_to_run_the_same_steps(options, batch_size, parts, plain):
    optimizer = keras.optimizers.SGD(0.1, gradient_accumulation_steps=parts)
    model, history = fitted(optimizer, fit={"batch_size": batch_size}, **options)
    assert_same_weights(model, plain[0])
    if batch_size == 4:
        assert history["loss"][1] == pytest.approx(plain[1]["loss"][1])


@pytest.mark.slow
@pytest.mark.parametrize("case", ["text", pytest.param("span or none", marks=pytest.mark.very_slow)])
def test_float16(case, model_file):
    """For GPUs without bfloat16; Keras scales the loss by itself. `run_eagerly` saves the compilation."""
    losses = {}
    for dtype in ("float32", "mixed_float16"):
        keras.config.set_dtype_policy(dtype)
        try:
            model = CASES[case].build(model_file, dropout=0.0)
        finally:
            keras.config.set_dtype_policy("float32")
        model.compile(AdamW(0.01), run_eagerly=True)
        losses[dtype] = model.fit(CASES[case].x, CASES[case].y, epochs=3, verbose=0).history["loss"]
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    assert model.dtype_policy.compute_dtype == "float16"
    np.testing.assert_allclose(losses["mixed_float16"], losses["float32"], rtol=0.02)


@pytest.mark.very_slow
def test_a_saved_model_resumes_as_if_it_had_not_stopped(tmp_path):
    """With the optimizer's moments and the state of dropout, which Keras' own layers do not save."""
    whole, _ = fitted(AdamW(0.01), dropout=0.1)
    half, _ = fitted(AdamW(0.01), epochs=1, dropout=0.1)
    half.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    loaded.fit(IDS, LABELS, **FIT)
    for ours, theirs in zip(loaded.get_weights(), whole.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.very_slow
def test_compiling_again_forgets_the_earlier_loss_and_metrics():
    model, _ = fitted(epochs=0)
    own = model.evaluate(IDS, LABELS, batch_size=N, verbose=0)

    def ten_times(y, logits):
        return 10 * keras.losses.sparse_categorical_crossentropy(y, logits, from_logits=True)

    model.compile(keras.optimizers.SGD(0.1), loss=ten_times, metrics=["accuracy"])
    assert model.evaluate(IDS, LABELS, batch_size=N, verbose=0)[0] == pytest.approx(10 * own, rel=1e-5)
    model.compile(keras.optimizers.SGD(0.1))
    assert model.evaluate(IDS, LABELS, batch_size=N, verbose=0) == pytest.approx(own)
    assert model.loss is None


@pytest.mark.slow
def test_added_losses_count():
    """Regularizers and `add_loss`; micro-batches would count them several times, and are refused."""
    model, _ = fitted(epochs=0, run_eagerly=True)
    own = model.evaluate(IDS, LABELS, batch_size=N, verbose=0)
    kernel = model.classifier.output_dense.kernel
    kernel.regularizer = keras.regularizers.L2(3.0)
    expected = own + 3 * float(np.square(keras.ops.convert_to_numpy(kernel)).sum())
    model.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    assert model.evaluate(IDS, LABELS, batch_size=N, verbose=0) == pytest.approx(expected, rel=1e-5)
    assert model.fit(IDS, LABELS, batch_size=N, verbose=0).history["loss"] == pytest.approx(
        [expected], rel=1e-5
    )
    model.gradient_accumulation_steps = 2
    model.compile(keras.optimizers.SGD(0.0))
    with pytest.raises(ValueError, match="needs the task's loss alone. Received a model with regularizers"):
        model.fit(IDS, LABELS, batch_size=N, verbose=0)


@pytest.mark.very_slow
def test_layers_that_do_not_train_stay_so_in_files_and_copies(tmp_path):
    model = CASES["text"].build(None, dropout=0.0)
    model.encoder.embeddings.trainable = False
    model.compile(AdamW(0.01))
    model.fit(IDS, LABELS, verbose=0)
    model.save(tmp_path / "model.keras")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of an optimizer that has other variables
        again = keras.saving.load_model(tmp_path / "model.keras")
    names = [variable.path for variable in model.trainable_variables]
    assert [variable.path for variable in again.trainable_variables] == names
    assert not any("/embeddings/" in name for name in names)
    assert len(keras.models.clone_model(model).trainable_variables) == len(names)
    assert len(CASES["text"].build(None).trainable_variables) > len(names)


def fitted_to_strings(model_file, *epochs, callbacks=(), **compiled):
    """A classifier after `fit` on strings from an initial epoch to an end, perhaps several times."""
    case = CASES["text"]
    model = case.build(model_file, dropout=0.0)
    model.compile(keras.optimizers.SGD(0.1), **compiled)
    for first, end in epochs or [(0, 2)]:
        options = {"initial_epoch": first, "epochs": end, "callbacks": list(callbacks), "verbose": 0}
        model.fit(case.x, case.y, batch_size=4, **options)
    return model


@pytest.mark.very_slow
def test_the_order_of_strings_continues_after_the_initial_epoch(model_file):
    """Two epochs, and then a third by itself, are three epochs."""
    whole = fitted_to_strings(model_file, (0, 3))
    assert_same_weights(fitted_to_strings(model_file, (0, 2), (2, 3)), whole, rtol=0, atol=0)
    other = fitted_to_strings(model_file, (0, 2), (0, 1))
    assert not np.array_equal(other.get_weights()[0], whole.get_weights()[0])


@pytest.mark.very_slow
def test_an_epoch_of_strings_has_every_text_once(model_file):
    """Also if the executions of several steps do not divide it."""
    whole = fitted_to_strings(model_file)
    assert int(whole.optimizer.iterations) == 2 * 6
    assert_same_weights(fitted_to_strings(model_file, steps_per_execution=4), whole)


@pytest.mark.very_slow
def test_the_order_of_strings_continues_after_a_backup(model_file, tmp_path):
    class Killed(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            if self.model.optimizer.iterations == 7:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fitted_to_strings(model_file, callbacks=[keras.callbacks.BackupAndRestore(tmp_path), Killed()])
    resumed = fitted_to_strings(model_file, callbacks=[keras.callbacks.BackupAndRestore(tmp_path)])
    assert_same_weights(resumed, fitted_to_strings(model_file))


@pytest.mark.very_slow
def test_columns_of_weights(model_file):
    """Weights (N, 1), as `frame[["weight"]]` has them, of ids and of strings."""
    rng, case = np.random.default_rng(0), CASES["text"]
    model = case.build(model_file, dropout=0.0)
    model.compile(keras.optimizers.SGD(0.0))
    for x, y in ((IDS, LABELS), (case.x, case.y)):
        weights = rng.random((len(y), 1))
        flat = model.evaluate(x, y, batch_size=32, sample_weight=weights[:, 0], verbose=0)
        assert model.evaluate(x, y, batch_size=32, sample_weight=weights, verbose=0) == pytest.approx(flat)


@pytest.mark.slow
def test_weights_of_classes_with_labels_among_the_ids():
    model, _ = fitted(epochs=0, run_eagerly=True)
    weights = {0: 0.0, 1: 2.0}
    expected = model.fit(IDS, LABELS, batch_size=N, class_weight=weights, verbose=0).history["loss"]
    model, _ = fitted(epochs=0, run_eagerly=True)
    found = model.fit({**IDS, "label": LABELS}, batch_size=N, class_weight=weights, verbose=0).history["loss"]
    assert found == pytest.approx(expected)


@pytest.mark.very_slow
def test_lora_and_a_frozen_encoder_in_fit():
    for adapt in (
        lambda model: model.enable_lora(2),
        lambda model: setattr(model.encoder, "trainable", False),
    ):
        model = CASES["text"].build(None, dropout=0.0)
        adapt(model)
        trained = {variable.path for variable in model.trainable_variables}
        before = {variable.path: np.asarray(variable) for variable in model.variables}
        model.compile(AdamW(0.01))
        history = model.fit(IDS, LABELS, epochs=4, **FIT).history
        assert history["loss"][-1] < history["loss"][0]
        changed = {path for v in model.weights if not np.array_equal(before[path := v.path], v)}
        assert changed - {"seeds/seed_generator_state"} == trained


@pytest.mark.very_slow
@pytest.mark.parametrize("form", ["onnx", "litert"])
def test_export_of_a_fitted_model(form, plain, tmp_path):
    """Without an input signature, in Keras' own formats, with batches of any size."""
    pytest.importorskip("tf2onnx" if form == "onnx" else "ai_edge_litert", reason=f"pip install '.[{form}]'")
    model, file = plain[0], str(tmp_path / f"model.{form.replace('litert', 'tflite')}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of Keras' patch of tf2onnx
        model.export(file, format=form, verbose=False)
    inputs = {**IDS, "input_mask": np.ones((N, T), "int32"), "token_type_ids": np.zeros((N, T), "int32")}
    if form == "onnx":
        onnxruntime = pytest.importorskip("onnxruntime", reason="an extra: pip install '.[onnx]'")
        session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
        assert {value.name for value in session.get_inputs()} == set(inputs)
        run = lambda batch: session.run(None, batch)[0]  # noqa: E731
    else:
        signature = (
            importlib.import_module("ai_edge_litert.interpreter").Interpreter(file).get_signature_runner()
        )
        run = lambda batch: signature(**batch)["output_0"]  # noqa: E731
    for rows in (slice(None), slice(0, 2)):
        batch = {name: array[rows, :9] for name, array in inputs.items()}
        np.testing.assert_allclose(run(batch), model(batch), atol=1e-5)


def test_onnx_of_the_erf_form_of_gelu_is_refused(tmp_path):
    encoder = AlbertEncoder(dataclasses.replace(CONFIG, hidden_act="gelu_erf"))
    with pytest.raises(ValueError, match="Use `albert export --format=onnx`"):
        encoder.export(tmp_path / "model.onnx", format="onnx")
    assert not (tmp_path / "model.onnx").exists()


@pytest.mark.very_slow
@pytest.mark.filterwarnings("ignore:Layer LayerNorm does not have a `quantize` method")
def test_a_quantized_model_predicts_from_strings(model_file, tmp_path):
    """tests/conformance has every quantized model; their files are Keras' own."""
    model = CASES["text"].build(model_file)
    before = model.predict(CASES["text"].x, verbose=0)
    model.quantize("int8")
    np.testing.assert_allclose(model.predict(CASES["text"].x, verbose=0), before, atol=0.05)
    model.save(tmp_path / "int8.keras")
    with pytest.raises(
        InputError, match=r"After Keras' `quantize`, .* Received .*int8\.keras; name the model"
    ):
        load_pretrained(tmp_path / "int8.keras")
