import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from albert_tf.checkpoints.kerashub import write_kerashub
from albert_tf.checkpoints.names import HeadSize
from albert_tf.checkpoints.open_model import open_model
from albert_tf.config import AlbertConfig
from albert_tf.conversion.verification import compare_models, random_inputs
from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.runtime.pretrained import load_pretrained
from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Vocabulary
from tests.albert_tf.checkpoints.processes import needs_keras_hub, run_python
from tests.albert_tf.checkpoints.random_models import (
    CONFIGS,
    SIZES,
    assert_same_weights,
    random_stored,
    random_weights,
)
from tests.albert_tf.checkpoints.test_stored_heads import random_head, stored_with

CONFIG, HEAD_CONFIG = CONFIGS["two blocks"], CONFIGS["one group"]


@pytest.fixture
def preset(tmp_path) -> Path:
    folder = tmp_path / "preset"
    folder.mkdir()
    write_kerashub(random_stored(CONFIG), folder)
    return folder


def as_keras_nlp(preset: Path) -> None:
    """Makes a preset one of KerasNLP, whose weights Keras 3.0 saved."""
    config = json.loads((preset / "config.json").read_text())
    config |= {"module": "keras_nlp.models", "registered_name": "keras_nlp>AlbertBackbone"}
    (preset / "config.json").write_text(json.dumps(config))
    with h5py.File(preset / "model.weights.h5", "r+") as file:
        for layer in file["layers"].values():
            for name in ("query", "key", "value", "output"):
                if "_self_attention_layer" in layer:
                    layer.move(f"_self_attention_layer/{name}_dense", f"_self_attention_layer/_{name}_dense")


def test_presets_of_keras_nlp_are_read(preset):
    as_keras_nlp(preset)
    assert_same_weights(open_model(preset).weights, random_weights(CONFIG, "sentence_order"))


def test_bfloat16_is_widened(preset):
    """As Keras writes it: HDF5 has no such type."""
    with h5py.File(preset / "model.weights.h5", "r+") as file:
        bias = file["layers/dense_1/vars/1"][()].astype("bfloat16")
        del file["layers/dense_1/vars/1"]
        file.create_dataset("layers/dense_1/vars/1", data=bias).attrs["dtype"] = "bfloat16"
    np.testing.assert_array_equal(open_model(preset).weights["pooler/bias"], bias.astype("float32"))


def test_other_heads_are_refused(tmp_path):
    for kind, size in (
        ("multiple_choice", HeadSize("sequence_head", 1)),
        ("question_answering", HeadSize("span_head", 0)),
        ("token_classification", HeadSize("token_head", 3)),
    ):
        with pytest.raises(InputError, match="AlbertTextClassifier. Received a head for"):
            write_kerashub(stored_with(random_head(size, kind)), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_task_model_of_another_class_is_left_out_with_a_note(preset):
    (preset / "task.json").write_text(json.dumps({"registered_name": "mine>AlbertTagger", "config": {}}))
    stored = open_model(preset)
    assert (stored.missing, stored.head) == (("masked_lm", "sentence_order"), None)
    assert stored.notes == ("left out: what task.weights.h5 holds for mine>AlbertTagger",)


def test_notes_what_it_leaves_out(tmp_path):
    config = AlbertConfig(**SIZES, hidden_dropout_prob=0.1)
    stored = random_stored(config, vocabulary=Vocabulary("wordpiece", b"[PAD]\n"))
    notes = " ".join(write_kerashub(stored, tmp_path))
    for part in ("left out sentence_order", "one dropout rate", "left out vocab.txt"):
        assert part in notes
    assert open_model(tmp_path).notes == (
        "KerasHub computes the LayerNorm of its masked-LM head with epsilon 1e-5",
    )
    head = random_head(HeadSize("sequence_head", 3), "classification", labels=("no", "maybe", "yes"))
    (tmp_path / "head").mkdir()
    notes = write_kerashub(stored_with(head), tmp_path / "head")
    assert "KerasHub does not name the classes: no, maybe, yes" in notes


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (CONFIGS["relu"], "has hidden_act gelu. Received relu"),
        (AlbertConfig(**SIZES, layer_norm_epsilon=1e-5), "has layer_norm_epsilon 1e-12. Received 1e-05"),
        (AlbertConfig(**SIZES, num_hidden_groups=3), "divisible by `num_hidden_groups`. Received 4 and 3"),
    ],
)
def test_models_that_kerashub_cannot_represent(config, message, tmp_path):
    with pytest.raises(InputError, match=message):
        write_kerashub(random_stored(config), tmp_path)
    with pytest.raises(InputError, match="has a pooler, which nowhere does not hold"):
        write_kerashub(random_stored(CONFIG, "pooler"), tmp_path)
    assert not list(tmp_path.iterdir())


