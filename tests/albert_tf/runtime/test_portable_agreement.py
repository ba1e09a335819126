"""Files of a portable model whose hashes are right and which contradict each other are refused."""

import shutil

import numpy as np
import pytest

from albert_cli import cli
from albert_tf import load_portable
from albert_tf.runtime import engines
from data_prep.errors import InputError
from data_prep.tokenizers.normalization import Normalization
from data_prep.tokenizers.vocabulary import write_normalization
from tests.albert_tf.checkpoints.random_models import spm_model
from tests.albert_tf.runtime.portable_files import change_config, change_facts, list_file, seal

onnx = pytest.importorskip("onnx", reason="an extra: pip install 'albert-tf[onnx]'")

CALLS = {
    "encoder": ({name: np.ones((1, 3), int) for name in ("input_word_ids", "input_mask", "input_type_ids")},),
    "fill-mask": (["the [MASK]"],),
    "embedding": (["the captain"],),
    "text": (["the captain"],),
    "topics": (["the captain"],),
    "pair": (["the captain"],),
    "choice": (["the captain"], ["who?"], [["a", "b"]]),
    "words": (["the captain"],),
    "span": (["who?"], ["the captain sailed"]),
    "span or none": (["who?"], ["the captain sailed"]),
}


@pytest.fixture
def copy(portable, tmp_path):
    """A function that copies the folder of a model, for a change."""

    def get(name):
        return shutil.copytree(portable(name), tmp_path / "copy", dirs_exist_ok=True)

    return get


def other_model(name):
    """Replaces model.onnx by that of another folder."""
    return lambda folder, portable: shutil.copy(portable(name) / "model.onnx", folder)


def other_vocabulary(pieces):
    return lambda folder, portable: (folder / "spm.model").write_bytes(spm_model(pieces))


def facts(**changes):
    return lambda folder, portable: change_facts(folder, **changes)


def config(**changes):
    return lambda folder, portable: change_config(folder, **changes)


@pytest.mark.very_slow
@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("topics", facts(labels=list("abcde"), thresholds=[0.5] * 5), r"`.*` as float32 \(1, 5\)"),
        ("topics", facts(thresholds=[0.5]), "3 labels have 1 thresholds"),
        ("topics", facts(labels=["a", "b", "b"]), "the labels of multi_label_classification are a, b, b"),
        ("text", facts(labels=[], task_kind="regression"), "with the outputs score. Received"),
        ("text", facts(labels=[]), "the labels of classification are missing"),
        ("text", facts(kind="embedding"), "the kind is embedding and the task 'classification'"),
        ("text", facts(lengths={"max_seq_length": 400}), "400 tokens and the model 48 positions"),
        ("text", facts(lengths={}), r"the lengths of classifier are \[\]"),
        ("text", facts(lengths={"max_seq_length": 10**30}), "portable.json: "),
        ("text", other_model("topics"), r"as float32 \(1, 2\)"),
        ("text", other_model("embedding"), "with the outputs probabilities, logits"),
        ("text", other_model("fill-mask"), "with the inputs input_mask, input_type_ids, input_word_ids. "),
        ("text", other_vocabulary(90), "has 90 pieces, portable.json 100 and the model 100"),
        ("text", other_vocabulary(110), "has 110 pieces, portable.json 100 and the model 100"),
        ("embedding", facts(options={"max_seq_length": 16, "vector_size": 48}), r"`embedding` .* \(1, 48\)"),
        ("encoder", config(hidden_size=48), r"`pooled_output` as float32 \(1, 48\)"),
        ("fill-mask", facts(options={}), r"the options of fill-mask are \[\]"),
        ("fill-mask", facts(options={"top_k": 4}), r"as .* \(1, 1, 4\)"),
        ("span or none", facts(options={}), r"the options of question-answering are \[\]"),
        ("span or none", facts(answerable=False), "with the outputs start_logits, end_logits"),
    ],
)
def test_files_that_do_not_fit_each_other_are_refused(name, change, message, copy, portable):
    folder = copy(name)
    change(folder, portable)
    seal(folder)
    with pytest.raises(InputError, match=message):
        load_portable(folder, engine="onnxruntime")


