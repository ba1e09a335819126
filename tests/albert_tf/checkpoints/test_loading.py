import dataclasses
import json
import logging
import re
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest

import albert_tf
from albert_cli import cli
from albert_tf.checkpoints import keras_models
from albert_tf.checkpoints.open_model import open_model, read_config
from albert_tf.checkpoints.tf1 import write_tf1
from albert_tf.checkpoints.weights import to_theirs
from albert_tf.config import AlbertConfig
from albert_tf.conversion.convert import write_keras
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.model.weights import variables_by_name, weights_of
from albert_tf.runtime.pretrained import load_pretrained
from albert_tf.tasks.texts.model import TextClassifier
from albert_tf.training.checkpoints import RunCheckpoints
from albert_tf.training.initial_weights import load_weights_into
from albert_tf.training.weights import load_weights
from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Vocabulary
from tests.albert_tf.checkpoints.random_models import (
    CONFIGS,
    SIZES,
    VOCABULARY,
    assert_same_weights,
    random_stored,
    random_weights,
    save_tf1,
    spm_model,
)
from tests.reference.positions import tiled_rows

CONFIG = CONFIGS["one group"]


@pytest.mark.parametrize("kind", ["run", "checkpoint", "encoder", "pretrainer", "classifier"])
def test_the_configuration_of_own_files_is_read_without_a_model(tmp_path, monkeypatch, kind):
    """And without its weights."""
    path = tmp_path / "model.keras"
    if kind in ("run", "checkpoint"):
        (tmp_path / "checkpoints").mkdir()
        CONFIG.to_json_file(tmp_path / "albert_config.json")
        (tmp_path / "checkpoints" / "ckpt-3.index").touch()
        path = tmp_path if kind == "run" else tmp_path / "checkpoints" / "ckpt-3"
    elif kind == "pretrainer":
        AlbertPretrainer(CONFIG).save(path)
    else:
        encoder = AlbertEncoder(CONFIG)
        (encoder if kind == "encoder" else TextClassifier(encoder, labels=("a", "b"))).save(path)
    monkeypatch.setattr(keras_models, "_read_arrays", None)
    assert read_config(path) == read_config(str(path)) == CONFIG


def test_reports_missing_parts(tmp_path, caplog):
    write_tf1(random_stored(CONFIG, "sentence_order"), tmp_path)
    with caplog.at_level(logging.WARNING, "albert_tf.runtime.pretrained"):
        loaded = load_pretrained(tmp_path, seed=7)
    assert loaded.missing == ("sentence_order",)
    assert f"{tmp_path} holds no sentence_order: using fresh weights" in caplog.text
    fresh = weights_of(AlbertPretrainer(CONFIG, seed=7))
    expected = {**fresh, **random_weights(CONFIG, "sentence_order")}
    assert_same_weights(weights_of(loaded.model), expected)
    assert loaded.encoder is loaded.model.encoder


def weights_in_checkpoint(run: Path) -> dict[str, np.ndarray]:
    """The newest weights of a run, read from its checkpoint directly."""
    model = AlbertPretrainer(AlbertConfig.from_json_file(run / "albert_config.json"))
    load_weights(model, run)
    return weights_of(model)


@pytest.mark.very_slow
def test_runs(pretraining_files, tmp_path):
    run = tmp_path / "run"
    assert cli.main(pretraining_files.flags(run, num_train_steps=2, save_checkpoints_steps=1)) == 0
    expected = weights_in_checkpoint(run)
    for source in (run, run / "checkpoints" / "ckpt-2"):
        loaded = load_pretrained(source)
        assert loaded.config == AlbertConfig.from_json_file(pretraining_files.albert_config_file)
        assert loaded.vocabulary.content == pretraining_files.spm_model_file.read_bytes()
        assert_same_weights(weights_of(loaded.model), expected)
    earlier = weights_of(load_pretrained(run / "checkpoints" / "ckpt-1").model)
    assert not np.array_equal(earlier["pooler/kernel"], expected["pooler/kernel"])


