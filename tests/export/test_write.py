import contextlib
import io
import os
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_cli import cli
from albert_tf.checkpoints.card import written_by
from albert_tf.conversion.convert import convert
from albert_tf.runtime.pretrained import load_pretrained
from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Vocabulary
from export.encoder import build_encoder
from export.savedmodel import check_savedmodel, write_savedmodel
from export.write import export_for_runtime, export_model
from tests.albert_tf.checkpoints.random_models import spm_model
from tests.export.conftest import write_source

WORDPIECE = Vocabulary("wordpiece", "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]).encode())
IDS = np.array([[2, 13, 1, 9, 3]], "int32")
INPUTS = {"input_word_ids": IDS, "input_mask": np.ones_like(IDS), "input_type_ids": np.zeros_like(IDS)}


@pytest.mark.very_slow
def test_encoder_from_any_format(source, tmp_path):
    expected = load_pretrained(source).encoder({"input_ids": IDS})
    for to in ("tf1", "keras", "huggingface"):
        convert(source, tmp_path / to, to, verify=False)
        assert export_model(tmp_path / to, tmp_path / f"{to} saved").notes == ()
        loaded = tf.saved_model.load(tmp_path / f"{to} saved")
        for name in ("sequence_output", "pooled_output"):
            np.testing.assert_allclose(loaded(INPUTS)[name], expected[name], atol=1e-5)
        assert sorted(path.name for path in (tmp_path / f"{to} saved" / "assets").iterdir()) == [
            "albert_config.json",
            "pretrained.json",
            "spm.model",
        ]
        signatures = {"serving_default", "examples", "tokens", "mlm", "sop", "tokenization_info"}
        assert signatures == set(loaded.signatures)


@pytest.mark.very_slow
@pytest.mark.parametrize(
    ("without", "signatures", "notes"),
    [
        (("sentence_order",), {"mlm"}, [".sop"]),
        (("masked_lm",), {"sop"}, [".mlm"]),
        (("pooler", "sentence_order"), {"mlm"}, ["pooled_output", ".sop"]),
    ],
)
def test_leaves_out_what_the_source_lacks(tmp_path, without, signatures, notes):
    source = write_source(tmp_path / "source", *without)
    found = export_model(source, tmp_path / "saved").notes
    for note in [*notes, "tokenization_info"]:
        assert len([line for line in found if line.startswith("left out") and note in line]) == 1
    assert len([line for line in found if line.startswith("left out")]) == len(notes) + 1
    loaded = tf.saved_model.load(tmp_path / "saved")
    assert set(loaded.signatures) == {"serving_default", "examples", "tokens"} | signatures
    for name in ("mlm", "sop"):
        assert hasattr(loaded, name) == (name in signatures)
    assert ("pooled_output" in loaded(INPUTS)) == ("pooler" not in without)
    model = load_pretrained(source).model
    expected = model.encoder({"input_ids": IDS})["sequence_output"]
    np.testing.assert_allclose(loaded(INPUTS)["sequence_output"], expected, atol=1e-5)
    untrained = {"pooler": 2, "masked_lm": 5, "sentence_order": 2}
    assert len(loaded.trainable_variables) == len(model.trainable_variables) - sum(
        untrained[part] for part in without
    )


@pytest.mark.very_slow
def test_encoder_with_a_wordpiece_vocabulary(tmp_path):
    source = write_source(tmp_path / "source", vocabulary=WORDPIECE)
    assert export_model(source, tmp_path / "saved").notes == ()
    info = tf.saved_model.load(tmp_path / "saved").signatures["tokenization_info"]()
    assert tf.io.read_file(info["vocab_file"]) == WORDPIECE.content


@pytest.mark.parametrize("kind", ["preprocessor", "fill-mask", "embedding"])
@pytest.mark.parametrize(
    ("vocabulary", "message"),
    [
        (None, "needs a vocabulary, which .*source does not hold"),
        (
            Vocabulary("wordpiece", WORDPIECE.content.replace(b"[MASK]", b"[XXXX]")),
            r"must have the symbols .* .*source/vocab.txt lacks \[MASK\]",
        ),
        (
            Vocabulary("sentencepiece", spm_model(50).replace(b"[MASK]", b"[XXXX]")),
            r".*source/spm.model does not; make one",
        ),
    ],
)
def test_text_needs_a_vocabulary(tmp_path, kind, vocabulary, message):
    source = write_source(tmp_path / "source", vocabulary=vocabulary)
    with pytest.raises(InputError, match=message):
        export_model(source, tmp_path / "new" / "saved", kind)
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


@pytest.mark.very_slow
def test_an_earlier_export_survives_a_failure(source, tmp_path):
    export_model(source, tmp_path / "saved", "preprocessor", seq_length=8)
    before = (tmp_path / "saved" / "README.md").read_text()
    with pytest.raises(InputError, match="--seq_length"):
        export_model(source, tmp_path / "saved", "preprocessor", seq_length=1)
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]
    assert (tmp_path / "saved" / "README.md").read_text() == before
    export_model(source, tmp_path / "saved", "preprocessor", seq_length=9)
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]
    assert (tmp_path / "saved" / "README.md").read_text() != before


