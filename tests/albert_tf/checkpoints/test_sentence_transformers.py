import dataclasses
import json
import re
import shutil

import numpy as np
import pytest
import safetensors.numpy

from albert_tf.checkpoints.huggingface import write_huggingface
from albert_tf.checkpoints.open_model import open_model
from albert_tf.checkpoints.sentence_vectors import SentenceVectors, VectorDense
from albert_tf.config import AlbertConfig
from albert_tf.conversion.convert import convert
from albert_tf.runtime.pretrained import as_pretrained, load_pretrained
from data_prep.errors import InputError
from export.embedding import with_pooling
from tests.albert_tf.checkpoints.random_models import SIZES, random_stored

CONFIG = AlbertConfig(**SIZES)
TEXTS = ["a", "b a b", "c a d b c a d b c a d b c a"]
OLD, NEW = "sentence_transformers.models.", "sentence_transformers.sentence_transformer.modules."
MEAN = ("Pooling", {"pooling_mode": "mean"})
rng = np.random.default_rng(0)
KERNEL = rng.standard_normal((CONFIG.hidden_size, 5)).astype("float32")
BIAS = rng.standard_normal(5).astype("float32")


def write_modules(folder, *modules, package=OLD, first=""):
    """A folder as sentence-transformers writes it; a module is its class and its config.json."""
    folder.mkdir(exist_ok=True)
    write_huggingface(random_stored(CONFIG), folder)
    rows = [{"type": f"{package}Transformer", "path": first}]
    for number, (kind, config) in enumerate(modules, 1):
        path = f"{number}_{kind.rpartition('.')[2]}"
        (folder / path).mkdir()
        (folder / path / "config.json").write_text(json.dumps(config))
        if kind == "Dense":
            arrays = {"linear.weight": np.ascontiguousarray(KERNEL.T), "linear.bias": BIAS}
            safetensors.numpy.save_file(arrays, folder / path / "model.safetensors")
        rows.append({"type": kind if "." in kind else package + kind, "path": path})
    (folder / "modules.json").write_text(json.dumps(rows))
    return folder


def expected(pretrained, pooling, dense=None, normalize=False, longest=16):
    """In plain NumPy, one text after the other."""
    vectors = []
    for text in TEXTS:
        ids = [2, *pretrained.tokenizer.encode(text)[: longest - 2], 3]
        outputs = pretrained.encoder({"input_ids": np.array([ids])})
        tokens = np.asarray(outputs["sequence_output"])[0]
        positions = np.arange(1, len(tokens) + 1)
        vector = {
            "mean": tokens.mean(axis=0),
            "cls": tokens[0],
            "max": tokens.max(axis=0),
            "weightedmean": positions @ tokens / positions.sum(),
            "pooled": np.asarray(outputs["pooled_output"])[0],
        }[pooling]
        if dense:
            vector = dense(vector @ KERNEL + BIAS)
        vectors.append(vector / np.linalg.norm(vector) if normalize else vector)
    return np.array(vectors)


