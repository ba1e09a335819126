"""The names of rows, from the paths on the command line."""

import pytest

from albert_tf.lab.named_paths import NamedPath, parse_named_paths, short_names
from data_prep.errors import InputError


def test_names_and_seeds():
    assert parse_named_paths(["BERT=runs/none/seed-1", "albert_large.tar.gz", "runs/all/seed_12"]) == [
        NamedPath("BERT", "runs/none/seed-1", 1),
        NamedPath("albert_large", "albert_large.tar.gz"),
        NamedPath("all", "runs/all/seed_12", 12),
    ]


def test_a_folder_of_seeds_stands_for_all_of_them(tmp_path):
    for name in ("seed-10", "seed-2", "seedling", "seed-x"):
        (tmp_path / "run" / name).mkdir(parents=True)
    seeds = [f"{tmp_path}/run/seed-2", f"{tmp_path}/run/seed-10"]
    assert [(each.name, each.path) for each in parse_named_paths([f"{tmp_path}/run"])] == [
        ("run", path) for path in seeds
    ]
    assert [each.name for each in parse_named_paths([f"mine={tmp_path}/run"])] == ["mine", "mine"]


def test_short_names_have_as_many_parts_as_needed():
    assert short_names(["a/x/large", "b/x/large"]) == {"a/x/large": "a/x/large", "b/x/large": "b/x/large"}
    assert short_names(["a/large/", "a/base.tar.gz"]) == {"a/large/": "large", "a/base.tar.gz": "base"}
    assert short_names(["x/1", "y/1"]) == {"x/1": "x/1", "y/1": "y/1"}
    assert short_names(["hf://albert/albert-base-v2"]) == {"hf://albert/albert-base-v2": "albert-base-v2"}
    assert short_names(["large.tar.gz"]) == {"large.tar.gz": "large"}
    assert short_names([]) == {}


def test_the_current_folder_has_a_name(tmp_path, monkeypatch):
    (tmp_path / "large").mkdir()
    monkeypatch.chdir(tmp_path / "large")
    assert short_names([".", "../base"]) == {".": "large", "../base": "base"}


def test_an_existing_path_may_contain_an_equals_sign(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lr=1").mkdir()
    assert parse_named_paths(["lr=1"]) == [NamedPath("lr=1", "lr=1")]
    with pytest.raises(InputError, match="PATH or NAME=PATH. Received 'a='"):
        parse_named_paths(["a="])