@pytest.mark.parametrize(
    ("export", "options", "message"),
    [
        (export_model, {"kind": "fillmask"}, "--kind must be one of encoder, .* Received 'fillmask'"),
        (export_model, {"dtype": "float16"}, "--dtype must be one of float32, bfloat16. Received 'float16'"),
        (
            export_model,
            {"kind": "embedding", "pooling": "max"},
            "--pooling must be one of mean, pooled. Received",
        ),
        (
            export_model,
            {"kind": "preprocessor", "dtype": "bfloat16"},
            "--dtype is for exports with weights. Received bfloat16 with --kind=preprocessor",
        ),
        (export_for_runtime, {"format": "onxx"}, "--format must be one of onnx, litert. Received 'onxx'"),
        (
            export_for_runtime,
            {"format": "onnx", "quantize": "int4"},
            "--quantize must be one of .*Received 'int4'",
        ),
        (export_for_runtime, {"format": "onnx", "kind": "mlm"}, "--kind must be one of .* Received 'mlm'"),
    ],
)
def test_misspelled_arguments(export, options, message, source, tmp_path):
    with pytest.raises(InputError, match=message):
        export(source, tmp_path / "new", **options)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("beside", ["notes.txt", "saved_model.pb"])
def test_other_files_survive(beside, source, tmp_path):
    """A SavedModel of another program too."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / beside).touch()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="--output must be a new or empty folder"):
        export_model(source, tmp_path / "mine")
    for file in (tmp_path / "mine" / "thesis.tex", tmp_path / "pipe"):
        with pytest.raises(InputError, match="--output must be a folder"):
            export_model(source, file)
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "years of work"


@pytest.mark.very_slow
@pytest.mark.parametrize(
    ("kind", "options"),
    [("encoder", {}), ("preprocessor", {"seq_length": 16}), ("fill-mask", {}), ("embedding", {})],
)
def test_card_describes_the_export_and_its_example_runs(source, tmp_path, monkeypatch, kind, options):
    export_model(source, tmp_path / "saved", kind, **options)
    card = (tmp_path / "saved" / "README.md").read_text()
    assert f"# ALBERT: SavedModel, {kind}" in card
    assert "| hidden_size | 24 |" in card
    assert "`serving_default`" in card
    assert "__saved_model" not in card
    assert re.search(r"Verified: maximum difference [\d.e-]+, of outputs up to [\d.e+]+, in ", card)
    assert re.search(r"\| model\.ckpt-best\.index \| [\d,]+ \| [0-9a-f]{64} \|", card)
    (example,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    monkeypatch.chdir(tmp_path / "saved")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(example, {})
    assert printed.getvalue().strip()


@pytest.mark.slow
def test_signatures_in_the_card(source, tmp_path):
    export_model(source, tmp_path / "saved", "preprocessor", seq_length=16)
    row = "| `serving_default` | `text` string (?) | `input_mask` int32 (?, 16), `input_type_ids` int32 (?, 16), "
    assert row in (tmp_path / "saved" / "README.md").read_text()


@pytest.mark.very_slow
def test_command_line(source, tmp_path, capsys):
    flags = ["export", f"--model_dir={source}", f"--output={tmp_path}/saved"]
    assert cli.main([*flags, "--kind=preprocessor", "--seq_length=8"]) == 0
    out, err = capsys.readouterr()
    assert out.strip() == f"{tmp_path}/saved"
    assert err.startswith("verified: maximum difference 0, of outputs up to ")
    assert tf.saved_model.load(tmp_path / "saved")(tf.constant(["a"]))["input_mask"].shape == (1, 8)
    assert cli.main([*flags, "--seq_length=8"]) == 2
    assert "--seq_length belongs to --kind=preprocessor. Received it with --kind=encoder." in (
        capsys.readouterr().err.replace("\n", " ")
    )
    assert cli.main(["export", f"--model_dir={tmp_path}/nothing", f"--output={tmp_path}/new"]) == 2
    assert "There is no checkpoint at" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["saved"]


def test_the_source_is_never_replaced(source, tmp_path):
    """An export of an encoder is a model too, and an earlier export."""
    folder = write_source(tmp_path / "model")
    (folder / "README.md").write_text(written_by("albert export"))
    for path in (folder, folder / "model.ckpt-best"):
        with pytest.raises(InputError, match="--output must not be the model itself"):
            export_model(path, folder)
    assert (folder / "model.ckpt-best.index").exists()


@pytest.mark.very_slow
def test_refuses_other_outputs_than_the_models(source, tmp_path):
    pretrained = load_pretrained(source)
    (tmp_path / "assets").mkdir()
    export = build_encoder(pretrained, tmp_path / "assets")
    write_savedmodel(export, tmp_path / "saved")
    check_savedmodel(export, tmp_path / "saved")
    kernel = pretrained.encoder.attentions[0][0].query.kernel
    kernel.assign(kernel[::-1])
    with pytest.raises(InputError, match="must compute the same as the source"):
        check_savedmodel(export, tmp_path / "saved")
    kernel.assign(np.full(kernel.shape, np.nan))
    with pytest.raises(InputError, match="must compute the same as the source"):
        check_savedmodel(export, tmp_path / "saved", rounded=True)


@pytest.mark.very_slow
@pytest.mark.parametrize("kind", ["encoder", "fill-mask"])
def test_bfloat16_halves_the_file_and_returns_float32(source, tmp_path, kind):
    sizes = {}
    for dtype in ("float32", "bfloat16"):
        result = export_model(source, tmp_path / dtype, kind, dtype)
        (file,) = (tmp_path / dtype / "variables").glob("*.data-*")
        sizes[dtype] = file.stat().st_size
    assert sizes["bfloat16"] < 0.6 * sizes["float32"]
    assert 0 < result.comparison.difference < 0.1 * result.comparison.scale
    assert keras.config.dtype_policy().name == "float32"
    given = INPUTS if kind == "encoder" else tf.constant(["The captain [MASK] past."])
    first, second = (tf.saved_model.load(tmp_path / dtype)(given) for dtype in sizes)
    for name in ("sequence_output", "pooled_output") if kind == "encoder" else ("probabilities",):
        assert second[name].dtype == tf.float32
        assert 0 < np.abs(first[name] - second[name]).max() < 0.1 * result.comparison.scale


@pytest.mark.very_slow
def test_the_precision_that_keras_is_set_to_does_not_matter(source, tmp_path):
    keras.config.set_dtype_policy("bfloat16")
    try:
        exported = export_model(source, tmp_path / "saved")
        assert keras.config.dtype_policy().name == "bfloat16"
    finally:
        keras.config.set_dtype_policy("float32")
    assert exported.comparison.is_equal
    ours, theirs = (
        load_pretrained(source).encoder({"input_ids": IDS}),
        tf.saved_model.load(tmp_path / "saved"),
    )
    np.testing.assert_allclose(theirs(INPUTS)["sequence_output"], ours["sequence_output"], atol=1e-5)


@pytest.mark.very_slow
def test_padding_is_removed_unless_kept(source, tmp_path):
    """The graph shows what is computed; outputs of tokens are equal, those of padding are 0."""
    ids = np.array([[2, 13, 1, 9, 3], [2, 13, 3, 0, 0]], "int32")
    inputs = {"input_word_ids": ids, "input_mask": (ids > 0).astype("int32"), "input_type_ids": 0 * ids}
    outputs = {}
    for keep in (False, True):
        export_model(source, tmp_path / "saved", keep_padding=keep)
        loaded = tf.saved_model.load(tmp_path / "saved")
        concrete = loaded.signatures["serving_default"]
        functions = concrete.graph.as_graph_def().library.function
        kinds = {node.op for function in functions for node in function.node_def}
        assert ("Where" in kinds) != keep  # finds the tokens
        outputs[keep] = loaded(inputs)["sequence_output"].numpy()
    np.testing.assert_allclose(outputs[False][ids > 0], outputs[True][ids > 0], atol=1e-5)
    assert (outputs[False][ids == 0] == 0).all() and (outputs[True][ids == 0] != 0).any()
