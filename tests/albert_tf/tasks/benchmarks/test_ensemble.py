"""An ensemble is the mean of its members; `albert ensemble` on the folders of runs."""

import dataclasses
import json
import math

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from albert_tf.tasks.probabilities import (
    Probabilities,
    average,
    probabilities_file,
    read_probabilities,
    write_probabilities,
)
from albert_tf.tasks.spans.answer_files import read_n_best, write_answers
from albert_tf.tasks.spans.answers import Answer, SquadPredictions, average_answers
from data_prep.errors import InputError
from tests.commands import refused, run


def probabilities(*rows, ids=("a", "b"), classes=("0", "1"), labels=("0", "1")):
    return Probabilities(ids, classes, tuple(map(np.array, rows)), labels)


def test_probabilities():
    whole = average(
        {
            "one": probabilities([0.9, 0.1], [0.6, 0.4]),
            "two": probabilities([0.2, 0.8], [0.6, 0.4]),
            "three": probabilities([0.8, 0.2], [0.0, 1.0]),
        }
    )
    np.testing.assert_allclose(whole.values, [[1.9 / 3, 1.1 / 3], [0.4, 0.6]])
    assert whole.predictions() == ["0", "1"]
    assert (whole.ids, whole.labels) == (("a", "b"), ("0", "1"))


def test_numbers_and_words():
    numbers = average({x: probabilities(x, 2.0, classes=(), labels=None) for x in (1.0, 4.0)})
    assert numbers.predictions() == [2.5, 2.0]
    one, two, long = (
        probabilities(rows, ids=("a",), labels=None)
        for rows in ([[0.9, 0.1], [0.2, 0.8]], [[0.3, 0.7], [0.3, 0.7]], [[0.9, 0.1]] * 3)
    )
    assert average({"one": one, "two": two}).predictions() == [["0", "1"]]
    with pytest.raises(InputError, match="the same words"):
        average({"one": one, "long": long})


def test_several_labels():
    """Probabilities and thresholds are averaged, not the labels."""
    whole = average(
        {
            name: dataclasses.replace(probabilities(row, ids=("a",), labels=None), thresholds=thresholds)
            for name, row, thresholds in (("1", [0.9, 0.5], (0.5, 0.4)), ("2", [0.1, 0.9], (0.7, 0.4)))
        }
    )
    assert whole.thresholds == pytest.approx((0.6, 0.4))
    assert whole.predictions() == [["1"]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ids": ("a", "c")}, "the same ids. Those of one and two differ"),
        ({"classes": ("0", "2")}, "the same classes"),
        ({"labels": ("0", "0")}, "the same labels"),
    ],
)
def test_members_with_other_examples(changes, message):
    rows = [0.9, 0.1], [0.6, 0.4]
    with pytest.raises(InputError, match=message):
        average({"one": probabilities(*rows), "two": probabilities(*rows, **changes)})


def test_three_classes_in_another_order():
    """An order of three is not its own inverse, as one of two is. The same for thresholds."""
    one, two = (
        Probabilities(("a",), classes, (np.array(values),), thresholds=thresholds)
        for classes, values, thresholds in (
            (("x", "y", "z"), [0.2, 0.5, 0.8], (0.1, 0.3, 0.5)),
            (("z", "x", "y"), [0.6, 0.0, 0.3], (0.7, 0.3, 0.5)),
        )
    )
    whole = average({"one": one, "two": two})
    assert whole.classes == ("x", "y", "z")
    np.testing.assert_allclose(whole.values, [[0.1, 0.4, 0.7]])
    assert whole.thresholds == pytest.approx((0.2, 0.4, 0.6))


def answers(*texts_and_probabilities):
    return [Answer(text, 0, probability, 1.0, 2.0) for text, probability in texts_and_probabilities]


