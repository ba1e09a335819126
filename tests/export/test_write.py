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
from albert_tf.tasks.choice.kind import OPTIONS
from albert_tf.tasks.texts.kind import NUMBERS
from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Vocabulary
from export.encoder import build_encoder
from export.kinds import kind_for
from export.savedmodel import check_savedmodel, write_savedmodel
from export.write import export_for_runtime, export_model
from tests.albert_tf.checkpoints.random_models import spm_model
from tests.cards import card_of, examples_of, printed_by
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
        assets = sorted(path.name for path in (tmp_path / f"{to} saved" / "assets").iterdir())
        assert assets == ["albert_config.json", "pretrained.json", "spm.model"]
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
    found = [line for line in export_model(source, tmp_path / "saved").notes if line.startswith("left out")]
    for note in [*notes, "tokenization_info"]:
        assert len([line for line in found if note in line]) == 1
    assert len(found) == len(notes) + 1
    loaded = tf.saved_model.load(tmp_path / "saved")
    assert set(loaded.signatures) == {"serving_default", "examples", "tokens"} | signatures
    for name in ("mlm", "sop"):
        assert hasattr(loaded, name) == (name in signatures)
    assert ("pooled_output" in loaded(INPUTS)) == ("pooler" not in without)
    model = load_pretrained(source).model
    expected = model.encoder({"input_ids": IDS})["sequence_output"]
    np.testing.assert_allclose(loaded(INPUTS)["sequence_output"], expected, atol=1e-5)
    untrained = sum({"pooler": 2, "masked_lm": 5, "sentence_order": 2}[part] for part in without)
    assert len(loaded.trainable_variables) == len(model.trainable_variables) - untrained


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
    before = card_of(tmp_path / "saved")
    with pytest.raises(InputError, match="--seq_length"):
        export_model(source, tmp_path / "saved", "preprocessor", seq_length=1)
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]
    assert card_of(tmp_path / "saved") == before
    export_model(source, tmp_path / "saved", "preprocessor", seq_length=9)
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]
    assert card_of(tmp_path / "saved") != before


@pytest.mark.parametrize(
    ("export", "options", "flag"),
    [
        (export_model, {"kind": "fillmask"}, "--kind"),
        (export_model, {"dtype": "float16"}, "--dtype"),
        (export_model, {"kind": "embedding", "pooling": "sum"}, "--pooling"),
        (export_model, {"kind": "preprocessor", "dtype": "bfloat16"}, "--dtype"),
        *(
            (export_model, {"kind": "preprocessor", "seq_length": length}, "--seq_length")
            for length in (2, 17)
        ),
        *((export_model, {"kind": "fill-mask", "top_k": k}, "--top_k") for k in (0, 101)),
        (export_for_runtime, {"format": "onxx"}, "--format"),
        (export_for_runtime, {"format": "onnx", "quantize": "int4"}, "--quantize"),
        (export_for_runtime, {"format": "onnx", "kind": "mlm"}, "--kind"),
        *(
            (export_for_runtime, {"format": name, "quantize": "int8-static", "eval_file": file}, "--quantize")
            for name, file in (("litert", "dev.tsv"), ("onnx", None))
        ),
    ],
)
def test_wrong_arguments_write_nothing(export, options, flag, source, tmp_path):
    with pytest.raises(InputError, match=f"^{flag}"):
        export(source, tmp_path / "new", **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ("--quantize=int8", "--quantize and --eval_file belong to"),
        ("--seq_length=8", "--seq_length belongs to --kind=preprocessor. Received it with --kind=encoder."),
        ("--format=onnx --kind=preprocessor", "supports --kind=encoder, --kind=fill-mask, --kind=embedding"),
        ("--format=litert --kind=embedding", "supports --kind=encoder, --kind=classifier"),
        ("--format=onnx --kind=fill-mask --top_k=0", "--top_k"),
        ("--format=onnx --top_k=3", "--top_k"),
        ("--format=onnx --kind=classifier", "must hold a fine-tuned model"),
        ("--format=onnx --quantize=int8-static", "--eval_file"),
        ("--format=onnx --max_loss=0.1", "--max_loss"),
        ("--format=onnx --dtype=bfloat16", "--dtype"),
        ("--format=onnx --eval_file={heldout}", "at most 16 tokens. Received 32."),
        ("--format=litert --eval_file=nothing", "nothing"),
        ("--model_dir=nowhere", "There is no checkpoint at"),
    ],
)
def test_wrong_flags_write_nothing(flags, named, source, tmp_path, capsys, pretraining_files):
    words = flags.format(heldout=pretraining_files.heldout).split()
    model = [] if "--model_dir" in flags else [f"--model_dir={source}"]
    assert cli.main(["export", *model, f"--output={tmp_path}/saved", *words]) == 2
    assert named in capsys.readouterr().err.replace("\n", " ")
    assert list(tmp_path.iterdir()) == []


