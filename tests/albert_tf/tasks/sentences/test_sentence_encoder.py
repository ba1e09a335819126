"""SentenceEncoder: fitted on strings, saved and read, and the program around it."""

import dataclasses
import json

import keras
import numpy as np
import pytest

from albert_cli import cli
from albert_tf import AdamW, AlbertEncoder, InputError, SentenceEncoder, load_portable, load_pretrained
from albert_tf.tasks.sentences.features import SentencePreprocessor
from data_prep.tokenizers.vocabulary import Vocabulary

FIRSTS = ["the captain sailed", "a lighthouse", "his brother painted it", "a quiet neighbour"]
SECONDS = ["past the lighthouse", "stood there", "the captain", "sailed"]


@pytest.fixture
def encoder(tiny_config):
    return AlbertEncoder(dataclasses.replace(tiny_config, vocab_size=100), seed=0)


@pytest.fixture
def preprocessor(model_file):
    return SentencePreprocessor(Vocabulary.read(model_file), 16)


def test_vectors_of_a_saved_model(encoder, preprocessor, tmp_path):
    """The model may be read as what it is, as a Keras model, or as a pretrained model that can embed."""
    model = SentenceEncoder(
        encoder, pooling="weightedmean", units=7, normalize=True, preprocessor=preprocessor, seed=1
    )
    vectors = model.encode([*FIRSTS, ""])
    assert (vectors.shape, vectors.dtype) == ((5, 7), np.float32)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(model.predict((FIRSTS, SECONDS), verbose=0)[:, 0], vectors[:4], atol=1e-5)
    model.save(tmp_path / "model.keras")
    for again in (
        SentenceEncoder.from_pretrained(tmp_path / "model.keras").encode,
        keras.saving.load_model(tmp_path / "model.keras").encode,
        load_pretrained(tmp_path / "model.keras").embed,
    ):
        np.testing.assert_allclose(again([*FIRSTS, ""]), vectors, atol=1e-5)
    assert SentenceEncoder.from_pretrained(tmp_path / "model.keras", units=3).encode(["a"]).shape == (1, 3)


def test_fit_takes_pairs_negatives_scores_and_classes(encoder, preprocessor):
    model = SentenceEncoder(encoder, preprocessor=preprocessor)
    model.compile(AdamW(1e-3))
    negatives = [["the sea", "a dog"], ["a dog"], [], ["it"]]
    for x, y in (
        ((FIRSTS, SECONDS, negatives), None),
        ((FIRSTS, SECONDS), [0, 1, 4, 5]),
        (FIRSTS, list("abab")),
    ):
        assert np.isfinite(model.train_on_batch(x, y))
    scores = [float(row["label"]) for row in preprocessor.features((FIRSTS, SECONDS), [1, 2, 5, 4])]
    assert scores == [0, 0.25, 1, 0.75]


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (FIRSTS, None, "Received one column alone"),
        ((FIRSTS, FIRSTS), None, "dropout masks alone, and the model has none"),
        ((FIRSTS, [*SECONDS[:3], " "]), None, "must not be empty.*number 3"),
        ((FIRSTS, SECONDS), ["near"] * 4, "must be a finite number"),
    ],
)
def test_what_cannot_be_trained_with(encoder, preprocessor, x, y, message):
    model = SentenceEncoder(encoder, preprocessor=preprocessor)
    model.compile(AdamW(1e-3))
    with pytest.raises(InputError, match=message):
        model.fit(x, y, verbose=0)


