"""Files of adapters: what they hold, and which models take them (tests/conformance has every model)."""

import numpy as np
import pytest
import safetensors
import safetensors.numpy

from albert_tf import load_adapters, save_adapters
from albert_tf.model.encoder import AlbertEncoder
from data_prep.errors import InputError
from tests.albert_tf.tasks.task_models import CASES, CONFIG


@pytest.fixture
def adapters(tmp_path):
    """The file of a model with thresholds and LoRA of rank 2."""
    model = CASES["topics"].build(None)
    model.enable_lora(2)
    save_adapters(model, tmp_path / "adapters.safetensors")
    return tmp_path / "adapters.safetensors"


def test_the_file_holds_the_low_rank_matrices_and_the_head(adapters):
    H, names = CONFIG.hidden_size, ("query", "value")  # all layers share them
    arrays = safetensors.numpy.load_file(adapters)
    expected = {f"albert_encoder/attention_0_0/{name}/lora_kernel_a": (H, 2) for name in names}
    expected |= {f"albert_encoder/attention_0_0/{name}/lora_kernel_b": (2, H) for name in names}
    expected |= {"classifier/output/kernel": (H, 3), "classifier/output/bias": (3,)}
    assert {name: array.shape for name, array in arrays.items()} == expected
    again = CASES["topics"].build(None)
    again.thresholds = (0.5, 0.5, 0.5)
    load_adapters(again, adapters)
    assert again.thresholds == (0.5, 0.25, 0.75)


def changed(rank=2):
    """A model whose low-rank matrices are not those that LoRA begins with."""
    model = CASES["text"].build(None)
    model.enable_lora(rank)
    rng = np.random.default_rng(1)
    for variable in model.trainable_variables:
        variable.assign(rng.normal(0, 0.1, variable.shape))
    return model


@pytest.mark.very_slow
def test_files_of_weights_hold_the_low_rank_matrices(tmp_path):
    """Keras' files alone have the sum of a matrix and its low-rank product, and set the latter to 0."""
    model, ids = changed(), {"input_ids": np.arange(5, 17).reshape(2, 6)}
    model.save_weights(tmp_path / "a.weights.h5")
    expected = model.predict(ids, verbose=0)
    again = CASES["text"].build(None, seed=9)
    again.enable_lora(2)
    again.load_weights(tmp_path / "a.weights.h5")
    for ours, theirs in zip(model.trainable_variables, again.trainable_variables, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_allclose(again.predict(ids, verbose=0), expected, atol=1e-6)
    save_adapters(again, tmp_path / "adapters.safetensors")
    load_adapters(CASES["text"].build(None), tmp_path / "adapters.safetensors")  # the base is unchanged

    model.save(tmp_path / "lora.keras")
    CASES["text"].build(None).save(tmp_path / "plain.keras")
    sizes = [(tmp_path / f"{name}.keras").stat().st_size for name in ("lora", "plain")]
    assert sizes[0] == pytest.approx(sizes[1], abs=2000)  # a whole model has no second copy of its matrices

    plain = CASES["text"].build(None, seed=9)
    plain.load_weights(tmp_path / "a.weights.h5")
    np.testing.assert_allclose(plain.predict(ids, verbose=0), expected, atol=1e-5)


@pytest.mark.very_slow
def test_weights_without_low_rank_matrices_of_that_rank_leave_lora_as_it_begins(tmp_path):
    plain, ids = CASES["text"].build(None), {"input_ids": np.arange(5, 17).reshape(2, 6)}
    plain.save_weights(tmp_path / "plain.weights.h5")
    other = changed(rank=3)
    other.save_weights(tmp_path / "other.weights.h5")
    for source, name in ((plain, "plain"), (other, "other")):
        model = changed()
        model.load_weights(tmp_path / f"{name}.weights.h5")
        np.testing.assert_allclose(model.predict(ids, verbose=0), source.predict(ids, verbose=0), atol=1e-5)
        query = model.encoder.attentions[0][0].query
        assert not np.any(query.lora_kernel_b)
        assert np.all(np.std(query.lora_kernel_a, axis=0) > 0)  # so that both learn


def test_initial_matrices_follow_from_the_seed():
    def first(seed):
        model = CASES["text"].build(None, seed=seed)
        model.enable_lora(2)
        return np.asarray(model.encoder.attentions[0][0].query.lora_kernel_a)

    np.testing.assert_array_equal(first(1), first(1))
    assert np.abs(first(1) - first(2)).max() > 0


@pytest.mark.slow
def test_adapters_of_another_model_are_refused(adapters, tmp_path):
    def refused(message, model, path=adapters):
        before = [np.asarray(variable) for variable in model.variables]
        with pytest.raises(InputError, match=message):
            load_adapters(model, path)
        for variable, value in zip(model.variables, before, strict=True):
            np.testing.assert_array_equal(variable, value)

    case = CASES["topics"]
    model = case.build(None)
    model.enable_lora(3)
    refused("must have the model's rank, 3. .*adapters.safetensors has rank 2", model)
    model = case.build(None)
    model.enable_lora(2, alpha=16)
    refused("must have the model's `alpha`, 16. .*adapters.safetensors has 2; load it into a model", model)
    refused("fit only the weights that they were trained on", case.build(None, seed=9))
    refused(
        "same task and labels, .*TextClassifier.* is for .*MultiLabelClassifier", CASES["text"].build(None)
    )
    model = case.build(None)
    model.labels = ("captain", "apples", "clocks")
    refused("same task and labels, .*'captain', 'apples'.* is for .*'apples', 'captain'", model)
    refused("nothing must exist", model, tmp_path / "nothing")
    (tmp_path / "half").write_bytes(adapters.read_bytes()[:-9])
    refused("not a complete safetensors file", model, tmp_path / "half")
    safetensors.numpy.save_file({"a": np.ones(2)}, tmp_path / "other")
    refused("must be a file that `save_adapters` wrote", model, tmp_path / "other")


def test_thresholds_are_one_for_each_label(adapters):
    arrays = safetensors.numpy.load_file(adapters)
    with safetensors.safe_open(adapters, "numpy") as file:
        facts = {**file.metadata(), "thresholds": "[0.1, 0.2, 0.3, 0.4, 0.5]"}
    safetensors.numpy.save_file(arrays, adapters, facts)
    model = CASES["topics"].build(None)
    with pytest.raises(InputError, match="must have a threshold for each label, 3. .* has 5"):
        load_adapters(model, adapters)
    assert (model.thresholds, model.encoder.lora_rank) == ((0.5, 0.25, 0.75), None)


def test_misuse():
    encoder = AlbertEncoder(CONFIG)
    with pytest.raises(ValueError, match="needs a model with LoRA"):
        save_adapters(encoder, "nowhere")
    with pytest.raises(ValueError, match="`rank` must be at least 1. Received 0"):
        encoder.enable_lora(0)
    encoder.enable_lora(1)
    assert (encoder.lora_rank, encoder.lora_alpha) == (1, 1)
    with pytest.raises(ValueError, match="LoRA is enabled already, with rank 1"):
        encoder.enable_lora(2)
    assert len(encoder.trainable_variables) == 4, "a and b of queries and of values"
