"""Every experiment from text to results.json with absurdly small models; a second command adds to the first."""

import dataclasses
import importlib
import json
from pathlib import Path

import pytest

from albert_cli import cli
from albert_tf.checkpoints.run_files import read_metrics
from albert_tf.lab import run as lab_run
from albert_tf.lab import speed
from albert_tf.lab.experiments import EXPERIMENTS, Experiment
from albert_tf.lab.peer_processes import Peer
from albert_tf.lab.pretraining_runs import training_seconds
from albert_tf.lab.results import Results
from albert_tf.lab.run import run_experiment
from albert_tf.lab.scales import TINY, shape
from albert_tf.lab.settings import LabSettings
from albert_tf.lab.speed import StepProcesses, StepSettings, measure_speeds
from albert_tf.lab.subprocesses import ProgramRunner
from albert_tf.training.cluster import loopback_clusters
from data_prep.errors import InputError
from tests.story import write_story

ABSURD = dataclasses.replace(
    TINY,
    sizes={size: shape(8 * number, 2, 4) for number, size in enumerate(TINY.sizes, 1)},
    embeddings={64: 2, 128: 3, 256: 4},
    widths={width: shape(4 * number, 2, 4) for number, width in enumerate(TINY.widths, 1)},
    vocab_size=90,
    max_seq_length=24,
    train_batch_size=4,
    short_phase=None,
    num_train_steps=4,
    num_warmup_steps=1,
    dupe_factor=1,
    max_eval_steps=1,
    probe_examples=30,
    speed_batch=(2, 24),
)


class InThisProcess(ProgramRunner):
    """Runs the same programs in this process, which has already imported TensorFlow."""

    ran: list[str]

    def _run(self, module, words, name, line):
        self.check()
        self.ran.append(words[0] if module == "albert_cli.cli" else module)
        if module == "albert_cli.cli":
            status = cli.main(words)
            if status:
                raise InputError(f"{line}: {status}")
        else:
            program = importlib.import_module(module)
            program.main(program.ProbeRequest(**json.loads(words[0])))


@pytest.fixture
def ran(monkeypatch) -> list[str]:
    """The programs that were run."""
    monkeypatch.setattr(InThisProcess, "ran", [], raising=False)
    monkeypatch.setattr(lab_run, "ProgramRunner", InThisProcess)
    return InThisProcess.ran


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory) -> LabSettings:
    """Flags of one laboratory for all tests of this file, which share its data and runs as experiments do."""
    folder = tmp_path_factory.mktemp("laboratory")
    for number in range(6):
        write_story(folder / f"story{number}.txt", documents=6, seed=number)
    return LabSettings(str(folder / "lab"), f"{folder}/story*.txt", input_format="lines", seeds=1)


def first_rows(name: str, number: int) -> Experiment:
    """An experiment with only those rows that the test needs."""
    rows = EXPERIMENTS[name].rows[:number]
    names = {row.name for row in rows}
    claims = [claim for claim in EXPERIMENTS[name].claims if {claim.row, claim.than} <= names]
    return dataclasses.replace(EXPERIMENTS[name], rows=rows, claims=claims)


@pytest.mark.very_slow
def test_runs_start_with_short_sequences(laboratory, ran):
    settings = dataclasses.replace(laboratory, output=f"{laboratory.output}-short")
    run_experiment(first_rows("table3", 1), settings, dataclasses.replace(ABSURD, short_phase=(12, 0.4)))
    (run,) = Path(settings.output).glob("runs/*/seed-1")
    lengths = [(line["step"], line["max_seq_length"]) for line in read_metrics(run) if "loss" in line]
    assert lengths == [(1, 12), (2, 24), (3, 24), (4, 24)]
    assert training_seconds(run) > 0


@pytest.mark.very_slow
@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("table2", 2),
        ("table3", 1),
        ("table4", 1),
        ("table5", 3),
        ("table6", 3),
        ("table11", 2),
        ("table12", 1),
        ("figure2", 2),
    ],
)
def test_every_experiment_runs(laboratory, ran, name, rows):
    folder = run_experiment(first_rows(name, rows), laboratory, ABSURD)
    results = Results.read(folder)
    assert results.experiment == name
    assert {plot.file for plot in results.plots} == {"curves.png", "scores.png"}
    assert {path.name for path in folder.iterdir()} >= {
        "curves.png",
        "scores.png",
        "results.md",
        "results.json",
    }
    for row in results.rows:
        assert set(row.ours) == set(EXPERIMENTS[name].measures)
        assert 0 <= row.ours["masked_lm"][0] <= 100
        assert all(len(row.ours[column]) == 1 for column in row.ours if column != "speed")
    assert {comparison.verdict for comparison in results.comparisons} <= {"can't tell"}  # of one seed
    assert results.settings["num_train_steps"] == 4
    assert "albert lab" in results.command
    ran.clear()
    run_experiment(first_rows(name, rows), laboratory, ABSURD)
    assert ran == []  # all results exist, including the speed
    assert Results.read(folder) == results


