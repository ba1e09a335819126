"""A laboratory end to end, in processes as in use, and what its runs are told."""

import dataclasses
import itertools
import json
from pathlib import Path

import matplotlib.image
import pytest

from albert_tf.checkpoints.run_files import read_metrics
from data_prep.errors import InputError
from experiments.metrics import training_seconds
from experiments.paper import laboratory, measures, speed
from experiments.paper.experiments import EXPERIMENTS, Experiment
from experiments.paper.figure1 import Figure1Settings, run_figure1
from experiments.paper.laboratory import Laboratory, LabSettings, fork_step, save_interval
from experiments.paper.measures import Measures
from experiments.paper.models import TINY, Variant, shape
from experiments.paper.results import Results
from experiments.paper.run import run_experiment
from tests.story import write_story

ABSURD = dataclasses.replace(
    TINY,
    sizes={size: shape(8 * number, 2, 4) for number, size in enumerate(TINY.sizes, 1)},
    embeddings={64: 2, 128: 3, 256: 4},
    vocab_size=90,
    max_seq_length=24,
    train_batch_size=4,
    short_phase=(12, 0.4),
    num_train_steps=4,
    num_warmup_steps=1,
    dupe_factor=1,
    max_eval_steps=1,
    probe_examples=30,
    speed_batch=(2, 24),
)


def first_rows(name: str, number: int) -> Experiment:
    """An experiment with only those rows that the test needs."""
    rows = EXPERIMENTS[name].rows[:number]
    names = {row.name for row in rows}
    claims = [claim for claim in EXPERIMENTS[name].claims if {claim.row, claim.than} <= names]
    return dataclasses.replace(EXPERIMENTS[name], rows=rows, claims=claims)


@pytest.fixture(scope="module")
def settings(tmp_path_factory) -> LabSettings:
    """Flags of one laboratory for all tests of this file, which share its data and runs as experiments do."""
    folder = tmp_path_factory.mktemp("laboratory")
    for number in range(6):
        write_story(folder / f"story{number}.txt", documents=6, seed=number)
    return LabSettings(folder / "lab", f"{folder}/story*.txt", input_format="lines", seeds=1)


@pytest.fixture
def commands(monkeypatch, tmp_path):
    """The flags of the commands that are recorded in place of being run, in order."""
    ran = []

    def record(command, *words, **flags):
        ran.append((command, flags))
        if command == "finetune":
            Path(flags["output_dir"]).mkdir(parents=True)
            (flags["output_dir"] / "results.json").write_text('{"dev": {"accuracy": {"median": 0.5}}}')

    def record_probe(module, words):
        request = json.loads(words)
        ran.append(("probe", request))
        Path(request["output"]).write_text(
            json.dumps({name: {"accuracy": 0.75} for name in request["examples"]})
        )

    monkeypatch.setattr(laboratory, "albert", record)
    monkeypatch.setattr(measures, "albert", record)
    monkeypatch.setattr(measures, "run", record_probe)
    for number in range(4):
        (tmp_path / f"{number}.txt").write_text("One sentence. Another one.\n")
    return ran


def small(tmp_path: Path, **flags) -> Laboratory:
    settings = LabSettings(tmp_path / "lab", f"{tmp_path}/*.txt", **flags)
    return Laboratory(settings, settings.scaled(TINY))