@pytest.mark.very_slow
def test_tables_of_another_normalization_are_refused(copy):
    folder = copy("span")
    write_normalization(folder / "spm.model", Normalization(do_lower_case=False))
    list_file(folder, "spm.normalization.json")
    with pytest.raises(InputError, match="must hold the tables of the vocabulary beside it"):
        load_portable(folder)


@pytest.mark.very_slow
@pytest.mark.parametrize("name", CALLS)
def test_results_that_are_not_finite_are_an_error(name, copy):
    folder = copy(name)
    proto = onnx.load(folder / "model.onnx")
    for tensor in proto.graph.initializer:
        array = onnx.numpy_helper.to_array(tensor)
        if array.dtype == np.float32 and array.ndim == 2 and len(array) >= 100:  # word embeddings
            tensor.CopyFrom(onnx.numpy_helper.from_array(array * np.nan, tensor.name))
    onnx.save(proto, folder / "model.onnx")
    seal(folder)
    for engine in ("onnxruntime", "auto"):
        with pytest.raises(InputError, match="Outputs must be finite numbers"):
            load_portable(folder, engine=engine)(*CALLS[name])


@pytest.mark.very_slow
def test_a_rare_text_that_gives_nan_is_an_error_of_predict(
    portable, tmp_path, standard_input, capsys, monkeypatch
):
    """NaN in the vector of one piece only."""
    run = engines._OnnxRuntime._run

    def damaged(self, arrays):
        found = run(self, arrays)
        if arrays["input_word_ids"].max() < 99:
            found["probabilities"][:] = np.nan
        return found

    monkeypatch.setattr(engines._OnnxRuntime, "_run", damaged)
    standard_input(b"the captain")
    assert cli.main(["predict", f"--model_dir={portable('text')}", "--engine=onnxruntime"]) == 2
    assert "must be finite numbers" in " ".join(capsys.readouterr().err.split())


@pytest.mark.very_slow
def test_only_listed_files_are_read(copy):
    folder = copy("embedding")
    expected = load_portable(folder)(["The Captain"])["embedding"]
    write_normalization(folder / "spm.model", Normalization(do_lower_case=False))
    np.testing.assert_array_equal(load_portable(folder)(["The Captain"])["embedding"], expected)
    list_file(folder, "spm.normalization.json")
    assert np.abs(load_portable(folder)(["The Captain"])["embedding"] - expected).max() > 1e-3


@pytest.mark.very_slow
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "one with data in other files"),
        (b'<?xml version="1.0"?><net></net>', "another format"),
        (b"", "empty"),
        (b"\x08\x08garbage", "cannot load"),
    ],
)
def test_a_model_file_is_one_onnx_file(content, message, copy):
    folder = copy("text")
    path = folder / "model.onnx"
    if content is None:
        onnx.save(onnx.load(path), path, save_as_external_data=True, location="other.bin", size_threshold=0)
    else:
        path.write_bytes(content)
    seal(folder)
    with pytest.raises(InputError, match=message):
        load_portable(folder)


def test_an_engines_reason_ends_its_message():
    """OpenVINO's messages begin with the places in its source."""
    text = "Exception from core.cpp:132:\nCheck 'false' failed at report.cpp:151:\n-- No rule for Nope-18\n\n"
    expected = pytest.raises(InputError, match=r"^openvino cannot load a: No rule for Nope-18\.$")
    with expected, engines._errors_of("openvino cannot load a"):
        raise RuntimeError(text)


@pytest.mark.very_slow
def test_an_engines_error_while_it_runs_is_no_traceback(copy):
    """The graph has fewer word embeddings than the configuration says."""
    folder = copy("encoder")
    change_config(folder, vocab_size=500)
    with pytest.raises(InputError, match="The engine cannot run the model on these inputs: "):
        load_portable(folder, engine="onnxruntime")
