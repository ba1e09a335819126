import dataclasses
import re
import shutil
from hashlib import sha256

import keras
import numpy as np
import pytest

from albert_cli import cli
from albert_tf.checkpoints import names
from albert_tf.checkpoints.names import HeadSize
from albert_tf.checkpoints.open_model import open_model
from albert_tf.checkpoints.tf1 import read_arrays, write_tf1
from albert_tf.config import AlbertConfig
from albert_tf.conversion.convert import convert
from albert_tf.conversion.verification import check_equal, compare_models, compare_outputs, random_inputs
from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.parameters import count_parameters
from data_prep.errors import InputError
from tests.albert_tf.checkpoints.processes import needs_keras_hub, needs_transformers, run_python
from tests.albert_tf.checkpoints.random_models import (
    CONFIGS,
    SIZES,
    VOCABULARY,
    assert_same_weights,
    random_stored,
    random_weights,
)
from tests.albert_tf.checkpoints.test_stored_heads import write_google
from tests.cards import card_of, examples_of

CONFIG = CONFIGS["two blocks"]


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "tf1"
    folder.mkdir()
    write_tf1(random_stored(CONFIG), folder)
    return folder


@pytest.mark.slow
def test_round_trip_is_bit_equal(source, tmp_path):
    """TF1 -> ours -> Hugging Face -> ours -> TF1; tests/albert_tf/checkpoints/test_formats.py has each step."""
    last = source
    for step, to in enumerate(("keras", "huggingface", "keras", "tf1")):
        convert(last, tmp_path / str(step), to, verify=False)
        last = tmp_path / str(step)
    assert_same_weights(*(read_arrays(folder / "model.ckpt-best") for folder in (source, last)))
    for file in ("albert_config.json", "spm.model"):
        assert (source / file).read_bytes() == (last / file).read_bytes()


@pytest.mark.slow
def test_verifies_by_reading_back(source, tmp_path):
    conversion = convert(source, tmp_path / "keras", "keras")
    assert conversion.comparison.difference == 0
    heads = ("masked_lm_logits", "sentence_order_logits")
    assert conversion.comparison.outputs == ("sequence_output", "pooled_output", *heads)
    assert conversion.comparison.result_run_by == "albert_tf"


@pytest.mark.very_slow
@pytest.mark.parametrize("head", [False, True])
def test_the_precision_that_keras_is_set_to_does_not_matter(head, source, tmp_path):
    if head:
        source = tmp_path / "tf1 with a head"
        write_google(source, HeadSize("sequence_head", 3))
    expected = open_model(source).all_weights
    keras.config.set_dtype_policy("bfloat16")
    try:
        conversion = convert(source, tmp_path / "keras", "keras")
        stored = open_model(tmp_path / "keras")
    finally:
        keras.config.set_dtype_policy("float32")
    assert conversion.comparison.difference < 1e-5
    assert_same_weights(stored.all_weights, expected)


@pytest.mark.very_slow
def test_rounds_weights(source, tmp_path):
    conversion = convert(source, tmp_path / "hf", "huggingface", dtype="bfloat16")
    assert 1e-3 < conversion.comparison.difference < conversion.comparison.scale
    assert "Weights in bfloat16: maximum difference" in card_of(tmp_path / "hf")
    exact = convert(tmp_path / "hf", tmp_path / "again", "huggingface", dtype="bfloat16")
    assert exact.comparison.difference == 0
    with pytest.raises(InputError, match="--dtype=float16 needs --to=huggingface. Received --to=tf1"):
        convert(source, tmp_path / "tf1_again", "tf1", dtype="float16")
    assert not (tmp_path / "tf1_again").exists()


@pytest.mark.very_slow
@pytest.mark.parametrize(
    ("to", "library"),
    [
        pytest.param("huggingface", "transformers", marks=needs_transformers),
        pytest.param("kerashub", "keras_hub", marks=needs_keras_hub),
    ],
)
def test_verifies_with_the_formats_library(to, library, source, tmp_path):
    conversion = convert(source, tmp_path / to, to)
    assert conversion.comparison.result_run_by.startswith(library)
    assert 0 < conversion.comparison.difference < 1e-5


