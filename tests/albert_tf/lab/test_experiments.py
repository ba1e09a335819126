"""The experiments as data, at every scale; nothing is trained."""

import dataclasses
import statistics

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.lab import paper
from albert_tf.lab.experiments import COLUMNS, EXPERIMENTS
from albert_tf.lab.scales import PAPER, SCALES
from albert_tf.lab.variants import Variant, with_starts
from albert_tf.parameters import counted_as_in_the_paper

# Millions of parameters -> what Tables 1 and 12 print for them.
PRINTED = {59: {60}, 223: {235, 225}, 496: {499}}


def rows():
    return [(experiment, row) for experiment in EXPERIMENTS.values() for row in experiment.rows]


def config(variant: Variant, scale) -> AlbertConfig:
    return variant.config(scale, scale.vocab_size, scale.max_seq_length)


def names(value):
    return getattr(value, "name", None)


@pytest.mark.parametrize(("experiment", "row"), rows(), ids=names)
def test_parameters_at_the_papers_scale_are_the_papers(experiment, row):
    if "parameters" not in row.paper:
        return
    count = round(counted_as_in_the_paper(config(row.variant, PAPER)) / 1e6)
    assert row.paper["parameters"] in PRINTED.get(count, {count})


@pytest.mark.parametrize(
    ("variant", "preset"),
    [
        (Variant("base", 768, "none"), "bert_base"),
        (Variant("large", 1024, "none"), "bert_large"),
        (Variant("base"), "albert_base_v1"),
        (Variant("large"), "albert_large_v1"),
        (Variant("xlarge"), "albert_xlarge_v1"),
        (Variant("xxlarge"), "albert_xxlarge_v1"),
        (Variant("large", width=1024), "albert_large_v1"),
        (Variant("xxlarge", dropout=False), "albert_xxlarge_v2"),
    ],
    ids=names,
)
def test_models_at_the_papers_scale_are_the_presets(variant, preset):
    assert config(variant, PAPER) == AlbertConfig.from_preset(preset)


@pytest.mark.parametrize("scale", SCALES)
def test_every_scale_keeps_the_papers_order(scale):
    """Every model can be built, and what is larger in the paper is larger here."""
    sizes = {name: config(Variant(name), SCALES[scale]) for name in ("base", "large", "xlarge", "xxlarge")}
    assert [c.hidden_size for c in sizes.values()] == sorted({c.hidden_size for c in sizes.values()})
    assert sizes["base"].num_hidden_layers < sizes["large"].num_hidden_layers
    embeddings = [config(Variant("base", E), SCALES[scale]).embedding_size for E in (64, 128, 256, 768)]
    assert embeddings == sorted(set(embeddings))
    assert embeddings[-1] == sizes["base"].hidden_size
    for _, row in rows():
        config(row.variant, SCALES[scale])


@pytest.mark.parametrize("scale", SCALES)
def test_a_runs_folder_identifies_the_model(scale):
    """Runs are shared by name, so different models or trainings must not have the same name."""
    variants: dict[str, Variant] = {}
    for _, row in rows():
        assert variants.setdefault(row.variant.name, row.variant) == row.variant
        assert set("/,*? ").isdisjoint(row.variant.name)
    shown = {field.name for field in dataclasses.fields(Variant)}
    changed = {
        "size": "large",
        "embedding": 64,
        "sharing": "none",
        "objective": "nsp",
        "width": 2048,
        "layers": 3,
        "dropout": False,
        "text": "part",
        "start": Variant("large"),
        "equal_time_with": Variant("xxlarge"),
    }
    assert shown - {"fork"} == set(changed)
    assert len({Variant(**{name: value}).name for name, value in changed.items()}) == len(changed)
    assert Variant(start=Variant(), fork=True).name != Variant(start=Variant()).name


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=names)
def test_claims_and_measures_belong_to_the_table(experiment):
    row_names = [row.name for row in experiment.rows]
    assert len(set(row_names)) == len(row_names)
    assert {*experiment.measures, "average"} <= set(COLUMNS)
    for claim in experiment.claims:
        assert {claim.row, claim.than} <= set(row_names)
        assert claim.column in {*experiment.measures, "average"}
    for row in experiment.rows:
        assert set(row.paper) <= set(COLUMNS)


def test_models_follow_those_they_start_from():
    chain = EXPERIMENTS["table11"].rows[-1].variant
    depths = [variant.layers for variant in with_starts([chain])]
    assert depths == [1, 3, 6, 12, 24, 48]
    timed = EXPERIMENTS["table6"].rows[1].variant
    order = [variant.name for variant in with_starts([timed, timed])]
    assert order[-1] == timed.name
    assert set(order[:-1]) == {"xxlarge-E128-share-all-sop", "large-E1024-share-none-sop"}


PAPER_TABLES = {
    "table 2": paper.TABLE_2,
    "table 3": paper.TABLE_3,
    "table 4": paper.TABLE_4,
    "table 5": paper.TABLE_5,
    "table 6": paper.TABLE_6,
    "figure 2": paper.FIGURE_2,
    "table 11": paper.TABLE_11,
    "table 12": paper.TABLE_12,
}


@pytest.mark.parametrize("table", PAPER_TABLES)
def test_the_papers_average_is_the_mean_of_its_tasks(table):
    for row, scores in PAPER_TABLES[table].items():
        mean = statistics.fmean(scores[task] for task in paper.AVERAGED_TASKS)
        assert scores["average"] == pytest.approx(mean, abs=0.0501), (table, row)  # printed to a tenth
