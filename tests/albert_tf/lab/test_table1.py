from albert_tf.lab.settings import LabSettings
from albert_tf.lab.table1 import table1


def test_table_1_equals_the_paper():
    results = table1(LabSettings("lab"))
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
