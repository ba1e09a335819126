"""Tables 9 and 10 from the predictions that runs save, and the report of a laboratory."""

import json
from pathlib import Path

import numpy as np
import pytest

from albert_tf.tasks.probabilities import Probabilities, probabilities_file, write_probabilities
from albert_tf.tasks.spans.answer_files import write_answers
from albert_tf.tasks.spans.answers import Answer, SquadPredictions
from albert_tf.tasks.task import BENCHMARKS
from experiments.__main__ import main
from experiments.paper.results import Results


def write_run(
    folder: Path, task: str, right: list[float], *, checkpoint="models/large", split="dev", groups=None
) -> Path:
    """A run with the given probabilities of the correct answers; one wrong class gets the rest."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"task": task, "init_checkpoint": checkpoint, "data_dir": str(folder.parents[1])}
    (folder / "settings.json").write_text(json.dumps(settings))
    ids = tuple(str(i) for i in range(len(right)))
    if not BENCHMARKS[task].labels:
        values, classes, labels = tuple(map(np.array, right)), (), tuple(float(i) for i in range(len(right)))
    else:
        classes = BENCHMARKS[task].labels
        labels = tuple(classes[i % 2] for i in range(len(right)))
        rows = [[p, 1 - p] if i % 2 == 0 else [1 - p, p] for i, p in enumerate(right)]
        values = tuple(np.array(row + [0.0] * (len(classes) - 2)) for row in rows)
    write_probabilities(
        probabilities_file(folder, split), Probabilities(ids, classes, values, labels, groups)
    )
    return folder


@pytest.fixture
def rte(tmp_path):
    """Three seeds of RTE: 50%, 50% and 75% correct, and 100% as an ensemble."""
    for seed, right in enumerate(([0.9, 0.9, 0.4, 0.4], [0.4, 0.4, 0.9, 0.9], [0.9, 0.9, 0.9, 0.4])):
        write_run(tmp_path / "rte" / f"seed_{seed}", "rte", right)
    return tmp_path / "rte"


@pytest.fixture
def squad(tmp_path):
    """Two runs of SQuAD 2.0 whose mean answers both questions correctly, and the file with the answers."""
    qas = [{"id": "1", "answers": [{"text": "Denver"}]}, {"id": "2", "answers": []}]
    gold = {"data": [{"paragraphs": [{"context": "", "qas": qas}]}]}
    (tmp_path / "dev-v2.0.json").write_text(json.dumps(gold))
    odds = ({"1": -1.0, "2": -2.0}, {"1": 1.0, "2": 5.0})
    for seed, first in enumerate(([("Denver", 0.6), ("Rome", 0.4)], [("Rome", 0.55), ("Denver", 0.45)])):
        run = write_run(tmp_path / "squad" / f"seed_{seed}", "squad2.0", [])
        n_best = {
            id_: [Answer(text, 0, p, 0.0, 0.0) for text, p in found]
            for id_, found in {"1": first, "2": [("x", 1.0)]}.items()
        }
        write_answers(run, "dev", SquadPredictions(n_best, odds[seed]))
    return tmp_path / "squad"


def table(name, tmp_path, *arguments) -> Results:
    assert main([name, *map(str, arguments), f"--output={tmp_path}/lab"]) == 0
    return Results.read(tmp_path / "lab" / name)


def test_medians_and_the_ensemble_beside_the_papers(tmp_path, rte):
    results = table("table9", tmp_path, rte)
    assert results.row("single/large").ours == {"rte": [50.0]}
    assert results.row("ensemble").ours == {"rte": [100.0]}
    assert results.row("paper/ALBERT (1.5M) (paper)").paper["rte"] == 89.2
    assert results.row("paper/ALBERT ensemble (paper)").paper["average"] == 89.4
    assert main(["report", str(tmp_path / "lab")]) == 0
    assert results.table() in (tmp_path / "lab" / "report.md").read_text()


def test_a_row_for_each_checkpoint_or_name(tmp_path, rte):
    base = write_run(tmp_path / "other" / "rte", "rte", [0.9] * 4, checkpoint="models/base.tar.gz")
    results = table("table9", tmp_path, rte / "seed_2", base)
    assert results.row("single/large").ours["rte"] == [75.0]
    assert results.row("single/base").ours["rte"] == [100.0]
    named = table("table9", tmp_path, f"first={rte}/seed_2")
    assert named.row("single/first").ours["rte"] == [75.0]
    assert "ensemble" not in [row.name for row in named.rows]  # of a single run


def test_metrics_are_the_papers(tmp_path):
    """The main metric of each task, and GLUE's average."""
    for task in ("cola", "sst-2", "mrpc", "qqp", "qnli", "rte", "wnli"):
        for seed in (0, 1):
            write_run(tmp_path / task / f"seed_{seed}", task, [0.9, 0.9, 0.9, 0.4])
    for seed in (0, 1):
        write_run(tmp_path / "sts-b" / f"seed_{seed}", "sts-b", [0.0, 1.0, 4.0, 9.0])
        for split, right, group in (("dev_matched", [0.9, 0.9], "m"), ("dev_mismatched", [0.9, 0.4], "mm")):
            folder = tmp_path / "mnli" / f"seed_{seed}"
            write_run(folder, "mnli", right, split=split, groups=(group, group))
    results = table("table9", tmp_path, *tmp_path.iterdir())
    whole = {name: round(value[0], 1) for name, value in results.row("ensemble").ours.items()}
    # Correct: 1 0 1; wrong: the last, of class 1. Matthews: (1*2 - 0*1) / sqrt(1*2*2*3).
    assert whole["cola"] == 57.7
    assert whole["mnli"] == 75.0  # the mean of 100 and 50
    assert whole["sts-b"] == round(100 * np.corrcoef([0, 1, 4, 9], range(4))[0, 1], 1)
    assert {whole[task] for task in ("sst-2", "mrpc", "qqp", "qnli", "rte", "wnli")} == {75.0}
    # GLUE's average has the mean of accuracy and F1 (2/3) for MRPC and QQP, and STS-B's ranks, all correct.
    two = (75 + 100 * 2 / 3) / 2
    mean = (57.735 + 2 * two + 75 * 5 + (100 * np.corrcoef([0, 1, 4, 9], range(4))[0, 1] + 100) / 2) / 9
    assert whole["average"] == round(mean, 1)


