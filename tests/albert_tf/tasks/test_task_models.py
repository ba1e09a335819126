"""Task models: outputs and losses against NumPy, strings as inputs, saving, several devices."""

import json
from pathlib import Path

import keras
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from albert_tf import (
    MultiLabelClassifier,
    QuestionAnswering,
    TextClassifier,
    TextRegressor,
)
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.optimizers import AdamW, WarmupPolynomialDecay
from albert_tf.runtime.finetuned import finetuned_of
from albert_tf.runtime.input_lines import InputLines
from albert_tf.runtime.predictor import Predictor
from albert_tf.runtime.pretrained import load_pretrained
from albert_tf.tasks.task_model import with_dropout
from albert_tf.tasks.words.rows import WordsExample
from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Vocabulary
from tests.albert_tf.model.test_encoder import make_encoder
from tests.albert_tf.tasks.task_models import CASES, CONFIG, DIFFERENT_LOSSES, TEXTS, WORDS, N, fit, outputs
from tests.export.conftest import source
from tests.processes import run_python
from tests.reference import albert, heads
from tests.selection import all_but_very_slow

__all__ = ["source"]
PARAMETERS = pytest.mark.parametrize("name", CASES)


def batch_of_ids(*shape, seed=0) -> dict[str, np.ndarray]:
    """A dict of arrays of sequences with different lengths."""
    rng = np.random.default_rng(seed)
    lengths = np.linspace(5, shape[-1], shape[0]).astype(int).reshape(-1, *[1] * (len(shape) - 1))
    mask = np.broadcast_to(np.arange(shape[-1]) < lengths, shape)
    return {
        "input_ids": rng.integers(5, CONFIG.vocab_size, shape).astype("int32") * mask,
        "input_mask": mask.astype("int32"),
        "token_type_ids": (rng.integers(0, 2, shape) * mask).astype("int32"),
    }


def with_random_weights(model, seed=5):
    """Changes all weights: zero biases and unit gammas would hide a swapped or missing one."""
    rng = np.random.default_rng(seed)
    for weight in model.trainable_variables:
        weight.assign(weight.numpy() + rng.normal(0, 0.3, weight.shape))
    return model


def numpy_encoder(model, batch, *row) -> tuple[np.ndarray, np.ndarray]:
    """The NumPy oracle's outputs (T, H) and (H,) for an example."""
    weights = {v.path.split("/", 1)[1]: v.numpy() for v in model.encoder.variables}
    arrays = (batch[name][row] for name in ("input_ids", "input_mask", "token_type_ids"))
    layers, pooled = albert.encoder(model.encoder.config, weights, *arrays)
    return layers[-1], pooled


def head_weights(model, head) -> dict[str, np.ndarray]:
    prefix = f"{model.name}/{head.name}/"
    return {v.path.removeprefix(prefix): v.numpy().astype("float64") for v in head.variables}


@pytest.mark.parametrize(("name", "head", "shape"), [("text", "classifier", (4, 2)), ("pair", "regressor", (4,)),
                                                     ("words", "classifier", (4, 12, 2))])  # fmt: skip
def test_heads_read_the_pooled_output_or_every_token(name, head, shape):
    batch = batch_of_ids(4, 12)
    model = with_random_weights(CASES[name].build(None))
    outputs, weights = np.asarray(model(batch)), head_weights(model, getattr(model, head))
    assert (outputs.dtype, outputs.shape) == (np.float32, shape)
    for row in range(4):
        tokens, pooled = numpy_encoder(model, batch, row)
        expected = albert.dense(tokens if name == "words" else pooled, weights, "output")
        np.testing.assert_allclose(outputs[row], expected[0] if name == "pair" else expected, atol=1e-4)


def test_multiple_choice_scores_each_option_alone():
    batch = batch_of_ids(3, 4, 12)
    batch["input_mask"][0, 3] = 0  # no option
    model = with_random_weights(CASES["choice"].build(None))
    logits, weights = np.asarray(model(batch)), head_weights(model, model.scorer)
    for row, option in np.ndindex(3, 4):
        expected = albert.dense(numpy_encoder(model, batch, row, option)[1], weights, "output")
        if (row, option) == (0, 3):
            expected = [-1e30]
        np.testing.assert_allclose(logits[row, option], expected[0], atol=1e-4)
    loss = model.compute_loss(batch, np.array([0, 1, 2]), logits)
    probabilities = [albert.softmax(row.astype("float64")) for row in logits]
    expected = -np.mean([np.log(row[i]) for i, row in enumerate(probabilities)])
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


