"""The paper's experiments as data, and the arithmetic of their tables and figures against plain NumPy."""

import dataclasses
import statistics

import numpy as np
import pytest
from scipy import stats

from albert_tf.config import AlbertConfig
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.parameters import counted_as_in_the_paper
from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer
from experiments.__main__ import main
from experiments.paper import numbers
from experiments.paper.experiments import COLUMNS, EXPERIMENTS
from experiments.paper.figure1 import (
    checkpoints,
    comparisons,
    layer_changes,
    make_windows,
    results_of,
    sharing_of,
)
from experiments.paper.models import PAPER, SCALES, Variant, with_starts
from experiments.paper.results import Column, ResultRow, Results, compare_rows
from experiments.paper.sentence_probe import probe
from tests.reference import albert
from tests.reference import layer_changes as reference
from tests.selection import all_but_very_slow

# Millions of parameters -> what Tables 1 and 12 print for them.
PRINTED = {59: {60}, 223: {235, 225}, 496: {499}}
ROWS = [(experiment, row) for experiment in EXPERIMENTS.values() for row in experiment.rows]


def config(variant: Variant, scale) -> AlbertConfig:
    return variant.config(scale, scale.vocab_size, scale.max_seq_length)


def names(value):
    return getattr(value, "name", None)


@pytest.mark.parametrize(("experiment", "row"), ROWS, ids=names)
def test_parameters_at_the_papers_scale_are_the_papers(experiment, row):
    if "parameters" in row.paper:
        count = round(counted_as_in_the_paper(config(row.variant, PAPER)) / 1e6)
        assert row.paper["parameters"] in PRINTED.get(count, {count})


@pytest.mark.parametrize("preset", ["albert_base_v1", "albert_large_v1", "albert_xxlarge_v1"])
def test_models_at_the_papers_scale_are_the_presets(preset):
    size = preset.split("_")[1]
    assert config(Variant(size), PAPER) == AlbertConfig.from_preset(preset)
    assert config(Variant("large", 1024, "none"), PAPER) == AlbertConfig.from_preset("bert_large")


@pytest.mark.parametrize("scale", SCALES)
def test_every_scale_keeps_the_papers_order(scale):
    sizes = [
        config(Variant(name), SCALES[scale]).hidden_size for name in ("base", "large", "xlarge", "xxlarge")
    ]
    embeddings = [config(Variant("base", E), SCALES[scale]).embedding_size for E in (64, 128, 256, 768)]
    assert sizes == sorted(set(sizes))
    assert embeddings == sorted(set(embeddings))
    assert embeddings[-1] == sizes[0]
    for _, row in ROWS:
        config(row.variant, SCALES[scale])


def test_runs_are_shared_by_name():
    """So different models or trainings must not have the same name."""
    variants: dict[str, Variant] = {}
    for _, row in ROWS:
        assert variants.setdefault(row.variant.name, row.variant) == row.variant
    assert Variant(start=Variant(), fork=True).name != Variant(start=Variant()).name
    chain = EXPERIMENTS["table11"].rows[-1].variant
    assert [variant.layers for variant in with_starts([chain])] == [1, 3, 6, 12, 24, 48]


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=names)
def test_claims_and_measures_belong_to_the_table(experiment):
    rows = [row.name for row in experiment.rows]
    assert len(set(rows)) == len(rows)
    for claim in experiment.claims:
        assert {claim.row, claim.than} <= set(rows)
        assert claim.column in {*experiment.measures, "average"} <= set(COLUMNS)
    assert all(set(row.paper) <= set(COLUMNS) for row in experiment.rows)


def test_the_papers_average_is_the_mean_of_its_tasks():
    for name in ("TABLE_2", "TABLE_3", "TABLE_4", "TABLE_5", "TABLE_6", "FIGURE_2", "TABLE_11", "TABLE_12"):
        for scores in getattr(numbers, name).values():
            mean = statistics.fmean(scores[task] for task in numbers.AVERAGED_TASKS)
            assert scores["average"] == pytest.approx(mean, abs=0.0501)  # printed to a tenth


