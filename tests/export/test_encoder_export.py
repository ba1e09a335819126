import dataclasses
import itertools

import keras
import numpy as np
import psutil
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.runtime.pretrained import Pretrained
from data_prep.tokenizers.normalization import Normalization
from data_prep.tokenizers.vocabulary import Vocabulary, read_normalization
from export.encoder import TEXT_INPUTS, build_encoder
from export.savedmodel import write_savedmodel
from tests.albert_tf.model.test_pretrainer import pretraining_batch
from tests.export.conftest import serialized

CONFIG = AlbertConfig(
    vocab_size=50,
    embedding_size=10,
    hidden_size=24,
    num_hidden_layers=3,
    num_attention_heads=3,
    intermediate_size=36,
    max_position_embeddings=16,
    hidden_dropout_prob=0.3,
    attention_probs_dropout_prob=0.3,
)


def save_model(model, folder, assets, vocabulary=None) -> None:
    assets.mkdir()
    write_savedmodel(build_encoder(Pretrained(model, (), vocabulary), assets), folder)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """(model, batch, folder of the SavedModel); the model has dropout and a vocabulary."""
    folder = tmp_path_factory.mktemp("export")
    model = AlbertPretrainer(CONFIG, seed=1)
    vocabulary = Vocabulary("sentencepiece", b"a vocabulary", Normalization(False, True))
    save_model(model, folder / "saved", folder / "assets", vocabulary)
    return model, pretraining_batch(CONFIG), folder / "saved"


@pytest.fixture(scope="module")
def loaded(exported):
    """The SavedModel of `exported`, for tests that do not train it."""
    return tf.saved_model.load(exported[2])


def hub_inputs(batch) -> dict:
    names = {"input_word_ids": "input_ids", "input_mask": "input_mask", "input_type_ids": "token_type_ids"}
    return {name: tf.constant(batch[ours]) for name, ours in names.items()}


def v1_inputs(batch) -> dict:
    return dict(zip(("input_ids", "input_mask", "segment_ids"), hub_inputs(batch).values(), strict=True))


@pytest.mark.very_slow
def test_the_layers_are_traced_once_for_each_value_of_training(tmp_path, monkeypatch):
    """All methods and signatures share them."""
    traced = []
    model = AlbertPretrainer(CONFIG, seed=1)
    encode = model.encoder.call

    def call(*args, training=False, **kwargs):
        traced.append(training)
        return encode(*args, training=training, **kwargs)

    monkeypatch.setattr(model.encoder, "call", call)
    save_model(model, tmp_path / "saved", tmp_path / "assets")
    assert sorted(traced) == [False, True]


@pytest.mark.slow
def test_methods_and_signatures_equal_the_model(exported, loaded):
    model, batch, _ = exported
    hub, v1, positions = hub_inputs(batch), v1_inputs(batch), tf.constant(batch["masked_lm_positions"])
    heads, encoded = model(batch), model.encoder(batch, intermediates=True)
    signatures = loaded.signatures
    assert set(signatures) == {"serving_default", "examples", "tokens", "mlm", "sop", "tokenization_info"}
    outputs, serving = loaded(hub), signatures["serving_default"](**hub)
    assert set(outputs) == {"default", "pooled_output", "sequence_output", "encoder_outputs"}
    assert {name: len(array) for name, array in serving.items()} == dict.fromkeys(serving, len(positions))
    tokens = signatures["tokens"](**v1)
    assert set(tokens) == {"pooled_output", "sequence_output"}
    layers = np.stack(encoded["encoder_outputs"], axis=1)
    assert layers.shape[1] == 3
    masked, order = heads["masked_lm_logits"], heads["sentence_order_logits"]
    for found, expected in (
        *((each[name], encoded[name]) for each in (outputs, serving, tokens) for name in tokens),
        (outputs["default"], outputs["pooled_output"]),
        (np.stack(outputs["encoder_outputs"], axis=1), layers),
        (serving["encoder_outputs"], layers),
        (loaded.mlm({**hub, "masked_lm_positions": positions})["mlm_logits"], masked),
        (signatures["mlm"](**v1, mlm_positions=positions)["mlm_logits"], masked),
        (loaded.sop(hub)["sop_logits"], order),
        (signatures["sop"](**v1)["sop_log_probs"], tf.nn.log_softmax(order)),
    ):
        np.testing.assert_allclose(found, expected, atol=1e-5)
    for shape in ((1, 2), (2, 16), (5, 7)):
        ids = np.random.default_rng(0).integers(0, 50, shape).astype("int32")
        inputs = hub_inputs({"input_ids": ids, "input_mask": np.ones_like(ids), "token_type_ids": 0 * ids})
        expected = model.encoder({"input_ids": ids})["sequence_output"]
        np.testing.assert_allclose(loaded(inputs)["sequence_output"], expected, atol=1e-5)


