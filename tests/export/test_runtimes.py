"""Exports for ONNX Runtime and LiteRT: what the runtimes compute equals the model."""

import re
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy.special import softmax

from albert_tf import load_portable
from albert_tf.config import AlbertConfig
from albert_tf.runtime.portable_folder import PortableFolder
from albert_tf.runtime.pretrained import load_pretrained
from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Vocabulary
from export.evaluation import EvalFile, Evaluation, masked_lm_accuracy
from export.functions_of_ids import portable_encoder, portable_fill_mask
from export.litert import LITERT, litert_runner
from export.onnx import ONNX, onnx_runner
from export.portable import Portable
from export.write import export_for_runtime
from tests.albert_tf.checkpoints.random_models import CONFIGS, random_weights
from tests.albert_tf.tasks.task_models import CASES
from tests.cards import card_of, examples_of, printed_by
from tests.export.conftest import CONFIG as SMALL
from tests.export.conftest import write_model, write_source
from tests.export.test_finetuned import saved

onnx = pytest.importorskip("onnx", reason="an extra: pip install '.[onnx]'")
pytest.importorskip("onnxruntime", reason="an extra: pip install '.[onnx]'")
pytest.importorskip("tf2onnx", reason="an extra: pip install '.[onnx]'")
pytest.importorskip("ai_edge_litert", reason="an extra: pip install '.[litert]'")

RUNNERS = {"onnx": onnx_runner, "litert": litert_runner}
FILES = {"onnx": ONNX.file, "litert": LITERT.file}
FORMATS = pytest.mark.parametrize("runtime", ["onnx", "litert"])


def batch(config: AlbertConfig, B: int, T: int, P: int = 2) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(B * T)
    lengths = rng.integers(1, T + 1, B)
    return {
        "input_word_ids": rng.integers(0, config.vocab_size, (B, T)).astype("int32"),
        "input_mask": (np.arange(T) < lengths[:, None]).astype("int32"),
        "input_type_ids": rng.integers(0, 2, (B, T)).astype("int32"),
        "masked_lm_positions": rng.integers(0, lengths[:, None], (B, P)).astype("int32"),  # of tokens
    }


def expected(model, inputs: dict) -> dict[str, np.ndarray]:
    ours = {
        "input_ids": inputs["input_word_ids"],
        "input_mask": inputs["input_mask"],
        "token_type_ids": inputs["input_type_ids"],
        "masked_lm_positions": inputs["masked_lm_positions"],
    }
    encoded, heads = model.encoder(ours), model(ours)
    arrays = {
        "sequence_output": encoded["sequence_output"],
        "pooled_output": encoded["pooled_output"],
        "mlm_logits": heads["masked_lm_logits"],
        "sop_logits": heads["sentence_order_logits"],
    }
    return {name: np.asarray(array) for name, array in arrays.items()}


@pytest.mark.very_slow
def test_no_index_is_compared_with_zero(portable):
    """As `keras.ops.take` does, although ONNX's Gather takes negative indices."""
    operations = {node.op_type for node in onnx.load(portable("onnx") / "model.onnx").graph.node}
    assert "Gather" in operations
    assert "Less" not in operations


@pytest.mark.very_slow
def test_engines_find_the_layouts_and_formulas_that_they_are_fastest_with(portable):
    """Matrices as (outputs, inputs), once for all layers, and LayerNorm as one kernel of OpenVINO."""
    openvino = pytest.importorskip("openvino", reason="an extra: pip install '.[openvino]'")
    graph = onnx.load(portable("onnx") / "model.onnx").graph
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    products = [node for node in graph.node if node.op_type == "Gemm"]
    L, F, H = SMALL.num_hidden_layers, SMALL.intermediate_size, SMALL.hidden_size
    assert all(
        attribute.i == 1 for node in products for attribute in node.attribute if attribute.name == "transB"
    )
    assert [shapes[node.input[1]] for node in products].count((F, H)) == L
    assert sum(shape == (F, H) for shape in shapes.values()) == 1
    operations = [node.op_type for node in graph.node]
    assert operations.count("LayerNormalization") == 1 + 2 * L + 1  # the embeddings', the layers', the head's
    assert shapes.keys() <= {name for node in graph.node for name in node.input}
    compiled = openvino.Core().compile_model(str(portable("onnx") / "model.onnx"), "CPU")
    kinds = [node.get_rt_info()["layerType"].astype(str) for node in compiled.get_runtime_model().get_ops()]
    assert kinds.count("MVN") == 1 + 2 * L + 1


