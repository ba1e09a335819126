"""`albert lab table9` and `table10` from the predictions that runs save."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from albert_cli import cli
from albert_tf.lab.named_paths import seed_of
from albert_tf.lab.results import Results
from albert_tf.tasks.run_predictions import (
    Probabilities,
    probabilities_file,
    write_answers,
    write_probabilities,
)
from albert_tf.tasks.spans.answers import Answer, SquadPredictions
from albert_tf.tasks.task import TASKS
from tests.albert_tf.lab.samples import lab
from tests.processes import ROOT


def write_run(
    folder: Path, task: str, right: list[float], *, checkpoint="large", split="dev", groups=None, **settings
) -> Path:
    """A run with the given probabilities of the correct answers; one wrong class gets the rest."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = {
        "task": task,
        "seed": seed_of(str(folder)),
        "init_checkpoint": checkpoint,
        "learning_rate": 1e-5,
        **settings,
    }
    (folder / "settings.json").write_text(json.dumps(kept))
    ids = tuple(str(i) for i in range(len(right)))
    if TASKS[task].kind == "regression":
        values, classes, labels = tuple(map(np.array, right)), (), tuple(float(i) for i in range(len(right)))
    else:
        classes = TASKS[task].labels
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


def run_table(name, tmp_path, *arguments) -> Results:
    assert lab(name, *arguments, f"--output={tmp_path}/lab") == 0
    return Results.read(tmp_path / "lab" / name)


def test_medians_and_the_ensemble(tmp_path, rte):
    results = run_table("table9", tmp_path, rte)
    assert results.row("single/large").ours == {"rte": [50.0, 50.0, 75.0]}
    assert results.row("ensemble").ours == {"rte": [100.0]}
    assert results.statistic == "median"
    assert results.seeds == [0, 1, 2]
    assert results.notes[0] == "The ensemble is above all of its members in RTE."
    page = (tmp_path / "lab" / "table9" / "results.md").read_text()
    assert "| 50.0 (50.0 to 75.0) |" in page
    assert results.row("paper/single/ALBERT (1.5M)").paper["rte"] == 89.2
    assert results.row("paper/ensemble/ALBERT").paper["average"] == 89.4
    assert lab("report", tmp_path / "lab") == 0


def test_a_row_for_each_checkpoint_or_name(tmp_path, rte):
    write_run(tmp_path / "rte_base", "rte", [0.9, 0.9, 0.9, 0.9], checkpoint="models/base.tar.gz")
    results = run_table("table9", tmp_path, rte / "seed_0", rte / "seed_2", tmp_path / "rte_base")
    assert results.row("single/large").ours["rte"] == [50.0, 75.0]
    assert results.row("single/base").ours["rte"] == [100.0]
    assert results.row("ensemble").title == "Ensemble of each task's runs (ours)"
    assert results.notes[0] == "The ensemble is within its members' range in RTE."
    named = run_table("table9", tmp_path, f"first={rte}/seed_0", f"second={rte}/seed_2")
    assert named.row("single/first").ours["rte"] == [50.0]
    assert named.row("single/second").ours["rte"] == [75.0]


def test_a_single_run_is_not_an_ensemble(tmp_path, rte):
    results = run_table("table9", tmp_path, rte / "seed_2")
    assert "ensemble" not in [row.name for row in results.rows]


def test_metrics_are_the_papers(tmp_path):
    """The main metric of each task, and GLUE's average."""
    runs = []
    for task in ("cola", "sst-2", "mrpc", "qqp", "qnli", "rte", "wnli"):
        for seed in (0, 1):
            runs.append(write_run(tmp_path / task / f"seed_{seed}", task, [0.9, 0.9, 0.9, 0.4]))
    for seed in (0, 1):
        runs.append(write_run(tmp_path / "sts-b" / f"seed_{seed}", "sts-b", [0.0, 1.0, 4.0, 9.0]))
        for split, right, group in (("dev_matched", [0.9, 0.9], "m"), ("dev_mismatched", [0.9, 0.4], "mm")):
            folder = tmp_path / "mnli" / f"seed_{seed}"
            write_run(folder, "mnli", right, split=split, groups=(group, group))
        runs.append(tmp_path / "mnli" / f"seed_{seed}")
    results = run_table("table9", tmp_path, *runs)
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


def write_questions(folder, checkpoint, answers, null_odds, **settings):
    write_run(folder, "squad2.0", [], checkpoint=checkpoint, **settings) if not folder.exists() else None
    n_best = {id_: [Answer(text, 0, p, 0.0, 0.0) for text, p in found] for id_, found in answers.items()}
    write_answers(folder, "dev", SquadPredictions(n_best, null_odds))
    (folder / "results.json").write_text(json.dumps({"dev": {"best_f1": 50.0, "best_exact": 50.0}}))


