"""`albert lab figure1` on tiny checkpoints of several formats; its numbers against plain NumPy."""

import dataclasses
import json

import matplotlib.image
import numpy as np
import pytest

from albert_tf.checkpoints import huggingface, tf1
from albert_tf.checkpoints.stored import StoredModel
from albert_tf.config import AlbertConfig
from albert_tf.conversion.convert import write_keras
from albert_tf.lab.checkpoints import sharing_of
from albert_tf.lab.figure1 import comparisons, make_windows, rows_of
from albert_tf.lab.results import Results
from data_prep.errors import InputError
from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer
from data_prep.tokenizers.vocabulary import Vocabulary
from tests.albert_tf.checkpoints.random_models import random_weights
from tests.albert_tf.lab.samples import lab
from tests.reference import albert
from tests.reference import layer_changes as reference

SHARED = AlbertConfig(
    vocab_size=100,
    embedding_size=10,
    hidden_size=24,
    num_hidden_layers=4,
    num_attention_heads=3,
    intermediate_size=36,
    max_position_embeddings=16,
)
NOT_SHARED = dataclasses.replace(SHARED, parameter_sharing="none")


def write(writer, folder, config, vocabulary=None, seed=0) -> dict[str, np.ndarray]:
    """Writes a checkpoint with random weights; returns the weights."""
    folder.mkdir(parents=True)
    weights = random_weights(config, seed=seed)
    kept = Vocabulary("sentencepiece", vocabulary.read_bytes()) if vocabulary else None
    writer(StoredModel("run", folder, config, weights, kept), folder)
    return weights


def expected(config, weights, ids) -> np.ndarray:
    """(L, 3) for one sequence, in plain NumPy."""
    states = albert.encoder(config, weights, ids, np.ones(len(ids)), np.zeros(len(ids), int))[0]
    return reference.layer_changes([state[1:-1] for state in states])


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("The captain sailed past the lighthouse. Nobody noticed the apples!\n")
    return path


@pytest.mark.slow
def test_albert_and_bert_of_three_formats(tmp_path, text, model_file, capfd):
    shared = write(tf1.write_tf1, tmp_path / "tf1", SHARED, model_file)
    grouped = dataclasses.replace(SHARED, num_hidden_groups=4)
    write(huggingface.write_huggingface, tmp_path / "hf", grouped, seed=1)
    write(write_keras, tmp_path / "keras", NOT_SHARED, model_file, seed=2)
    models = [
        "--model=ALBERT=" + str(tmp_path / "tf1"),
        *(f"--model={tmp_path / name}" for name in ("hf", "keras")),
    ]
    arguments = [*models, f"--text={text}", f"--output={tmp_path / 'lab'}"]
    # One of them has no vocabulary, which is reported before anything is written.
    assert lab("figure1", *arguments) == 2
    assert "hf has none. Name a SentencePiece model" in capfd.readouterr().err
    assert not (tmp_path / "lab").exists()

    assert lab("figure1", *arguments, f"--spm_model_file={model_file}", "--num_sequences=1") == 0
    results = Results.read(tmp_path / "lab" / "figure1")
    titles = [row.title for row in results.rows if "/" not in row.name]
    assert titles == ["ALBERT (all shared)", "hf (nothing shared)", "keras (nothing shared)"]
    tokenizer = AlbertTokenizer(model_file)
    ids = [tokenizer.cls_id, *tokenizer.encode(text.read_text())[:14], tokenizer.sep_id]
    oracle = expected(SHARED, shared, ids)
    for layer in range(4):
        ours = results.row(f"ALBERT/{layer + 1}").ours
        np.testing.assert_allclose(
            [ours[name][0] for name in ("l2", "cosine", "degrees")], oracle[layer], 1e-4
        )
    np.testing.assert_allclose(results.row("ALBERT").ours["degrees"], [oracle[:, 2].mean()], 1e-4)
    assert {each.verdict for each in results.comparisons} == {"can't tell"}
    pairs = [("ALBERT", other) for other in ("hf", "keras") for _ in ("l2", "degrees")]
    assert [(each.row, each.than) for each in results.comparisons] == pairs
    assert results.settings["models"]["hf"]["format"] == "huggingface"
    assert {path.name for path in (tmp_path / "lab" / "figure1").iterdir()} == {
        "results.json",
        "results.md",
        "figure1.png",
    }
    picture = matplotlib.image.imread(tmp_path / "lab" / "figure1" / "figure1.png")
    colors = set(map(tuple, (picture[..., :3] * 255).round().astype(int).reshape(-1, 3)))
    assert {(31, 119, 180), (255, 127, 14), (44, 160, 44)} < colors  # a line for each of three models
    assert lab("report", tmp_path / "lab") == 0


@pytest.mark.very_slow
def test_our_runs_and_their_seeds(pretraining_files, tmp_path, text):
    from albert_cli import cli

    flags = {"num_train_steps": 1, "save_checkpoints_steps": 1, "do_eval": False}
    for seed in (1, 2):
        run = tmp_path / "runs" / "all" / f"seed-{seed}"
        assert cli.main(pretraining_files.flags(run, seed=seed, **flags)) == 0
    arguments = [f"--model={tmp_path}/runs/all", f"--text={text}", f"--output={tmp_path}/lab"]
    assert lab("figure1", *arguments, f"--spm_model_file={pretraining_files.spm_model_file}") == 0
    results = Results.read(tmp_path / "lab" / "figure1")
    assert results.seeds == [1, 2]
    first, second = results.row("all").ours["degrees"]
    assert first != second
    assert results.comparisons == []
    assert len(results.settings["models"]["all"]["paths"]) == 2


