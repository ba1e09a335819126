import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from albert_cli import cli
from albert_tf.conversion.convert import convert
from albert_tf.runtime.pretrained import load_pretrained
from albert_tf.tasks.hub_names import OURS
from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Vocabulary
from export.export_flags import ExportSettings
from export.huggingface_layout import add_onnx
from export.write import export_for_runtime
from tests.cards import card_of
from tests.data_prep.nasty import LINES
from tests.export.test_finetuned import saved

onnxruntime = pytest.importorskip("onnxruntime", reason="an extra: pip install '.[onnx]'")
pytest.importorskip("tf2onnx", reason="an extra: pip install '.[onnx]'")

NAMES = ("input_ids", "attention_mask", "token_type_ids")
FIRST, SECOND = ["the captain", "a quiet neighbour sailed", "a"], ["sailed", "the captain", "a quiet a"]
# A folder in which `npm install --ignore-scripts @huggingface/transformers@4` was run.
NODE_FOLDER = os.environ.get("TRANSFORMERS_JS", "")
needs_node = pytest.mark.skipif(
    not (NODE_FOLDER and shutil.which("node")), reason="needs Node.js, and TRANSFORMERS_JS set to a folder"
)


def inputs_of(tokenizer_source):
    inputs = tokenizer_source.encoder_inputs(FIRST, SECOND)
    return inputs, {theirs: inputs[ours].astype(np.int64) for theirs, ours in zip(NAMES, OURS, strict=True)}


def run_file(folder, inputs, file="model.onnx"):
    session = onnxruntime.InferenceSession(str(folder / "onnx" / file), providers=["CPUExecutionProvider"])
    assert {(value.name, value.type, *value.shape) for value in session.get_inputs()} == {
        (name, "tensor(int64)", "batch_size", "sequence_length") for name in NAMES
    }
    assert all(value.shape[0] == "batch_size" for value in session.get_outputs())
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def assert_same_at_tokens(found, expected, inputs, atol=1e-4):
    """Padding is not computed in exports."""
    tokens = inputs["input_mask"] > 0
    np.testing.assert_allclose(np.asarray(found)[tokens], np.asarray(expected)[tokens], atol=atol)