@pytest.mark.very_slow
@pytest.mark.parametrize(("name", "rows"), [("table5", 1), ("figure2", 2)])
def test_an_experiment_runs_and_runs_again(settings, name, rows, capfd, forked):
    results = run_experiment(first_rows(name, rows), settings, ABSURD, "python -m experiments")
    folder = settings.output / name
    assert Results.read(folder) == results
    assert {path.name for path in folder.iterdir()} >= {"curves.png", "scores.png", "results.md"}
    blue = [31 / 255, 119 / 255, 180 / 255]
    assert (abs(matplotlib.image.imread(folder / "scores.png")[..., :3] - blue) < 0.01).all(-1).any()
    for row in results.rows:
        assert set(row.ours) == set(EXPERIMENTS[name].measures)
        assert 0 <= row.ours["masked_lm"][0] <= 100
    assert {comparison.verdict for comparison in results.comparisons} <= {"can't tell"}  # of one seed
    capfd.readouterr()
    run_experiment(first_rows(name, rows), settings, ABSURD)
    assert "$ albert" not in capfd.readouterr().err  # everything exists
    if name == "figure2":  # a fork continues the schedule from the middle
        forked, whole = (
            read_metrics(next(settings.output.glob(f"runs/*{end}/seed-1")))
            for end in ("-forked", "-part-of-text")
        )
        assert [line["step"] for line in forked if "loss" in line] == [3, 4]
        rates = {line["step"]: line["learning_rate"] for line in whole if "learning_rate" in line}
        assert all(line["learning_rate"] == rates[line["step"]] for line in forked if "learning_rate" in line)


@pytest.mark.very_slow
def test_figure_1_of_seeds(pretraining_files, tmp_path):
    from albert_cli import cli

    flags = {"num_train_steps": 1, "save_checkpoints_steps": 1, "do_eval": False}
    for seed in (1, 2):
        run = tmp_path / "runs" / "all" / f"seed-{seed}"
        assert cli.main(pretraining_files.flags(run, seed=seed, **flags)) == 0
    text = write_story(tmp_path / "text.txt")
    vocabulary = str(pretraining_files.spm_model_file)
    results = run_figure1(Figure1Settings([f"{tmp_path}/runs/all"], str(text), tmp_path / "lab", vocabulary))
    assert results.settings["max_seq_length"] == 32  # the model's positions, not the default 512
    first, second = results.row("all").ours["degrees"]
    assert first != second
    assert {path.suffix for path in (tmp_path / "lab" / "figure1").iterdir()} == {".png", ".md", ".json"}


@pytest.mark.very_slow
def test_speeds_of_workers(tiny_config, tmp_path, monkeypatch):
    monkeypatch.setattr(speed, "_ROUNDS", 1)
    step = speed.StepSettings(B=2, T=9, dtype="float32")
    found = speed.measure_speeds({"bert-large": tiny_config}, "bert-large", step, tmp_path, (1, 2))
    seconds = json.loads((tmp_path / "speed.json").read_text())["seconds"]
    (one,), (two,) = seconds["1"]["bert-large"], seconds["2"]["bert-large"]
    assert found == {1: {"bert-large": [1.0]}, 2: {"bert-large": [2 * one / two]}}
    short = dataclasses.replace(tiny_config, max_position_embeddings=8)
    with pytest.raises(InputError, match="could not be measured.*short.log"):
        speed.measure_speeds({"short": short}, "short", step, tmp_path, (1,))


def test_measured_speeds_are_kept(tiny_config, tmp_path, monkeypatch):
    seconds = iter([8.0, 2.0, 4.0, None])
    monkeypatch.setattr(speed, "_ROUNDS", 1)
    monkeypatch.setattr(speed, "_seconds_per_step", lambda *arguments: next(seconds))
    configs, step = {"bert-large": tiny_config, "shared": tiny_config}, speed.StepSettings(2, 9, "float32")
    expected = {1: {"bert-large": [1.0], "shared": [4.0]}}
    assert speed.measure_speeds(configs, "bert-large", step, tmp_path, (1,)) == expected
    more = speed.measure_speeds(configs, "bert-large", step, tmp_path, (1, 2))
    assert more == {**expected, 2: {"bert-large": [2 * 8 / 4]}}  # two workers cannot train the other one


