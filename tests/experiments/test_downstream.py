"""The downstream experiment's split of QNLI and its table; `albert finetune` itself has its own tests."""

import dataclasses

from data_prep.files import write_json
from experiments import downstream
from experiments.downstream import DownstreamSettings, data_of, table

HEADER = "index\tquestion\tsentence\tlabel\n"


def rows(path):
    with path.open(encoding="utf-8") as file:
        header, *lines = file
    assert header == HEADER
    return lines


def measured(metric, baseline, scores, seeds):
    spread = dict(zip(("median", "min", "max"), scores, strict=True))
    return {
        "conditions": {"seeds": seeds},
        "metric": metric,
        "baseline": baseline,
        "results": {"dev": {metric: spread}},
        "minutes": 1.5,
    }


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
    rows = {
        "cola": measured("matthews", 0.0, [0.25, 0.125, 0.5], seeds=3),
        "squad1.1": measured("f1", 8.71, [17.26] * 3, seeds=1),
    }
    assert table(rows).splitlines()[-2:] == [
        "| cola | matthews | 0.000 | 0.250 | 0.125 to 0.500 | 3 | 1.5 |",
        "| squad1.1 | f1 | 8.7 | 17.3 |  | 1 | 1.5 |",
    ]


def test_tasks_that_were_measured_keep_their_rows(tmp_path, monkeypatch):
    """Whatever the conditions of a later command, which measures only its own tasks again."""
    commands = []

    def finetune(name, source, settings):
        commands.append((name, settings.seeds))
        row = measured("accuracy", 0.5, [0.8, 0.7, 0.9], settings.seeds)
        del row["conditions"]
        return row

    monkeypatch.setattr(downstream, "data_of", lambda name, settings: {})
    monkeypatch.setattr(downstream, "baseline", lambda name, source: {})
    monkeypatch.setattr(downstream, "finetune", finetune)
    settings = DownstreamSettings("model", tmp_path, tasks="rte")
    downstream.main(settings)
    downstream.main(dataclasses.replace(settings, tasks="cola,rte"))
    assert commands == [("rte", 1), ("cola", 1)]
    report = downstream.main(dataclasses.replace(settings, seeds=5))
    assert commands[2:] == [("rte", 5)]
    assert {name: row["conditions"]["seeds"] for name, row in report["tasks"].items()} == {
        "cola": 1,
        "rte": 5,
    }


def test_a_report_with_the_same_conditions_for_all_rows_is_read(tmp_path):
    row = measured("accuracy", 0.5, [0.8, 0.7, 0.9], seeds=5)
    del row["conditions"]
    write_json(tmp_path / "downstream.json", {"settings": {"seeds": "5"}, "tasks": {"rte": row}})
    text = table(downstream.read_rows(tmp_path / "downstream.json"))
    assert text.endswith("| rte | accuracy | 0.500 | 0.800 | 0.700 to 0.900 | 5 | 1.5 |")