def measured(*curves) -> list[np.ndarray]:
    """Seeds whose L2 distances and angles are these curves over the layers."""
    return [
        np.stack([np.array(curve), np.full(len(curve), 0.5), np.array(curve)], axis=1) for curve in curves
    ]


@pytest.mark.parametrize(
    ("shared", "verdict"),
    [
        (((2.0, 1.0), (2.1, 1.0)), "lower"),
        (((9.0, 9.0), (9.1, 9.0)), "higher"),
        (((9.0, 9.0), (1.0, 1.0)), "can't tell"),
        (((2.0, 1.0),), "can't tell"),
    ],
)
def test_models_that_share_all_layers_are_compared_with_those_that_share_none(shared, verdict):
    sharing = {"A": "all shared", "B": "nothing shared", "C": "attention shared"}
    others = measured((5.0, 4.0), (5.0, 4.2))
    rows = rows_of({"A": measured(*shared), "B": others, "C": others}, sharing)
    assert [row.name for row in rows] == ["A", "B", "C", "A/1", "A/2", "B/1", "B/2", "C/1", "C/2"]
    assert rows[1].ours["l2"] == pytest.approx([4.5, 4.6])
    found = comparisons(rows, sharing)
    assert [(each.row, each.than, each.column) for each in found] == [("A", "B", "l2"), ("A", "B", "degrees")]
    assert {(each.verdict, each.paper) for each in found} == {(verdict, "lower")}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "all shared"),
        ({"num_hidden_groups": 2}, "shared in 2 groups"),
        ({"num_hidden_groups": 4}, "nothing shared"),
        ({"parameter_sharing": "none"}, "nothing shared"),
        ({"parameter_sharing": "attention"}, "attention shared"),
        ({"parameter_sharing": "ffn"}, "feed-forward shared"),
        ({"num_hidden_layers": 1}, "a single layer"),
    ],
)
def test_sharing_in_words(changes, words):
    assert sharing_of(dataclasses.replace(SHARED, **changes)) == words


def test_windows_are_spread_over_the_text(model_file):
    tokenizer = AlbertTokenizer(model_file)
    sentences = [f"{word} sailed" for word in ("apples", "bottles", "clocks", "letters") for _ in range(30)]
    windows = make_windows(sentences, tokenizer, 12, 4)
    assert windows.shape == (4, 12)
    assert (windows[:, 0] == tokenizer.cls_id).all()
    assert (windows[:, -1] == tokenizer.sep_id).all()
    texts = [tokenizer.decode(row[1:-1]) for row in windows]
    assert ["apple" in texts[0], "lett" in texts[3]] == [True, True]
    assert make_windows(["a"], tokenizer, 12, 4).shape[0] == 1  # shorter than one sequence
    assert len(make_windows(sentences[:4], tokenizer, 12, 100)) < 10
    for nothing in ([], [""]):
        with pytest.raises(InputError, match="at least one token"):
            make_windows(nothing, tokenizer, 12, 4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model=nowhere"], "There is no checkpoint at nowhere"),
        (["--model=A="], "PATH or NAME=PATH. Received 'A='"),
        (["--model=tf1", "--text=none.txt"], "none.txt"),
        (["--model=tf1", "--max_seq_length=2"], "--max_seq_length must be at least 3"),
        (["--model=A=tf1", "--model=A=keras"], "whose parameter_sharing differ; name them"),
        (["--model=A=tf1", "--model=A=./tf1"], "A checkpoint may be given only once. Received"),
        (["--model=tf1", "--spm_model_file=a", "--vocab_file=b"], "exclude each other"),
    ],
)
def test_mistakes_are_a_sentence(tmp_path, text, model_file, monkeypatch, capfd, arguments, message):
    monkeypatch.chdir(tmp_path)
    write(tf1.write_tf1, tmp_path / "tf1", SHARED, model_file)
    write(write_keras, tmp_path / "keras", NOT_SHARED, model_file)
    texts = [] if any(word.startswith("--text") for word in arguments) else [f"--text={text}"]
    assert lab("figure1", *arguments, *texts, "--output=lab") == 2
    assert message in capfd.readouterr().err.replace("\n", " ")
    assert not (tmp_path / "lab").exists()


@pytest.mark.slow
def test_settings_are_json(tmp_path, text, model_file):
    write(tf1.write_tf1, tmp_path / "tf1", SHARED, model_file)
    assert lab("figure1", f"--model={tmp_path}/tf1", f"--text={text}", f"--output={tmp_path}/lab") == 0
    content = json.loads((tmp_path / "lab" / "figure1" / "results.json").read_text())
    assert content["settings"]["texts"][text.name].startswith("sha256:")
    assert content["settings"]["max_seq_length"] == 16  # the model's length, not the default 512
