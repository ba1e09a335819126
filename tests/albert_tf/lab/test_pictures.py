"""Plots have the expected colors; only people can judge how they look."""

import matplotlib.image
import pytest

from albert_tf.lab.pictures import Curve, draw_curves, draw_scores
from albert_tf.lab.results import Column, ResultRow, Results


def evaluations(steps: int, offset: float, *, pairs: bool = True) -> list[dict]:
    sentence = {"eval_sentence_order_accuracy": 0.5 + offset} if pairs else {}
    return [
        {"step": step, "hours": step / 60, "eval_masked_lm_accuracy": 0.01 * step + offset, **sentence}
        for step in range(1, steps + 1)
    ]


def colors_of(path) -> set[tuple]:
    pixels = matplotlib.image.imread(path)[..., :3].reshape(-1, 3)
    return {tuple(round(255 * value) for value in pixel) for pixel in pixels}


BLUE, ORANGE = (31, 119, 180), (255, 127, 14)


@pytest.mark.slow
@pytest.mark.parametrize("over_time", [False, True])
def test_each_model_has_its_color(tmp_path, over_time):
    one = Curve("One", [evaluations(5, 0.0), evaluations(3, 0.1)])  # a seed with fewer evaluations
    none = Curve("None", [evaluations(5, 0.2, pairs=False)])
    draw_curves(tmp_path / "curves.png", [one, none], over_time=over_time)
    assert {BLUE, ORANGE} <= colors_of(tmp_path / "curves.png")
    assert [path.name for path in tmp_path.iterdir()] == ["curves.png"]


def test_more_models_than_colors(tmp_path):
    curves = [Curve(str(number), [evaluations(3, 0.01 * number)]) for number in range(12)]
    draw_curves(tmp_path / "curves.png", curves, over_time=False)
    assert (tmp_path / "curves.png").stat().st_size > 10_000


@pytest.mark.slow
def test_scores_are_drawn_beside_the_papers(tmp_path):
    rows = [
        ResultRow("a", "A", {"sop": 52.0}, {"sop": [50.0, 51.0], "speed": [1.0]}),
        ResultRow("b", "B", {}, {"sop": [60.0]}),
        ResultRow("c", "C", {"sop": 86.5}, {}),
    ]
    columns = [Column("sop", "SOP", "%"), Column("speed", "Speed")]
    results = Results("x", "X", "Table 5", "?", "tiny", [1, 2], "", {}, {}, columns, rows)
    draw_scores(tmp_path / "scores.png", results, ["sop", "speed"])
    assert BLUE in colors_of(tmp_path / "scores.png")
    assert (128, 128, 128) in colors_of(tmp_path / "scores.png")  # the paper's rings
