"""Runs of several phases: flags, schedule, position tables, and resuming in every phase and between two."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from albert_cli import cli
from albert_tf.checkpoints.checkpoint_files import steps_in
from albert_tf.checkpoints.run_files import CHECKPOINTS, read_metrics
from albert_tf.config import AlbertConfig
from albert_tf.pretraining.phases import parse_phase
from albert_tf.training.guard import Guard
from data_prep.errors import InputError
from data_prep.examples.prepare_flags import PrepareSettings
from data_prep.prepare.local import prepare
from data_prep.tokenizers.vocabulary_training import VocabularySettings, train_vocabulary
from tests.albert_tf.pretraining.test_pretrain import (
    assert_same_run,
    everything_in,
    without_speed,
)
from tests.commands import refused
from tests.reference.positions import tiled_rows
from tests.story import write_story

SHORT, LONG = 16, 32  # T of the two phases
ENDS = (6, 12)
SAVED = (4, 6, 8, 12)


def test_parsing():
    assert parse_phase("input_file='my data/t*' num_train_steps=30") == {
        "input_file": "my data/t*",
        "num_train_steps": 30,
    }
    text = "train_batch_size=64 num_train_steps=4000 eval_file=b input_file=a,c"
    assert parse_phase(text) == {
        "input_file": "a,c",
        "num_train_steps": 4000,
        "train_batch_size": 64,
        "eval_file": "b",
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "input_files=a num_train_steps=3",
            "'input_files=a' is not one of these; did you mean input_file=a?",
        ),
        ("input_file=a num_train_steps", "not one of these; did you mean num_train_steps=...?"),
        ("input_file=a", "num_train_steps is missing."),
        ("num_train_steps=3 input_file=", "input_file is missing."),
        ("", "input_file is missing."),
        ("input_file=a num_train_steps=0", "num_train_steps must be a whole number of at least 1"),
        ("input_file=a num_train_steps=" + "9" * 5000, "at least 1, with at most 18 digits."),
        ("input_file=a num_train_steps=3 train_batch_size=4.5", "train_batch_size must be a whole number"),
        ("input_file=a input_file=b num_train_steps=3", "input_file occurs twice."),
        ("input_file='a num_train_steps=3", "No closing quotation."),
    ],
)
def test_values_that_are_no_phase(text, reason):
    with pytest.raises(InputError, match="^--phase must hold KEY=VALUE pairs of input_file, ") as caught:
        parse_phase(text)
    assert reason in str(caught.value)


@pytest.fixture(scope="module")
def flags(pretraining_files, tmp_path_factory):
    """The command line of a run of two phases: output_dir, changes -> words."""
    folder = tmp_path_factory.mktemp("phases")
    for number, name in enumerate(("train", "heldout")):
        write_story(folder / f"{name}.txt", 6, 25, seed=number)
        prepare(
            PrepareSettings(
                str(folder / f"{name}.txt"),
                str(folder / f"{name}.tfrecord"),
                str(pretraining_files.spm_model_file),
                max_seq_length=SHORT,
            ),
            show_progress=False,
        )
    config = AlbertConfig.from_json_file(pretraining_files.albert_config_file)
    replace(config, num_hidden_layers=1).to_json_file(folder / "config.json")
    steps = [ENDS[0], ENDS[1] - ENDS[0]]
    phases = [
        f"input_file={folder}/train.tfrecord eval_file={folder}/heldout.tfrecord num_train_steps={steps[0]} "
        "train_batch_size=8",
        f"input_file={pretraining_files.train} eval_file={pretraining_files.heldout} num_train_steps={steps[1]}",
    ]

    def words(output_dir: Path, phases: list[str] = phases, **changes) -> list[str]:
        replaced = dict.fromkeys(("input_file", "eval_file", "num_train_steps"))
        config = {"albert_config_file": folder / "config.json", "max_eval_steps": 2}
        given = pretraining_files.flags(output_dir, **{**replaced, **config, **changes})
        return [*given, *(f"--phase={phase}" for phase in phases)]

    words.phases = phases
    return words


@pytest.fixture(scope="module")
def finished(flags, tmp_path_factory) -> Path:
    """An uninterrupted run."""
    run = tmp_path_factory.mktemp("finished") / "run"
    assert cli.main(flags(run)) == 0
    return run


def copy_until(run: Path, copy: Path, step: int) -> None:
    """A copy of a run's folder without the checkpoints after `step`."""
    shutil.copytree(run, copy)
    for path in (copy / "checkpoints").glob("ckpt-*"):
        if int(path.name.split(".")[0].removeprefix("ckpt-")) > step:
            path.unlink()


