"""What rows are called after the paths on the command line."""

import pytest

from albert_tf.lab.labels import Labelled, labelled, short_names
from data_prep.errors import InputError


def test_names_and_seeds():
    assert labelled(["BERT=runs/none/seed-1", "albert_large.tar.gz", "runs/all/seed_12"]) == [
        Labelled("BERT", "runs/none/seed-1", 1),
        Labelled("albert_large", "albert_large.tar.gz"),
        Labelled("all", "runs/all/seed_12", 12),
    ]


def test_a_folder_of_seeds_is_all_of_them(tmp_path):
    for name in ("seed-10", "seed-2", "seedling", "seed-x"):
        (tmp_path / "run" / name).mkdir(parents=True)
    seeds = [f"{tmp_path}/run/seed-2", f"{tmp_path}/run/seed-10"]
    assert [(each.name, each.path) for each in labelled([f"{tmp_path}/run"])] == [
        ("run", path) for path in seeds
    ]
    assert [each.name for each in labelled([f"mine={tmp_path}/run"])] == ["mine", "mine"]


def test_as_much_of_a_path_as_tells_it_apart():
    assert short_names(["a/x/large", "b/x/large"]) == {"a/x/large": "a/x/large", "b/x/large": "b/x/large"}
    assert short_names(["a/large/", "a/base.tar.gz"]) == {"a/large/": "large", "a/base.tar.gz": "base"}
    assert short_names(["x/1", "y/1"]) == {"x/1": "x/1", "y/1": "y/1"}
    assert short_names(["hf://albert/albert-base-v2"]) == {"hf://albert/albert-base-v2": "albert-base-v2"}
    assert short_names(["large.tar.gz"]) == {"large.tar.gz": "large"}
    assert short_names([]) == {}


def test_a_path_that_is_there_may_hold_an_equals_sign(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lr=1").mkdir()
    assert labelled(["lr=1"]) == [Labelled("lr=1", "lr=1")]
    with pytest.raises(InputError, match="PATH or NAME=PATH. Received 'a='"):
        labelled(["a="])