def test_what_no_kind_has_and_what_several_kinds_have(source, tmp_path):
    with pytest.raises(TypeError, match="`topk` is not an option of any kind of export."):
        export_model(source, tmp_path / "saved", "fill-mask", topk=3)
    with pytest.raises(InputError, match="Give --kind=classifier or --kind=multiple-choice"):
        kind_for((NUMBERS, OPTIONS))  # as of a TF1 checkpoint with one output


@pytest.mark.parametrize("beside", ["notes.txt", "saved_model.pb", "model.onnx"])
def test_other_files_survive(beside, source, tmp_path):
    """A SavedModel of another program too."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / beside).touch()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    os.mkfifo(tmp_path / "pipe")
    for export in (export_model, lambda *paths: export_for_runtime(*paths, "litert")):
        with pytest.raises(InputError, match="--output must be a new or empty folder"):
            export(source, tmp_path / "mine")
        for file in (tmp_path / "mine" / "thesis.tex", tmp_path / "pipe"):
            with pytest.raises(InputError, match="--output must be a folder"):
                export(source, file)
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "years of work"


def test_the_source_is_never_replaced(source, tmp_path):
    """An export of an encoder is a model too, and an earlier export."""
    folder = write_source(tmp_path / "model")
    (folder / "README.md").write_text(written_by("albert export"))
    for path in (folder, folder / "model.ckpt-best"):
        with pytest.raises(InputError, match="--output must not be the model itself"):
            export_model(path, folder)
    assert (folder / "model.ckpt-best.index").exists()


@pytest.mark.very_slow
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("encoder", {}),
        ("preprocessor", {"seq_length": 12}),
        ("fill-mask", {"top_k": 3}),
        ("embedding", {"pooling": "mean"}),
    ],
)
def test_card_describes_the_export_and_its_example_runs(exported, kind, options):
    folder = exported(kind, **options)
    card = card_of(folder)
    assert f"# ALBERT: SavedModel, {kind}" in card
    assert "| hidden_size | 24 |" in card
    assert "`serving_default`" in card
    assert "__saved_model" not in card
    assert re.search(r"Verified: maximum difference [\d.e-]+, of outputs up to [\d.e+]+, in ", card)
    assert re.search(r"\| model\.ckpt-best\.index \| [\d,]+ \| [0-9a-f]{64} \|", card)
    (example,) = examples_of(folder)
    assert printed_by(example, folder)


@pytest.mark.very_slow
def test_command_line(source, tmp_path, capsys):
    flags = ["export", f"--model_dir={source}", f"--output={tmp_path}/saved"]
    assert cli.main([*flags, "--kind=preprocessor", "--seq_length=8"]) == 0
    out, err = capsys.readouterr()
    assert out.strip() == f"{tmp_path}/saved"
    assert err.startswith("verified: maximum difference 0, of outputs up to ")
    assert tf.saved_model.load(tmp_path / "saved")(tf.constant(["a"]))["input_mask"].shape == (1, 8)
    row = (
        "| `serving_default` | `text` string (?) | `input_mask` int32 (?, 8), `input_type_ids` int32 (?, 8), "
    )
    assert row in card_of(tmp_path / "saved")


@pytest.mark.very_slow
def test_refuses_other_outputs_than_the_models(source, tmp_path):
    pretrained = load_pretrained(source)
    (tmp_path / "assets").mkdir()
    export = build_encoder(pretrained, tmp_path / "assets")
    write_savedmodel(export, tmp_path / "saved")
    check_savedmodel(export, tmp_path / "saved")
    kernel = pretrained.encoder.attentions[0][0].query.kernel
    for wrong, rounded in ((kernel[::-1], False), (np.full(kernel.shape, np.nan), True)):
        kernel.assign(wrong)
        with pytest.raises(InputError, match="must compute the same as the source"):
            check_savedmodel(export, tmp_path / "saved", rounded=rounded)


@pytest.mark.very_slow
@pytest.mark.parametrize(("kind", "options"), [("encoder", {}), ("fill-mask", {"top_k": 3})])
def test_bfloat16_halves_the_file_and_returns_float32(exported, kind, options):
    folders = [exported(kind, dtype, **options) for dtype in ("float32", "bfloat16")]
    whole, half = (next((folder / "variables").glob("*.data-*")).stat().st_size for folder in folders)
    assert half < 0.6 * whole
    assert keras.config.dtype_policy().name == "float32"
    given = INPUTS if kind == "encoder" else tf.constant(["The captain [MASK] past."])
    first, second = (tf.saved_model.load(folder)(given) for folder in folders)
    for name in ("sequence_output", "pooled_output") if kind == "encoder" else ("probabilities",):
        assert second[name].dtype == tf.float32
        assert 0 < np.abs(first[name] - second[name]).max() < 0.1 * np.abs(first[name]).max()
    stated = re.search(r"maximum difference ([\d.e-]+), of outputs up to ([\d.e+]+)", card_of(folders[1]))
    difference, scale = map(float, stated.groups())
    assert 0 < difference < 0.1 * scale


@pytest.mark.very_slow
def test_the_precision_that_keras_is_set_to_does_not_matter(source, tmp_path):
    keras.config.set_dtype_policy("bfloat16")
    try:
        result = export_model(source, tmp_path / "saved")
        assert keras.config.dtype_policy().name == "bfloat16"
    finally:
        keras.config.set_dtype_policy("float32")
    assert result.comparison.is_equal
    ours = load_pretrained(source).encoder({"input_ids": IDS})["sequence_output"]
    theirs = tf.saved_model.load(tmp_path / "saved")(INPUTS)["sequence_output"]
    np.testing.assert_allclose(theirs, ours, atol=1e-5)


@pytest.mark.very_slow
def test_padding_is_removed_unless_kept(exported):
    """The graph shows what is computed; outputs of tokens are equal, those of padding are 0."""
    ids = np.array([[2, 13, 1, 9, 3], [2, 13, 3, 0, 0]], "int32")
    inputs = {"input_word_ids": ids, "input_mask": (ids > 0).astype("int32"), "input_type_ids": 0 * ids}
    outputs = {}
    for keep in (False, True):
        loaded = tf.saved_model.load(exported("encoder", **({"keep_padding": True} if keep else {})))
        functions = loaded.signatures["serving_default"].graph.as_graph_def().library.function
        kinds = {node.op for function in functions for node in function.node_def}
        assert ("Where" in kinds) != keep  # finds the tokens
        outputs[keep] = loaded(inputs)["sequence_output"].numpy()
    np.testing.assert_allclose(outputs[False][ids > 0], outputs[True][ids > 0], atol=1e-5)
    assert (outputs[False][ids == 0] == 0).all() and (outputs[True][ids == 0] != 0).any()