@pytest.mark.slow
def test_metrics_and_settings(finished):
    lines = read_metrics(finished)
    training = [line for line in lines if "loss" in line]
    assert [line["step"] for line in training] == [3, 4, 6, 8, 9, 12]
    assert [line["step"] for line in lines if "eval_loss" in line] == list(SAVED)
    assert all(line["max_seq_length"] == (SHORT if line["step"] <= ENDS[0] else LONG) for line in lines)
    rates = {line["step"]: line["learning_rate"] for line in training}
    assert rates[6] == pytest.approx(0.01 * 7 / 12)
    assert rates[12] == pytest.approx(0.01 * 1 / 12)
    settings = json.loads((finished / "settings.json").read_text())
    assert settings["num_train_steps"] == ENDS[1]
    keys = ("start_step", "num_train_steps", "train_batch_size", "max_seq_length")
    assert [[phase[key] for key in keys] for phase in settings["phases"]] == [
        [0, 6, 8, SHORT],
        [6, 6, 4, LONG],
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "step", [pytest.param(4, marks=pytest.mark.very_slow), 6, pytest.param(8, marks=pytest.mark.very_slow)]
)
def test_a_resumed_run_equals_an_uninterrupted_one(finished, flags, tmp_path, step):
    """As if killed in each phase and exactly between two: before the evaluation of the checkpoint of `step`."""
    run = tmp_path / "run"
    copy_until(finished, run, step)
    lines = (run / "metrics.jsonl").read_text().splitlines()
    kept = [each for each in lines if "eval_loss" not in each or json.loads(each)["step"] < step]
    (run / "metrics.jsonl").write_text("\n".join(kept) + "\n")
    assert cli.main(flags(run)) == 0
    assert_same_run(run, finished)
    assert without_speed(run) == without_speed(finished)


def position_tables(run: Path) -> dict[str, np.ndarray]:
    """The table and its moments in the last checkpoint."""
    tables = {name: value for name, value in everything_in(run).items() if "position_embeddings" in name}
    assert len(tables) == 3
    return tables


@pytest.mark.very_slow
def test_a_longer_phase_starts_with_repeated_rows(flags, tmp_path):
    """At this learning rate the weights hardly change."""
    run, other = tmp_path / "run", tmp_path / "other"
    assert cli.main(flags(run, learning_rate=1e-12)) == 0
    (table,) = (value for name, value in position_tables(run).items() if name.startswith("weights"))
    np.testing.assert_allclose(table, tiled_rows(table[:SHORT], LONG), atol=1e-6)
    # Unless --init_checkpoint gave all rows.
    copy_until(run, tmp_path / "start", 4)
    assert cli.main(flags(other, learning_rate=1e-12, init_checkpoint=tmp_path / "start")) == 0
    start, end = (
        next(value for name, value in position_tables(each).items() if name.startswith("weights"))
        for each in (tmp_path / "start", other)
    )
    np.testing.assert_allclose(start, end, atol=1e-6)
    assert np.abs(start - tiled_rows(start[:SHORT], LONG)).max() > 0.01


@pytest.mark.very_slow
@pytest.mark.parametrize(("step", "tiled"), [(6, False), (8, True)])
def test_rolling_back_to_an_earlier_phase(finished, flags, tmp_path, monkeypatch, step, tiled):
    """To step 4: at the end of its own phase nothing is repeated, in the longer phase the trained rows are."""
    copy_until(finished, tmp_path / "run", step - 1)
    copy_until(finished, tmp_path / "source", 4)
    rate = next(line["learning_rate"] for line in read_metrics(finished) if line["step"] == step)
    monkeypatch.setattr(Guard, "spiked", lambda guard, line: line["learning_rate"] == rate)
    monkeypatch.setattr(Guard, "choose", lambda guard, steps: 4)

    def killed(guard, source):
        raise KeyboardInterrupt

    monkeypatch.setattr(Guard, "rolled_back", killed)  # the last call of a roll-back
    assert cli.main(flags(tmp_path / "run")) == 130
    assert steps_in(tmp_path / "run" / CHECKPOINTS)[0] == step
    source, now = position_tables(tmp_path / "source"), position_tables(tmp_path / "run")
    for name, table in now.items():
        np.testing.assert_array_equal(
            table, tiled_rows(source[name][:SHORT], LONG) if tiled else source[name]
        )