@FORMATS
@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.very_slow
def test_equals_the_model_in_any_shape(runtime, config, tmp_path):
    """All kinds of parameter sharing, activations and shapes of the encoder."""
    source = write_model(tmp_path / "source", CONFIGS[config])
    result = export_for_runtime(source, tmp_path / "saved", runtime)
    assert result.comparison.is_equal
    run = RUNNERS[runtime](tmp_path / "saved" / FILES[runtime])
    model = load_pretrained(source).model
    model.encoder.unpad = runtime == "onnx"  # which gives 0 for padding
    for shape in ((1, 2), (3, 16), (2, 7)):
        inputs = batch(model.config, *shape)
        ours, theirs = expected(model, inputs), run(inputs)
        assert set(theirs) == set(ours)
        for name, array in ours.items():
            assert theirs[name].shape == array.shape
            np.testing.assert_allclose(theirs[name], array, atol=1e-4, err_msg=f"{name} {shape}")


@pytest.mark.very_slow
@pytest.mark.parametrize("left_out", [("gamma",), ("beta",), ("gamma", "beta")])
def test_layer_norm_as_initialized(left_out, tmp_path):
    """The converter leaves out products with gamma = 1 and sums with beta = 0."""
    weights = random_weights(SMALL)
    for name, array in weights.items():
        if name.endswith(left_out):
            weights[name] = np.full_like(array, name.endswith("gamma"))
    source = write_model(tmp_path / "source", SMALL, weights)
    assert export_for_runtime(source, tmp_path / "saved", "onnx").comparison.is_equal


@pytest.mark.very_slow
def test_vectors_in_bfloat16_are_as_exact_as_those_of_the_saved_model(exported, portable):
    openvino = pytest.importorskip("openvino", reason="an extra: pip install '.[openvino]'")
    if "BF16" not in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        pytest.skip("this processor has no bfloat16")
    inputs = batch(SMALL, 8, 16)
    exact = onnx_runner(portable("onnx") / "model.onnx")(inputs)
    ours = load_portable(portable("onnx"), engine="openvino", precision="bfloat16")(inputs)
    saved_model = tf.saved_model.load(exported("encoder", "bfloat16"))  # has the variables
    theirs = saved_model.mlm(tf.nest.map_structure(tf.constant, inputs))
    for name in ("sequence_output", "pooled_output"):
        ours_off, theirs_off = (np.abs(found[name] - exact[name]).mean() for found in (ours, theirs))
        assert 0 < ours_off < 1.1 * theirs_off, name


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["onnx", pytest.param("litert", marks=pytest.mark.very_slow)])
def test_without_positions(runtime, source, portable):
    folder = portable(runtime)
    run = RUNNERS[runtime](folder / FILES[runtime])
    model = load_pretrained(source).model
    model.encoder.unpad = runtime == "onnx"
    inputs = batch(model.config, 2, 9)
    ours = expected(model, inputs)
    del inputs["masked_lm_positions"]
    theirs = run(inputs)
    for name in ("sequence_output", "pooled_output", "sop_logits"):
        np.testing.assert_allclose(theirs[name], ours[name], atol=1e-4)
    files = ["README.md", "albert_config.json", "spm.model", FILES[runtime]]
    files += ["portable.json"] * (runtime == "onnx")
    assert sorted(path.name for path in folder.iterdir()) == sorted(files)