@pytest.mark.very_slow
def test_a_layer_of_a_keras_model(exported):
    model, batch, folder = exported
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in TEXT_INPUTS}
    outputs = keras.layers.TFSMLayer(str(folder), call_endpoint="__call__")(inputs)
    predicted = keras.Model(inputs, outputs["pooled_output"]).predict(hub_inputs(batch), verbose=0)
    np.testing.assert_allclose(predicted, model.encoder(batch)["pooled_output"], atol=1e-6)


@pytest.mark.slow
def test_signature_of_serialized_examples(loaded):
    """The messages of example files, with either name of the token types, of different lengths, or ids alone."""
    examples = [
        serialized(input_ids=[2, 7, 3, 0], input_mask=[1, 1, 1, 0], segment_ids=[0, 0, 1, 0], next=[5]),
        serialized(input_ids=[2, 7, 9, 8, 3], token_type_ids=[0, 0, 1, 1, 1]),
        serialized(input_ids=[2, 3]),
    ]
    ids = np.array([[2, 7, 3, 0, 0], [2, 7, 9, 8, 3], [2, 3, 0, 0, 0]], "int32")
    types = np.array([[0, 0, 1, 0, 0], [0, 0, 1, 1, 1], [0] * 5], "int32")
    inputs = {"input_word_ids": ids, "input_mask": np.minimum(ids, 1), "input_type_ids": types}
    expected = loaded.signatures["serving_default"](**inputs)
    found = loaded.signatures["examples"](examples=tf.constant(examples))
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, atol=1e-6)
    none = loaded.signatures["examples"](examples=tf.zeros([0], tf.string))
    assert none["sequence_output"].shape[0] == 0
    for features, rule in (
        ({"input_mask": [1]}, "must have `input_ids`"),
        ({"input_ids": [2, 3], "input_mask": [1, 1, 1]}, "`input_mask` must have as many numbers"),
        ({"input_ids": [2, 3], "segment_ids": [0, 0], "token_type_ids": [0, 0]}, "not both"),
        ({"input_ids": [2, CONFIG.vocab_size]}, "Token ids must be from 0"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=rule):
            loaded.signatures["examples"](examples=tf.constant([serialized(**features)]))


@pytest.mark.slow
def test_assets_and_tokenization_info(exported, loaded):
    _, _, folder = exported
    files = {"albert_config.json", "pretrained.json", "spm.model", "spm.normalization.json"}
    assert {path.name for path in (folder / "assets").iterdir()} == files
    assert read_normalization(folder / "assets" / "spm.model") == Normalization(False, True)
    info = loaded.signatures["tokenization_info"]()
    assert tf.io.read_file(info["vocab_file"]) == b"a vocabulary"
    settings = ("do_lower_case", "keep_accents", "remove_space")
    assert [bool(info[name]) for name in settings] == [False, True, True]


@pytest.mark.very_slow
def test_loaded_encoder_can_be_trained(exported):
    _, batch, folder = exported
    loaded = tf.saved_model.load(folder)
    inputs, target = hub_inputs(batch), tf.constant([[1.0], [0.0], [0.0]])

    def loss(training):
        return tf.reduce_mean((loaded(inputs, training=training)["pooled_output"][:, :1] - target) ** 2)

    with tf.GradientTape() as tape:
        value = loss(training=True)
    gradients = tape.gradient(value, loaded.trainable_variables)
    used = sum(gradient is not None for gradient in gradients)
    assert used == len(loaded.trainable_variables) - 7  # all but the two heads
    assert list(loaded.regularization_losses) == []
    before = float(loss(training=False))
    for _ in range(10):
        with tf.GradientTape() as tape:
            value = loss(training=False)
        gradients = tape.gradient(value, loaded.trainable_variables)
        for variable, gradient in zip(loaded.trainable_variables, gradients, strict=True):
            if gradient is not None:
                variable.assign_sub(0.02 * tf.convert_to_tensor(gradient))
    assert float(loss(training=False)) < before


@pytest.mark.slow
def test_dropout_only_in_training(exported, loaded):
    batch = exported[1]
    first, second = (loaded(hub_inputs(batch), training=True)["pooled_output"] for _ in range(2))
    assert not np.array_equal(first, second)
    first, second = (loaded(hub_inputs(batch), training=False)["pooled_output"] for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.very_slow
def test_loaded_functions_are_traced_once(loaded):
    """Whatever the shapes and however `training` is given; in a graph of their own, too."""
    process, memory = psutil.Process(), {}
    for B, T in itertools.product(range(20), range(2, 17)):
        memory[B] = process.memory_info().rss >> 20
        ids = np.ones((B, T), "int32")
        inputs = dict.fromkeys(TEXT_INPUTS, ids)
        training = [{}, {"training": True}, {"training": tf.constant(False)}][T % 3]
        assert loaded(inputs, **training)["sequence_output"].shape == (B, T, 24)
        if B < 2:
            positions = np.ones((B, T // 2), "int32")
            masked = loaded.mlm({**inputs, "masked_lm_positions": positions}, **training)
            assert masked["mlm_logits"].shape == (B, T // 2, 50)
            assert loaded.sop(inputs, **training)["sop_logits"].shape == (B, 2)
    for function in (loaded.__call__, loaded.mlm, loaded.sop):
        assert function.experimental_get_tracing_count() == 1
    # At first, oneDNN's kernels of new shapes are kept, up to a limit. Traces kept 4 MB of each shape.
    assert memory[19] - memory[9] < 64


@pytest.mark.very_slow
@pytest.mark.parametrize("training", [True, False])
def test_gradients_equal_the_models(tmp_path, training):
    """In both branches; without dropout the gradients follow from weights and inputs."""
    config = dataclasses.replace(CONFIG, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model, batch = AlbertPretrainer(config, seed=1), pretraining_batch(config)
    save_model(model, tmp_path / "saved", tmp_path / "assets")
    loaded = tf.saved_model.load(tmp_path / "saved")
    assert "tokenization_info" not in loaded.signatures  # of a model without a vocabulary

    def gradients(encode, variables) -> list[np.ndarray]:
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(encode() ** 2)
        found = tape.gradient(value, variables, unconnected_gradients="zero")
        return [tf.convert_to_tensor(gradient).numpy() for gradient in found]

    ours = gradients(
        lambda: model.encoder(batch, training=training)["sequence_output"],
        [variable.value for variable in model.trainable_variables],
    )
    theirs = gradients(
        lambda: loaded(hub_inputs(batch), training=training)["sequence_output"], loaded.trainable_variables
    )
    assert sum(np.any(gradient != 0) for gradient in ours) > len(ours) / 2
    for gradient, expected in zip(theirs, ours, strict=True):
        np.testing.assert_allclose(gradient, expected, atol=1e-3)


WRONG = [
    ({"input_word_ids": [[-1, 2]]}, r"Token ids must be from 0 to 49. Received\] \[-1\] \[to\] \[2\]"),
    ({"input_word_ids": [[50, 2]]}, r"Token ids must be from 0 to 49. Received\] \[2\] \[to\] \[50\]"),
    ({"input_mask": [[1, 2]]}, r"The mask must be from 0 to 1. Received\] \[1\] \[to\] \[2\]"),
    ({"input_type_ids": [[-1, 0]]}, r"Token types must be from 0 to 1. Received\] \[-1\] \[to\] \[0\]"),
    ({"input_mask": [[1, 1], [1, 1]]}, r"the same shape. Received\] \[1 2\] \[2 2\] \[1 2\]"),
    ({name: [[1] * 17] for name in TEXT_INPUTS}, r"Rows must have from 1 to 16 tokens. Received\] \[17\]"),
    ({name: [[]] for name in TEXT_INPUTS}, r"Rows must have from 1 to 16 tokens. Received\] \[0\]"),
    ({"masked_lm_positions": [[2]]}, r"positions must be from 0 to T - 1. Received\] \[2\] \[to\] \[2\]"),
    ({"masked_lm_positions": [[-1]]}, r"positions must be from 0 to T - 1. Received\] \[-1\]"),
    ({"masked_lm_positions": [[1], [1]]}, r"as many rows as token ids. Received\] \[2\] \[1\]"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_refuses_wrong_inputs(loaded, wrong, message):
    right = {name: [[1, 1]] for name in TEXT_INPUTS} | {"masked_lm_positions": [[1]]}
    inputs = {name: tf.constant(value, tf.int32) for name, value in (right | wrong).items()}
    *hub, positions = inputs.values()
    names = ("input_ids", "input_mask", "segment_ids")
    calls = [
        lambda: loaded.mlm(inputs),
        lambda: loaded.mlm(inputs, training=True),
        lambda: loaded.signatures["mlm"](**dict(zip(names, hub, strict=True)), mlm_positions=positions),
    ]
    if "masked_lm_positions" not in wrong:
        encoded = dict(zip(TEXT_INPUTS, hub, strict=True))
        calls += [lambda: loaded(encoded), lambda: loaded.signatures["serving_default"](**encoded)]
    for call in calls:
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            call()