@pytest.mark.very_slow
def test_a_run_that_rolled_back_to_an_earlier_phase_resumes_to_the_bit(flags, tmp_path, monkeypatch):
    whole, run = tmp_path / "whole", tmp_path / "run"
    with monkeypatch.context() as patched:
        rate_of_step_9 = pytest.approx(0.01 * 4 / 12)
        patched.setattr(Guard, "spiked", lambda guard, values: values["learning_rate"] == rate_of_step_9)
        patched.setattr(Guard, "choose", lambda guard, steps: 4)
        assert cli.main(flags(whole)) == 0
    assert [line["rolled_back_to"] for line in read_metrics(whole) if "rolled_back_to" in line] == [4]
    copy_until(whole, run, 9)
    assert cli.main(flags(run)) == 0
    assert_same_run(run, whole)
    assert without_speed(run) == without_speed(whole)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"eval_file": "x", "num_train_steps": 5},
            "--phase excludes --eval_file, --num_train_steps, because",
        ),
        ({"phases": []}, "A run needs --input_file, the TFRecord files to train on, or --phase"),
        ({"phases": ["input_fil=x num_train_steps=5"]}, "did you mean input_file=x?"),
        ({"phases": ["input_file=nothing* num_train_steps=5"]}, "No file matches 'nothing*'"),
        ({"gradient_accumulation_steps": 8}, "Received 4, which is not divisible by 1 x 8"),
    ],
)
def test_bad_flags(flags, tmp_path, capfd, changes, message):
    assert message in refused(capfd, *flags(tmp_path / "run", **changes))
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_files_that_do_not_fit(flags, pretraining_files, tmp_path, capfd):
    first, second = flags.phases
    kept = [word for word in first.split() if not word.startswith("eval_file=")]
    mixed = " ".join([*kept, f"eval_file={pretraining_files.heldout}"])
    error = refused(capfd, *flags(tmp_path / "run", [mixed, second]))
    assert "must have the same --max_seq_length and --max_predictions_per_seq. Received 16 and 3 in" in error
    assert f"32 and 5 in {pretraining_files.heldout}; prepare both alike." in error

    text, output = str(tmp_path / "text.txt"), str(tmp_path / "other.tfrecord")
    write_story(tmp_path / "text.txt", 4, 25, seed=7)
    other = train_vocabulary(VocabularySettings(text, str(tmp_path / "other"), vocab_size=90))
    prepare(PrepareSettings(text, output, str(other), max_seq_length=SHORT), show_progress=False)
    phases = [f"input_file={output} num_train_steps=3", second]
    error = refused(capfd, *flags(tmp_path / "run", phases))
    assert "All phases must have one vocabulary." in error
    error = refused(capfd, *flags(tmp_path / "run", [" ".join([*kept, f"eval_file={output}"]), second]))
    assert "Training and evaluation files must have one vocabulary." in error

    vocabulary = str(pretraining_files.spm_model_file)
    settings = PrepareSettings(text, output, vocabulary, max_seq_length=SHORT, overwrite=True)
    prepare(settings, show_progress=False)
    manifest = tmp_path / "manifest.json"
    facts = json.loads(manifest.read_text("utf-8"))
    facts["vocabulary"]["keep_accents"] = True
    manifest.write_text(json.dumps(facts))
    error = refused(capfd, *flags(tmp_path / "run", phases))
    assert "must have one normalization of text." in error
    assert "keep_accents=true, remove_space=true, " in error
    evaluated = " ".join([*kept, f"eval_file={output}"])
    error = refused(capfd, *flags(tmp_path / "run", [evaluated, second]))
    assert "Training and evaluation files must have one normalization of text." in error
    assert not (tmp_path / "run").exists()


@pytest.mark.very_slow
def test_a_folder_with_other_phases(finished, flags, tmp_path, capfd):
    first, second = flags.phases
    shorter, batch = first.replace("num_train_steps=6", "num_train_steps=5"), f"{second} train_batch_size=2"
    for phases, message in (
        ([shorter, second], "start_step of phase 2 is 6, received 5"),
        ([first], "other phases: their number is 2, received 1."),
        ([first, batch], "train_batch_size of phase 2 is 4, received 2"),
    ):
        assert message in refused(capfd, *flags(finished, phases))
    changed = flags(finished, init_checkpoint=finished)
    assert "other flags: --init_checkpoint is None" in refused(capfd, *changed)
    one = tmp_path / "one phase"
    assert cli.main(flags(one, [second.replace("num_train_steps=6", "num_train_steps=1")])) == 0
    assert "train_batch_size of phase 1 is 4, received 2" in refused(capfd, *flags(one, [batch]))


@pytest.mark.slow
def test_evaluation_alone_keeps_the_best_checkpoint(finished, pretraining_files, tmp_path):
    """It has no phases, but the losses of a run's first phase are still those of another length."""
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    lowest = [
        line | {"eval_loss": 0.01} if line["step"] <= ENDS[0] and "eval_loss" in line else line
        for line in lines
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lowest))
    best = (run / "best.json").read_bytes()
    assert (
        cli.main(["pretrain", "--do_eval", f"--eval_file={pretraining_files.heldout}", f"--output_dir={run}"])
        == 0
    )
    assert (run / "best.json").read_bytes() == best