def test_answers():
    whole = average_answers(
        {
            "one": SquadPredictions({"q": answers(("Denver", 0.6), ("the Broncos", 0.4))}),
            "two": SquadPredictions({"q": answers(("Broncos", 0.7), ("the Broncos", 0.3))}),
            "three": SquadPredictions({"q": answers(("the Broncos", 0.55), ("Denver", 0.45))}),
        }
    )
    # n is 2, and a member without an answer counts as 0.
    assert [answer.text for answer in whole.n_best["q"]] == ["the Broncos", "Denver"]
    assert [answer.probability for answer in whole.n_best["q"]] == pytest.approx([1.25 / 3, 1.05 / 3])
    assert whole.texts() == {"q": "the Broncos"}
    assert whole.null_odds is None


def test_scores_are_those_of_the_members_with_the_answer():
    """The longest list has three answers, so the ensemble keeps three."""
    one = [Answer("x", 4, 0.5, 1.0, 8.0), Answer("y", 0, 0.3, 2.0, 2.0), Answer("z", 0, 0.2, 3.0, 3.0)]
    two = [Answer("x", 4, 0.6, 2.0, 4.0), Answer("w", 0, 0.4, 5.0, 6.0)]
    whole = average_answers({"one": SquadPredictions({"q": one}), "two": SquadPredictions({"q": two})})
    assert whole.n_best["q"] == [
        Answer("x", 4, pytest.approx(0.55), 1.5, 6.0),
        Answer("w", 0, pytest.approx(0.2), 5.0, 6.0),
        Answer("y", 0, pytest.approx(0.15), 2.0, 2.0),
    ]


@hypothesis.given(st.lists(st.floats(-30, 30), min_size=1, max_size=4))
def test_null_odds_are_those_of_the_mean_probability(odds):
    members = {
        str(i): SquadPredictions({"q": answers(("x", 1.0))}, {"q": value}) for i, value in enumerate(odds)
    }
    received = (average_answers(members).null_odds or {})["q"]
    p = sum(1 / (1 + math.exp(-value)) for value in odds) / len(odds)
    assert 1 / (1 + math.exp(-received)) == pytest.approx(p, rel=1e-9)


def test_huge_null_odds_stay_finite():
    members = {
        str(i): SquadPredictions({"q": answers(("x", 1.0))}, {"q": value})
        for i, value in enumerate((2e4, 1e4))
    }
    assert (average_answers(members).null_odds or {})["q"] == pytest.approx(1e4 + math.log(2))


def test_members_answer_the_same_questions():
    one = SquadPredictions({"q": answers(("x", 1.0)), "r": answers(("x", 1.0))})
    with pytest.raises(InputError, match="one answers 2 and two 1, of which 1 are the same"):
        average_answers({"one": one, "two": SquadPredictions({"q": answers(("x", 1.0))})})
    with pytest.raises(InputError, match="null odds, or none"):
        average_answers({"one": one, "two": SquadPredictions(one.n_best, {"q": 0.0, "r": 0.0})})


def ensemble(capfd, *arguments) -> tuple[int, dict, str]:
    status, out, error = run(capfd, "ensemble", *arguments)
    return status, json.loads(out) if out else {}, error


def write_run(
    folder, rows, *, split="dev", classes=("entailment", "not_entailment"), labels=None, groups=None
):
    folder.mkdir(parents=True, exist_ok=True)
    ids = tuple(str(i) for i in range(len(rows)))
    values = tuple(map(np.array, rows))
    write_probabilities(
        probabilities_file(folder, split), Probabilities(ids, classes, values, labels, groups)
    )


LABELS = ("entailment", "not_entailment")


@pytest.fixture
def seeds(tmp_path):
    """Three seeds of RTE, each correct on one of two examples; their ensemble is correct on both."""
    for i, rows in enumerate(([[0.9, 0.1], [0.6, 0.4]], [[0.4, 0.6], [0.1, 0.9]], [[0.9, 0.1], [0.6, 0.4]])):
        write_run(tmp_path / "rte" / f"seed_{i}", rows, labels=LABELS)
    return tmp_path / "rte"