def test_keras_file_of_an_encoder(tmp_path):
    """As `encoder.save` writes it; the heads are missing."""
    stored = random_stored(CONFIG)
    AlbertPretrainer.of_stored(stored).encoder.save(tmp_path / "encoder.keras")
    found = open_model(tmp_path / "encoder.keras")
    assert (found.config, found.missing) == (CONFIG, ("masked_lm", "sentence_order"))
    expected = {name: array for name, array in stored.weights.items() if name in found.weights}
    assert_same_weights(found.weights, expected)
    assert expected.keys() == found.weights.keys()


@pytest.mark.slow
def test_a_tokenizer_is_made_once(tmp_path, monkeypatch):
    write_keras(random_stored(CONFIG), tmp_path)
    loaded, made, make = load_pretrained(tmp_path), [], Vocabulary.tokenizer
    monkeypatch.setattr(Vocabulary, "tokenizer", lambda vocabulary: made.append(1) or make(vocabulary))
    loaded.embed(["a"])
    loaded.fill_mask(["a [MASK]"])
    assert loaded.tokenizer is not None
    assert len(made) == 1


@pytest.mark.slow
def test_encoder_inputs(tmp_path):
    write_keras(random_stored(CONFIG), tmp_path)
    loaded, texts = load_pretrained(tmp_path), ["a", "b a b"]
    inputs = loaded.encoder_inputs(texts)
    assert {array.shape for array in inputs.values()} == {inputs["input_mask"].shape}
    vectors = loaded.encoder(inputs)["sequence_output"].numpy()
    for same in ((text for text in texts), np.array(texts), tuple(texts)):
        np.testing.assert_array_equal(loaded.embed(same), loaded.embed(texts))
    with pytest.raises(InputError, match="must be a list of strings. Received 'a'"):
        loaded.embed("a")
    means = [row[mask > 0].mean(axis=0) for row, mask in zip(vectors, inputs["input_mask"], strict=True)]
    np.testing.assert_allclose(means, loaded.embed(texts), rtol=1e-5, atol=1e-6)

    tokenizer = loaded.tokenizer
    a, b = tokenizer.encode("a"), tokenizer.encode("b a b")
    ids = [tokenizer.cls_id, *a, tokenizer.sep_id, *b, tokenizer.sep_id]
    (pair,) = loaded.encoder_inputs(["a"], ["b a b"])["input_ids"]
    assert pair.tolist() == ids
    inputs = loaded.encoder_inputs(["a", "b a b"], ["b a b", "a"], max_seq_length=len(ids) - 1)
    assert inputs["input_ids"][0].tolist() == [*ids[:-2], tokenizer.sep_id]
    assert inputs["token_type_ids"][0].tolist() == [0] * (len(a) + 2) + [1] * len(b)
    (masked,) = loaded.encoder_inputs(["a [MASK]"])["input_ids"]
    assert masked.tolist() == [tokenizer.cls_id, *a, tokenizer.mask_id, tokenizer.sep_id]
    assert loaded.encoder_inputs([])["input_ids"].shape[0] == 0
    with pytest.raises(InputError, match="`max_seq_length` must be at least 5. Received 2"):
        loaded.encoder_inputs(texts, max_seq_length=2)
    with pytest.raises(InputError, match="Each text must have a second one. Received 2 and 1"):
        loaded.encoder_inputs(texts, ["a"])