def test_spans_and_their_losses():
    batch = batch_of_ids(4, 12)
    batch["p_mask"] = np.zeros((4, 12), "int32")
    batch["p_mask"][:, 1] = 1
    labels = {
        "start_positions": np.array([0, 2, 3, 4]),
        "end_positions": np.array([0, 3, 3, 6]),
        "is_impossible": np.array([1, 0, 0, 0]),
    }
    impossible = np.maximum(batch["p_mask"], 1 - batch["input_mask"])
    model = with_random_weights(CASES["span or none"].build(None, dropout=0.0))
    weights = head_weights(model, model.span)
    losses = [
        heads.question_loss(
            numpy_encoder(model, batch, row)[0], impossible[row], weights, *(labels[n][row] for n in labels)
        )
        for row in range(4)
    ]
    outputs = model({**batch, **labels}, training=True)
    np.testing.assert_allclose(
        model.compute_loss({**batch, **labels}, None, outputs), np.mean(losses), rtol=1e-4
    )
    evaluated = model({**batch, **labels})
    np.testing.assert_allclose(model.compute_loss(batch, labels, evaluated), np.mean(losses), rtol=1e-4)
    assert set(model(batch)) == {"answerable_logits"} | {
        f"{side}_top_{what}" for side in ("start", "end") for what in ("log_probs", "index")
    }

    model = with_random_weights(CASES["span"].build(None))
    weights = head_weights(model, model.span)
    outputs, losses = model(batch), []
    for row in range(4):
        scores = albert.dense(numpy_encoder(model, batch, row)[0], weights, "scores/output").T
        scores = [heads.masked(side, impossible[row]) for side in scores]
        np.testing.assert_allclose(outputs["start_logits"][row], scores[0], atol=1e-4)
        np.testing.assert_allclose(outputs["end_logits"][row], scores[1], atol=1e-4)
        places = labels["start_positions"][row], labels["end_positions"][row]
        losses += [-heads.log_softmax(side)[place] for side, place in zip(scores, places, strict=True)]
    np.testing.assert_allclose(model.compute_loss(batch, labels, outputs), np.mean(losses), rtol=1e-4)


@pytest.mark.very_slow
def test_loss_is_the_weighted_mean_without_padding():
    """The loss is the weighted mean: more padding does not change it, and rows of weight 0 do not count."""
    model = with_random_weights(CASES["words"].build(None, dropout=0.0))
    batch, labels = batch_of_ids(3, 12), np.full((3, 12), -1)
    labels[0, 1], labels[1, 2:4], labels[2, :3] = 1, (0, 1), 1
    log_probabilities = np.log(
        [[albert.softmax(t.astype("float64")) for t in row] for row in np.asarray(model(batch))]
    )
    chosen = [-log_probabilities[0, 1, 1], -log_probabilities[1, 2, 0], -log_probabilities[1, 3, 1]]
    expected = (sum(chosen) - log_probabilities[2, :3, 1].sum()) / 6
    model.compile("sgd")

    def loss(batch, labels, **kwargs):
        return model.evaluate(batch, labels, verbose=0, **kwargs)

    np.testing.assert_allclose(loss(batch, labels), expected, rtol=1e-5)
    longer = {name: np.pad(array, ((0, 0), (0, 3))) for name, array in batch.items()}
    np.testing.assert_allclose(
        loss(longer, np.pad(labels, ((0, 0), (0, 3)), constant_values=-1)), expected, rtol=1e-5
    )
    weights = np.array([1.0, 1.0, 0.0])
    np.testing.assert_allclose(loss(batch, labels, sample_weight=weights), np.mean(chosen), rtol=1e-5)
    in_dict = {
        **batch,
        "label": np.maximum(labels, 0),
        "label_weights": (labels >= 0).astype("float32"),
        "sample_weight": weights.astype("float32"),
    }
    np.testing.assert_allclose(loss(in_dict, None), np.mean(chosen), rtol=1e-5)


@pytest.mark.very_slow
def test_every_label_has_a_loss_of_its_own():
    batch, labels = batch_of_ids(4, 12), np.array([[0, 1, 1], [1, 1, 1], [0, 0, 0], [0, 1, 0]], "float32")
    model = with_random_weights(CASES["topics"].build(None, dropout=0.0))
    logits = np.asarray(model(batch)).astype("float64")
    probabilities = 1 / (1 + np.exp(-logits))
    losses = -np.log(np.where(labels == 1, probabilities, 1 - probabilities)).mean(axis=1)
    model.compile("sgd")
    np.testing.assert_allclose(model.evaluate(batch, labels, verbose=0), losses.mean(), rtol=1e-5)
    in_dict = {**batch, "label_set": labels, "sample_weight": np.array([1.0, 0, 0, 1])}
    np.testing.assert_allclose(model.evaluate(in_dict, verbose=0), losses[[0, 3]].mean(), rtol=1e-5)