@pytest.mark.very_slow
@needs_transformers
def test_swapped_query_and_key_in_the_table_are_caught(source, tmp_path, monkeypatch):
    query, key, *rest = names._BLOCK
    swapped = (query._replace(huggingface=key.huggingface), key._replace(huggingface=query.huggingface))
    monkeypatch.setattr(names, "_BLOCK", (*swapped, *rest))
    with pytest.raises(InputError, match="must compute the same as the source.*against transformers"):
        convert(source, tmp_path / "hf", "huggingface")
    assert [path.name for path in tmp_path.iterdir()] == ["tf1"]


@pytest.mark.slow
def test_swapped_query_and_key_and_nan_are_caught(source):
    stored = open_model(source)
    one, other = "attention_0_0/query/kernel", "attention_0_0/key/kernel"
    for wrong in (
        {one: stored.weights[other], other: stored.weights[one]},
        {"masked_lm/output_bias": np.full(50, np.nan, "float32")},
    ):
        comparison = compare_models(stored, dataclasses.replace(stored, weights={**stored.weights, **wrong}))
        with pytest.raises(InputError, match="must compute the same as the source"):
            check_equal(comparison)


@pytest.mark.parametrize(
    ("probabilities", "ids", "is_equal"),
    [
        ([0.5, 0.25], [29000, 2], True),
        ([0.50001, 0.25], [29000, 2], True),
        ([0.5, 0.251], [29000, 2], False),
        ([0.5, np.nan], [29000, 2], False),
        ([0.5, 0.25], [29000, 3], False),
    ],
)
def test_each_output_is_compared_by_itself(probabilities, ids, is_equal):
    """Large ids allow no larger difference of probabilities, and integers must be equal."""
    source = {"probabilities": np.array([0.5, 0.25], "float32"), "ids": [29000, 2]}
    comparison = compare_outputs(source, {"probabilities": probabilities, "ids": ids}, "one", "other")
    assert comparison.is_equal == is_equal


@pytest.mark.slow
@pytest.mark.parametrize("sharing", ["attention", "ffn", "none"])
def test_layers_that_share_less_are_stored_as_groups(sharing, tmp_path):
    config = AlbertConfig(**SIZES, parameter_sharing=sharing)
    stored = random_stored(config)
    (tmp_path / "tf1").mkdir()
    write_tf1(stored, tmp_path / "tf1")
    result = open_model(tmp_path / "tf1")
    assert (result.config.parameter_sharing, result.config.num_hidden_groups) == ("all", 4)
    batch = random_inputs(config, seed=1)
    first, second = AlbertPretrainer.of_stored(stored)(batch), AlbertPretrainer.of_stored(result)(batch)
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])