@pytest.fixture
def squad(tmp_path):
    """Two runs of SQuAD 2.0 whose mean answers both questions correctly, and the file with the answers."""
    qas = [{"id": "1", "answers": [{"text": "Denver"}]}, {"id": "2", "answers": []}]
    gold = tmp_path / "dev-v2.0.json"
    gold.write_text(json.dumps({"data": [{"paragraphs": [{"context": "", "qas": qas}]}]}))
    odds = ({"1": -1.0, "2": -2.0}, {"1": 1.0, "2": 5.0})
    for seed, first in enumerate(([("Denver", 0.6), ("Rome", 0.4)], [("Rome", 0.55), ("Denver", 0.45)])):
        write_questions(
            tmp_path / "squad" / f"seed_{seed}",
            "large",
            {"1": first, "2": [("x", 1.0)]},
            odds[seed],
            data_dir=str(tmp_path),
        )
    return tmp_path / "squad"


def test_questions_use_the_file_that_the_runs_name(tmp_path, squad):
    results = run_table("table10", tmp_path, squad)
    assert results.row("single/large").ours == {"squad2_f1": [50.0, 50.0], "squad2_em": [50.0, 50.0]}
    assert results.row("ensemble").ours == {"squad2_f1": [100.0], "squad2_em": [100.0]}
    assert results.row("paper/ensemble/ALBERT").paper["squad2_f1"] == 91.4


def test_that_file_may_be_compressed(tmp_path, squad):
    plain = tmp_path / "dev-v2.0.json"
    (tmp_path / "dev-v2.0.json.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    results = run_table("table10", tmp_path, squad)
    assert results.row("ensemble").ours == {"squad2_f1": [100.0], "squad2_em": [100.0]}


def test_questions_without_that_file(tmp_path, squad):
    gold = (tmp_path / "dev-v2.0.json").rename(tmp_path / "elsewhere.json")
    results = run_table("table10", tmp_path, squad)
    assert results.row("single/large").ours["squad2_f1"] == [50.0, 50.0]  # as the runs saved it
    assert "ensemble" not in [row.name for row in results.rows]
    assert any("Name the file with --gold=squad2.0=FILE" in note for note in results.notes)
    results = run_table("table10", tmp_path, squad, f"--gold=squad2.0={gold}")
    assert results.row("ensemble").ours["squad2_f1"] == [100.0]


def test_race_uses_the_test_set_if_all_runs_have_it(tmp_path):
    runs = [tmp_path / "race" / f"seed_{seed}" for seed in (0, 1)]
    groups = ("middle", "high")
    for run in runs:
        write_run(run, "race", [0.9, 0.4], groups=groups)
        write_run(run, "race", [0.4, 0.9], split="test", groups=groups)
    results = run_table("table10", tmp_path, *runs)
    assert results.row("ensemble").ours == {"race": [50.0], "race_middle": [0.0], "race_high": [100.0]}
    probabilities_file(runs[0], "test").unlink()
    results = run_table("table10", tmp_path, *runs)
    expected = {"race_dev": [50.0], "race_dev_middle": [100.0], "race_dev_high": [0.0]}
    assert results.row("ensemble").ours == expected
    assert results.column("race_dev").title == "RACE dev"


def test_race_of_one_school_has_no_score_of_both(tmp_path):
    run = tmp_path / "race" / "seed_0"
    write_run(run, "race", [0.9, 0.4], split="test", groups=("high", "high"), high_only=True)
    results = run_table("table10", tmp_path, run)
    assert set(results.row("single/large").ours) == {"race_high"}
    assert results.settings["runs"][0]["high_only"] is True


@pytest.mark.very_slow
def test_runs_of_albert_finetune(tmp_path, finetuning_files):
    assert cli.main(finetuning_files.flags(tmp_path / "run", "squad2.0", seeds=2)) == 0
    results = run_table("table10", tmp_path, tmp_path / "run")
    seeds = json.loads((tmp_path / "run" / "results.json").read_text())["seeds"]
    for column, metric in (("squad2_f1", "best_f1"), ("squad2_em", "best_exact")):
        expected = [seed["dev"][metric] for seed in seeds]
        assert results.row("single/checkpoint").ours[column] == pytest.approx(expected)
        assert 0 <= results.row("ensemble").ours[column][0] <= 100


@pytest.mark.slow
def test_without_tensorflow(rte, tmp_path):
    program = (
        "import sys; from albert_cli import cli; "
        f"status = cli.main(['lab', 'table9', '{rte}', '--output={tmp_path}/lab']); "
        f"status = status or cli.main(['lab', 'report', '{tmp_path}/lab']); "
        "sys.exit(status or 'tensorflow' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table9"], "Received none"),
        (["table9", "nowhere"], "nowhere, which has no settings.json"),
        (
            ["table10", "rte"],
            "The tasks of this table are squad1.1, squad2.0, race. Received rte/seed_0, a run of rte",
        ),
        (["table9", "rte", "rte/seed_1"], "A run may be given only once. Received rte/seed_1 twice"),
        (["table9", "rte", "other"], "have the same ids"),
        (["table9", "empty"], "without dev_probabilities.jsonl"),
        (["table10", "squad", "--gold=squad2.0"], "--gold must be squad1.1=FILE or squad2.0=FILE"),
    ],
)
def test_mistakes_are_a_sentence(tmp_path, rte, squad, monkeypatch, capfd, arguments, message):
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "other", "rte", [0.9])
    probabilities_file(write_run(tmp_path / "empty", "rte", [0.9]), "dev").unlink()
    assert lab(*arguments, "--output=lab") == 2
    assert message in capfd.readouterr().err.replace("\n", " ")
    assert not (tmp_path / "lab").exists()