@pytest.mark.parametrize(
    ("modules", "package", "how"),
    [
        ([("Pooling", {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False})], OLD, ("mean",)),
        ([MEAN, ("Normalize", {})], NEW, ("mean", None, True)),
        ([("Pooling", {"pooling_mode_cls_token": True}), ("Dense", {})], OLD, ("cls", np.tanh)),
        (
            [
                ("Pooling", {"pooling_mode": "weightedmean"}),
                ("Dense", {"activation_function": "torch.nn.modules.linear.Identity"}),
                ("Normalize", {"module_input_name": "sentence_embedding"}),
            ],
            NEW,
            ("weightedmean", lambda vector: vector, True),
        ),
        (
            [
                ("Pooling", {"pooling_mode": ["max"]}),
                ("Dense", {"activation_function": "torch.nn.modules.activation.ReLU"}),
            ],
            NEW,
            ("max", lambda vector: np.maximum(vector, 0)),
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else None,
)
def test_vectors_of_a_folder_before_and_after_it_is_written(tmp_path, modules, package, how):
    theirs = write_modules(tmp_path / "theirs", *modules, package=package)
    (theirs / "sentence_bert_config.json").write_text('{"max_seq_length": 9, "do_lower_case": false}')
    for to in ("huggingface", "keras"):
        convert(theirs, tmp_path / to, to, verify=False)
    for folder in (theirs, tmp_path / "huggingface", tmp_path / "keras"):
        loaded = load_pretrained(folder)
        np.testing.assert_allclose(loaded.embed(TEXTS), expected(loaded, *how, longest=9), atol=1e-5)
    assert any("pooling" in note for note in convert(theirs, tmp_path / "tf1", "tf1", verify=False).notes)


@pytest.mark.parametrize(
    ("modules", "named"),
    [
        ([("Pooling", {"pooling_mode": "lasttoken"})], "Pooling (lasttoken)"),
        (
            [("Pooling", {"pooling_mode_mean_tokens": True, "pooling_mode_mean_sqrt_len_tokens": True})],
            "Pooling (mean, mean_sqrt_len)",
        ),
        ([MEAN, ("Normalize", {}), ("Dense", {})], "Dense in this order"),
        ([MEAN, ("Dense", {}), ("Dense", {})], "Dense in this order"),
        ([MEAN, ("LayerNorm", {})], "LayerNorm"),
        ([MEAN, ("their_code.Dense", {})], "their_code.Dense"),
        ([MEAN, ("Dense", {"activation_function": "torch.nn.modules.activation.Mish"})], "Dense (torch.nn"),
        ([MEAN, ("Dense", {"use_residual": True})], "Dense (use_residual)"),
        ([MEAN, ("Normalize", {"module_input_name": "token_embeddings"})], "Normalize (module_input_name"),
        ([], "vectors without Pooling"),
    ],
)
def test_what_nothing_here_computes(tmp_path, modules, named):
    """It is refused where vectors are computed; all else that the model is for goes on."""
    folder = write_modules(tmp_path / "theirs", *modules)
    stored = open_model(folder)
    assert named in stored.sentence_vectors.unsupported
    assert any(named in note for note in stored.notes)
    loaded = as_pretrained(stored)
    assert loaded.fill_mask(["a [MASK]"])
    for embed in (lambda: loaded.embed(["a"]), lambda: with_pooling(loaded, "mean")):
        with pytest.raises(InputError, match=rf"asks for {re.escape(named)}.*use sentence-transformers"):
            embed()


def test_prompts_matter_if_one_comes_before_every_text(tmp_path):
    folder, file = write_modules(tmp_path, MEAN), tmp_path / "config_sentence_transformers.json"
    file.write_text('{"prompts": {"query": "query: "}, "default_prompt_name": null}')
    assert not open_model(folder).sentence_vectors.unsupported
    file.write_text('{"prompts": {"query": "query: "}, "default_prompt_name": "query"}')
    assert open_model(folder).sentence_vectors.unsupported == "the prompt 'query: ' before every text"


@pytest.mark.parametrize("path", ["../elsewhere", "/etc"])
def test_modules_elsewhere(tmp_path, path):
    folder = write_modules(tmp_path / "theirs")
    rows = [{"type": f"{OLD}Transformer", "path": ""}, {"type": f"{OLD}Pooling", "path": path}]
    (folder / "modules.json").write_text(json.dumps(rows))
    with pytest.raises(InputError, match=f"must name folders beside it. Received '{path}'"):
        open_model(folder)


def test_the_layout_of_early_versions(tmp_path):
    """The encoder is in a folder of its own, whose texts become lower case."""
    folder = write_modules(tmp_path / "theirs", MEAN, first="0_Transformer")
    (folder / "0_Transformer").mkdir()
    for name in ("config.json", "model.safetensors", "spiece.model", "tokenizer_config.json"):
        shutil.move(folder / name, folder / "0_Transformer" / name)
    for file in folder.glob("tokenizer.json"):
        file.unlink()
    config = folder / "0_Transformer" / "tokenizer_config.json"
    config.write_text(config.read_text().replace('"do_lower_case": true', '"do_lower_case": false'))
    assert not open_model(folder).vocabulary.normalization.do_lower_case
    (folder / "0_Transformer" / "sentence_bert_config.json").write_text('{"do_lower_case": true}')
    loaded = load_pretrained(folder)
    assert loaded.vocabulary.normalization.do_lower_case
    np.testing.assert_allclose(loaded.embed(TEXTS), expected(loaded, "mean"), atol=1e-5)


def test_writing_the_pooled_output(tmp_path):
    stored = random_stored(CONFIG)
    pooled = dataclasses.replace(stored, sentence_vectors=SentenceVectors("pooled"))
    write_huggingface(pooled, tmp_path)
    loaded = load_pretrained(tmp_path)
    assert loaded.sentence_vectors.pooling == "cls"
    np.testing.assert_allclose(loaded.embed(TEXTS), expected(loaded, "pooled"), atol=1e-5)
    dense = VectorDense(KERNEL, BIAS)
    for how in (SentenceVectors("pooled", dense), SentenceVectors(dense=VectorDense(KERNEL, BIAS, "selu"))):
        (folder := tmp_path / how.pooling).mkdir()
        with pytest.raises(InputError, match="has no pooled output|must be one of tanh"):
            write_huggingface(dataclasses.replace(stored, sentence_vectors=how), folder)
