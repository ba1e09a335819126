"""`albert embed`: a vector for each line of standard input."""

import json

import keras
import numpy as np
import pandas as pd
import pytest

from albert_cli.cli import main
from albert_tf import TextClassifier, load_pretrained
from tests.data_prep.nasty import LINES

pytestmark = pytest.mark.slow

MANY = [*LINES, "", " "] * 50  # more than are computed together


@pytest.fixture
def embed(standard_input, capsysbinary):
    """Runs the command on lines; returns its status, standard output and message."""

    def run(*arguments, stdin=None):
        stdin = "".join(line + "\n" for line in MANY).encode() if stdin is None else stdin
        standard_input(stdin)
        status = main(["embed", *map(str, arguments)])
        captured = capsysbinary.readouterr()
        return status, captured.out.decode(), captured.err.decode()

    return run


@pytest.mark.very_slow
def test_every_line_has_a_vector(embed, source, tmp_path):
    assert len(MANY) > 1024
    encoder, tokenizer = load_pretrained(source).encoder, load_pretrained(source).tokenizer
    expected = [
        np.mean(
            encoder({"input_ids": np.array([[2, *tokenizer.encode(line)[:14], 3]])})["sequence_output"][0], 0
        )
        for line in MANY[: len(LINES) + 2]
    ] * 50
    status, out, err = embed(f"--model_dir={source}", f"--output={tmp_path / 'vectors.npy'}")
    assert (status, out) == (0, f"{tmp_path / 'vectors.npy'}\n")
    assert f"{len(MANY):,} vectors" in err
    vectors = np.load(tmp_path / "vectors.npy")
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    status, out, _ = embed(f"--model_dir={source}")
    printed = np.array([json.loads(line) for line in out.splitlines()], np.float32)
    assert status == 0
    np.testing.assert_array_equal(printed, vectors)


def test_the_precision_that_keras_is_set_to_does_not_matter(embed, source):
    expected = load_pretrained(source).embed(["one"])
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        status, out, _ = embed(f"--model_dir={source}", stdin=b"one\n")
    finally:
        keras.config.set_dtype_policy("float32")
    assert status == 0
    np.testing.assert_allclose([json.loads(out)], expected, atol=1e-5)


def test_one_batch_and_many_agree(source):
    loaded = load_pretrained(source)
    alone = np.concatenate([loaded.embed([line]) for line in LINES])
    np.testing.assert_allclose(loaded.embed(LINES * 3)[: len(LINES)], alone, atol=1e-5)
    texts = [f"{line} [MASK]" for line in LINES]
    alone = [loaded.fill_mask([text], top_k=3)[0] for text in texts]
    for found, expected in zip(loaded.fill_mask(texts * 3, top_k=3), alone * 3, strict=True):
        assert len(found) == len(expected)
        for guesses, expected_guesses in zip(found, expected, strict=True):
            np.testing.assert_allclose(
                *([p for _, p in row] for row in (guesses, expected_guesses)), atol=1e-6
            )


@pytest.mark.very_slow
def test_portable_model(embed, source, portable):
    status, out, _ = embed(f"--model_dir={portable('embedding')}", "--requests=2")
    assert status == 0
    printed = [json.loads(line) for line in out.splitlines()]
    np.testing.assert_allclose(printed, load_pretrained(source).embed(MANY), atol=1e-5)
    status, _, err = embed(f"--model_dir={portable('embedding')}", "--vocab_file=spm.model")
    assert (status, "hold all of these" in err) == (2, True)
    status, _, err = embed(f"--model_dir={portable('encoder')}")
    assert (status, "export it with --kind=embedding" in err) == (2, True)


@pytest.mark.parametrize(
    ("stdin", "flags"),
    [
        ('text,stars\n"a, b",5\n', []),
        ('sentence1,sentence2\nc,"a, b"\n', ["--column_names=text=sentence2"]),
        ('{"text": "c", "review": "a, b"}\n', ["--column_names=text=review"]),
    ],
)
def test_tables_and_objects(stdin, flags, embed, source):
    """tests/albert_tf/runtime/test_input_lines.py has all forms."""
    status, out, _ = embed(f"--model_dir={source}", *flags, stdin=stdin.encode())
    assert status == 0
    found = [json.loads(line) for line in out.splitlines()]
    np.testing.assert_allclose(found, load_pretrained(source).embed(["a, b"]), atol=1e-6)


@pytest.mark.very_slow
def test_columns_of_the_training_data(embed, source, model_file, tmp_path):
    """Those that a run's settings name, or that `fit` was given."""
    texts = pd.DataFrame({"critique": ["a, b", "the captain"], "stars": ["good", "bad"]})
    model = TextClassifier.from_pretrained(source, ["bad", "good"], vocab_file=model_file)
    model.save(tmp_path / "model.keras")
    (tmp_path / "settings.json").write_text('{"column_names": "text_a=critique,label=stars"}')
    model.compile("sgd")
    model.fit(texts["critique"], texts["stars"], verbose=0)
    model.save(tmp_path / "fitted.keras")
    expected = load_pretrained(source).embed(["a, b"])
    for path in (tmp_path, tmp_path / "fitted.keras"):
        status, out, _ = embed(f"--model_dir={path}", stdin=b'id,critique\n1,"a, b"\n')
        assert status == 0
        assert np.shape([json.loads(line) for line in out.splitlines()]) == expected.shape
    loaded = keras.saving.load_model(tmp_path / "fitted.keras")
    assert loaded.preprocessor.columns == {"text_a": "critique", "label": "stars"}


def test_bad_input(embed, source, tmp_path):
    vectors = tmp_path / "vectors.npy"
    name = "--column_names=text=review"
    for arguments, stdin, message in [
        ([f"--output={tmp_path / 'vectors.txt'}"], b"one\n", "must end in .npy"),
        ([f"--output={vectors}"], b"", "Received no line"),
        ([f"--output={vectors}"], b"one\n\xff\n", "Line 2 has the byte 0xff"),
        (["--requests=2"], b"one\n", "need a portable model"),
        ([], b"nr\tcritique\n1\tgood\n", "only: nr, critique"),
        ([], b"sentence1,sentence2\na,b\n", "Received two in line 2; name the column"),
        ([name], b"text,stars\na,5\n", "line 2 has no 'review', only: text, stars"),
    ]:
        status, out, err = embed(f"--model_dir={source}", *arguments, stdin=stdin)
        assert (status, out) == (2, "")
        assert message in err
    assert embed(f"--model_dir={tmp_path / 'none'}", stdin=b"one\n")[0] == 2
    assert not list(tmp_path.iterdir())


def test_weights_that_are_too_large(embed, source, model_file, tmp_path):
    model = load_pretrained(source).model
    norm = model.encoder.ffns[0][0].layer_norm
    norm.gamma.assign(keras.ops.full_like(norm.gamma, 3e38))
    model.save(tmp_path / "model.keras")
    arguments = [f"--model_dir={tmp_path / 'model.keras'}", f"--vocab_file={model_file}"]
    status, out, err = embed(*arguments, f"--output={tmp_path / 'vectors.npy'}", stdin=b"one\n")
    assert (status, out) == (2, "")
    assert "Vectors must be finite" in err
    assert not (tmp_path / "vectors.npy").exists()
