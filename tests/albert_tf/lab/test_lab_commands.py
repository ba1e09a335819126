import json

import pytest

from albert_cli import cli
from albert_tf.lab.experiments import EXPERIMENTS


def run(capfd, *arguments) -> tuple[int, str, str]:
    status = cli.main(["lab", *arguments])
    return status, *capfd.readouterr()


def test_the_list_has_every_experiment(capfd):
    status, out, _ = run(capfd, "list")
    assert status == 0
    assert all(name in out for name in ("table1", *EXPERIMENTS))


def test_table_1_is_written(capfd, tmp_path):
    status, out, _ = run(capfd, "table1", f"--output={tmp_path}/lab")
    assert status == 0
    assert "| ALBERT base | 12 | 11.684 |" in out
    folder = tmp_path / "lab" / "table1"
    assert sorted(path.name for path in folder.iterdir()) == ["results.json", "results.md"]
    assert json.loads((folder / "results.json").read_text())["experiment"] == "table1"


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_help_has_an_example(capfd, name):
    status, out, _ = run(capfd, name, "--help")
    assert status == 0
    assert f"albert lab {name} --output=lab" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("table7",), '"table7"'),
        (("table5",), "--output"),
        (("table5", "--output=lab"), "--input_file must name text"),
        (("table5", "--output=lab", "--input_file=nowhere.txt"), "nowhere.txt"),
        (("table5", "--output=lab", "--input_file=x", "--seeds=0"), "--seeds must be at least 1"),
        (("table5", "--output=lab", "--scale=huge"), "huge"),
        (("table3", "--output=lab", "--speed_workers=2"), "Received 2 and scale for table3; leave them out"),
        (("table5", "--output=lab", "--sede=3"), "Did you mean --seeds?"),
    ],
)
def test_mistakes_are_reported_in_one_line(capfd, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    status, _, error = run(capfd, *arguments)
    assert status == 2
    assert error.startswith("albert: ")
    assert message in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_single_file_is_refused_before_anything_is_written(capfd, tmp_path):
    (tmp_path / "book.txt").write_text("One. Two.\n")
    status, _, error = run(capfd, "table3", f"--output={tmp_path}/lab", f"--input_file={tmp_path}/book.txt")
    assert (status, [path.name for path in tmp_path.iterdir()]) == (2, ["book.txt"])
    assert "at least 3 files" in error