def test_a_row_is_about_one_checkpoint(tmp_path, commands):
    """The last evaluation's, even if an earlier checkpoint was better on held-out text."""
    (tmp_path / "SST-2").mkdir()
    (tmp_path / "SST-2" / "train.tsv").touch()
    lab, experiment = small(tmp_path, num_train_steps=20, glue_dir=tmp_path), EXPERIMENTS["table5"]
    row = experiment.rows[0]
    run = lab.run(row.variant, 1)
    run.mkdir(parents=True)
    (run / "best.json").write_text('{"step": 10}')
    phase = {"start_step": 0, "num_train_steps": 20, "train_batch_size": 8, "max_seq_length": 4}
    (run / "settings.json").write_text(json.dumps({"phases": [phase], "init_optimizer": False}))
    names = ("eval_masked_lm_accuracy", "eval_sentence_order_accuracy")
    lines = [{"step": step, **dict.fromkeys(names, step / 100)} for step in (10, 20)]
    lines.append({"step": 20, "tokens_per_second": 9.0})
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert training_seconds(run) == pytest.approx(20 * 32 / 9)
    values = Measures(lab).of_seed(experiment, row, 1)
    assert values == {"masked_lm": pytest.approx(20), "nsp": 75, "sop": 75, "sst-2": 50}
    flags = dict(commands)
    last = run / "checkpoints" / "ckpt-20"
    assert (flags["probe"]["checkpoint"], flags["finetune"]["init_checkpoint"]) == (str(last), last)


def test_phases_have_equally_many_tokens_and_forks_start_in_the_middle(tmp_path, commands):
    lab, whole = small(tmp_path, num_train_steps=100), Variant()
    lab.train(whole, 1)
    lab.train(Variant(start=whole, fork=True), 1)
    first, fork = (flags for command, flags in commands if command == "pretrain")
    for phase, steps, B in zip(first["phase"], (40, 60), (64, 16), strict=True):
        assert f"num_train_steps={steps} train_batch_size={B}" in phase
    assert str(fork["init_checkpoint"]).endswith("seed-1/checkpoints/ckpt-50")
    assert fork["init_optimizer"]


@pytest.mark.parametrize("steps", [1, 2, 3, 9, 10, 11, 19, 95, 2000, 125_000])
def test_a_fork_starts_from_a_saved_checkpoint(steps):
    interval = save_interval(steps)
    assert fork_step(steps) in {*itertools.chain(range(interval, steps, interval), [steps])}


def test_flags_override_the_scale_and_the_warm_up_follows():
    scale = LabSettings(Path("lab"), num_train_steps=40, vocab_size=100).scaled(TINY)
    assert (scale.num_train_steps, scale.num_warmup_steps, scale.vocab_size) == (40, 2, 100)
    assert LabSettings(Path("lab")).scaled() == TINY


def test_a_laboratory_keeps_its_settings_and_text(tmp_path, commands):
    small(tmp_path).open(part_of_text=False)
    small(tmp_path, vocab_size=100).open(part_of_text=False)  # nothing was made yet
    (tmp_path / "lab" / "data").mkdir()
    (tmp_path / "lab" / "data" / "vocabulary.model").touch()
    small(tmp_path, vocab_size=100, seeds=5).open(part_of_text=False)
    with pytest.raises(InputError, match="holds results with --vocab_size of 100. Received 4000"):
        small(tmp_path).open(part_of_text=False)
    with pytest.raises(InputError, match="must be at least 4 to train on. Received 2"):
        small(tmp_path, vocab_size=100).open(part_of_text=True)
    (tmp_path / "0.txt").write_text("Another edition of some length.\n")
    with pytest.raises(InputError, match="holds results with --(input|heldout)_file of"):
        small(tmp_path, vocab_size=100).open(part_of_text=False)


def test_heldout_files_are_not_trained_on(tmp_path, commands):
    lab = small(tmp_path, heldout_file=f"{tmp_path}/[01].txt")
    assert [path.name for path in lab.paths("heldout")] == ["0.txt", "1.txt"]
    assert [path.name for path in lab.paths("train")] == ["2.txt", "3.txt"]
    with pytest.raises(InputError, match="all are held out"):
        small(tmp_path, heldout_file=f"{tmp_path}/*").paths("train")


def test_a_flag_must_name_data(tmp_path, commands):
    for flag, files in (
        ("glue_dir", "SST-2/train.tsv"),
        ("squad_dir", "train-v1.1.json"),
        ("race_dir", "RACE"),
    ):
        with pytest.raises(InputError, match=f"--{flag} must hold {files}"):
            Measures(small(tmp_path, **{flag: tmp_path / "typo"})).check_tasks()
