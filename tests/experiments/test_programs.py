"""The other experiments: what they split, compare and keep."""

import dataclasses
import importlib
import json
import re
import shlex
from pathlib import Path

import pytest

from albert_tf.tasks.choice.rows import ChoiceExample
from albert_tf.tasks.spans.rows import QuestionExample
from albert_tf.tasks.task import find_task
from albert_tf.tasks.texts.rows import TextExample
from data_prep.errors import InputError
from experiments import albert_small_en, collapsed_runs, downstream
from experiments.albert_small_en import SmallModelSettings
from experiments.collapsed_runs import CollapseSettings
from experiments.conditions import check_conditions
from experiments.downstream import DownstreamSettings, baseline, split_by_article
from experiments.metrics import evaluations, training_seconds
from experiments.texts import link_files, split_files
from tests.benchmarks.test_benchmarks import parse
from tests.processes import ROOT
from tests.story import write_story

PAGES = "\n".join((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8") for page in ("lab", "recipes"))
COMMANDS = re.findall(r"^    python -m experiments\.(\w+)(.*)$", PAGES.replace("\\\n", " "), re.MULTILINE)


def test_a_folder_has_the_conditions_of_its_results(tmp_path):
    check_conditions(tmp_path / "new", "one", {"rate": 0.1, "precision": None})
    check_conditions(tmp_path / "new", "one", {"rate": 0.2, "precision": None})  # nothing was made
    (tmp_path / "new" / "run").mkdir()
    (tmp_path / "new" / "run" / "metrics.jsonl").touch()
    check_conditions(tmp_path / "new", "one", {"rate": 0.2, "precision": None})
    check_conditions(tmp_path / "new", "other", {"rate": 0.3})
    with pytest.raises(
        InputError, match=r"holds results with --rate of 0.2. Received 0.1; use another --output"
    ):
        check_conditions(tmp_path / "new", "one", {"rate": 0.1, "precision": None})


def test_one_file_in_twenty_is_held_out_reproducibly(tmp_path):
    for number in range(45):
        (tmp_path / f"book, {number}.txt").write_text(f"Book number {number}.\n")
    paths = sorted(tmp_path.iterdir())
    train, heldout = split_files(paths)
    assert (len(train), len(heldout)) == (43, 2)
    assert {*train, *heldout} == set(paths)
    assert split_files(paths[::-1]) == (train, heldout)
    with pytest.raises(InputError, match="at least 3 files, of which 2 are held out. Received 2"):
        split_files(paths[:2])
    link_files(paths[5:9], tmp_path / "links")  # of an earlier command
    assert link_files(paths[:3], tmp_path / "links") == f"{tmp_path}/links/*"
    links = sorted((tmp_path / "links").iterdir())
    assert [link.resolve() for link in links] == paths[:3]
    assert not any("," in link.name for link in links)


def run(folder, lines, **settings):
    folder.mkdir()
    short = {"start_step": 0, "num_train_steps": 30, "train_batch_size": 8, "max_seq_length": 4}
    long = {"start_step": 30, "num_train_steps": 10, "train_batch_size": 6, "max_seq_length": 8}
    settings = {"phases": [short, long], "init_optimizer": False, **settings}
    (folder / "settings.json").write_text(json.dumps(settings))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_training_seconds_are_those_of_the_steps(tmp_path):
    lines = [
        {"step": 10, "tokens_per_second": 32.0},  # one step per second
        {"step": 10, "eval_masked_lm_accuracy": 0.1},
        {"step": 30, "tokens_per_second": 64.0},
        {"step": 40, "tokens_per_second": 24.0},  # of 48 tokens
        *({"step": 40, "eval_masked_lm_accuracy": 0.2} for _ in range(2)),  # a resumed run repeats one
    ]
    one = run(tmp_path / "one", lines)
    assert training_seconds(one) == pytest.approx(10 + 10 + 20)
    assert [line["step"] for line in evaluations(one)] == [10, 40]
    fork = run(tmp_path / "fork", lines[2:], init_optimizer=True, init_checkpoint="one/checkpoints/ckpt-20")
    assert training_seconds(fork) == pytest.approx(5 + 20)


def test_trivial_baselines():
    texts = [TextExample(str(i), "a", None, label) for i, label in enumerate("0010")]
    assert baseline(find_task("sst-2"), texts) == 0.75
    pairs = [("a b", "a b", 5.0), ("a b", "a c", 3.0), ("a", "b", 1.0)]
    examples = [TextExample(str(i), a, b, label) for i, (a, b, label) in enumerate(pairs)]
    assert baseline(find_task("sts-b"), examples) > 0.95
    choices = [
        ChoiceExample("0", "P.", "Q?", ("a", "bbb", "cc", "d"), 1),
        ChoiceExample("1", "P.", "Q?", ("aa", "bb", "c", "d"), 1),
    ]
    assert baseline(find_task("race"), choices) == 0.5
    question = QuestionExample("0", "Who?", "Mr. Ash came.\nHe stayed.", ("Mr. Ash came.",), (0,))
    assert baseline(find_task("squad1.1"), [question]) == 100.0


def test_sets_without_training_data_are_split(tmp_path):
    header = "index\tquestion\tsentence\tlabel\n"
    source = tmp_path / "glue" / "QNLI"
    source.mkdir(parents=True)
    lines = [f"{i}\tWhy {i // 2}?\tÄ\u2028 sentence.\tentailment\n" for i in range(40)]
    (source / "dev.tsv").write_text(header + "".join(lines), encoding="utf-8")
    settings = DownstreamSettings("model", tmp_path / "out", glue_dir=tmp_path / "glue")
    folder = tmp_path / "out" / "qnli_by_question"
    for _ in range(2):
        assert downstream.data_of("qnli", settings) == {"data_dir": str(folder)}
    train, dev = ((folder / f"{part}.tsv").read_text("utf-8").split("\n")[1:-1] for part in ("train", "dev"))
    assert sorted(train + dev) == sorted(line.removesuffix("\n") for line in lines)
    assert len(dev) == 8
    assert not {line.split("\t")[1] for line in train} & {line.split("\t")[1] for line in dev}

    articles = [{"title": f"t{i}", "paragraphs": []} for i in range(10)]
    (tmp_path / "squad.json").write_text(json.dumps({"version": "1.1", "data": articles}))
    files = split_by_article(tmp_path / "squad.json", tmp_path / "second").values()
    train, dev = (json.loads(Path(file).read_text())["data"] for file in files)
    assert sorted(article["title"] for article in train + dev) == sorted(a["title"] for a in articles)
    assert len(dev) == 2
    (tmp_path / "squad.json").write_text(json.dumps({"version": "1.1", "data": articles[:9]}))
    with pytest.raises(InputError, match="holds results with --squad_file"):
        split_by_article(tmp_path / "squad.json", tmp_path / "second")


def test_runs_that_collapsed_are_counted(tmp_path, monkeypatch, capsys):
    """A finished run is not repeated; all ways have the same examples."""
    folder = tmp_path / "glue" / "SST-2"
    folder.mkdir(parents=True)
    lines = [f"Text {i}.\t{i % 2}\n" for i in range(60)]
    for part in ("train", "dev"):
        (folder / f"{part}.tsv").write_text("sentence\tlabel\n" + "".join(lines))
    trained = []

    def of_albert_tf(settings, task, way, seeds, folder):
        folder.mkdir(parents=True)
        trained.append((task, way, *seeds))
        labels = [row["label"] for row in collapsed_runs.rows_of(settings, task, "dev")]
        return [labels if seed else ["1"] * len(labels) for seed in seeds]

    monkeypatch.setattr(collapsed_runs, "of_albert_tf", of_albert_tf)
    settings = CollapseSettings(
        "model", tmp_path / "out", tmp_path / "glue", tasks="sst-2", ways="here,search", seeds=2, examples=30
    )
    for _ in range(2):
        collapsed_runs.main(settings)
    assert trained == [("sst-2", "here", 0, 1), ("sst-2", "search", 0), ("sst-2", "search", 1)]
    assert len(collapsed_runs.rows_of(settings, "sst-2", "train")) == 30
    assert "| sst-2 | here | 2 | 50% | 0.750 | 0.500 | 0 |" in capsys.readouterr().out
    with pytest.raises(InputError, match="holds results with --examples of 30"):
        collapsed_runs.main(dataclasses.replace(settings, examples=31))
    collapsed_runs.main(dataclasses.replace(settings, seeds=3))
    assert trained[3:] == [("sst-2", "here", 2), ("sst-2", "search", 2)]


def test_tasks_that_were_measured_keep_their_rows(tmp_path, monkeypatch, capsys):
    """Whatever the conditions of a later command, which measures only its own tasks again."""
    measured = []

    def measure(name, source, settings):
        measured.append(name)
        scores = {"median": 0.8, "min": 0.7, "max": 0.9}
        return {"metric": "accuracy", "baseline": 0.5, "results": {"dev": {"accuracy": scores}}}

    monkeypatch.setattr(downstream, "data_of", lambda name, settings: {})
    monkeypatch.setattr(downstream, "measure", measure)
    for tasks, seeds in (("rte", 1), ("cola,rte", 1), ("rte", 5)):
        downstream.main(DownstreamSettings("model", tmp_path, tasks=tasks, seeds=seeds))
    assert measured == ["rte", "cola", "rte"]
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "| cola | accuracy | 0.500 | 0.800 |  | 1 |",
        "| rte | accuracy | 0.500 | 0.800 | 0.700 to 0.900 | 5 |",
    ]


@pytest.mark.parametrize(("name", "words"), COMMANDS)
def test_the_documentation_quotes_valid_commands(name, words):
    assert parse(importlib.import_module(f"experiments.{name}"), shlex.split(words)) != 2


@pytest.mark.very_slow
def test_a_tiny_training_of_the_packaged_model(tmp_path, monkeypatch, capfd, forked):
    """From text to a model; the same command again trains nothing."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "books").mkdir()
    for seed in range(4):
        write_story(tmp_path / "books" / f"{seed}.txt", seed=seed)
    write_story(tmp_path / "documents.txt", seed=9)
    sizes = {"embedding_size": 8, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    training = {"steps": 10, "num_warmup_steps": 2, "save_checkpoints_steps": 4, "tokens_per_step": 512}
    settings = SmallModelSettings(
        "books/*.txt", "documents.txt", tmp_path / "a small one", vocab_size=100, **sizes, **training
    )
    albert_small_en.main(settings)
    table = capfd.readouterr().out
    assert [line.split(" | ")[0] for line in table.splitlines() if re.match(r"\| \d", line)] == [
        "| 32",
        "| 128",
        "| 512",
    ]
    assert evaluations(settings.output / "run")[-1]["step"] == 10
    weights = (settings.output / "albert_small_en" / "model.safetensors").stat().st_mtime_ns
    albert_small_en.main(settings)
    assert (settings.output / "albert_small_en" / "model.safetensors").stat().st_mtime_ns == weights