@pytest.mark.very_slow
def test_from_pairs_to_an_export(model_file, tiny_config, tmp_path, capsys, standard_input):
    rng = np.random.default_rng(0)
    words = [("captain", "sailed"), ("lighthouse", "stood"), ("brother", "painted"), ("neighbour", "walked")]
    rows = [rng.permutation(words)[:2].T for _ in range(64)]
    pairs = [f"{' '.join(firsts)},{' '.join(seconds)}\n" for firsts, seconds in rows]
    (tmp_path / "train.csv").write_text("anchor,positive\n" + "".join(pairs))
    scored = "".join(f"{pair.strip()},{i % 6}\n" for i, pair in enumerate(pairs[:12]))
    (tmp_path / "dev.csv").write_text("text_a,text_b,score\n" + scored)
    dataclasses.replace(tiny_config, vocab_size=100).to_json_file(tmp_path / "config.json")
    run, common = tmp_path / "run", ["finetune", "--task=embedding", "--do_train", "--max_seq_length=16"]
    common += [f"--albert_config_file={tmp_path}/config.json", f"--vocab_file={model_file}"]
    train = [f"--train_file={tmp_path}/train.csv", f"--dev_file={tmp_path}/train.csv", "--do_eval"]
    train += ["--num_train_steps=40", "--learning_rate=0.001", f"--output_dir={run}", "--vector_size=6"]
    assert cli.main([*common, *train, "--pooling=max", "--gradient_accumulation_steps=2", "--symmetric"]) == 0
    dev = json.loads((run / "results.json").read_text())["dev"]
    assert dev["score"] == dev["ndcg_at_10"] and dev["recall_at_10"]["median"] > 0.5
    capsys.readouterr()
    assert cli.main(["evaluate", f"--model_dir={run}", f"--gold={tmp_path}/dev.csv"]) == 0
    assert {"score", "spearman", "loss"} <= json.loads(capsys.readouterr().out).keys()

    texts = ["captain", "lighthouse stood"]
    expected = SentenceEncoder.from_pretrained(run).encode(texts)
    for command in (["embed"], ["predict", "--input_format=text"]):
        standard_input("\n".join(texts).encode())
        assert cli.main([*command, f"--model_dir={run}"]) == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        vectors = lines if command == ["embed"] else [line["vector"] for line in lines]
        np.testing.assert_allclose(vectors, expected, atol=1e-5)
    standard_input(b"captain\tcaptain\ncaptain")
    assert cli.main(["predict", f"--model_dir={run}"]) == 0
    pair, alone = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert pair["score"] == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(alone["vector"], expected[0], atol=1e-5)

    for to in ("huggingface", "keras"):
        assert cli.main(["convert", str(run), str(tmp_path / to), f"--to={to}"]) == 0
        np.testing.assert_allclose(
            SentenceEncoder.from_pretrained(tmp_path / to).encode(texts), expected, atol=1e-5
        )
    # Training goes on with pooling and dense layer; a rate of almost 0 changes nothing.
    further = ["--do_train", f"--init_checkpoint={tmp_path}/huggingface", f"--output_dir={tmp_path}/further"]
    further += [f"--train_file={tmp_path}/train.csv", "--learning_rate=1e-30", "--num_train_steps=1"]
    assert cli.main(["finetune", "--task=embedding", *further]) == 0
    found = SentenceEncoder.from_pretrained(tmp_path / "further").encode(texts)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert cli.main(["export", f"--model_dir={run}", f"--output={tmp_path}/onnx", "--format=onnx"]) == 0
    portable = load_portable(tmp_path / "onnx", engine="onnxruntime")
    np.testing.assert_allclose(portable(texts)["embedding"], expected, atol=1e-4)

    alone = [f"--train_file={tmp_path}/texts.csv", f"--output_dir={tmp_path}/alone", "--num_train_steps=2"]
    (tmp_path / "texts.csv").write_text("text\n" + "".join(pair.replace(",", " ") for pair in pairs))
    capsys.readouterr()
    assert cli.main([*common, *alone]) == 2
    assert "--dropout_pairs trains on one" in capsys.readouterr().err
    assert cli.main([*common, *alone, "--dropout_pairs"]) == 2
    assert "the model has none" in capsys.readouterr().err
    assert cli.main([*common, *alone, "--dropout_pairs", "--dropout=0.1"]) == 0