def test_seeds_and_folders(capfd, seeds):
    status, report, _ = ensemble(capfd, seeds, "--task=rte")
    names = [f"{seeds}/seed_{i}" for i in range(3)]
    assert status == 0
    assert report == {"members": {name: {"accuracy": 0.5} for name in names}, "ensemble": {"accuracy": 1.0}}
    assert ensemble(capfd, *names, "--task=rte")[1] == report
    assert list(ensemble(capfd, names[1], "--task=rte")[1]["members"]) == names[1:2]


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_failed_seeds_are_left_out_unless_named(capfd, seeds, scheme):
    (seeds / "seed_0" / "results.json").write_text('{"failed": "training diverged"}')
    run = f"{scheme}{seeds}"
    names = [f"{run}/seed_{i}" for i in range(3)]
    assert list(ensemble(capfd, run, "--task=rte")[1]["members"]) == names[1:]
    assert list(ensemble(capfd, *names, "--task=rte")[1]["members"]) == names
    for i in (1, 2):
        (seeds / f"seed_{i}" / "results.json").write_text('{"failed": "training diverged"}')
    assert list(ensemble(capfd, run, "--task=rte")[1]["members"]) == names


def test_runs_at_addresses(capfd, seeds, tmp_path):
    """Their predictions are read; a run without any is named in full."""
    url = f"file://{seeds}"
    (seeds / "seed_1" / "settings.json").write_text('{"task": "rte"}')
    output = f"file://{tmp_path}/all"
    _, report, _ = ensemble(capfd, f"{url}/", f"{url}/seed_1", f"--output_dir={output}")
    assert list(report["members"]) == [f"{url}/seed_{i}" for i in range(3)]
    assert report == {
        "members": {f"{url}/seed_{i}": {"accuracy": 0.5} for i in range(3)},
        "ensemble": {"accuracy": 1.0},
    }
    assert probabilities_file(tmp_path / "all", "dev").exists()
    assert "a run of rte" in refused(capfd, "ensemble", url, "--task=mrpc")
    error = refused(capfd, "ensemble", url, "--split=test")
    assert url in error and "/tmp/albert_" not in error
    probabilities_file(seeds / "seed_2", "dev").write_text("{")
    assert f"{url}/seed_2/dev_probabilities.jsonl" in refused(capfd, "ensemble", url)


def test_the_task_is_that_of_the_runs(capfd, seeds):
    assert "--task must name the task of models that are not runs of" in refused(capfd, "ensemble", seeds)
    assert "There is no folder runs/nope." in refused(capfd, "ensemble", seeds, "runs/nope")
    (seeds / "seed_1" / "settings.json").write_text('{"task": "rte"}')
    assert ensemble(capfd, seeds)[1] == ensemble(capfd, seeds, "--task=rte")[1]


def test_predictions_are_written(capfd, seeds, tmp_path):
    output = tmp_path / "runs" / "all"
    assert ensemble(capfd, seeds, "--task=rte", f"--output_dir={output}")[0] == 0
    whole = read_probabilities(probabilities_file(output, "dev"))
    np.testing.assert_allclose(whole.values, [[2.2 / 3, 0.8 / 3], [1.3 / 3, 1.7 / 3]])
    expected = "index\tprediction\n0\tentailment\n1\tnot_entailment\n"
    assert (output / "dev_predictions.tsv").read_text() == expected
    # An ensemble has the files of a run: it can be a member, and its test set can be submitted.
    _, report, _ = ensemble(capfd, output, "--task=rte")
    assert report["members"] == {str(output): {"accuracy": 1.0}}


def test_a_test_set_has_no_metrics(capfd, tmp_path):
    for i in range(2):
        write_run(tmp_path / f"{i}", [[0.9, 0.1]], split="test")
    status, report, _ = ensemble(
        capfd, tmp_path / "0", tmp_path / "1", "--task=rte", "--split=test", f"--output_dir={tmp_path}/all"
    )
    assert (status, report["ensemble"]) == (0, {})
    assert (tmp_path / "all" / "test_predictions.tsv").exists()