@pytest.mark.slow
def test_damaged_keras_files(tmp_path):
    write_keras(random_stored(CONFIG), tmp_path)
    path = tmp_path / "model.keras"
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}

    description = json.loads(files["config.json"])
    lies = json.dumps(description).replace('"vocab_size": 50', '"vocab_size": 5000000')
    with h5py.File(tmp_path / "complex.h5", "w") as file:
        file["complex"] = np.ones(3, np.complex64)
    with h5py.File(tmp_path / "huge.h5", "w") as file:
        file.create_dataset("huge", (1 << 40,), "float32", chunks=(1024,))
    weights = {name: (tmp_path / f"{name}.h5").read_bytes() for name in ("complex", "huge")}
    for config, arrays, message in (
        (
            json.dumps({**description, "registered_name": "keras>Sequential"}),
            None,
            "Received keras>Sequential",
        ),
        (None, files["model.weights.h5"][:2000], "is not a complete .keras file"),
        (lies, None, r"does not fit its configuration: it has [\d,]+ bytes for 50,0"),
        (lies.replace("5000000", "49"), None, "vars/0 has the shape"),
        (lies.replace("5000000", "5000000000000"), None, "`vocab_size` must be a whole number from 1 to"),
        (None, weights["complex"], "complex is complex64"),
        (None, weights["huge"], "huge claims to be larger than the file"),
    ):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("config.json", config or files["config.json"])
            archive.writestr("model.weights.h5", arrays or files["model.weights.h5"])
            archive.writestr("metadata.json", files["metadata.json"])
        with pytest.raises(InputError, match=message):
            open_model(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("config.json", files["config.json"])
        archive.writestr("model.weights.h5", bytes(200 << 20))
    with pytest.raises(InputError, match="unpacks to many times its size"):
        open_model(path)


def test_wrong_vocabularies(tmp_path):
    write_tf1(random_stored(CONFIG, vocabulary=Vocabulary("sentencepiece", spm_model(51))), tmp_path)
    with pytest.raises(InputError, match="has 51 pieces, more than the model's `vocab_size`, 50"):
        open_model(tmp_path)
    (tmp_path / "spm.model").write_bytes(VOCABULARY.content[:-3])
    with pytest.raises(InputError, match="must be a SentencePiece model. .*spm.model is not"):
        open_model(tmp_path)


def test_into_a_model(tmp_path):
    write_tf1(random_stored(CONFIG, "masked_lm"), tmp_path)
    model = AlbertPretrainer(AlbertConfig(**SIZES, hidden_dropout_prob=0.1), seed=3)
    fresh = weights_of(model)
    assert load_weights_into(model, tmp_path) == ("masked_lm",)
    assert_same_weights(weights_of(model), {**fresh, **random_weights(CONFIG, "masked_lm")})


def test_into_another_model_is_refused(tmp_path):
    write_tf1(random_stored(CONFIG), tmp_path)
    model = AlbertPretrainer(CONFIGS["relu"])
    before = weights_of(model)
    with pytest.raises(InputError, match="hidden_act is gelu, received relu; layer_norm_epsilon"):
        load_weights_into(model, tmp_path)
    assert_same_weights(weights_of(model), before)


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"num_attention_heads": CONFIG.hidden_size}, "num_attention_heads is "),
        ({"hidden_act": "relu"}, "hidden_act is gelu, received relu"),
        ({"layer_norm_epsilon": 1e-5}, "layer_norm_epsilon is 1e-12, received 1e-05"),
    ],
)
def test_a_run_into_a_model_with_other_mathematics_is_refused(tmp_path, changes, difference):
    """Its weights have the same names and shapes."""
    trained = AlbertPretrainer(CONFIG)
    RunCheckpoints(tmp_path, trained, built(albert_tf.AdamW(0.1), trained)).save()
    model = AlbertPretrainer(dataclasses.replace(CONFIG, **changes))
    before = weights_of(model)
    CONFIG.to_json_file(tmp_path / "albert_config.json")
    for source in (tmp_path, tmp_path / "checkpoints" / "ckpt-0"):
        with pytest.raises(InputError, match=f"does not match this configuration: {difference}"):
            load_weights_into(model, source)
    assert_same_weights(weights_of(model), before)


def test_into_a_deeper_model_with_another_length(tmp_path):
    """With full sharing any number of layers has the same weights; position rows are cut off or repeated."""
    write_tf1(random_stored(CONFIG), tmp_path)
    values = {**CONFIG.to_dict(), "num_hidden_layers": 5}
    for longest in (CONFIG.max_position_embeddings - 3, CONFIG.max_position_embeddings + 3):
        model = AlbertPretrainer(AlbertConfig(**{**values, "max_position_embeddings": longest}), seed=1)
        expected = {**weights_of(model), **random_weights(CONFIG)}
        with pytest.raises(InputError, match="--resize_positions repeats the rows"):
            load_weights_into(model, tmp_path)
        name = "embeddings/position_embeddings"
        learned, initial = expected[name], weights_of(model)[name]
        fresh = np.concatenate([learned[:longest], initial[len(learned) :]])
        for method, rows in (("fresh", fresh), ("tile", tiled_rows(learned, longest))):
            load_weights_into(model, tmp_path, resize_positions=method)
            assert_same_weights(weights_of(model), {**expected, name: rows})


def built(optimizer: albert_tf.AdamW, model: AlbertPretrainer) -> albert_tf.AdamW:
    optimizer.build(model.trainable_variables)
    return optimizer


