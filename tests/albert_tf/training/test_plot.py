"""`albert plot`: a picture of any runs, and refusals."""

import json
import subprocess
import sys

import matplotlib.image
import pytest

from albert_tf import cli
from tests.processes import ROOT


def make_run(folder, points: int, **more) -> None:
    folder.mkdir(parents=True)
    lines = []
    for step in range(1, points + 1):
        means = {"masked_lm_loss": 9 / step, "sentence_order_loss": 0.7, "masked_lm_accuracy": 0.1}
        means |= {"sentence_order_accuracy": 0.5 + step % 7 / 20, "gradient_norm": 1 / step}
        lines += [
            {"step": step, **means, "learning_rate": 0.1},
            {"step": step, "eval_masked_lm_loss": 10 / step},
        ]
    lines.append({"step": points, "rolled_back_to": 1})
    (folder / "metrics.jsonl").write_text("".join(json.dumps({**line, **more}) + "\n" for line in lines))


def colors(path) -> set[tuple[int, ...]]:
    pixels = (matplotlib.image.imread(path)[..., :3] * 255).round().astype(int)
    return set(map(tuple, pixels.reshape(-1, 3)))


BLUE, ORANGE = (31, 119, 180), (255, 127, 14)  # the first two of tab10


@pytest.mark.parametrize(
    "points", [pytest.param(1, marks=pytest.mark.slow), 5, pytest.param(400, marks=pytest.mark.slow)]
)
def test_one_run_and_two(tmp_path, points):
    for name in ("a/run", "b/run"):
        make_run(tmp_path / name, points)
    output = tmp_path / "curves.png"
    assert cli.main(["plot", f"{tmp_path}/a/run", f"--output={output}"]) == 0
    assert BLUE in colors(output)
    assert ORANGE not in colors(output)
    assert cli.main(["plot", f"{tmp_path}/a/run", f"{tmp_path}/b/run", f"--output={output}"]) == 0
    assert ORANGE in colors(output)
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b", "curves.png"}


def test_without_tensorflow(tmp_path):
    make_run(tmp_path / "run", 3)
    program = (
        "import sys; from albert_tf import cli; "
        f"status = cli.main(['plot', '{tmp_path}/run', '--output={tmp_path}/a.png']); "
        "sys.exit(status or 'tensorflow' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


@pytest.mark.parametrize(
    ("runs", "output", "message"),
    [
        ([], "a.png", "Name at least one run's folder"),
        (["nothing"], "a.png", "Received nothing, which does not"),
        (["run"], "no/folder/a.png", "Received no/folder/a.png: No such file or directory"),
    ],
)
def test_refusals(tmp_path, monkeypatch, capfd, runs, output, message):
    make_run(tmp_path / "run", 3)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["plot", *runs, f"--output={output}"]) == 2
    assert message in capfd.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"run"}