def test_questions_need_the_file_with_the_answers(tmp_path, squad):
    results = table("table10", tmp_path, squad)
    assert results.row("single/large").ours == {"squad2_f1": [50.0], "squad2_em": [50.0]}
    assert results.row("ensemble").ours == {"squad2_f1": [100.0], "squad2_em": [100.0]}
    gold = (tmp_path / "dev-v2.0.json").rename(tmp_path / "elsewhere.json")
    results = table("table10", tmp_path, squad, f"--gold=squad2.0={gold}")
    assert results.row("ensemble").ours["squad2_f1"] == [100.0]


def test_race_uses_the_test_set_if_all_runs_have_it(tmp_path):
    runs = [tmp_path / "race" / f"seed_{seed}" for seed in (0, 1)]
    groups = ("middle", "high")
    for run in runs:
        write_run(run, "race", [0.9, 0.4], groups=groups)
        write_run(run, "race", [0.4, 0.9], split="test", groups=groups)
    results = table("table10", tmp_path, tmp_path / "race")
    assert results.row("ensemble").ours == {"race": [50.0], "race_middle": [0.0], "race_high": [100.0]}
    probabilities_file(runs[0], "test").unlink()
    results = table("table10", tmp_path, *runs)
    assert results.row("ensemble").ours == {"race": [50.0], "race_middle": [100.0], "race_high": [0.0]}
    assert "on the dev set" in results.notes[-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table9"], "Received none"),
        (["table9", "nowhere"], "nowhere, which has no settings.json"),
        (["table10", "rte"], "are squad1.1, squad2.0, race. Received rte/seed_0, a run of rte"),
        (["table9", "rte", "other/rte"], "have the same ids"),
        (["table10", "squad", "--gold=squad2.0=gone.json"], "--gold=squad2.0=FILE. Received gone.json"),
    ],
)
def test_mistakes_are_a_sentence(tmp_path, rte, squad, monkeypatch, capfd, arguments, message):
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "other" / "rte", "rte", [0.9])
    assert main([*arguments, "--output=lab"]) == 2
    assert message in capfd.readouterr().err.replace("\n", " ")
    assert not (tmp_path / "lab").exists()