def test_damaged_files(preset):
    (preset / "model.weights.h5").rename(preset / "other.h5")
    with pytest.raises(InputError, match="model.weights.h5 must exist"):
        open_model(preset)
    config = json.loads((preset / "config.json").read_text())
    del config["config"]["num_heads"]
    other = {"registered_name": "keras_hub>BertBackbone", "config": {}}
    for wrong, message in ((config, "lacks num_heads"), (other, "must describe a keras_hub>AlbertBackbone")):
        (preset / "config.json").write_text(json.dumps(wrong))
        with pytest.raises(InputError, match=message):
            open_model(preset)


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        ((24,), {"external": [("secret", 0, 96)]}, "must hold its arrays itself"),
        ((1 << 40,), {"chunks": (1024,)}, "dense_1/vars/1 claims to be larger than the file"),
    ],
)
def test_arrays_in_other_files_or_larger_than_the_file_are_refused(preset, shape, options, message):
    (preset / "secret").write_bytes(bytes(24 * 4))
    with h5py.File(preset / "model.weights.h5", "r+") as file:
        del file["layers/dense_1/vars/1"]
        file.create_dataset("layers/dense_1/vars/1", shape, "float32", **options)
    with pytest.raises(InputError, match=message):
        open_model(preset)


@pytest.mark.very_slow
@needs_keras_hub
@pytest.mark.parametrize("name", ["one group", "two blocks", "E == H"])
def test_kerashub_loads_what_we_write(name, tmp_path):
    stored = random_stored(CONFIGS[name], vocabulary=None)
    write_kerashub(stored, tmp_path)
    comparison = compare_models(stored, open_model(tmp_path))
    assert comparison.result_run_by.startswith("keras_hub")
    assert comparison.outputs == ("sequence_output", "pooled_output")
    assert comparison.difference < 1e-5


@pytest.mark.very_slow
@needs_keras_hub
def test_kerashub_loads_presets_of_keras_nlp(preset):
    """Which shows that they are as `as_keras_nlp` makes them."""
    as_keras_nlp(preset)
    comparison = compare_models(random_stored(CONFIG), open_model(preset))
    assert comparison.result_run_by.startswith("keras_hub")
    assert comparison.difference < 1e-5


@pytest.mark.very_slow
@needs_keras_hub
@pytest.mark.parametrize("activation", ["linear", "softmax"])
def test_kerashub_loads_our_classifier(activation, tmp_path):
    """Logits are compared, also if the classifier returns probabilities."""
    stored = stored_with(random_head(HeadSize("sequence_head", 3), "classification"))
    write_kerashub(stored, tmp_path)
    task = json.loads((tmp_path / "task.json").read_text())
    task["config"]["activation"] = activation
    (tmp_path / "task.json").write_text(json.dumps(task))
    comparison = compare_models(stored, open_model(tmp_path))
    assert comparison.result_run_by.startswith("keras_hub")
    assert comparison.outputs == ("sequence_output", "pooled_output", "head_logits")
    assert comparison.difference < 1e-5


TASKS = """
    import keras_hub, numpy as np
    fields = dict(vocabulary_size=50, num_layers=4, num_heads=3, embedding_dim=10, hidden_dim=24,
                  intermediate_dim=36, max_sequence_length=16)
    batch, rng = np.load("batch.npz"), np.random.default_rng(0)
    names = {"token_ids": "input_ids", "padding_mask": "input_mask", "segment_ids": "token_type_ids"}
    inputs = {theirs: batch[ours] for theirs, ours in names.items()}
    backbone = keras_hub.models.AlbertBackbone(**fields)
    classifier = keras_hub.models.AlbertTextClassifier(backbone, num_classes=3)
    masked_lm = keras_hub.models.AlbertMaskedLM(backbone)
    for variable in (*classifier.weights, *masked_lm.masked_lm_head.weights):
        variable.assign(0.2 * rng.standard_normal(variable.shape) + (variable.name == "gamma"))
    classifier.save_to_preset("classifier")
    masked_lm.save_to_preset("masked_lm")
    ours = keras_hub.models.AlbertMaskedLM.from_preset("written", preprocessor=None)
    positions = {"mask_positions": batch["masked_lm_positions"]}
    np.savez("outputs.npz", head_logits=classifier(inputs), masked_lm_logits=masked_lm({**inputs, **positions}),
             ours=ours({**inputs, **positions}))
"""