@pytest.mark.parametrize("kind", [albert_tf.AdamW, albert_tf.Lamb])
def test_moments_of_a_tf1_checkpoint(tmp_path, kind):
    """As the original saves them; the position table may be longer."""
    m, v = random_weights(CONFIG, seed=1), random_weights(CONFIG, seed=2)
    arrays = to_theirs(random_weights(CONFIG), CONFIG, "tf1")
    for slot, moments in (("adam_m", m), ("adam_v", v)):
        arrays |= {f"{name}/{slot}": array for name, array in to_theirs(moments, CONFIG, "tf1").items()}
    prefix = tmp_path / "model.ckpt-125"
    save_tf1(prefix, {**arrays, "global_step": np.int64(125)})
    CONFIG.to_json_file(tmp_path / "albert_config.json")
    longer = dataclasses.replace(CONFIG, max_position_embeddings=CONFIG.max_position_embeddings + 5)
    model = AlbertPretrainer(longer)
    optimizer = built(kind(0.1), model)
    load_weights_into(model, prefix, optimizer=optimizer, resize_positions="tile")
    assert int(optimizer.iterations) == 125
    for name, variable in variables_by_name(model).items():
        for found, moments in zip(optimizer.moments_of(variable), (m, v), strict=True):
            expected = moments[name]
            if name == "embeddings/position_embeddings":
                expected = tiled_rows(expected, longer.max_position_embeddings)
            np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.slow
def test_files_without_moments(tmp_path):
    model = AlbertPretrainer(CONFIG)
    write_tf1(random_stored(CONFIG), tmp_path)
    with pytest.raises(
        InputError, match="--init_optimizer needs a checkpoint with the moments of its optimizer"
    ):
        load_weights_into(model, tmp_path, optimizer=built(albert_tf.AdamW(0.1), model))
    write_keras(random_stored(CONFIG), tmp_path)
    with pytest.raises(
        InputError, match="--init_optimizer needs a pretraining run, a checkpoint in it or a TF1"
    ):
        load_weights_into(model, tmp_path / "model.keras", optimizer=built(albert_tf.AdamW(0.1), model))


@pytest.mark.parametrize("sharing", ["all", "ffn", "none"])
def test_all_groups_from_the_first(tmp_path, sharing):
    stored = random_stored(CONFIG, "pooler")
    write_tf1(stored, tmp_path)
    groups = {"num_hidden_groups": 3} if sharing == "all" else {"parameter_sharing": sharing}
    model = AlbertPretrainer(dataclasses.replace(CONFIG, num_hidden_layers=3, **groups))
    pooler = model.encoder.pooler.kernel.numpy()
    with pytest.raises(InputError, match="received 3|received ffn|received none"):
        load_weights_into(model, tmp_path)
    assert load_weights_into(model, tmp_path, init_from_group0=True) == ("pooler",)
    weights = weights_of(model)
    np.testing.assert_array_equal(weights.pop("pooler/kernel"), pooler)
    del weights["pooler/bias"]
    assert len(weights) > len(stored.weights)
    for name, array in weights.items():
        np.testing.assert_array_equal(
            array, stored.weights[re.sub(r"_\d+_(\d+)/", r"_0_\1/", name)], err_msg=name
        )


@pytest.mark.very_slow
def test_a_run_starts_from_a_checkpoint_of_another_format(pretraining_files, tmp_path, capfd):
    config = AlbertConfig.from_json_file(pretraining_files.albert_config_file)
    vocabulary = Vocabulary.read(pretraining_files.spm_model_file)
    write_tf1(random_stored(config, "sentence_order", vocabulary=vocabulary), tmp_path)
    run = tmp_path / "run"
    # At this learning rate the weights hardly change.
    flags = {"num_train_steps": 1, "learning_rate": 1e-12, "init_checkpoint": tmp_path}
    assert cli.main(pretraining_files.flags(run, **flags)) == 0
    assert f"{tmp_path} holds no sentence_order: using fresh weights" in " ".join(
        capfd.readouterr().err.split()
    )
    trained = weights_in_checkpoint(run)
    for name, value in random_weights(config, "sentence_order").items():
        np.testing.assert_allclose(trained[name], value, atol=1e-6)