@pytest.mark.parametrize(("n", "m", "shift"), [(2, 2, 30.0), (3, 3, 8.0), (5, 4, 1.0), (40, 2, 4.0)])
def test_the_verdict_is_that_of_welchs_test(n, m, shift):
    draws = np.random.default_rng(1)
    ours, others = draws.normal(0, 1, n), draws.normal(shift, 3, m)
    rows = [ResultRow("a", "A", {}, {"x": list(ours)}), ResultRow("b", "B", {}, {"x": list(others)})]
    found = compare_rows(rows, "a", "b", "x")
    error = np.sqrt(ours.var(ddof=1) / n + others.var(ddof=1) / m)
    assert found.difference == pytest.approx(ours.mean() - others.mean())
    assert found.spread == pytest.approx(error)
    assert (found.verdict == "can't tell") == (stats.ttest_ind(ours, others, equal_var=False).pvalue >= 0.05)


@pytest.mark.parametrize(
    ("ours", "others", "verdict"),
    [
        ([0.61, 0.62, 0.60], [0.50, 0.52, 0.51], "higher"),
        ([0.57, 0.60, 0.63], [0.56, 0.53, 0.53], "can't tell"),  # 3 standard errors, p = 0.053
        ([0.9], [0.1], "can't tell"),
        ([0.9, 0.9], [0.1, 0.1], "higher"),
        ([0.9, 0.9], [0.9, 0.9], "can't tell"),
    ],
)
def test_only_differences_beyond_the_spread_have_a_verdict(ours, others, verdict):
    rows = [ResultRow("a", "A", {"x": 2.0}, {"x": ours}), ResultRow("b", "B", {"x": 1.0}, {"x": others})]
    found = compare_rows(rows, "a", "b", "x")
    assert (found.verdict, found.paper) == (verdict, "higher")


def some_results(seeds: int) -> Results:
    sizes, scores = {"sop": 52.0, "size": 12}, {"sop": [50.0, 52.0, 51.0][:seeds], "size": [0.5]}
    rows = [
        ResultRow("nsp", "NSP", sizes, scores),
        ResultRow("sop", "SOP", {"sop": 86.5, "avg": 80.1}, {"sop": [61.0, 62.0, 60.0][:seeds]}),
    ]
    columns = [
        Column("size", "Size", "millions", 2),
        Column("sop", "SOP", "%", 1),
        Column("avg", "Avg", "", 1),
    ]
    return Results(
        experiment="table5",
        title="Sentence objectives",
        paper="Table 5",
        question="Does it?",
        scale="tiny",
        seeds=[*range(1, seeds + 1)],
        command="python -m experiments table5",
        settings={},
        environment={"cores": 2},
        columns=columns,
        rows=rows,
        comparisons=[compare_rows(rows, "sop", "nsp", "sop")],
    )


def test_the_table_has_the_papers_numbers_beside_ours(tmp_path):
    results = some_results(3)
    assert results.table().split("\n") == [
        "|  | Size (millions), paper | Size (millions), ours | SOP (%), paper | SOP (%), ours | Avg, paper |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        "| NSP | 12 | 0.50 | 52.0 | 51.0 ± 1.0 |  |",
        "| SOP |  |  | 86.5 | 61.0 ± 1.0 | 80.1 |",
    ]
    assert "- SOP against NSP, SOP: higher (+10.0 ± 0.8); the paper: higher" in results.page()
    assert "can't tell from one seed (+11.0); the paper: higher" in some_results(1).page()
    results.write(tmp_path)
    assert Results.read(tmp_path) == results


@pytest.mark.slow
@pytest.mark.parametrize("sharing", all_but_very_slow(["all", "attention", "ffn", "none"], ["none"]))
def test_layer_changes_as_plain_numpy(tiny_config, sharing):
    tiny = dataclasses.replace(tiny_config, parameter_sharing=sharing, hidden_dropout_prob=0.5)
    encoder = AlbertEncoder(tiny, seed=1)
    rng = np.random.default_rng(0)
    weights = {}
    for variable in encoder.weights:
        name = variable.path.removeprefix("albert_encoder/")
        if not name.startswith("seeds"):
            variable.assign(variable + 0.3 * rng.standard_normal(variable.shape))
            weights[name] = np.asarray(variable)
    input_ids = rng.integers(0, tiny.vocab_size, (6, 11))  # a batch and the rest of one
    states = [albert.encoder(tiny, weights, row, np.ones(11), np.zeros(11, int))[0] for row in input_ids]
    # The tokens of all rows joined, without the first and the last of each row.
    joined = [np.concatenate([row[layer][1:-1] for row in states]) for layer in range(5)]
    expected = reference.layer_changes(joined)
    assert np.ptp(expected[:, 2]) > 1  # layers differ, so a wrong order would show
    np.testing.assert_allclose(layer_changes(encoder, input_ids), expected, rtol=2e-5)