@pytest.mark.very_slow
@FORMATS
def test_has_only_the_outputs_of_trained_parts(runtime, tmp_path):
    source = write_source(tmp_path / "source", "masked_lm", "sentence_order")
    export_for_runtime(source, tmp_path / "saved", runtime)
    run = RUNNERS[runtime](tmp_path / "saved" / FILES[runtime])
    inputs = batch(load_pretrained(source).model.config, 2, 9)
    del inputs["masked_lm_positions"]
    assert set(run(inputs)) == {"sequence_output", "pooled_output"}


@FORMATS
@pytest.mark.very_slow
@pytest.mark.timeout(900)
def test_shared_weights_are_stored_once(runtime, tmp_path):
    """The size of a model of three layers and 2.2 million parameters, relative to the bytes of these."""
    config = AlbertConfig(
        vocab_size=3000,
        embedding_size=64,
        hidden_size=384,
        num_hidden_layers=3,
        num_attention_heads=6,
        intermediate_size=1536,
        max_position_embeddings=128,
    )
    weights = random_weights(config, scale=0.02)
    source = write_model(tmp_path / "source", config, weights)
    whole = 4 * sum(array.size for array in weights.values())
    for quantize, share, tolerance in (("none", 1.05, 1e-4), ("float16", 0.53, 1e-2), ("int8", 0.36, 1.0)):
        result = export_for_runtime(source, tmp_path / "saved", runtime, quantize)
        size = (tmp_path / "saved" / FILES[runtime]).stat().st_size
        assert size < share * whole, (quantize, size / whole)
        assert result.comparison.difference < tolerance, quantize
        if runtime == "onnx":
            assert PortableFolder(tmp_path / "saved").facts.quantize == quantize


@FORMATS
@pytest.mark.very_slow
def test_measures_what_quantization_costs(runtime, pretraining_files, tmp_path, caplog):
    config = AlbertConfig.from_json_file(pretraining_files.albert_config_file)
    source, results = write_model(tmp_path / "source", config), {}
    for quantize in ("none", "float16", "int8"):
        result = export_for_runtime(source, tmp_path / "saved", runtime, quantize, pretraining_files.heldout)
        (note,) = [note for note in result.notes if note.startswith("masked-LM accuracy")]
        before, after, count = re.search(
            r": ([\d.]+) before, ([\d.]+) in the file .*; ([\d,]+) predictions$", note
        ).groups()
        results[quantize] = float(before), float(after), count
        assert note in card_of(tmp_path / "saved")
    assert len({(before, count) for before, _, count in results.values()}) == 1
    assert results["none"][0] == results["none"][1]
    assert abs(results["int8"][0] - results["int8"][1]) < 0.1
    with caplog.at_level("WARNING"):
        result = export_for_runtime(source, tmp_path / "saved", runtime, "int8")
    assert not caplog.records
    assert any("--eval_file was not given" in note for note in result.notes)


@pytest.mark.very_slow
@pytest.mark.parametrize("build", [portable_encoder, portable_fill_mask])
def test_inputs_and_outputs_in_the_card(build, source):
    portable = build(load_pretrained(source))
    for name in portable.sample:
        assert f"`{name}`" in portable.section
    for name, array in portable(portable.sample).items():
        assert f"| `{name}` | {array.dtype} (" in portable.section


@FORMATS
@pytest.mark.very_slow
def test_example_of_the_card_runs(runtime, portable):
    folder = portable(runtime)
    verified = r"Verified: maximum difference [\d.e-]+, of outputs up to [\d.e+]+, in sequence_output"
    assert re.search(verified, card_of(folder))
    (example,) = examples_of(folder)
    assert printed_by(example, folder) == "(1, 5, 24)"


