import json

import numpy as np
import pytest
from scipy import stats

from albert_tf.lab.results import (
    Column,
    Plot,
    ResultRow,
    Results,
    RowComparison,
    _welch_p,
    compare_rows,
    mean_and_spread,
)
from data_prep.errors import InputError


def some_results() -> Results:
    rows = [
        ResultRow("nsp", "NSP", {"sop": 0.52}, {"sop": [0.50, 0.52, 0.51]}),
        ResultRow("sop", "SOP", {"sop": 0.865}, {"sop": [0.61, 0.62, 0.60]}),
    ]
    return Results(
        experiment="table5",
        title="Sentence objectives",
        paper="Table 5",
        question="Does SOP solve NSP – and NSP SOP?",
        scale="tiny",
        seeds=[1, 2, 3],
        command="albert lab table5 --output=lab",
        settings={"num_train_steps": 10},
        environment={"python": "3.11"},
        columns=[Column("sop", "SOP", "accuracy")],
        rows=rows,
        plots=[Plot("curves.png", "Curves.")],
        comparisons=[compare_rows(rows, "sop", "nsp", "sop")],
        notes=["Chance is 0.5."],
    )


def test_written_results_are_read_back(tmp_path):
    results = some_results()
    path = results.write(tmp_path)
    assert Results.read(path) == Results.read(tmp_path) == results
    assert json.loads(path.read_text(encoding="utf-8"))["rows"][1]["ours"]["sop"] == [0.61, 0.62, 0.60]
    assert [file.name for file in tmp_path.iterdir()] == ["results.json"]
    assert results.row("sop").title == results.column("sop").title == "SOP"


def test_unknown_fields_of_earlier_versions_are_ignored(tmp_path):
    path = some_results().write(tmp_path)
    content = json.loads(path.read_text(encoding="utf-8"))
    content["columns"][0]["higher_is_better"] = True
    path.write_text(json.dumps(content))
    assert Results.read(path) == some_results()


def test_nan_is_not_written(tmp_path):
    results = some_results()
    bad = Results(**{**vars(results), "rows": [ResultRow("sop", "SOP", {}, {"sop": [float("nan")]})]})
    with pytest.raises(ValueError, match="Out of range float"):
        bad.write(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"experiment": "table5"}', '{"seed": 1, "dev": {}}'])
def test_other_files_are_refused(tmp_path, text):
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(InputError, match="results.json must "):
        Results.read(tmp_path)


def test_a_missing_file_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="must exist and be readable"):
        Results.read(tmp_path)


def test_mean_and_spread():
    values = np.random.default_rng(0).normal(size=7)
    mean, spread = mean_and_spread(list(values))
    assert mean == pytest.approx(values.mean())
    assert spread == pytest.approx(values.std(ddof=1))
    assert mean_and_spread([2.5]) == (2.5, None)


@pytest.mark.parametrize(
    ("n", "m", "shift"), [(2, 2, 30.0), (3, 3, 2.0), (3, 3, 8.0), (5, 4, 1.0), (40, 2, 4.0)]
)
def test_the_verdict_is_that_of_welchs_test(n, m, shift):
    draws = np.random.default_rng(1)
    ours, others = list(draws.normal(0, 1, n)), list(draws.normal(shift, 3, m))
    found = compare_rows(
        [ResultRow("a", "A", {}, {"x": ours}), ResultRow("b", "B", {}, {"x": others})], "a", "b", "x"
    )
    t, p = stats.ttest_ind(ours, others, equal_var=False)
    assert found.difference / found.spread == pytest.approx(t)
    squares, degrees = [np.var(x, ddof=1) / len(x) for x in (ours, others)], (n - 1, m - 1)
    assert _welch_p(found.difference, squares, degrees) == pytest.approx(p, rel=1e-4)
    assert (found.verdict == "can't tell") == (p >= 0.05)


@pytest.mark.parametrize(
    ("ours", "others", "verdict"),
    [
        ([0.61, 0.62, 0.60], [0.50, 0.52, 0.51], "higher"),
        ([0.50, 0.52, 0.51], [0.61, 0.62, 0.60], "lower"),
        ([0.5, 0.6, 0.7], [0.5, 0.55, 0.65], "can't tell"),
        ([0.57, 0.60, 0.63], [0.56, 0.53, 0.53], "can't tell"),  # 3 standard errors, p = 0.053
        ([0.9], [0.1], "can't tell"),
        ([0.9, 0.9], [0.1], "can't tell"),
        ([0.9, 0.9], [0.1, 0.1], "higher"),
        ([0.9, 0.9], [0.9, 0.9], "can't tell"),
    ],
)
def test_only_differences_beyond_the_spread_have_a_verdict(ours, others, verdict):
    rows = [ResultRow("a", "A", {"x": 2.0}, {"x": ours}), ResultRow("b", "B", {"x": 1.0}, {"x": others})]
    found = compare_rows(rows, "a", "b", "x")
    assert (found.verdict, found.paper) == (verdict, "higher")
    assert (found.spread is None) == (len(ours) == 1 or len(others) == 1)


def test_rows_without_values_are_not_compared():
    rows = [ResultRow("a", "A", {}, {"x": [1.0]}), ResultRow("b", "B", {"x": 1.0})]
    assert compare_rows(rows, "a", "b", "x") is None
    with_ours = [rows[0], ResultRow("b", "B", {"x": 1.0}, {"x": [1.0]})]
    assert compare_rows(with_ours, "a", "b", "x") == RowComparison(
        "a", "b", "x", 0.0, None, "can't tell", None
    )