@pytest.mark.very_slow
def test_a_small_angle_is_not_rounded_away(tiny_config):
    """Layers that change almost nothing: the cosine is 1 in float32, the angle is not 0."""
    encoder = AlbertEncoder(tiny_config, seed=0)
    encoder.ffns[0][0].layer_norm.beta.assign(np.full(24, 1e4))
    of_later_layers = layer_changes(encoder, np.arange(24).reshape(2, 12))[1:]
    assert (of_later_layers[:, 1] > 0.9999999).all()
    assert (of_later_layers[:, 2] > 0).all()


def test_models_that_share_all_layers_are_compared_with_those_that_share_none(tiny_config):
    sharing = {"A": "all shared", "B": "nothing shared", "C": "attention shared"}
    seeds = {"A": [2.0, 2.1], "B": [5.0, 5.2], "C": [5.0, 5.2]}
    measured = {name: [np.full((2, 3), value) for value in values] for name, values in seeds.items()}
    results = results_of(measured, sharing)
    assert [row.name for row in results.rows] == ["A", "B", "C", "A/1", "A/2", "B/1", "B/2", "C/1", "C/2"]
    found = comparisons(results.rows, sharing)
    assert [(each.row, each.than, each.column) for each in found] == [("A", "B", "l2"), ("A", "B", "degrees")]
    assert {(each.verdict, each.paper) for each in found} == {("lower", "lower")}
    assert sharing_of(dataclasses.replace(tiny_config, num_hidden_groups=2)) == "shared in 2 groups"


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


def test_a_folder_with_seeds_stands_for_all_of_them(tmp_path):
    for seed in (10, 2):
        (tmp_path / "all" / f"seed-{seed}").mkdir(parents=True)
    found = checkpoints([f"A={tmp_path}/all", f"{tmp_path}/all", "B=model.keras", "B=other"])
    folders = [f"{tmp_path}/all/seed-{seed}" for seed in (2, 10)]
    assert found == {"A": folders, "all": folders, "B": ["model.keras", "other"]}


def vectors(number: int, signal: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = (rng.random(number) < 0.6).astype(int)
    points = rng.normal(size=(number, 8)) + signal * (2 * labels[:, None] - 1)
    return points.astype("float32"), labels


@pytest.mark.very_slow
def test_a_head_learns_what_is_in_the_vectors():
    found = probe(vectors(600, 1.0, 0), vectors(400, 1.0, 1), seed=1)
    assert found["accuracy"] > 0.95
    assert found["chance"] == pytest.approx(0.6, abs=0.06)
    noise = probe(vectors(5000, 0.0, 0), vectors(4000, 0.0, 1), seed=1)
    assert noise["accuracy"] < noise["chance"] + 0.03


def run(capfd, *arguments) -> tuple[int, str, str]:
    status = main([*arguments])
    return status, *capfd.readouterr()


def test_table_1(capfd):
    status, out, _ = run(capfd, "table1")
    assert status == 0
    assert "| ALBERT base | 12 | 11,683,584 |" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("table7",), '"table7"'),
        (("table5",), "--output"),
        (("table5", "--output=lab"), "--input_file must name text"),
        (("table5", "--output=lab", "--zzz"), "`python -m experiments table5 --help` lists the flags"),
        (("table5", "--output=lab", "--seeds=0"), "Only experiments that measure speed also accept 0"),
        (("table5", "--output=a,b"), "none of the characters"),
        (("figure1", "--model=A=", "--text=x", "--output=lab"), "PATH or NAME=PATH. Received 'A='"),
    ],
)
def test_mistakes(capfd, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    status, out, error = run(capfd, *arguments)
    assert (status, out) == (2, "")
    assert message in error
    assert not list(tmp_path.iterdir())