@pytest.mark.very_slow
def test_speed_alone(ran, tmp_path):
    """Without a seed no text is needed, nothing is trained, and the table has no other numbers of ours."""
    settings = LabSettings(str(tmp_path / "lab"), seeds=0, speed_workers=2)
    folder = run_experiment(first_rows("table2", 2), settings, ABSURD)
    assert "pretrain" not in ran
    results = Results.read(folder)
    assert [set(row.ours) for row in results.rows] == [{"speed", "worker_speed"}] * 2
    assert results.seeds == []
    assert [plot.file for plot in results.plots] == ["scores.png"]
    assert "--seeds=0" in results.command


def test_speed_alone_does_not_replace_the_results_of_trained_models(ran, tmp_path):
    settings = LabSettings(str(tmp_path / "lab"), seeds=0)
    (tmp_path / "lab" / "table2").mkdir(parents=True)
    kept = Results("table2", "", "", "", "tiny", [1], "", {}, {}, [], [])
    (tmp_path / "lab" / "table2" / "results.json").write_text(json.dumps(dataclasses.asdict(kept)))
    with pytest.raises(
        InputError, match="table2 already has the results of trained models; use another --output"
    ):
        run_experiment(first_rows("table2", 2), settings, ABSURD)
    assert ran == []


@pytest.mark.very_slow
def test_more_seeds_are_added(laboratory, ran):
    experiment = first_rows("table5", 1)
    run_experiment(experiment, laboratory, ABSURD)
    first = Results.read(Path(laboratory.output) / "table5")
    ran.clear()
    folder = run_experiment(experiment, dataclasses.replace(laboratory, seeds=2), ABSURD)
    assert ran == ["pretrain", "albert_tf.lab.sentence_probe"]
    both = Results.read(folder)
    assert both.seeds == [1, 2]
    for column, values in first.rows[0].ours.items():
        assert both.rows[0].ours[column][0] == values[0]
        assert len(both.rows[0].ours[column]) == 2


@pytest.mark.very_slow
def test_models_start_from_the_right_checkpoints(laboratory, ran):
    """A fork continues the schedule from the middle; a deeper model starts anew with a shallower one's weights."""
    runs = Path(laboratory.output) / "runs"
    run_experiment(first_rows("figure2", 2), laboratory, ABSURD)
    forked = read_metrics(runs / "base-E128-share-all-sop-forked" / "seed-1")
    whole = read_metrics(runs / "base-E128-share-all-sop-part-of-text" / "seed-1")
    assert [line["step"] for line in forked if "loss" in line] == [3, 4]
    rates = {line["step"]: line["learning_rate"] for line in whole if "learning_rate" in line}
    assert all(line["learning_rate"] == rates[line["step"]] for line in forked if "learning_rate" in line)
    run_experiment(first_rows("table11", 2), laboratory, ABSURD)
    grown = runs / "large-H1024-L3-E128-share-all-sop-grown" / "seed-1"
    settings = json.loads((grown / "settings.json").read_text())
    assert settings["init_checkpoint"].endswith("large-H1024-L1-E128-share-all-sop/seed-1/checkpoints/ckpt-4")
    assert [line["step"] for line in read_metrics(grown) if "loss" in line] == [1, 2, 3, 4]


@pytest.mark.very_slow
def test_downstream_tasks_with_data_have_columns(laboratory, ran, tmp_path):
    sst = tmp_path / "SST-2"
    sst.mkdir()
    for part, number in (("train", 12), ("dev", 6)):
        lines = "".join(f"the captain painted {word}\t{word}\n" for word in [0, 1] * (number // 2))
        (sst / f"{part}.tsv").write_text("sentence\tlabel\n" + lines)
    settings = dataclasses.replace(laboratory, glue_dir=str(tmp_path))
    folder = run_experiment(first_rows("table5", 2), settings, ABSURD)
    assert ran.count("finetune") == 2
    results = Results.read(folder)
    assert [column.name for column in results.columns] == ["masked_lm", "nsp", "sop", "sst-2", "average"]
    for row in results.rows:
        assert 0 <= row.ours["sst-2"][0] <= 100
        assert "average" in row.paper
        assert "average" not in row.ours  # which needs all five tasks


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"max_seq_length": 3}, "--max_seq_length must be at least 5"),
        ({"learning_rate": -1.0}, "--learning_rate must be a number above 0"),
        ({"tpu": "local", "num_devices": 2}, "--num_devices is for several devices of one machine"),
        ({"train_batch_size": 10, "num_devices": 4}, "10, which is not divisible by 4 x 1"),
        (
            {"spm_model_file": "x.model", "vocab_size": 100},
            "--vocab_size is for a vocabulary that is trained",
        ),
    ],
)
def test_flags_are_checked_before_anything_is_written(laboratory, ran, flags, message):
    settings = dataclasses.replace(laboratory, output=f"{laboratory.output}-2", **flags)
    with pytest.raises(InputError, match=message):
        run_experiment(first_rows("table5", 1), settings, ABSURD)
    assert not Path(settings.output).exists()
    assert ran == []