@pytest.mark.parametrize("options", [{"to": "hugingface"}, {"to": "huggingface", "dtype": "int8"}])
def test_refuses_misspelled_arguments(source, tmp_path, options):
    with pytest.raises(InputError, match=f"--{[*options][-1]} must be one of .*Received"):
        convert(source, tmp_path / "new", **options)
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_refuses_a_destination_with_files(source, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    for destination in (tmp_path / "mine", tmp_path / "mine" / "thesis.tex", source):
        with pytest.raises(InputError, match="must be a new or empty folder"):
            convert(source, destination, "huggingface")
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "years of work"
    with pytest.raises(InputError, match="cannot be written"):
        convert(source, tmp_path / "mine" / "thesis.tex" / "new" / "hf", "keras", verify=False)
    (tmp_path / "empty").mkdir()
    convert(source, tmp_path / "empty", "keras", verify=False)
    assert_same_weights(open_model(tmp_path / "empty").weights, random_weights(CONFIG))


@pytest.mark.slow
def test_card_describes_model_source_and_check(source, tmp_path):
    convert(source, tmp_path / "keras", "keras")
    convert(tmp_path / "keras", tmp_path / "tf1 again", "tf1", verify=False)
    card, again = (card_of(tmp_path / name) for name in ("keras", "tf1 again"))
    data = (source / "model.ckpt-best.data-00000-of-00001").read_bytes()
    assert f"| model.ckpt-best.data-00000-of-00001 | {len(data):,} | {sha256(data).hexdigest()} |" in card
    assert f"`{source}`, a TF1 checkpoint" in card
    assert "Verified: maximum difference 0, of outputs up to" in card
    assert "| inner_group_num | 2 |" in card
    assert f"{count_parameters(CONFIG).pretrainer:,} parameters: encoder, pooler, masked_lm" in card
    assert "Not verified (--noverify)." in again
    (weights,) = re.findall("in every format: `([0-9a-f]{64})`", card)
    assert weights in again


@pytest.mark.parametrize("name", ["model.ckpt-1", "model.ckpt-1.index"])
def test_card_lists_the_files_of_one_checkpoint(name, source, tmp_path):
    for suffix in (".index", ".data-00000-of-00001"):
        file = source / f"model.ckpt-best{suffix}"
        shutil.copy(file, source / f"model.ckpt-10{suffix}")
        file.rename(source / f"model.ckpt-1{suffix}")
    convert(source / name, tmp_path / "keras", "keras", verify=False)
    files = re.findall(r"\| (model\.ckpt\S+) \|", card_of(tmp_path / "keras"))
    assert files == ["model.ckpt-1.data-00000-of-00001", "model.ckpt-1.index"]


@pytest.mark.parametrize(
    "to",
    [
        "tf1",
        "keras",
        pytest.param("huggingface", marks=needs_transformers),
        pytest.param("kerashub", marks=needs_keras_hub),
    ],
)
@pytest.mark.very_slow
def test_example_of_the_card_runs_in_its_folder(to, source, tmp_path):
    convert(source, tmp_path / "result", to, verify=False)
    (example,) = examples_of(tmp_path / "result")
    shapes = run_python(example, tmp_path / "result").strip().splitlines()[-1]
    assert re.findall(r"\d+", shapes) == ["1", "5", "24", "1", "24"]


def run(capfd, *arguments) -> tuple[int, str, str]:
    status = cli.main(["convert", *map(str, arguments)])
    return status, *capfd.readouterr()


@pytest.mark.slow
def test_the_command(source, tmp_path, capfd):
    status, out, error = run(capfd, source, tmp_path / "new" / "keras", "--to=keras")
    assert (status, out) == (0, f"{tmp_path}/new/keras\n")
    assert "verified: maximum difference 0, of outputs up to" in error
    assert open_model(tmp_path / "new" / "keras").vocabulary == VOCABULARY
    status, _, error = run(capfd, source, tmp_path / "preset", "--to=kerashub", "--noverify")
    assert status == 0
    assert "note: KerasHub has no sentence-order head: left out sentence_order" in error
    assert "verified" not in error


def test_mistakes_write_nothing(source, tmp_path, capfd):
    (tmp_path / "nothing").mkdir()
    shutil.copytree(source, tmp_path / "cut")
    data = tmp_path / "cut" / "model.ckpt-best.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:500])
    before = sorted(tmp_path.rglob("*"))
    for arguments, message in (
        ((tmp_path / "tf2", tmp_path / "out", "--to=keras"), "There is no checkpoint at"),
        ((tmp_path / "nothing", tmp_path / "out", "--to=keras"), "There is no model in the folder"),
        ((source / "spm.model", tmp_path / "out", "--to=keras"), "is not a model that can be read"),
        (
            (tmp_path / "cut", tmp_path / "out", "--to=keras"),
            "cut/model.ckpt-best is not a complete checkpoint",
        ),
        ((source, tmp_path / "out", "--to=hugginface"), "huggingface"),
        ((source, tmp_path / "out", "--too=keras"), "Did you mean --to?"),
        ((source, tmp_path / "out"), "--to"),
        ((source, "--to=keras"), "DESTINATION"),
    ):
        status, out, error = run(capfd, *arguments)
        assert (status, out) == (2, "")
        assert error.startswith("albert: ")
        assert message in error
        assert error.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before