def test_a_near_class_costs_less_than_a_far_one():
    model = CASES["stars"].build(None, dropout=0.0)
    batch, labels = batch_of_ids(3, 12), np.array([0, 2, 4])
    logits = np.log(np.array([[0.6, 0.3, 0.05, 0.03, 0.02]]).repeat(3, 0))
    targets = np.exp(-np.square(np.arange(5) - labels[:, None]))
    targets /= targets.sum(axis=1, keepdims=True)
    losses = -(targets * logits).sum(axis=1)
    assert (np.diff(losses) > 0).all()
    np.testing.assert_allclose(
        model.compute_loss(batch, labels, logits.astype("float32")), losses.mean(), rtol=1e-5
    )


@pytest.mark.very_slow
def test_class_weights_of_keras(model_file):
    """From strings or ids, by name or number, `class_weight` is a weight of each example."""
    case = CASES["text"]
    each = np.where(np.array(case.y) == "big", 3.0, 1.0)
    model = case.build(model_file, dropout=0.0)
    model.compile(keras.optimizers.SGD(0.0))
    arrays, numbers = batch_of_ids(N, 12), np.array([model.labels.index(label) for label in case.y])
    for x, y, key in ((TEXTS, case.y, "big"), (arrays, numbers, 1)):
        weighted, expected = (
            model.fit(x, y, batch_size=N, verbose=0, **arguments).history["loss"]
            for arguments in ({"class_weight": {key: 3.0}}, {"sample_weight": each})
        )
        assert weighted == pytest.approx(expected)
        assert weighted != pytest.approx(model.fit(x, y, batch_size=N, verbose=0).history["loss"])
    for key in ("huge", 2):
        with pytest.raises(InputError, match=f"must be one of small, big, or its number .* Received {key!r}"):
            model.fit(TEXTS, case.y, class_weight={key: 2.0})
    with pytest.raises(ValueError, match="one class for each text. `TokenClassifier` has others"):
        CASES["words"].build(None).fit(batch_of_ids(4, 12), np.zeros((4, 12)), class_weight={0: 2.0})


@pytest.mark.parametrize("name", ["text", "words", "span"])
def test_weights_in_the_dict_count_beside_labels_too(name):
    model, weights = CASES[name].build(None), np.array([1.0, 0.0])
    positions = {"start_positions": np.zeros(2, int), "end_positions": np.zeros(2, int)}
    y = positions if name == "span" else np.zeros((2, 4) if name == "words" else 2, int)
    _, expected = model.labels_of({}, y, weights)
    _, found = model.labels_of({"sample_weight": weights}, y, None)
    np.testing.assert_array_equal(found, expected)
    _, given = model.labels_of({"sample_weight": np.ones(2)}, y, weights)
    np.testing.assert_array_equal(given, expected)


def test_a_batch_counts_for_its_weights_in_the_loss_of_evaluate():
    model, batch = CASES["text"].build(None, dropout=0.0), batch_of_ids(3, 6)
    model.compile("sgd")
    y, weights = np.array([0, 1, 1]), np.array([0.0, 5.0, 1.0])
    losses = np.asarray(model.task_losses(y, model(batch)))
    for rows in (slice(0, 1), slice(1, 3)):
        part = {name: array[rows] for name, array in batch.items()}
        found = model.test_step((part, y[rows], weights[rows]))["loss"]
    np.testing.assert_allclose(found, np.average(losses, weights=weights), rtol=1e-5)


def test_a_frozen_encoder_has_no_dropout():
    batch = batch_of_ids(4, 12)
    for frozen in (True, False):
        model = CASES["text"].build(None, freeze_encoder=frozen)
        model.classifier.dropout_rate = 0.0
        first, second = (np.asarray(model(batch, training=True)) for _ in range(2))
        assert np.array_equal(first, second) == frozen


def test_a_loss_of_probabilities_is_refused():
    """Computed from logits, such a loss teaches nothing, and gives no error."""
    names = ("sparse_categorical_crossentropy", "binary_focal_crossentropy", "bce")
    classes = (keras.losses.SparseCategoricalCrossentropy(), keras.losses.CategoricalFocalCrossentropy())
    for loss in (*names, *classes, keras.losses.binary_crossentropy):
        with pytest.raises(ValueError, match="The model returns logits, so `loss` must be left out"):
            CASES["text"].build(None).compile("sgd", loss)


@pytest.mark.slow
def test_metrics_of_words_count_words_alone(model_file):
    case = CASES["words"]
    model = case.build(model_file, dropout=0.0)
    model.compile("sgd", metrics=["accuracy"])
    predicted = [name for names in model.predict_labels(case.x, verbose=0) for name in names]
    right = [name for names in case.y for name in names]
    expected = np.mean([one == other for one, other in zip(predicted, right, strict=True)])
    found = model.evaluate(case.x, case.y, verbose=0, return_dict=True)
    assert found["accuracy"] == pytest.approx(expected)
    assert 0 < expected < 1


