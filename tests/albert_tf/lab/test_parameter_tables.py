"""Table 1, and the models that `albert params` counts."""

from albert_tf.lab.parameter_tables import counted_models, table_1
from albert_tf.lab.settings import LabSettings


def test_table_1_equals_the_paper():
    results = table_1(LabSettings("lab"))
    assert [row.title for row in results.rows] == [
        "BERT base",
        "BERT large",
        "ALBERT base",
        "ALBERT large",
        "ALBERT xlarge",
        "ALBERT xxlarge",
    ]
    for row in results.rows:
        for name in ("layers", "hidden", "embedding"):
            assert row.ours[name] == [row.paper[name]]
    ours = [round(row.ours["parameters"][0]) for row in results.rows]
    assert ours == [108, 334, 12, 18, 59, 223]
    assert [row.paper["parameters"] for row in results.rows] == [108, 334, 12, 18, 60, 235]
    # The exact counts of google-research/albert's checkpoints.
    assert [row.ours["exact"][0] for row in results.rows[2:]] == [11683584, 17683968, 58724864, 222595584]
    assert results.command == "albert lab table1 --output=lab"


def test_counted_models_are_those_of_three_tables():
    models = counted_models()
    assert [model.table for model in models] == [1] * 6 + [3] * 8 + [4] * 8
    assert models[6].name == "ALBERT base E=64, not shared"
    assert len({(model.table, model.name) for model in models}) == len(models)
