"""The downstream experiment's split of QNLI and its table; `albert finetune` itself has its own tests."""

import dataclasses

from experiments import downstream
from experiments.downstream import DownstreamSettings, data_of, table

HEADER = "index\tquestion\tsentence\tlabel\n"


def rows(path):
    with path.open(encoding="utf-8") as file:
        header, *lines = file
    assert header == HEADER
    return lines


def test_qnli_without_a_training_set_is_split_by_question(tmp_path):
    source = tmp_path / "glue" / "QNLI"
    source.mkdir(parents=True)
    lines = [f"{i}\tWhy {i // 2}?\tÄ\u2028 sentence.\tentailment\n" for i in range(40)]
    (source / "dev.tsv").write_text(HEADER + "".join(lines), encoding="utf-8")
    settings = DownstreamSettings("model", tmp_path / "out", glue_dir=tmp_path / "glue")
    folder = data_of("qnli", settings)["data_dir"]
    train, dev = (rows(tmp_path / "out" / "qnli_by_question" / f"{split}.tsv") for split in ("train", "dev"))
    assert folder == str(tmp_path / "out" / "qnli_by_question")
    assert sorted(train + dev) == sorted(lines)
    assert len(dev) == 8
    assert not {line.split("\t")[1] for line in train} & {line.split("\t")[1] for line in dev}
    assert data_of("qnli", settings) == {"data_dir": folder}  # the split of the first call

    (source / "train.tsv").write_text(HEADER, encoding="utf-8")
    assert data_of("qnli", settings) == {"data_dir": str(source)}


def test_a_task_without_data_has_none(tmp_path):
    settings = DownstreamSettings("model", tmp_path / "out", glue_dir=tmp_path)
    assert [data_of(name, settings) for name in ("qnli", "rte", "squad1.1", "race")] == [None] * 4


def test_the_table_shows_the_spread_over_seeds():
    scores = {"matthews": {"median": 0.25, "min": 0.125, "max": 0.5}}
    row = {"metric": "matthews", "baseline": 0.0, "results": {"dev": scores}, "minutes": 1.5}
    assert (
        table({"cola": row}).splitlines()[-1] == "| cola | matthews | 0.000 | 0.250 | 0.125 to 0.500 | 1.5 |"
    )


def test_tasks_that_were_measured_keep_their_rows(tmp_path, monkeypatch):
    """One task after the other gives the report of both; another number of seeds starts anew."""
    row = {"metric": "accuracy", "baseline": 0.5, "minutes": 1.5}
    row["results"] = {"dev": {"accuracy": {"median": 0.8, "min": 0.7, "max": 0.9}}}
    measured = []
    monkeypatch.setattr(downstream, "data_of", lambda name, settings: {})
    monkeypatch.setattr(downstream, "baseline", lambda name, source: {})
    monkeypatch.setattr(downstream, "finetune", lambda name, source, settings: measured.append(name) or row)
    settings = DownstreamSettings("model", tmp_path, tasks="rte")
    downstream.main(settings)
    report = downstream.main(dataclasses.replace(settings, tasks="cola,rte"))
    assert measured == ["rte", "cola"]
    assert [*report["tasks"]] == ["cola", "rte"]
    report = downstream.main(dataclasses.replace(settings, seeds=5))
    assert measured == ["rte", "cola", "rte"]
    assert [*report["tasks"]] == ["rte"]
