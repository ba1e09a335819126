"""Submissions have the names, headers and labels that GLUE's server asks for."""

import zipfile

import numpy as np
import pytest

from albert_cli import cli
from albert_tf.evaluation.probability_files import Probabilities, probabilities_file, write_probabilities
from albert_tf.evaluation.submission import GLUE_FILES, write_glue_zip, write_predictions
from data_prep.errors import InputError
from data_prep.tasks.task import TASKS


@pytest.fixture
def runs(tmp_path):
    """A run of every GLUE task that has predicted three test rows; AX by MNLI's."""
    folders = {}
    for name, splits in GLUE_FILES.items():
        folders[name] = tmp_path / ("mnli" if name == "ax" else name)
        folders[name].mkdir(exist_ok=True)
        classes = TASKS[name].labels
        values = np.eye(len(classes))[[0, 1, 1]] if classes else np.array([0.5, 4.25, 3.0])
        for split in splits:
            probabilities = Probabilities(("0", "1", "2"), classes, tuple(values))
            write_probabilities(probabilities_file(folders[name], split), probabilities)
    return folders


def test_the_whole_benchmark(runs, tmp_path):
    path = tmp_path / "glue.zip"
    assert write_glue_zip(path, runs) == []
    with zipfile.ZipFile(path) as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    names = ["AX", "CoLA", "MNLI-m", "MNLI-mm", "MRPC", "QNLI", "QQP", "RTE", "SST-2", "STS-B", "WNLI"]
    assert sorted(texts) == [f"{name}.tsv" for name in names]
    assert {text.split("\n")[0] for text in texts.values()} == {"index\tprediction"}
    for name in ("CoLA", "SST-2", "MRPC", "QQP", "WNLI"):
        assert texts[f"{name}.tsv"] == "index\tprediction\n0\t0\n1\t1\n2\t1\n"
    for name in ("RTE", "QNLI"):
        assert (
            texts[f"{name}.tsv"] == "index\tprediction\n0\tentailment\n1\tnot_entailment\n2\tnot_entailment\n"
        )
    for name in ("MNLI-m", "MNLI-mm", "AX"):
        assert texts[f"{name}.tsv"] == "index\tprediction\n0\tcontradiction\n1\tentailment\n2\tentailment\n"
    assert texts["STS-B.tsv"] == "index\tprediction\n0\t0.5\n1\t4.25\n2\t3.0\n"
    first = path.read_bytes()
    write_glue_zip(path, dict(reversed(runs.items())))
    assert path.read_bytes() == first


def test_what_is_missing_is_told(runs, tmp_path, capfd):
    path = tmp_path / "glue.zip"
    assert cli.main(["submission", f"rte={runs['rte']}", f"mnli={runs['mnli']}", f"--output={path}"]) == 0
    out, error = capfd.readouterr()
    assert out == f"{path}\n"
    assert "lacks CoLA.tsv" in error
    assert "MNLI" not in error
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == ["MNLI-m.tsv", "MNLI-mm.tsv", "RTE.tsv"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "TASK=FOLDER. Received none"),
        (["runs/rte"], "TASK=FOLDER. Received runs/rte"),
        (["race=x"], "GLUE's tasks are cola"),
        (["rte=nowhere"], "test_probabilities.jsonl. Received nowhere"),
    ],
)
def test_mistakes_leave_nothing(tmp_path, capfd, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["submission", *arguments, "--output=glue.zip"]) == 2
    assert message in capfd.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_zip_in_no_folder(runs, tmp_path):
    with pytest.raises(InputError, match="--output must name a zip"):
        write_glue_zip(tmp_path / "nowhere" / "glue.zip", {"rte": runs["rte"]})


def test_other_benchmarks(tmp_path):
    values = tuple(np.eye(4)[[3, 0]])
    race = write_predictions(
        tmp_path, "race", "multiple_choice", Probabilities(("x", "y"), tuple("ABCD"), values)
    )
    assert race.read_text() == '{\n  "x": "D",\n  "y": "A"\n}\n'
    words = Probabilities(("0",), ("B-PER", "O"), (np.array([[0.9, 0.1], [0.2, 0.8]]),))
    path = write_predictions(tmp_path, "words", "token_classification", words)
    assert path.name == "words.json"
    assert '"B-PER"' in path.read_text()
    assert (
        write_predictions(
            tmp_path, "own", "classification", Probabilities(("x", "y"), tuple("ABCD"), values)
        ).name
        == "own.tsv"
    )