@pytest.fixture(scope="module")
def trained(model_file) -> dict[str, tuple]:
    """Of every case a model after six steps with AdamW and a schedule, their losses and its outputs."""
    found = {}
    for name, case in CASES.items():
        model = case.build(model_file, dropout=0.0)
        model.compile(AdamW(WarmupPolynomialDecay(0.002, 20, 2), global_clipnorm=1.0))
        history = model.fit(case.x, case.y, batch_size=2 * N, epochs=6, verbose=0).history
        found[name] = model, history["loss"], outputs(model, case.x)
    return found


@pytest.mark.very_slow
@PARAMETERS
def test_learns_from_strings_and_predicts_in_order(name, trained):
    case, (model, losses, whole) = CASES[name], trained[name]
    assert losses[-1] < losses[0]
    if name.startswith("span"):  # a row a window
        return
    columns = case.x if isinstance(case.x, tuple) else (case.x,)
    columns = tuple(list(column)[5:9] for column in columns)
    for one, all_ in zip(outputs(model, columns if len(columns) > 1 else columns[0]), whole, strict=True):
        rows = all_[5:9, : one.shape[1]] if name == "words" else all_[5:9]
        np.testing.assert_allclose(one, rows, atol=1e-5)


@pytest.mark.very_slow
def test_saved_models_predict_the_same_in_another_process(trained, tmp_path):
    """From strings, to the bit, after training with AdamW and a schedule, which are also restored."""
    for name, (model, _, _) in trained.items():
        model.save(tmp_path / f"{name}.keras")
    run_python("-m", "tests.albert_tf.tasks.task_models", "predict", tmp_path)
    for name, (_, _, arrays) in trained.items():
        found = np.load(tmp_path / f"{name}.npz")
        for one, other in zip(arrays, found.values(), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("name", all_but_very_slow(DIFFERENT_LOSSES, ("text",)))
def test_micro_batches_equal_the_whole_batch(name, model_file):
    """The parts are unequal, and so are their weights. `run_eagerly` saves the compilation."""
    case, found = CASES[name], []
    for micro_batches in (1, 4):
        model = case.build(model_file, dropout=0.0)
        model.gradient_accumulation_steps = micro_batches
        model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
        history = model.fit(case.x, case.y, batch_size=2 * N, verbose=0).history
        found.append([history["loss"], *model.get_weights()])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.very_slow
def test_micro_batches_draw_masks_of_their_own():
    """The same masks after the same number of steps, other ones in each step and micro-batch."""

    def losses(first_step=0):
        model = CASES["text"].build(None, dropout=0.5)
        model.gradient_accumulation_steps = 2
        model.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
        model.optimizer.iterations.assign(first_step)
        batch, labels = {"input_ids": np.full((2, 6), 7)}, np.zeros(2)
        return model.fit(batch, labels, batch_size=2, epochs=3, verbose=0).history["loss"]

    first = losses()
    assert len(set(first)) == 3
    assert losses(1)[:2] == first[1:]


def test_micro_batches_need_the_models_own_loss():
    for compiled in ({"metrics": ["accuracy"]}, {"loss": keras.losses.SparseCategoricalCrossentropy(True)}):
        model = CASES["text"].build(None)
        model.gradient_accumulation_steps = 2
        model.compile("sgd", run_eagerly=True, **compiled)
        with pytest.raises(ValueError, match="needs the model's own loss and no metrics"):
            model.fit(batch_of_ids(2, 6), np.zeros(2), verbose=0)


@pytest.mark.very_slow
def test_two_devices_equal_one(model_file, tmp_path):
    """With batches and words that two devices cannot share evenly; half of the tasks take micro-batches there."""
    command = ("-m", "tests.albert_tf.tasks.task_models", "fit", model_file, tmp_path / "two.npz")
    run_python(*command, timeout=600)
    two = dict(np.load(tmp_path / "two.npz"))
    masked = two.pop("outputs of replicas")
    for step, replica in ((0, 0), (0, 1), (1, 0)):  # every step and replica draws masks of its own
        assert (np.abs(masked - masked[step, replica]).max(axis=(2, 3)) > 1e-3).sum() == 3
    one = {key: array for name in DIFFERENT_LOSSES for key, array in fit(name, model_file).items()}
    assert one.keys() == two.keys()
    for key, array in one.items():
        np.testing.assert_allclose(two[key], array, atol=1e-5, err_msg=key)


@pytest.mark.slow
def test_from_pretrained_with_other_dropout(source):
    model = TextClassifier.from_pretrained(
        source, labels=("a", "b"), max_seq_length=12, classifier_dropout=0.3, hidden_dropout=0.25, seed=1
    )
    assert (
        model.encoder.config.hidden_dropout_prob == model.encoder.config.attention_probs_dropout_prob == 0.25
    )
    assert (model.classifier_dropout, model.preprocessor.max_seq_length) == (0.3, 12)
    loaded = load_pretrained(source).encoder
    assert loaded.config.hidden_dropout_prob == 0.0
    for one, other in zip(model.encoder.get_weights(), loaded.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    ids = {"input_ids": np.full((2, 5), 7)}
    np.testing.assert_array_equal(model(ids), model(ids))
    outputs = [np.asarray(model.encoder(ids, training=True)["pooled_output"]) for _ in range(2)]
    assert np.abs(outputs[0] - outputs[1]).max() > 1e-3
    assert (
        TextClassifier.from_pretrained(source, ("a", "b"), max_seq_length=12).encoder.config == loaded.config
    )


@pytest.mark.slow
def test_short_windows_leave_room_for_the_context(source):
    """Of the usual 64 tokens of a question and the stride of 128, a window of 12 has no room."""
    model = QuestionAnswering.from_pretrained(source, max_seq_length=12)
    assert model.preprocessor.lengths == {"max_seq_length": 12, "max_query_length": 3, "doc_stride": 4}
    assert len(model.answer(["who?"], [" ".join(TEXTS)])) == 1


@pytest.mark.slow
def test_the_seed_of_the_head(source):
    """The head's weights follow from the seed, the encoder's from the files."""

    def kernel(seed):
        model = TextClassifier.from_pretrained(source, ("a", "b"), max_seq_length=12, seed=seed)
        return np.asarray(model.classifier.output_dense.kernel)

    np.testing.assert_array_equal(kernel(1), kernel(1))
    assert np.abs(kernel(1) - kernel(2)).max() > 0


def test_a_copy_with_dropout_computes_the_same(tiny_config):
    encoder = make_encoder(tiny_config)
    other = with_dropout(encoder, 0.5)
    ids = {"input_ids": np.arange(8).reshape(2, 4)}
    np.testing.assert_array_equal(encoder(ids)["pooled_output"], other(ids)["pooled_output"])


@pytest.mark.slow
def test_mixed_precision_of_a_pretrained_model(source):
    """The argument is for the encoder, too, which computes nearly everything."""
    options = {"labels": ("a", "b"), "max_seq_length": 12}
    model = TextClassifier.from_pretrained(source, dtype="mixed_bfloat16", **options)
    assert model.dtype_policy.name == model.encoder.dtype_policy.name == "mixed_bfloat16"
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    assert np.isfinite(model.fit(TEXTS, [0, 1, 0] * 7, verbose=0).history["loss"]).all()
    assert model.predict(TEXTS, verbose=0).dtype == np.float32
    assert TextClassifier.from_pretrained(source, **options).encoder.dtype_policy.name == "float32"
    encoder = AlbertEncoder.from_pretrained(source, dtype="bfloat16")
    assert {variable.dtype for variable in encoder.trainable_variables} == {"bfloat16"}


@pytest.mark.slow
def test_answers_are_parts_of_their_contexts(model_file):
    case = CASES["span"]
    model = case.build(model_file)
    found = model.answer(*case.x, batch_size=8)
    assert len(found) == N
    for answer, context in zip(found, TEXTS, strict=True):
        assert answer is not None
        assert answer.text
        assert context[answer.answer_start :].startswith(answer.text)


@pytest.mark.slow
def test_questions_may_have_several_windows(model_file):
    case = CASES["span"]
    model = case.build(model_file)
    model.compile("sgd")
    dataset = tf.data.Dataset.from_tensor_slices(case.x).batch(8).map(lambda *x: (x,))
    for call in (
        lambda: model.fit(case.x, case.y, sample_weight=np.ones(N)),
        lambda: model.fit(case.x, case.y, validation_split=0.1),
        lambda: model.evaluate(case.x, case.y, sample_weight=np.ones(N)),
        lambda: model.predict(dataset),
    ):
        with pytest.raises(InputError, match="are for tasks with one sequence per example"):
            call()
    assert model.answer([], []) == []


@pytest.mark.slow
@pytest.mark.parametrize("bias", [-50.0, pytest.param(50.0, marks=pytest.mark.very_slow)])
def test_answerability_decides_whether_there_is_an_answer(model_file, bias):
    case = CASES["span or none"]
    model = case.build(model_file)
    model.span.answerable.bias.assign(np.ones(CONFIG.hidden_size) * 9)  # tanh of which is 1
    model.span.answerable_output.kernel.assign(np.full((CONFIG.hidden_size, 1), bias))
    assert all((answer is None) == (bias < 0) for answer in model.answer(*case.x))
    always = -1e6 if bias > 0 else 1e6
    assert all((answer is None) == (bias > 0) for answer in model.answer(*case.x, null_threshold=always))


@pytest.mark.very_slow
def test_a_dataset_of_strings(model_file):
    case = CASES["text"]
    model = case.build(model_file, dropout=0.0)
    model.compile("sgd", metrics=["accuracy"])
    numbers = [model.labels.index(label) for label in case.y]
    dataset = tf.data.Dataset.from_tensor_slices((case.x, numbers)).batch(8)
    np.testing.assert_allclose(
        model.evaluate(dataset, verbose=0), model.evaluate(case.x, case.y, batch_size=8, verbose=0), rtol=1e-5
    )
    np.testing.assert_allclose(
        model.predict(dataset.map(lambda x, y: x), verbose=0), model.predict(case.x, verbose=0), atol=1e-6
    )
    names = tf.data.Dataset.from_tensor_slices((case.x, case.y))
    assert model.evaluate(names.batch(8), verbose=0) == model.evaluate(dataset, verbose=0)
    with pytest.raises(InputError, match="must yield batches. This one yields single examples"):
        model.evaluate(names)


@pytest.mark.slow
def test_datasets_of_strings_check_their_labels(model_file):
    """Numbers that are not among the names, letters of options, and words, whose tokens have no labels."""
    stars = CASES["stars"].build(model_file)
    stars.compile("sgd")
    dataset = tf.data.Dataset.from_tensor_slices((TEXTS, [0] * N)).batch(N)
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be one of 1, 2, 3, 4, 5. Received"):
        stars.evaluate(dataset, verbose=0)
    regressor = CASES["pair"].build(model_file)
    regressor.compile("sgd")
    names = tf.data.Dataset.from_tensor_slices(((TEXTS, TEXTS), ["big"] * N)).batch(N)
    with pytest.raises(
        InputError, match="labels of this task must be numbers. Received a dataset with strings"
    ):
        regressor.evaluate(names)
    words = CASES["words"].build(model_file)
    words.compile("sgd")
    dataset = tf.data.Dataset.from_tensor_slices(([["a", "b"]] * 2, [["O", "O"]] * 2)).batch(2)
    with pytest.raises(InputError, match="Datasets of words have no labels for each token"):
        words.fit(dataset)
    with pytest.raises(InputError, match="takes a list of lists of words. Received a dict"):
        words.predict_labels({"input_ids": np.ones((1, 4), int)})


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", all_but_very_slow([name for name in CASES if not name.startswith("span")], ("text",))
)
def test_predicted_labels(name, model_file):
    """They are those of `albert predict`, and `fit` takes them."""
    case = CASES[name]
    model = with_random_weights(case.build(model_file, dropout=0.0))
    _, bias = getattr(model, model.head_name).trainable_variables
    outputs = model.predict(case.x, verbose=0).reshape(-1, *bias.shape)
    middle = np.sort(outputs, axis=0)[len(outputs) // 2 - 1 :][:2].mean(
        axis=0
    )  # between two outputs: no ties
    bias.assign(bias.numpy() - middle)  # so that predictions differ
    labels = model.predict_labels(case.x, batch_size=8, verbose=0)
    columns = case.x if isinstance(case.x, tuple) else (case.x,)
    names = {"choice": ("passage", "question", "options"), "words": ("words",)}
    rows = zip(*columns, strict=True)
    lines = [json.dumps(dict(zip(names.get(name, ("text_a", "text_b")), row, strict=False))) for row in rows]
    predictor = Predictor(finetuned_of(model, Path("model")))
    answers = list(predictor(InputLines(predictor.task, predictor.columns).examples(lines)))
    if name == "pair":
        assert labels == pytest.approx([answer["score"] for answer in answers], abs=1e-5)
    elif name == "choice":
        assert ["ABC"[number] for number in labels] == [answer["label"] for answer in answers]
    else:
        assert labels == [answer.get("labels", answer.get("label")) for answer in answers]
    assert len({str(label) for label in labels}) > 1
    model.compile(keras.optimizers.SGD(0.0))
    model.evaluate(case.x, labels, verbose=0)


@pytest.mark.slow
def test_labels_of_words_beyond_the_longest_sequence(model_file, caplog):
    model, words = CASES["words"].build(model_file), WORDS[0] * 20
    labels = model.predict_labels([words, ["the"]], verbose=0)
    assert [len(names) for names in labels] == [len(words), 1]
    assert labels[0][-1] == "O"
    predictor = Predictor(finetuned_of(model, Path("model")))
    (answer,) = predictor([WordsExample("1", tuple(words))])
    assert (answer["words"], answer["labels"]) == (words, labels[0])
    assert "beyond the model's longest sequence, 40 tokens: " in caplog.text
    assert "; they are not read and get the label O:" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("name", ["words", "span"])
def test_one_long_text_does_not_lengthen_the_short_ones(name, model_file, monkeypatch):
    model, shapes = CASES[name].build(model_file), []

    def outputs(inputs):
        shapes.append(shape := inputs["input_ids"].shape)
        scores = np.zeros(shape)
        return np.zeros((*shape, 2)) if name == "words" else {"start_logits": scores, "end_logits": scores}

    monkeypatch.setattr(model, "predict_on_batch", outputs)
    if name == "words":
        model.predict_labels([["sailed"]] * 3 + [WORDS[0] * 20], batch_size=3, verbose=0)
    else:
        model.best_answers(["who?"] * 4, ["the captain"] * 3 + [TEXTS[0]], batch_size=3)
    assert [shape[0] for shape in shapes] == [3, 1]
    assert shapes[0][1] < shapes[1][1]


@pytest.mark.slow
@pytest.mark.parametrize("name", all_but_very_slow(CASES, ("text",)))
def test_single_batches_of_strings(name, model_file):
    case = CASES[name]
    model = case.build(model_file, dropout=0.0)
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    whole = model.evaluate(case.x, case.y, batch_size=99, verbose=0)
    assert model.test_on_batch(case.x, case.y) == pytest.approx(whole)
    for one, all_together in zip(
        keras.tree.flatten(model.predict_on_batch(case.x)),
        keras.tree.flatten(model.predict(case.x, batch_size=99, verbose=0)),
        strict=True,
    ):
        np.testing.assert_allclose(one, all_together, atol=1e-6)
    before = model.get_weights()
    assert model.train_on_batch(case.x, case.y) == pytest.approx(whole)
    assert not all(map(np.array_equal, before, model.get_weights()))


@pytest.mark.very_slow
def test_columns_of_pandas(model_file):
    case = CASES["text"]
    model = case.build(model_file, dropout=0.0)
    model.compile(keras.optimizers.SGD(0.0))
    table = pd.DataFrame({"text": case.x, "label": case.y, "weight": range(N)}).sort_values("text")
    options = {"validation_split": 0.25, "verbose": 0}
    fitted = model.fit(table.text, table.label, sample_weight=table.weight, **options).history
    x, y, weights = (table[name].tolist() for name in table)
    assert fitted == model.fit(x, y, sample_weight=weights, **options).history
    weights = {"big": 2.0}
    assert model.train_on_batch(table.text, table.label, class_weight=weights) == pytest.approx(
        model.test_on_batch(x, y, np.where(table.label == "big", 2.0, 1.0))
    )
    np.testing.assert_array_equal(model.predict(table.text, verbose=0), model.predict(x, verbose=0))


@pytest.mark.very_slow
def test_validation_split_and_weights(model_file):
    case = CASES["text"]
    model, weights = case.build(model_file, dropout=0.0), np.arange(N)
    model.compile(keras.optimizers.SGD(0.0))
    history = model.fit(case.x, case.y, validation_split=0.25, sample_weight=weights, verbose=0).history
    cut = int(N * 0.75)  # as in Keras
    kept, held_out = ((case.x[part], case.y[part], weights[part]) for part in (slice(cut), slice(cut, None)))
    losses = [model.evaluate(x, y, sample_weight=w, verbose=0) for x, y, w in (kept, held_out)]
    np.testing.assert_allclose([history["loss"][0], history["val_loss"][0]], losses, rtol=1e-5)
    for validation_data in (held_out, list(held_out)):  # counts before the split, as in Keras
        options = {"validation_data": validation_data, "validation_split": 0.5}
        history = model.fit(case.x, case.y, **options, verbose=0).history
        np.testing.assert_allclose(history["val_loss"][0], losses[1], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"validation_split": 0.4},
        pytest.param({"validation_data": (TEXTS, ["big"] * N)}, marks=pytest.mark.very_slow),
    ],
)
def test_validation_batches_have_their_own_size(model_file, options):
    model, sizes = CASES["text"].build(model_file), []

    class Sizes(keras.callbacks.Callback):
        def on_test_batch_end(self, batch, logs=None):
            sizes.append(batch)

    model.compile("sgd", run_eagerly=True)
    options = {**options, "validation_batch_size": 3, "batch_size": 16, "callbacks": [Sizes()]}
    model.fit(TEXTS, ["big"] * N, **options, verbose=0)
    assert len(sizes) == (3 if "validation_split" in options else 7)