@pytest.mark.very_slow
@needs_keras_hub
def test_task_presets_of_kerashub_are_read_and_its_masked_lm_reads_ours(tmp_path):
    """Its masked-LM head has another epsilon, hence the wider tolerance there."""
    batch = random_inputs(HEAD_CONFIG, seed=4)
    np.savez(tmp_path / "batch.npz", **batch)
    written = random_stored(HEAD_CONFIG)
    (tmp_path / "written").mkdir()
    write_kerashub(written, tmp_path / "written")
    run_python(TASKS, tmp_path)
    classifier = open_model(tmp_path / "classifier")
    kernel, bias = (classifier.head.weights[f"sequence_head/{part}"] for part in ("kernel", "bias"))
    pooled = AlbertPretrainer.of_stored(classifier).encoder(batch)["pooled_output"]
    masked_lm = load_pretrained(tmp_path / "masked_lm")
    assert masked_lm.missing == ("sentence_order",)
    with np.load(tmp_path / "outputs.npz") as expected:
        assert np.abs(pooled @ kernel + bias - expected["head_logits"]).max() < 1e-5
        for name, model in (
            ("masked_lm_logits", masked_lm.model),
            ("ours", AlbertPretrainer.of_stored(written)),
        ):
            np.testing.assert_allclose(model(batch)["masked_lm_logits"], expected[name], atol=1e-3)


SAVE = """
    import json, sys
    import keras, keras_hub, numpy as np
    backbone = keras_hub.models.AlbertBackbone(**json.loads(sys.argv[1]))
    rng = np.random.default_rng(0)
    for variable in backbone.weights:
        variable.assign(0.2 * rng.standard_normal(variable.shape) + (variable.name == "gamma"))
    backbone.save_to_preset("preset")
    if len(sys.argv) > 2:
        keras_hub.models.AlbertTokenizer(sys.argv[2]).save_to_preset("preset")
    batch = np.load("batch.npz")
    outputs = backbone({"token_ids": batch["input_ids"], "padding_mask": batch["input_mask"],
                        "segment_ids": batch["token_type_ids"]})
    np.savez("outputs.npz", **{name: np.asarray(value) for name, value in outputs.items()})
"""
LOAD_TOKENIZER = """
    import json, keras_hub
    tokenizer = keras_hub.models.AlbertTokenizer.from_preset("written")
    print(json.dumps(tokenizer("the old house").tolist()))
"""
LOAD_MASKED_LM = """
    import json, keras_hub
    preprocessor = keras_hub.models.AlbertMaskedLM.from_preset("written").preprocessor
    inputs, labels, weights = preprocessor(["the old house"])
    print(json.dumps([inputs["token_ids"].shape[1], inputs["mask_positions"].shape[1]]))
"""


@pytest.mark.very_slow
@needs_keras_hub
def test_we_read_what_kerashub_writes(tmp_path, pretraining_files):
    fields = {
        "vocabulary_size": 100,
        "num_layers": 4,
        "num_groups": 2,
        "num_inner_repetitions": 2,
        "num_heads": 3,
    }
    fields |= {"embedding_dim": 10, "hidden_dim": 24, "intermediate_dim": 36, "max_sequence_length": 16}
    config = AlbertConfig(**{**CONFIG.to_dict(), "vocab_size": 100})
    batch, model_file = random_inputs(config, seed=4), pretraining_files.spm_model_file
    np.savez(tmp_path / "batch.npz", **batch)
    run_python(SAVE, tmp_path, json.dumps(fields), str(model_file))
    loaded = load_pretrained(tmp_path / "preset", seed=0)
    assert (loaded.config, loaded.missing) == (config, ("masked_lm", "sentence_order"))
    assert loaded.vocabulary == Vocabulary("sentencepiece", model_file.read_bytes())
    outputs = loaded.encoder(batch)
    with np.load(tmp_path / "outputs.npz") as expected:
        for name in ("sequence_output", "pooled_output"):
            assert np.abs(outputs[name] - expected[name]).max() < 1e-5

    from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer

    (tmp_path / "written").mkdir()
    write_kerashub(open_model(tmp_path / "preset"), tmp_path / "written")
    ids = json.loads(run_python(LOAD_TOKENIZER, tmp_path).splitlines()[-1])
    assert ids == AlbertTokenizer(model_file).encode("the old house")


@pytest.mark.very_slow
@needs_keras_hub
def test_the_masked_lm_of_kerashub_takes_texts(tmp_path, pretraining_files):
    config = AlbertConfig(**{**CONFIG.to_dict(), "vocab_size": 100})
    (tmp_path / "written").mkdir()
    vocabulary = Vocabulary("sentencepiece", pretraining_files.spm_model_file.read_bytes())
    write_kerashub(random_stored(config, vocabulary=vocabulary), tmp_path / "written")
    T = config.max_position_embeddings
    assert json.loads(run_python(LOAD_MASKED_LM, tmp_path).splitlines()[-1]) == [T, T]
