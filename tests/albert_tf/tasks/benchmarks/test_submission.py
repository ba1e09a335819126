"""Submissions have the names, headers and labels that GLUE's server requires."""

import zipfile

import numpy as np
import pytest

from albert_cli import cli
from albert_tf.tasks.benchmarks.glue import GLUE_FILES
from albert_tf.tasks.benchmarks.submission import write_glue_zip
from albert_tf.tasks.probabilities import Probabilities, probabilities_file, write_probabilities
from albert_tf.tasks.task import BENCHMARKS
from data_prep.errors import InputError


@pytest.fixture
def runs(tmp_path):
    """A run of every GLUE task that has predicted three test rows; MNLI's run has predicted AX."""
    folders = {}
    for name in GLUE_FILES:
        folders[name] = tmp_path / ("mnli" if name == "ax" else name)
        folders[name].mkdir(exist_ok=True)
        classes = BENCHMARKS[name].labels
        values = np.eye(len(classes))[[0, 1, 1]] if classes else np.array([0.5, 4.25, 3.0])
        for split in BENCHMARKS[name].splits["test"]:
            probabilities = Probabilities(("0", "1", "2"), classes, tuple(values))
            write_probabilities(probabilities_file(folders[name], split), probabilities)
    return folders


def test_all_of_glue_in_one_zip(runs, tmp_path):
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


def test_the_best_seed_of_a_run(runs, tmp_path, capfd):
    run = runs["rte"]
    (run / "seed_1").mkdir()
    for file in run.glob("*.jsonl"):
        file.rename(run / "seed_1" / file.name)
    (run / "results.json").write_text('{"best_seed": 1}')
    (run / "seed_1" / "settings.json").write_text('{"task": "rte"}')
    flags = [f"ax={runs['mnli']}", f"--output={tmp_path}/glue.zip"]
    assert cli.main(["submission", f"rte={run}", *flags]) == 0
    assert f"rte from {run}/seed_1" in capfd.readouterr().err
    assert cli.main(["submission", f"RTE={run}", *flags]) == 0
    assert f"rte from {run}/seed_1" in capfd.readouterr().err
    assert cli.main(["submission", f"mrpc={run}", *flags]) == 2
    assert f"Received mrpc and {run}/seed_1, a run of rte." in capfd.readouterr().err
    assert cli.main(["ensemble", f"{run}", "--task=mrpc"]) == 2
    assert f"Received mrpc and {run}/seed_1, a run of rte." in capfd.readouterr().err


def test_missing_files_are_reported(runs, tmp_path, capfd):
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
        (["cola=a", "rte=a", "cola=b"], "A task may be given only once. Received cola 2 times."),
        (["rte=nowhere"], "The file nowhere/test_probabilities.jsonl must exist"),
    ],
)
def test_mistakes_leave_nothing(tmp_path, capfd, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["submission", *arguments, "--output=glue.zip"]) == 2
    assert message in capfd.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_zip_in_a_missing_folder(runs, tmp_path):
    with pytest.raises(InputError, match="--output must name a zip"):
        write_glue_zip(tmp_path / "nowhere" / "glue.zip", {"rte": runs["rte"]})