def run_node(script: str, **values) -> dict:
    """What a script for Node.js prints as JSON; `values` are its variables."""
    head = 'import * as hf from "@huggingface/transformers"; hf.env.allowRemoteModels = false;'
    head += f'hf.env.localModelPath = "/"; const values = {json.dumps(values)};'
    command = ["node", "--input-type=module", "-e", head + script]
    process = subprocess.run(command, cwd=NODE_FOLDER, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr[-2000:]
    return json.loads(process.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def folder(source, tmp_path_factory):
    """The pretrained model for fill-mask, and for the vectors of tokens."""
    folder = tmp_path_factory.mktemp("layout")
    export_for_runtime(source, folder / "fill-mask", "onnx", kind="fill-mask", layout="huggingface")
    return folder


def test_fill_mask(source, folder):
    """Also the files beside it; transformers needs no weights there."""
    loaded, made = load_pretrained(source), folder / "fill-mask"
    inputs, theirs = inputs_of(loaded)
    hidden = loaded.encoder(inputs)["sequence_output"]
    expected = loaded.model.masked_lm(hidden, None, loaded.encoder.embeddings.word_embeddings)
    assert_same_at_tokens(run_file(made, theirs)["logits"], expected, inputs)
    assert {path.name for path in made.iterdir()} == {
        *("README.md", "config.json", "onnx", "spiece.model", "tokenizer.json", "tokenizer_config.json")
    }
    assert json.loads((made / "tokenizer_config.json").read_text())["tokenizer_class"] == "AlbertTokenizer"
    assert "AlbertTokenizer, without which Transformers.js" in card_of(made)


def test_tokenizer_of_plain_steps(source, folder):
    """Without symbols in texts, and without final sigmas, which Rust's Lowercase does not know."""
    tokenizer = load_pretrained(source).tokenizer
    theirs = Tokenizer.from_file(str(folder / "fill-mask" / "tokenizer.json"))
    lines = [line for line in LINES if "Σ" not in line.upper() and "[" not in line and line.isprintable()]
    lines.append("PEOPLE and Café №5, ﬁre, ½ … 항구는 아침 छोटा हिन्दी ผู้หญิง 300 apples, in 1987")
    found = [encoding.ids for encoding in theirs.encode_batch(lines, add_special_tokens=False)]
    assert found == [list(tokenizer.encode(line)) for line in lines]
    pair = theirs.encode("the captain", "sailed")
    assert pair.type_ids == [0] * (pair.ids.index(3) + 1) + [1] * (len(pair.ids) - pair.ids.index(3) - 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["text", *(pytest.param(name, marks=pytest.mark.very_slow) for name in ("topics", "words", "span"))],
)
def test_fine_tuned_models(name, model_file, tmp_path):
    model, file = saved(name, model_file, tmp_path)
    notes = convert(file, tmp_path / "converted", "huggingface", write_more=add_onnx).notes
    assert any(note.startswith("onnx/model.onnx verified: ") for note in notes)
    inputs, theirs = inputs_of(load_pretrained(tmp_path / "converted"))
    outputs, found = model.encoder(inputs), run_file(tmp_path / "converted", theirs)
    if name == "span":
        logits = np.stack([found["start_logits"], found["end_logits"]], axis=-1)
        assert_same_at_tokens(logits, model.span.scores(outputs["sequence_output"]), inputs)
    elif name == "words":
        assert_same_at_tokens(found["logits"], model.classifier(outputs["sequence_output"]), inputs)
    else:
        np.testing.assert_allclose(found["logits"], model.classifier(outputs["pooled_output"]), atol=1e-4)


@pytest.mark.very_slow
@pytest.mark.parametrize(
    ("quantize", "file"), [("float16", "model_fp16.onnx"), ("int8", "model_quantized.onnx")]
)
def test_vectors_in_fewer_bits(source, quantize, file, tmp_path):
    made = tmp_path / "made"
    export_for_runtime(source, made, "onnx", quantize, kind="embedding", layout="huggingface")
    inputs, theirs = inputs_of(load_pretrained(source))
    expected = load_pretrained(source).encoder(inputs)["sequence_output"]
    assert_same_at_tokens(run_file(made, theirs, file)["last_hidden_state"], expected, inputs, atol=0.2)


@pytest.mark.very_slow
def test_openvino_reads_the_file(source, folder):
    openvino = pytest.importorskip("openvino", reason="an extra: pip install '.[onnx]'")
    _, theirs = inputs_of(load_pretrained(source))
    model = openvino.Core().compile_model(str(folder / "fill-mask" / "onnx" / "model.onnx"), "CPU")
    expected = run_file(folder / "fill-mask", theirs)["logits"]
    np.testing.assert_allclose(model(theirs)["logits"], expected, atol=1e-4)


@needs_node
@pytest.mark.very_slow
def test_a_pair_classifier_in_node(model_file, tmp_path):
    _, file = saved("text", model_file, tmp_path)
    convert(file, tmp_path / "made", "huggingface", write_more=add_onnx)
    inputs, theirs = inputs_of(load_pretrained(tmp_path / "made"))
    found = run_node(
        """
        const tokenizer = await hf.AutoTokenizer.from_pretrained(values.folder);
        const model = await hf.AutoModelForSequenceClassification.from_pretrained(values.folder);
        const inputs = tokenizer(values.first, {text_pair: values.second, padding: true});
        const { logits } = await model(inputs);
        const numbers = (tensor) => tensor.tolist().map((row) => row.map(Number));
        console.log(JSON.stringify({
            ids: numbers(inputs.input_ids), types: numbers(inputs.token_type_ids), logits: logits.tolist() }));
        """,
        folder=str(tmp_path / "made"),
        first=FIRST,
        second=SECOND,
    )
    assert (found["ids"], found["types"]) == (inputs["input_ids"].tolist(), inputs["token_type_ids"].tolist())
    np.testing.assert_allclose(found["logits"], run_file(tmp_path / "made", theirs)["logits"], atol=1e-4)


@needs_node
@pytest.mark.very_slow
def test_fill_mask_in_node(source, folder):
    ((expected,),) = load_pretrained(source).fill_mask(["the [MASK] sailed"])
    found = run_node(
        """
        const fill = await hf.pipeline("fill-mask", values.folder);
        console.log(JSON.stringify(await fill("the [MASK] sailed", { top_k: 104 })));
        """,
        folder=str(folder / "fill-mask"),
    )
    # The model has 104 embeddings for 100 pieces; here the others are left out.
    pieces = load_pretrained(source).tokenizer.pieces
    found = [row for row in found if row["token"] < len(pieces)][:5]
    assert [pieces[row["token"]] for row in found] == [piece for piece, _ in expected]
    scores, ours = (
        np.array(values)
        for values in zip(*((r["score"], p) for r, (_, p) in zip(found, expected, strict=True)), strict=True)
    )
    np.testing.assert_allclose(scores / scores[0], ours / ours[0], rtol=1e-4)


@pytest.mark.slow
def test_what_the_layout_cannot_hold(source, model_file, tmp_path):
    _, file = saved("choice", model_file, tmp_path)
    for model, kind, message in (
        (file, None, "Received one for multiple choice"),
        (source, "preprocessor", r"Received --kind=preprocessor"),
    ):
        with pytest.raises(InputError, match=message):
            export_for_runtime(model, tmp_path / "made", "onnx", kind=kind, layout="huggingface")
    assert not (tmp_path / "made").exists()
    for wrong in ({"format": "litert"}, {"format": "onnx", "pooling": "max"}, {}):
        with pytest.raises(InputError, match="--layout=huggingface needs --format=onnx"):
            ExportSettings("model", "made", layout="huggingface", **wrong)


@pytest.mark.very_slow
def test_a_vocabulary_without_tokenizer_json(tmp_path, vocab_file):
    from tests.export.conftest import write_source

    source = write_source(tmp_path / "source", vocabulary=Vocabulary.read(vocab_file))
    notes = convert(source, tmp_path / "made", "huggingface", write_more=add_onnx).notes
    assert "Transformers.js cannot encode texts, since there is no tokenizer.json" in notes
    assert Path(tmp_path / "made" / "onnx" / "model.onnx").exists()


def test_flags_of_convert_for_other_formats(source, tmp_path, capsys):
    for flags, message in (
        (["--onnx", "--to=keras"], "--onnx needs --to=huggingface. Received --to=keras."),
        (
            ["--pooling=mean", "--to=tf1"],
            "--pooling is for encoders, with --to=huggingface. Received --to=tf1.",
        ),
    ):
        assert cli.main(["convert", str(source), str(tmp_path / "made"), *flags]) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "made").exists()