def test_pieces_of_nearly_equal_probability_may_swap():
    """In a file of another runtime; others may not."""
    probabilities = np.array([[[0.4, 0.3, 0.2 + 1e-7, 0.2, 0.1]]], "float32")
    ours = {"ids": np.array([[[7, 3, 5, 2, 9]]], "int32"), "probabilities": probabilities}
    outputs = {name: tf.constant(array) for name, array in ours.items()}
    portable = Portable(keras.Model(), {"serving_default": lambda _: outputs}, {}, {})
    for ids, is_equal in (([7, 3, 2, 5, 8], True), ([3, 7, 5, 2, 9], False)):
        theirs = {"ids": np.array([[ids]], "int32"), "probabilities": probabilities}
        assert portable.compare(lambda _, theirs=theirs: theirs, "x", rounded=False).is_equal == is_equal


def dev_file(name: str, folder: Path) -> Path:
    """The examples of a case as own data."""
    texts, labels = CASES[name].x, CASES[name].y
    columns = ["text_a", "text_b", "label"] if name == "pair" else ["text_a", "label"]
    rows = zip(*texts, labels, strict=True) if name == "pair" else zip(texts, labels, strict=True)
    lines = ["\t".join(map(str, row)) for row in (columns, *rows)]
    (folder / "dev.tsv").write_text("\n".join(lines), encoding="utf-8")
    return folder / "dev.tsv"


@FORMATS
@pytest.mark.parametrize("name", ["text", "pair"])
@pytest.mark.very_slow
def test_measures_what_quantization_costs_a_fine_tuned_model(runtime, name, model_file, tmp_path):
    """The metric of its task before and after, on a file of own data, and the example of the card."""
    model, file = saved(name, model_file, tmp_path)
    outputs, labels, folder = model.predict(CASES[name].x, verbose=0), CASES[name].y, tmp_path / "saved"
    if name == "pair":
        metric, value = "pearson", np.corrcoef(outputs, labels)[0, 1]
    else:
        metric, value = "accuracy", np.mean([model.labels[i] for i in outputs.argmax(-1)] == np.array(labels))
    for quantize in ("none", "int8"):
        own_data = str(dev_file(name, tmp_path))
        result = export_for_runtime(file, folder, runtime, quantize, own_data, "classifier")
        (note,) = [note for note in result.notes if note.startswith(metric)]
        before, after = re.search(
            r": (-?[\d.]+) before, (-?[\d.]+) in the file .*; 21 examples$", note
        ).groups()
        np.testing.assert_allclose(float(before), value, atol=1e-4)
        assert quantize != "none" or before == after
        assert note in card_of(folder)
    run = RUNNERS[runtime](folder / FILES[runtime])
    inputs = dict.fromkeys(("input_word_ids", "input_mask", "input_type_ids"), np.ones((2, 7), "int32"))
    shapes = {"score": (2,)} if name == "pair" else {"probabilities": (2, 2), "logits": (2, 2)}
    assert {key: array.shape for key, array in run(inputs).items()} == shapes
    for example in examples_of(folder):
        printed_by(example, folder)


@pytest.mark.slow
def test_evaluation_needs_a_file_of_the_models_task(model_file, tmp_path):
    """A run's settings.json names the task; files of other tasks are refused before anything is written."""
    _, file = saved("text", model_file, tmp_path)
    file = file.rename(tmp_path / "model.keras")
    (tmp_path / "settings.json").write_text('{"task": "sst-2", "column_names": ""}')
    (tmp_path / "dev.tsv").write_text("sentence\tlabel\nfine\tsmall\n")
    with pytest.raises(InputError, match="The classes of sst-2 are 0, 1. .*small, big"):
        export_for_runtime(file, tmp_path / "saved", "onnx", "int8", str(tmp_path / "dev.tsv"), "classifier")
    assert not (tmp_path / "saved").exists()


