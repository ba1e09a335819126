"""A SQuAD file split by article."""

import json

import pytest

from data_prep.errors import InputError
from experiments.squad_split import SplitSettings, main


def write(path, count, version="1.1"):
    articles = [
        {
            "title": f"t{i}",
            "paragraphs": [{"context": f"c{i} ä", "qas": [{"id": f"{i}-{j}"} for j in range(i)]}],
        }
        for i in range(count)
    ]
    path.write_text(json.dumps({"version": version, "data": articles}), encoding="utf-8")
    return path


@pytest.mark.parametrize(("version", "suffix"), [("1.1", "v1.1"), ("v2.0", "v2.0")])
def test_every_article_is_on_one_side(tmp_path, version, suffix):
    path = write(tmp_path / "a.json", 10, version)
    result = main(SplitSettings(path, tmp_path / "out"))
    parts = {
        split: json.loads((tmp_path / "out" / f"{split}-{suffix}.json").read_text(encoding="utf-8"))
        for split in ("train", "dev")
    }
    articles = [article["title"] for part in parts.values() for article in part["data"]]
    assert sorted(articles) == [f"t{i}" for i in range(10)]
    assert [article["title"] for article in parts["dev"]["data"]] == result["held_out"]
    assert len(result["held_out"]) == 2
    assert sum(result["questions"].values()) == sum(range(10))
    assert main(SplitSettings(path, tmp_path / "again"))["held_out"] == result["held_out"]


def test_files_that_cannot_be_split(tmp_path):
    with pytest.raises(InputError, match="must exist and be readable"):
        main(SplitSettings(tmp_path / "a.json", tmp_path / "out"))
    with pytest.raises(InputError, match="an article on either side. Received 0.2 of 1 articles"):
        main(SplitSettings(write(tmp_path / "a.json", 1), tmp_path / "out"))
    (tmp_path / "b.json").write_text("[]", encoding="utf-8")
    with pytest.raises(InputError, match="must hold one JSON object"):
        main(SplitSettings(tmp_path / "b.json", tmp_path / "out"))
    assert not (tmp_path / "out").exists()