def test_of_strings_no_batches_are_left_out():
    """The longest texts come first: a part of the batches is no sample."""
    model, validation = CASES["text"].build(None), {"validation_data": (TEXTS, ["big"] * N)}
    for call, name, options in (
        (model.predict, "steps", {}),
        (model.evaluate, "steps", {}),
        (model.fit, "validation_steps", validation),
        (model.fit, "validation_steps", {"validation_split": 0.5}),
    ):
        with pytest.raises(
            InputError, match=f"`{name}` is for datasets; of strings, .* Received 1: leave it"
        ):
            call(TEXTS, **options, **{name: 1})


@pytest.mark.slow
def test_bad_input(model_file):
    """Of strings and labels tests/albert_tf/tasks/test_preprocessor.py has all forms."""
    with pytest.raises(InputError, match="needs a vocabulary to take strings"):
        CASES["text"].build(None).predict(TEXTS)
    model, y = CASES["text"].build(model_file), ["big"] * N
    array = "strings, or a dict of integer arrays .* Received an array of float64"
    for x, labels, message in (
        (TEXTS, [2] * N, "must be one of small, big, or its number from 0 to 1. Received 2"),
        ((TEXTS,) * 3, y, "takes 1 or 2 columns of strings; several must be a tuple. Received 3"),
        (np.ones((N, 3)), y, array),
    ):
        with pytest.raises(InputError, match=message):
            model.fit(x, labels)
    for call in (model.fit, model.train_on_batch):
        with pytest.raises(InputError, match="a dict of a weight for each class. Received 'balanced'"):
            call(TEXTS, y, class_weight="balanced")
    for weights in ([1.0], np.ones(N + 1)):
        for call in (model.fit, model.evaluate, model.train_on_batch, model.test_on_batch):
            with pytest.raises(InputError, match=f"number for each example. Received {len(weights)} and 21"):
                call(TEXTS, y, sample_weight=weights)
        with pytest.raises(InputError, match="`sample_weight`"):
            model.fit(TEXTS, y, validation_data=(TEXTS, y, weights))
    for call, name in (
        (model.fit, "batch_size"),
        (model.fit, "validation_batch_size"),
        (model.predict, "batch_size"),
    ):
        with pytest.raises(InputError, match="`batch_size` must be at least 1. Received 0"):
            call(TEXTS, **{name: 0})
    for split in (-0.2, 1.0, 20):
        with pytest.raises(InputError, match=f"at least 0 and below 1. Received {split}"):
            model.fit(TEXTS, y, validation_split=split)
    with pytest.raises(InputError, match=r"must be \(texts, labels\) or .* Received a list of 21 items"):
        model.fit(TEXTS, y, validation_data=TEXTS)
    model.compile("sgd")
    for call in (model.fit, model.evaluate):
        with pytest.raises(InputError, match="need labels. Received none: pass `y`, or `label` in the dict"):
            call(TEXTS, verbose=0)
    with pytest.raises(ValueError, match="`input_mask` is the name of the mask here"):
        model.predict({"input_ids": np.ones((1, 4), int), "attention_mask": np.ones((1, 4), int)})
    with pytest.raises(ValueError, match="called with a dict of integer arrays .*of type list"):
        model(TEXTS)
    assert model.predict_labels([]) == model.predict_labels(([], [])) == []
    assert CASES["words"].build(model_file).predict_labels(np.array([], object)) == []
    questions = CASES["span"].build(model_file)
    for call in (questions.fit, questions.evaluate, questions.train_on_batch):
        with pytest.raises(InputError, match="1 empty ones, first in number 1: .* `answerable=True`"):
            call((["Who?", "Who?"], ["Ann sailed."] * 2), ["Ann", ""])


def test_bad_arguments(model_file):
    encoder = AlbertEncoder(CONFIG)
    with pytest.raises(ValueError, match="one number for each label. Received 1 numbers and 2 labels"):
        MultiLabelClassifier(encoder, ("a", "b"), thresholds=(0.5,))
    for labels in ("bad,good", ("bad", "bad"), 2):
        with pytest.raises(ValueError, match="a list of different names. Received"):
            TextClassifier(encoder, labels)
    assert TextClassifier(encoder, np.array([0, 1])).labels == ("0", "1")
    with pytest.raises(ValueError, match="`TextClassifier` needs `labels`"):
        TextClassifier(encoder)
    with pytest.raises(ValueError, match="`TextRegressor` takes no `labels`"):
        TextRegressor(encoder, ("a", "b"))
    preprocessor = TextClassifier.preprocessor_class(Vocabulary.read(model_file))
    with pytest.raises(InputError, match="`max_position_embeddings`. Received 128 and 48"):
        TextClassifier(encoder, ("a", "b"), preprocessor=preprocessor)