def test_accuracy_counts_predictions_not_padding():
    logits = np.zeros((2, 3, 5))
    logits[[0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2], [4, 1, 0, 2, 2, 0]] = 1.0
    examples = {
        "input_ids": np.zeros((2, 4)),
        "input_mask": np.ones((2, 4)),
        "token_type_ids": np.ones((2, 4)),
        "masked_lm_positions": np.array([[1, 2, 0], [3, 0, 0]]),
        "masked_lm_ids": np.array([[4, 2, 0], [2, 0, 0]]),
        "masked_lm_weights": np.array([[1.0, 1, 0], [1, 0, 0]]),
    }
    asked = []

    def run(inputs):
        asked.append(inputs)
        return {"mlm_logits": logits}

    assert masked_lm_accuracy(run, [examples, examples]) == 2 / 3
    np.testing.assert_array_equal(asked[0]["input_type_ids"], np.ones((2, 4)))
    assert {array.dtype for array in asked[0].values()} == {np.dtype("int32")}


@pytest.mark.very_slow
def test_int8_static_is_calibrated_on_the_eval_file(model_file, tmp_path):
    """Weights and activations in 8 bits, run by OpenVINO; the metric before and after."""
    pytest.importorskip("nncf", reason="an extra: pip install '.[int8]'")
    model, file = saved("text", model_file, tmp_path)
    eval_file = EvalFile(str(dev_file("text", tmp_path)), max_loss=0.2)
    result = export_for_runtime(file, tmp_path / "saved", "onnx", "int8-static", eval_file, "classifier")
    assert any("(quantize=int8-static)" in note for note in result.notes)
    operations = {node.op_type for node in onnx.load(str(tmp_path / "saved" / "model.onnx")).graph.node}
    assert {"QuantizeLinear", "DequantizeLinear"} <= operations
    texts = CASES["text"].x
    found = load_portable(tmp_path / "saved", engine="openvino")(texts)["probabilities"]
    np.testing.assert_allclose(found, softmax(model.predict(texts, verbose=0), axis=-1), atol=0.1)


@pytest.mark.very_slow
@pytest.mark.parametrize("kind", ["encoder", "fill-mask", "embedding"])
def test_int8_static_of_a_pretrained_model(kind, pretraining_files, tmp_path):
    """Calibrated on pretraining examples; before and after, an embedding is compared with the exact one."""
    pytest.importorskip("nncf", reason="an extra: pip install '.[int8]'")
    config = AlbertConfig.from_json_file(pretraining_files.albert_config_file)
    vocabulary = Vocabulary.read(pretraining_files.spm_model_file)
    source = write_model(tmp_path / "source", config, vocabulary=vocabulary)
    eval_file = EvalFile(pretraining_files.heldout, max_loss=1.0)
    result = export_for_runtime(source, tmp_path / "saved", "onnx", "int8-static", eval_file, kind)
    (note,) = [note for note in result.notes if "(quantize=int8-static)" in note]
    before, after = map(float, re.search(r": ([\d.]+) before, ([\d.]+) in the file", note).groups())
    if kind == "embedding":
        assert before == 1.0
        assert 0.9 < after <= 1.0
    else:
        assert abs(before - after) < 0.1
    graph = onnx.load(str(tmp_path / "saved" / "model.onnx")).graph
    assert "QuantizeLinear" in {node.op_type for node in graph.node}
    load_portable(tmp_path / "saved", engine="openvino")


def test_too_large_a_loss_is_refused():
    evaluation = Evaluation(lambda run: run({})["metric"], "accuracy", "dev.tsv", "9 examples")
    for limit, after in ((0.01, 0.79), (0.01, float("nan"))):
        with pytest.raises(InputError, match="at most 0.01 of its metric"):
            evaluation.change(0.8, lambda _, after=after: {"metric": after}, "int8", limit)
    for limit, after in ((0.01, 0.795), (None, 0.1)):
        note = evaluation.change(0.8, lambda _, after=after: {"metric": after}, "int8", limit)
        assert f"0.8000 before, {after:.4f} in the file" in note
    assert EvalFile("dev.tsv").limit("int8-static") == 0.01
    assert EvalFile("dev.tsv").limit("int8") is None
    assert EvalFile("dev.tsv", 0.05).limit("int8-static") == 0.05