def test_metrics_of_groups(capfd, tmp_path):
    nli, letters = ("contradiction", "entailment", "neutral"), tuple("ABCD")
    for i in range(2):
        for split, label, group in (("dev_matched", "neutral", "m"), ("dev_mismatched", "entailment", "mm")):
            more = {"split": split, "classes": nli, "labels": (label,), "groups": (group,)}
            write_run(tmp_path / f"mnli{i}", [[0.1, 0.2, 0.7]], **more)
        rows = [[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]]
        write_run(tmp_path / f"race{i}", rows, classes=letters, labels=("D", "B"), groups=("middle", "high"))
    _, mnli, _ = ensemble(capfd, tmp_path / "mnli0", tmp_path / "mnli1", "--task=mnli")
    assert mnli["ensemble"] == {"accuracy": 0.5, "accuracy_m": 1.0, "accuracy_mm": 0.0}
    _, race, _ = ensemble(capfd, tmp_path / "race0", tmp_path / "race1", "--task=race")
    assert race["ensemble"] == {"accuracy": 0.5, "accuracy_high": 0.0, "accuracy_middle": 1.0}


def squad_run(folder, answers, null_odds=None):
    folder.mkdir()
    n_best = {
        id_: [Answer(text, 0, probability, 0.0, 0.0) for text, probability in found]
        for id_, found in answers.items()
    }
    write_answers(folder, "dev", SquadPredictions(n_best, null_odds))


@pytest.fixture
def gold(tmp_path):
    qas = [{"id": "1", "answers": [{"text": "Denver"}]}, {"id": "2", "answers": []}]
    path = tmp_path / "gold.json"
    path.write_text(json.dumps({"data": [{"paragraphs": [{"context": "", "qas": qas}]}]}))
    return path


def test_a_report_of_answers(capfd, tmp_path, gold):
    for run_, first, odds in (
        ("0", [("Denver", 0.6), ("Rome", 0.4)], {"1": -1.0, "2": -2.0}),
        ("1", [("Rome", 0.55), ("Denver", 0.45)], {"1": 1.0, "2": 5.0}),
    ):
        squad_run(tmp_path / run_, {"1": first, "2": [("x", 1.0)]}, odds)
    arguments = [tmp_path / "0", tmp_path / "1", "--task=squad2.0"]
    status, report, _ = ensemble(capfd, *arguments, f"--gold={gold}", f"--output_dir={tmp_path}/all")
    assert status == 0
    first, second = report["members"].values()
    # The first scores best if it never answers, since the answerable question has the higher null odds.
    assert (first["exact"], first["best_exact"], first["HasAns_exact"]) == (50.0, 50.0, 0.0)
    assert first["threshold"] < -2.0
    assert (second["exact"], second["HasAns_exact"]) == (50.0, 0.0)
    assert (report["ensemble"]["exact"], report["ensemble"]["f1"]) == (100.0, 100.0)
    assert json.loads((tmp_path / "all" / "dev_predictions.json").read_text()) == {"1": "Denver", "2": ""}
    odds = np.log(0.5562559) - np.log(1 - 0.5562559)
    assert read_n_best(tmp_path / "all", "dev").null_odds == pytest.approx({"1": 0.0, "2": odds}, abs=1e-5)
    status, report, _ = ensemble(capfd, *arguments, "--threshold=-9", f"--gold={gold}")
    assert (report["ensemble"]["threshold"], report["ensemble"]["HasAns_exact"]) == (-9.0, 0.0)
    assert ensemble(capfd, *arguments)[:2] == (
        0,
        {"members": {f"{tmp_path}/{i}": {} for i in range(2)}, "ensemble": {}},
    )


