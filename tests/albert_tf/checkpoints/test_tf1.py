"""Google's formats."""

import json
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest

from albert_tf.checkpoints.open_model import open_model
from albert_tf.checkpoints.tf1 import read_arrays, write_tf1
from albert_tf.checkpoints.weights import to_theirs
from albert_tf.config import AlbertConfig
from albert_tf.conversion.verification import random_inputs
from albert_tf.model.pretrainer import AlbertPretrainer
from data_prep.errors import InputError
from tests.albert_tf.checkpoints.random_models import (
    CONFIGS,
    VOCABULARY,
    assert_same_weights,
    random_stored,
    random_weights,
    save_tf1,
)
from tests.reference import albert_tf1


@pytest.fixture
def google(tmp_path) -> Path:
    """A folder as in Google's archives, with an optimizer's slots."""
    config, folder = CONFIGS["one group"], tmp_path / "albert_tiny"
    arrays = to_theirs(random_weights(config), config, "tf1")
    slots = {f"{name}/{slot}": array for name, array in arrays.items() for slot in ("adam_m", "adam_v")}
    save_tf1(folder / "model.ckpt-best", {**arrays, **slots, "global_step": np.int64(125000)})
    inert = {"net_structure_type": 0, "layers_to_keep": [], "gap_size": 0, "num_memory_blocks": 0}
    values = {**config.to_dict(), **inert, "down_scale_factor": 1}
    for ours in ("parameter_sharing", "layer_norm_epsilon"):
        del values[ours]
    (folder / "albert_config.json").write_text(json.dumps(values))
    (folder / "30k-clean.model").write_bytes(VOCABULARY.content)
    (folder / "30k-clean.vocab").write_text("a listing for people")
    return folder


def assert_is_google(stored) -> None:
    assert stored.config == CONFIGS["one group"]
    assert stored.vocabulary == VOCABULARY
    assert stored.missing == ()
    assert_same_weights(stored.weights, random_weights(CONFIGS["one group"]))


def test_folder_prefix_and_archive(google, tmp_path):
    archive = tmp_path / "albert_tiny.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(google, "albert_tiny")
    prefix = google / "model.ckpt-best"
    for source in (google, prefix, prefix.with_name(f"{prefix.name}.index"), archive, str(archive)):
        assert_is_google(open_model(source))


def test_hub_module_of_tf1(google, tmp_path):
    arrays = to_theirs(random_weights(CONFIGS["one group"], "sentence_order"), CONFIGS["one group"], "tf1")
    module = tmp_path / "module"
    save_tf1(module / "variables" / "variables", {f"module/{name}": array for name, array in arrays.items()})
    (module / "saved_model.pb").write_bytes(b"a graph, which is not read")
    shutil.copytree(google, module / "assets", ignore=shutil.ignore_patterns("model.ckpt*"))
    stored = open_model(module)
    assert stored.missing == ("sentence_order",)
    assert stored.vocabulary == VOCABULARY
    assert_same_weights(stored.weights, random_weights(CONFIGS["one group"], "sentence_order"))


def test_chinese(tmp_path):
    config = CONFIGS["relu"]
    save_tf1(tmp_path / "model.ckpt-best", to_theirs(random_weights(config), config, "tf1"))
    config.to_json_file(tmp_path / "albert_config.json")
    (tmp_path / "vocab_chinese.txt").write_bytes("[PAD]\n中\n".encode())
    stored = open_model(tmp_path)
    assert stored.config.hidden_act == "relu"
    assert (stored.vocabulary.kind, stored.vocabulary.content) == ("wordpiece", "[PAD]\n中\n".encode())


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_equals_the_original_under_its_names(name, tmp_path):
    config = CONFIGS[name]
    write_tf1(random_stored(config), tmp_path)
    arrays, model = (
        read_arrays(tmp_path / "model.ckpt-best"),
        AlbertPretrainer.of_stored(open_model(tmp_path)),
    )
    batch = random_inputs(config, seed=3)
    outputs = {**model.encoder(batch), **model(batch)}
    names = ("sequence_output", "pooled_output", "masked_lm_logits", "sentence_order_logits")
    features = ("input_ids", "input_mask", "token_type_ids", "masked_lm_positions")
    for row, example in enumerate(zip(*(batch[feature] for feature in features), strict=True)):
        for output, expected in zip(names, albert_tf1.forward(config, arrays, *example), strict=True):
            np.testing.assert_allclose(outputs[output][row], expected, atol=1e-5, err_msg=output)


def test_notes_what_the_original_does_not_support(tmp_path):
    config = AlbertConfig(
        **{**CONFIGS["erf"].to_dict(), "parameter_sharing": "none", "layer_norm_epsilon": 1e-6}
    )
    notes = " ".join(write_tf1(random_stored(config), tmp_path))
    assert "ignores 1e-06" in notes
    assert "gelu_erf" in notes
    assert open_model(tmp_path).config.num_hidden_groups == 4


def test_damaged_and_missing_files(google):
    data = google / "model.ckpt-best.data-00000-of-00001"
    whole = data.read_bytes()
    data.unlink()
    with pytest.raises(InputError, match="model.ckpt-best is not a complete checkpoint"):
        open_model(google)
    data.write_bytes(whole)
    (google / "model.ckpt-best.index").write_bytes(b"no index")
    with pytest.raises(InputError, match="model.ckpt-best is not a complete checkpoint"):
        open_model(google)
    (google / "albert_config.json").unlink()
    with pytest.raises(
        InputError, match="needs its configuration: albert_config.json in .*model.ckpt-best with none"
    ):
        open_model(google)
    for name in ("bert_config.json", "tokenizer_config.json"):
        (google / name).write_text("{}")
    with pytest.raises(InputError, match="model.ckpt-best with bert_config.json and tokenizer_config.json"):
        open_model(google)


def test_a_given_configuration_wins_over_files_with_similar_names(google):
    (google / "albert_config.json").unlink()
    (google / "run_config.json").write_text('{"learning_rate": 1}')
    assert_is_google(open_model(google, CONFIGS["one group"]))


def test_several_checkpoints_in_a_folder(google):
    for suffix in (".index", ".data-00000-of-00001"):
        shutil.copy(google / f"model.ckpt-best{suffix}", google / f"model.ckpt-10{suffix}")
    with pytest.raises(InputError, match="several checkpoints: model.ckpt-10, model.ckpt-best"):
        open_model(google)
    assert_is_google(open_model(google / "model.ckpt-10"))


def test_sizes_that_do_not_fit_the_tensors(google):
    values = json.loads((google / "albert_config.json").read_text())
    (google / "albert_config.json").write_text(json.dumps({**values, "vocab_size": 51}))
    with pytest.raises(
        InputError, match=r"word_embeddings has the shape \[50, 10\] and should have \[51, 10\]"
    ):
        open_model(google)
