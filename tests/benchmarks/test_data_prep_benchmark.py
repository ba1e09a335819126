"""The benchmark of data preparation with programs that are not run."""

import dataclasses
import json

import pytest

from benchmarks import data_prep
from benchmarks.data_prep import BenchmarkSettings
from data_prep.errors import InputError


def row(rate: float) -> dict:
    return {"tokens_per_user_s": rate, "examples_per_user_s": rate}


@pytest.fixture
def settings(tmp_path) -> BenchmarkSettings:
    (tmp_path / "book.txt").write_text("One sentence. And another.\n")
    return BenchmarkSettings(
        str(tmp_path / "book.txt"), "vocabulary", tmp_path / "new" / "report.json", megabytes=1, rounds=1
    )


def test_what_is_measured_is_written_at_once(settings, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    settings = dataclasses.replace(settings, original_repo="repo", original_python="python")
    monkeypatch.setattr(data_prep, "run_ours", lambda *_, workers, **changes: row(12.0))
    monkeypatch.setattr(data_prep, "run_original", lambda *_: row(4.0))
    monkeypatch.setattr(data_prep, "breakdown", interrupt)
    with pytest.raises(KeyboardInterrupt):
        data_prep.main(settings)
    report = json.loads(settings.output.read_text())
    assert [*report["runs"]] == [*report["medians"]] == ["1 worker", "2 workers", "original"]
    assert report["times_the_original"]["tokens_per_user_s"] == 3.0


def test_text_without_a_sentence_is_a_mistake(settings, tmp_path):
    (tmp_path / "book.txt").write_text("\n \n")
    with pytest.raises(InputError, match="--input_file must have sentences. Received .*book.txt"):
        data_prep.write_text_of(settings, 1, tmp_path / "text.txt")