def test_answers_of_squad1(capfd, tmp_path, gold):
    gold.write_text(gold.read_text().replace('"answers": []', '"answers": [{"text": "x"}]'))
    for name in ("0", "1"):
        squad_run(tmp_path / name, {"1": [("Denver", 0.6), ("Rome", 0.4)], "2": [("y", 1.0)]})
    arguments = [tmp_path / "0", tmp_path / "1", "--task=squad1.1", f"--gold={gold}"]
    status, report, _ = ensemble(capfd, *arguments)
    assert (status, report["ensemble"]) == (0, {"exact_match": 50.0, "f1": 50.0})
    gold.write_text(gold.read_text().replace('"id": "1"', '"id": "3"'))
    status, _, error = ensemble(capfd, *arguments, f"--output_dir={tmp_path}/all")
    assert (status, "1 not in the gold file, first 1" in error) == (2, True)
    assert not (tmp_path / "all").exists()


def test_answers_to_own_questions(capfd, tmp_path):
    gold = tmp_path / "dev.csv"
    gold.write_text("id,question,context,answer\n1,Where?,In Denver.,Denver\n2,Who?,It was Ann.,Ann\n")
    for name in ("0", "1"):
        squad_run(tmp_path / name, {"1": [("Denver", 0.6), ("Rome", 0.4)], "2": [("y", 1.0)]})
    arguments = [tmp_path / "0", tmp_path / "1", "--task=question-answering", f"--gold={gold}"]
    status, report, _ = ensemble(capfd, *arguments)
    assert (status, report["ensemble"]) == (0, {"exact_match": 50.0, "f1": 50.0})

    # Columns are named as for the runs.
    gold.write_text(gold.read_text().replace("question", "frage"))
    assert "A column for `question` is needed" in ensemble(capfd, *arguments)[2]
    (tmp_path / "1" / "settings.json").write_text(
        '{"task": "question-answering", "column_names": "question=frage"}'
    )
    assert ensemble(capfd, *arguments)[1] == report
    gold.write_text(gold.read_text().replace("frage", "question"))
    (tmp_path / "1" / "settings.json").unlink()

    # Problems of the file are reported; questions without an answer count as in `albert evaluate`.
    gold.write_text("id,question,context,answer\n1,Where?,In Denver.,Denver\n2,,Ann.,\n")
    status, report, error = ensemble(capfd, *arguments)
    assert (status, "1 row: empty question" in error) == (0, True), error
    assert (report["ensemble"]["exact"], report["ensemble"]["NoAns_exact"]) == (50.0, 0.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Name the folder of at least one run. Received none"),
        (["nowhere"], "There is no checkpoint at nowhere"),
        (["rte", "other"], "the same ids"),
        (["rte", "--split=test"], "There is no model in the folder rte/seed_0"),
        (["rte", "--threshold=0"], "--gold and --threshold are for questions"),
        (["rte", "--gold=dev.json"], "Received them with --task=rte; leave them out."),
        (["rte", "--task=ax"], "ax has no dev set"),
        (["rte", "--output_dir=file"], "--output_dir must be a folder. Received file, which is a file."),
        (["rte", "--output_dir=rte"], "--output_dir must not be the folder of a run"),
        (["rte/seed_0", "--output_dir=rte/seed_0"], "--output_dir must not be the folder of a run"),
    ],
)
def test_mistakes_of_the_command(capfd, seeds, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "other", [[0.9, 0.1]], labels=LABELS[:1])
    (tmp_path / "file").touch()
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}
    usual = [
        flag for flag in ("--task=rte", "--output_dir=all") if flag.split("=")[0] not in " ".join(arguments)
    ]
    status, _, error = ensemble(capfd, *usual, *arguments)
    assert (status, error.count("\n")) == (2, 1)
    assert message in error
    assert before == {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}


@pytest.mark.parametrize("text", ["{}", "[]", '{"1": [{"text": "x"}]}', '{"1": []}', '{"1": 3}', "{"])
def test_n_best_answers_of_another_form(capfd, tmp_path, text):
    (tmp_path / "dev_nbest_predictions.json").write_text(text)
    status, _, error = ensemble(capfd, tmp_path, "--task=squad1.1")
    assert (status, "dev_nbest_predictions.json" in error) == (2, True)
