"""`albert plot`: a picture of any runs, and its errors."""

import json
import subprocess
import sys

import matplotlib.image
import pytest

from albert_cli import cli
from albert_tf.training.plot import _length_changes, _read, draw_runs
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


@pytest.mark.very_slow
@pytest.mark.parametrize("kind", ["pretraining", "finetuning"])
def test_one_run_and_two(tmp_path, kind):
    """Two runs of pretraining; two seeds of a fine-tuning run."""
    for name in ("seed_0", "seed_1"):
        if kind == "pretraining":
            make_run(tmp_path / "run" / name, 5)
        else:
            make_finetuning_run(tmp_path / "run" / name, "matthews")
    output, runs = tmp_path / "curves.png", [f"{tmp_path}/run/seed_0", f"{tmp_path}/run/seed_1"]
    assert cli.main(["plot", runs[0], f"--output={output}"]) == 0
    assert BLUE in colors(output)
    assert ORANGE not in colors(output)
    assert (
        cli.main(["plot", *(runs if kind == "pretraining" else [f"{tmp_path}/run"]), f"--output={output}"])
        == 0
    )
    assert ORANGE in colors(output)
    assert {path.name for path in tmp_path.iterdir()} == {"run", "curves.png"}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "begins"), [("a.PNG", b"\x89PNG"), ("a.pdf", b"%PDF"), ("a.svg", b"<?xml")])
def test_the_suffix_is_the_format(tmp_path, name, begins):
    make_run(tmp_path / "run", 3)
    assert cli.main(["plot", f"{tmp_path}/run", f"--output={tmp_path}/{name}"]) == 0
    assert (tmp_path / name).read_bytes().startswith(begins)


def test_where_the_length_changes():
    lines = [{"step": 5, "max_seq_length": 32}, {"step": 9, "max_seq_length": 32, "eval_loss": 1.0}]
    lines += [{"step": step, "max_seq_length": 128} for step in (12, 15)]
    assert _length_changes(lines) == [(9, 128)]
    assert _length_changes([{"step": 5}, {"step": 6}]) == []


@pytest.mark.slow
def test_no_curve_of_sentence_pairs_without_pairs(tmp_path):
    """A run with masked words only has their panels, and no line at 0."""
    nothing = {
        f"{prefix}sentence_order_{what}": 0.0 for prefix in ("", "eval_") for what in ("loss", "accuracy")
    }
    make_run(tmp_path / "pairs", 5)
    make_run(tmp_path / "none", 5, **nothing)
    for runs, lowest in ((["pairs"], 0.5), (["pairs", "none"], 0.5), (["none"], None)):
        lines = _read([tmp_path / run for run in runs])
        drawn = [
            line["sentence_order_accuracy"]
            for run in lines
            for line in run
            if "sentence_order_accuracy" in line
        ]
        assert min(drawn, default=None) == pytest.approx(lowest, abs=0.06)
        assert all(
            "masked_lm_loss" in line or "eval_masked_lm_loss" in line for run in lines for line in run[:-1]
        )
    flags = [f"{tmp_path}/none", f"--output={tmp_path}/a.png"]
    assert cli.main(["plot", *flags]) == 0
    assert BLUE in colors(tmp_path / "a.png")


@pytest.mark.slow
def test_without_tensorflow(tmp_path):
    make_run(tmp_path / "run", 3)
    program = (
        "import sys; from albert_cli import cli; "
        f"status = cli.main(['plot', '{tmp_path}/run', '--output={tmp_path}/a.png']); "
        "sys.exit(status or 'tensorflow' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("runs", "output", "message"),
    [
        ([], "a.png", "Name at least one run's folder"),
        (["nothing"], "a.png", "There is no folder nothing. Name the --output_dir of a run."),
        (["empty"], "a.png", "Received empty, which does not"),
        (["run"], "no/folder/a.png", "Received no/folder/a.png: No such file or directory"),
        (["nothing"], "a.jpg", "--output must end in .png, .pdf or .svg. Received a.jpg"),
    ],
)
def test_errors(tmp_path, monkeypatch, capfd, runs, output, message):
    make_run(tmp_path / "run", 3)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    assert cli.main(["plot", *runs, f"--output={output}"]) == 2
    assert message in capfd.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"run", "empty"}


def make_finetuning_run(folder, metric: str) -> None:
    folder.mkdir(parents=True)
    lines = [{"step": step, "loss": 1 / step, "learning_rate": 0.1} for step in (1, 2, 3)]
    lines += [{"step": step, f"eval_{metric}": 0.5, "eval_loss": 0.6, "eval_examples": 7} for step in (2, 3)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize(("metrics", "panels", "hidden"), [(1, 3, 0), (2, 4, 0), (3, 5, 1)])
def test_panels_are_labelled_and_steps_are_whole(tmp_path, metrics, panels, hidden):
    folder = tmp_path / "$run_1$" / "seed_0"
    folder.mkdir(parents=True)
    scores = {f"eval_metric_{i}": 0.5 for i in range(metrics)}
    lines = [{"step": step, "loss": 1.0, "learning_rate": 0.1, **scores} for step in (10_000, 10_002)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    figure = draw_runs([tmp_path / "$run_1$"])
    figure.canvas.draw()
    shown = [axis for axis in figure.axes if axis.get_visible()]
    assert (len(shown), len(figure.axes) - len(shown)) == (panels, hidden)
    assert all(axis.get_title(loc="left") and axis.get_ylabel() for axis in shown)
    lowest = [axis for axis in shown if axis.get_xlabel() == "step"]
    assert len(lowest) == (2 if panels == 4 else 3)
    for axis in lowest:
        inside = axis.get_xticklabels()[1:-1]
        assert [text.get_text() for text in inside] == ["10,000", "10,001", "10,002"]
    assert not figure.legends[0].get_texts()[0].get_parse_math()


def test_an_evaluation_alone_is_of_pretraining(tmp_path):
    """With --do_eval and --init_checkpoint a run's metrics hold nothing else."""
    make_run(tmp_path / "run", 3)
    (tmp_path / "evaluation").mkdir()
    line = {"step": 0, "eval_loss": 5.0, "eval_masked_lm_loss": 4.0}
    (tmp_path / "evaluation" / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    for runs in (["evaluation"], ["evaluation", "run"]):
        figure = draw_runs([tmp_path / name for name in runs])
        figure.canvas.draw()
        assert figure.axes[0].get_title(loc="left") == "masked-LM loss"


def test_runs_of_both_kinds(tmp_path, capfd):
    make_run(tmp_path / "pretraining", 3)
    make_finetuning_run(tmp_path / "cola" / "seed_0", "matthews")
    runs = [f"{tmp_path}/pretraining", f"{tmp_path}/cola"]
    assert cli.main(["plot", *runs, f"--output={tmp_path}/curves.png"]) == 2
    assert "Runs in one picture must be of one kind" in capfd.readouterr().err
    assert not (tmp_path / "curves.png").exists()