@pytest.mark.very_slow
def test_a_model_that_cannot_be_built_is_an_input_error(tiny_config, tmp_path, monkeypatch):
    # The cluster of others, for which no step may wait.
    monkeypatch.setenv("TF_CONFIG", loopback_clusters(2)[0])
    short = dataclasses.replace(tiny_config, max_position_embeddings=8)
    configs = {"bert-large": tiny_config, "same": tiny_config, "short": short}
    step = StepSettings(batch_size=2, max_seq_length=9, dtype="float32")
    with ProgramRunner() as programs, pytest.raises(InputError, match="could not be measured.*short.log"):
        measure_speeds(configs, "bert-large", step, tmp_path, programs)
    kept = json.loads((tmp_path / "speed.json").read_text())
    assert list(kept["seconds"]["1"]) == ["bert-large", "same"], "what is measured stays"


def test_another_machine_is_measured_anew(tiny_config, tmp_path, monkeypatch):
    environment, measured = {"machine": "one", "date": "today"}, []
    monkeypatch.setattr(speed, "describe_environment", environment.copy)
    monkeypatch.setattr(speed, "_seconds_per_step", lambda name, *_: measured.append(name) or 1.0)
    step = StepSettings(batch_size=2, max_seq_length=9, dtype="float32")

    def measure():
        measure_speeds({"bert-large": tiny_config}, "bert-large", step, tmp_path, programs, rounds=1)
        return len(measured)

    with ProgramRunner() as programs:
        assert measure() == 1
        environment["date"] = "tomorrow"
        assert measure() == 1
        environment["machine"] = "other"
        assert measure() == 2


@pytest.mark.very_slow
def test_a_measurement_goes_on_with_more_rounds_and_workers(tiny_config, tmp_path):
    configs = {"bert-large": tiny_config, "shared": tiny_config}
    step = StepSettings(batch_size=2, max_seq_length=9, dtype="float32")

    def seconds():
        return json.loads((tmp_path / "speed.json").read_text())["seconds"]

    with ProgramRunner() as programs:
        alone = measure_speeds(configs, "bert-large", step, tmp_path, programs, rounds=1)
        assert alone == {1: {"bert-large": [1.0], "shared": alone[1]["shared"]}}
        first = seconds()
        ratios = measure_speeds(configs, "bert-large", step, tmp_path, programs, workers=(1, 2), rounds=2)
    both = seconds()
    assert {name: times[:1] for name, times in both["1"].items()} == first["1"]
    assert [len(times) for measured in both.values() for times in measured.values()] == [2, 2, 2, 2]
    base = both["1"]["bert-large"]
    assert ratios[1]["shared"] == [one / own for one, own in zip(base, both["1"]["shared"], strict=True)]
    assert ratios[2]["shared"] == [2 * one / own for one, own in zip(base, both["2"]["shared"], strict=True)]


@pytest.mark.very_slow
def test_a_model_that_several_workers_cannot_train_is_left_out(tiny_config, tmp_path, monkeypatch, capsys):
    """As if the processes of the large model had been killed for lack of memory."""
    spawn = Peer.spawn

    def killed_if_large(name, command, logs, environment):
        peer = spawn(name, command, logs, environment)
        if name == "large" and environment["TF_CONFIG"]:
            peer.process.kill()
        return peer

    monkeypatch.setattr(Peer, "spawn", killed_if_large)
    configs = {"bert-large": tiny_config, "large": tiny_config}
    step = StepSettings(batch_size=2, max_seq_length=9, dtype="float32", steps=1)
    with ProgramRunner() as programs:
        ratios = measure_speeds(configs, "bert-large", step, tmp_path, programs, workers=(1, 2), rounds=2)
    assert [set(of_model) for of_model in ratios.values()] == [{"bert-large", "large"}, {"bert-large"}]
    assert capsys.readouterr().err.count("left out: The training speed of large could not be measured") == 1


@pytest.mark.very_slow
def test_workers_take_each_step_together(tiny_config, tmp_path):
    step = StepSettings(batch_size=2, max_seq_length=9, dtype="float32")
    with StepProcesses("model", tiny_config, step, 2, tmp_path) as processes:
        assert processes.seconds() > 0
        assert [[reply["replicas"] for reply in peer.steps] for peer in processes.peers] == [[2, 2]] * 2
        processes.peers[1].process.kill()
        with pytest.raises(InputError, match="The process of model ended"):
            processes.seconds()
