"""The program as its users see it: it runs, resumes, and reports errors."""

import json
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from albert_cli import cli
from albert_tf.checkpoints.checkpoint_files import is_good, steps_in
from albert_tf.checkpoints.open_model import open_model
from albert_tf.checkpoints.run_files import CHECKPOINTS, read_metrics
from albert_tf.training.checkpoints import RunCheckpoints
from albert_tf.training.guard import Guard
from data_prep.examples.prepare_flags import PrepareSettings
from data_prep.prepare.local import prepare
from data_prep.tfrecord.records import framed, read_records
from data_prep.tokenizers.vocabulary import Vocabulary
from data_prep.tokenizers.vocabulary_extension import extend_vocabulary
from tests.albert_tf.checkpoints.random_models import spm_model
from tests.commands import refused
from tests.interrupted import run_until_ctrl_c
from tests.processes import ROOT, Program, run_python
from tests.story import write_story

TRAINING = {
    "step", "loss", "masked_lm_loss", "masked_lm_accuracy", "sentence_order_loss", "sentence_order_accuracy",
    "learning_rate", "gradient_norm", "skipped_steps", "trust_ratio_mean", "trust_ratio_min", "trust_ratio_max",
}  # fmt: skip
SPEED = {"tokens_per_second", "flops_per_second", "input_wait_share"}


def everything_in(run: Path) -> dict[str, np.ndarray]:
    """All values in a run's last checkpoint: weights, moments, step and dropout state."""
    folder = run / "checkpoints"
    prefix = str(folder / f"ckpt-{steps_in(folder)[0]}")
    names = [name for name, _ in tf.train.list_variables(prefix) if name.endswith("VARIABLE_VALUE")]
    return {name: tf.train.load_variable(prefix, name) for name in names}


def assert_same_run(first: Path, second: Path) -> None:
    ours, theirs = everything_in(first), everything_in(second)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name], err_msg=name)


def assert_nearly_same_run(first: Path, second: Path, atol: float) -> None:
    """The same arrays within `atol`, and the same metrics within 1e-5."""
    expected, found = everything_in(first), everything_in(second)
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        assert found[name].dtype == value.dtype
        np.testing.assert_allclose(found[name], value, atol=atol, err_msg=name)
    for line, other in zip(without_speed(first), without_speed(second), strict=True):
        assert other == pytest.approx(line, abs=1e-5)


def without_speed(run: Path) -> list[dict]:
    return [{k: v for k, v in line.items() if k not in SPEED} for line in read_metrics(run)]


@pytest.fixture(scope="module")
def finished(pretraining_files, tmp_path_factory) -> Path:
    """An uninterrupted run of 12 steps."""
    run = tmp_path_factory.mktemp("finished") / "run"
    assert cli.main(pretraining_files.flags(run)) == 0
    return run


@pytest.mark.slow
def test_the_folder_holds_what_later_steps_need(finished, pretraining_files):
    names = (
        "albert_config.json settings.json spm.model data_manifest.json checkpoints best.json metrics.jsonl"
    )
    assert {path.name for path in finished.iterdir()} == {*names.split(), "tensorboard", ".lock"}
    assert (finished / "spm.model").read_bytes() == pretraining_files.spm_model_file.read_bytes()
    settings = json.loads((finished / "settings.json").read_text())
    assert settings["max_seq_length"] == 32  # resolved from the files
    assert settings["max_predictions_per_seq"] == 5


def test_metrics(finished):
    lines = read_metrics(finished)
    training = [line for line in lines if "loss" in line]
    evaluation = [line for line in lines if "eval_loss" in line]
    assert [line["step"] for line in training] == [3, 4, 6, 8, 9, 12]
    assert [line["step"] for line in evaluation] == [4, 8, 12]
    assert all(set(line) == TRAINING | SPEED for line in training)
    means = ("loss", "masked_lm_loss", "masked_lm_accuracy", "sentence_order_loss", "sentence_order_accuracy")
    expected = {f"eval_{name}" for name in means}
    assert all(set(line) == {"step", "eval_examples", *expected} for line in evaluation)
    # The rate of the last step, read before the step is counted: warm-up of 3, then linear to 0 at 12.
    rates = {line["step"]: line["learning_rate"] for line in training}
    assert rates[3] == pytest.approx(0.01 * 2 / 3)
    assert [rates[step] for step in (4, 6, 12)] == pytest.approx(
        [0.01 * (13 - step) / 12 for step in (4, 6, 12)]
    )


def test_tensorboard_has_the_same_names(finished):
    (events,) = (finished / "tensorboard").iterdir()
    names = {
        value.tag
        for event in tf.compat.v1.train.summary_iterator(str(events))
        for value in event.summary.value
    }
    assert names == {name for line in read_metrics(finished) for name in line} - {"step"}


@pytest.mark.very_slow
@pytest.mark.parametrize("steps", [1, 2])
def test_steps_per_call_do_not_change_the_run(finished, pretraining_files, tmp_path, steps):
    assert cli.main(pretraining_files.flags(tmp_path / "run", iterations_per_loop=steps)) == 0
    assert_same_run(tmp_path / "run", finished)
    assert without_speed(tmp_path / "run") == without_speed(finished)


@pytest.mark.very_slow
def test_guidance(pretraining_files, tmp_path, capfd):
    flags = {"learning_rate": None, "num_warmup_steps": 12, "mixed_precision": "bfloat16"}
    assert cli.main(pretraining_files.flags(tmp_path / "run", **flags)) == 0
    error = capfd.readouterr().err
    assert "learning rate 5.5e-05 = the paper's 0.00176" in error
    assert "warning: the warm-up of 12 steps is not shorter" in error
    assert json.loads((tmp_path / "run" / "settings.json").read_text())["learning_rate"] == 5.5e-05


@pytest.mark.slow
def test_a_resumed_run_equals_an_uninterrupted_one(finished, pretraining_files, tmp_path):
    """As if killed after the checkpoint of step 4: later lines and checkpoints are missing or incomplete."""
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    for path in (run / "checkpoints").glob("ckpt-*"):
        if not path.name.startswith("ckpt-4."):
            path.unlink()
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 13, "loss": 1.')
    assert cli.main(pretraining_files.flags(run)) == 0
    assert_same_run(run, finished)
    assert without_speed(run) == without_speed(finished)


@pytest.mark.very_slow
def test_a_killed_and_resumed_run_equals_an_uninterrupted_one(pretraining_files, tmp_path):
    """kill -9 at arbitrary moments, several times, then the same command to the end."""
    long = {"num_train_steps": 300, "save_checkpoints_steps": 20, "log_steps": 10, "keep_checkpoint_max": 3}
    assert cli.main(pretraining_files.flags(tmp_path / "whole", **long)) == 0
    command = [ROOT / "run_pretraining.py", *pretraining_files.flags(tmp_path / "killed", **long)[1:]]
    kills = 0
    for steps in (20, 100):
        with Program(command) as process:
            deadline = time.monotonic() + 120
            while process.poll() is None and time.monotonic() < deadline:
                logged = read_metrics(tmp_path / "killed") or [{"step": 0}]
                if logged[-1]["step"] > steps:
                    process.kill()
                    kills += 1
                    break
                time.sleep(0.01)
    assert kills == 2
    run_python(*command)
    assert_same_run(tmp_path / "killed", tmp_path / "whole")
    assert without_speed(tmp_path / "killed") == without_speed(tmp_path / "whole")


@pytest.mark.slow
def test_a_finished_run_is_only_evaluated(finished, pretraining_files, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    assert cli.main(pretraining_files.flags(run)) == 0
    lines = read_metrics(run)
    assert lines[-1]["eval_loss"] == read_metrics(finished)[-1]["eval_loss"]
    assert_same_run(run, finished)


@pytest.mark.very_slow
def test_resuming_with_other_evaluations_warns_once(finished, pretraining_files, tmp_path, capfd):
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    other = {"eval_file": shutil.copyfile(pretraining_files.heldout, tmp_path / "other")}
    for changes, warns in (({}, 0), (other, 1), (other, 0), ({**other, "max_eval_steps": 1}, 1)):
        assert cli.main(pretraining_files.flags(run, **changes)) == 0
        assert capfd.readouterr().err.count("warning: this run was evaluated with --eval_file=") == warns


@pytest.mark.very_slow
def test_an_early_stop_keeps_the_best_checkpoint(pretraining_files, tmp_path, capfd):
    """With a learning rate near 0, no evaluation is better than the first."""
    run = tmp_path / "run"
    flags = {"learning_rate": 1e-30, "num_train_steps": 100, "keep_checkpoint_max": 1}
    arguments = pretraining_files.flags(run, **flags, early_stopping_patience=2)
    assert cli.main(arguments) == 0
    assert "stopped at step 12: 2 evaluations without a better held-out loss than at step 4" in (
        capfd.readouterr().err
    )
    assert json.loads((run / "best.json").read_text())["step"] == 4
    assert steps_in(run / "checkpoints") == [12, 4]
    assert (run / "checkpoints" / "ckpt-4.index").exists()
    assert open_model(run).path.name == "ckpt-4"
    assert "the weights of ckpt-4, the best on held-out text" in open_model(run).notes[0]
    assert open_model(run / "checkpoints" / "ckpt-12").path.name == "ckpt-12"

    # The same command takes no more steps, also if the run was killed before the last evaluation.
    lines = (run / "metrics.jsonl").read_text().splitlines()
    (run / "metrics.jsonl").write_text("\n".join(lines[:-1]) + "\n")
    (run / "best.json").unlink()
    assert cli.main(arguments) == 0
    assert json.loads((run / "best.json").read_text())["step"] == 4
    assert [line["step"] for line in read_metrics(run) if "eval_loss" in line] == [4, 8, 12]
    assert cli.main(arguments) == 0
    assert read_metrics(run)[-1]["step"] == 12
    # Without the flag the run continues from the last checkpoint.
    assert cli.main(pretraining_files.flags(run, **{**flags, "num_train_steps": 13})) == 0
    assert read_metrics(run)[-1]["step"] == 13
    assert steps_in(run / "checkpoints") == [13, 4]


@pytest.mark.slow
def test_initial_weights_from_a_run(finished, pretraining_files, tmp_path):
    flags = {"init_checkpoint": finished / "checkpoints" / "ckpt-12", "do_train": None}
    assert cli.main(pretraining_files.flags(tmp_path / "run", **flags)) == 0
    (line,) = read_metrics(tmp_path / "run")
    assert line["step"] == 0
    assert line["eval_loss"] == read_metrics(finished)[-1]["eval_loss"]


@pytest.mark.very_slow
def test_continuing_with_another_dropout_and_the_optimizer(finished, pretraining_files, tmp_path):
    """The paper removes dropout late: a new run that continues the steps, then resumed without the first run."""
    config = json.loads(pretraining_files.albert_config_file.read_text())
    no_dropout = {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}
    (tmp_path / "config.json").write_text(json.dumps({**config, **no_dropout}))
    shutil.copytree(finished, tmp_path / "first")
    flags = {
        "albert_config_file": tmp_path / "config.json",
        "init_checkpoint": tmp_path / "first/checkpoints/ckpt-12",
    }
    flags |= {"init_optimizer": True, "learning_rate": 0.001}
    run = tmp_path / "run"
    assert cli.main(pretraining_files.flags(run, **flags, num_train_steps=16)) == 0
    first = read_metrics(run)[0]
    assert first["step"] == 12
    assert first["eval_loss"] == read_metrics(finished)[-1]["eval_loss"]
    shutil.rmtree(tmp_path / "first")
    assert cli.main(pretraining_files.flags(run, **flags, num_train_steps=20)) == 0
    assert read_metrics(run)[-1]["step"] == 20


@pytest.mark.very_slow
def test_the_start_of_a_continued_run_may_be_its_best_checkpoint(
    finished, pretraining_files, tmp_path, capfd
):
    """With a learning rate near 0, no evaluation is better than that of the start."""
    run = tmp_path / "run"
    flags = {"init_checkpoint": finished / "checkpoints" / "ckpt-12", "init_optimizer": True}
    flags |= {"learning_rate": 1e-30, "keep_checkpoint_max": 1}
    error = refused(capfd, *pretraining_files.flags(run, **flags))
    assert "Received --num_train_steps=12 and a checkpoint of step 12; give more" in error
    assert not run.exists()
    assert cli.main(pretraining_files.flags(run, **flags, num_train_steps=16)) == 0
    assert json.loads((run / "best.json").read_text())["step"] == 12
    assert steps_in(run / "checkpoints") == [16, 12]


@pytest.mark.very_slow
def test_what_a_model_forgets(finished, pretraining_files, tmp_path, capfd):
    """The old text is evaluated like the new one, and decides nothing."""
    flags = {"init_checkpoint": finished, "old_eval_file": pretraining_files.heldout, "num_train_steps": 4}
    assert cli.main(pretraining_files.flags(tmp_path / "run", **flags)) == 0
    (line,) = [line for line in read_metrics(tmp_path / "run") if "eval_loss" in line]
    old = {name.replace("eval_old_", "eval_"): value for name, value in line.items() if "eval_old" in name}
    assert old and old == {name: line[name] for name in old}
    assert f"; old text: loss {line['eval_loss']:.3f}" in capfd.readouterr().err


@pytest.mark.slow
def test_with_a_longer_vocabulary(finished, pretraining_files, tmp_path, capfd):
    """A new row starts from the mean of the rows that it replaces; other vocabularies are refused."""
    own = open_model(finished)
    text = tmp_path / "text.txt"
    text.write_text("The captain had a norblak.\nHis norblak sailed past.\nA norblak!\n" * 20)

    def flags(vocabulary: Vocabulary, name: str, **changes) -> list[str]:
        (tmp_path / name).mkdir()
        file, data = vocabulary.save(tmp_path / name), tmp_path / name / "data.tfrecord"
        settings = PrepareSettings(str(text), str(data), str(file), max_seq_length=32, dupe_factor=1)
        prepare(settings, show_progress=False)
        files = {"input_file": data, "eval_file": None, "num_train_steps": 1, "learning_rate": 1e-12}
        files |= {"albert_config_file": None, "init_checkpoint": finished, "do_eval": None}
        return pretraining_files.flags(tmp_path / name / "run", **files, **changes)

    longer = extend_vocabulary(own.vocabulary, ["norblak"], 101)
    assert cli.main(flags(longer, "longer")) == 0
    found = open_model(tmp_path / "longer" / "run")
    assert (found.config.vocab_size, found.vocabulary) == (101, longer)
    parts = own.vocabulary.tokenizer().encode("norblak")
    for name in ("embeddings/word_embeddings", "masked_lm/output_bias"):
        expected = [*own.weights[name], own.weights[name][parts].mean(axis=0)]
        np.testing.assert_allclose(found.weights[name], np.stack(expected), atol=1e-6)
    assert "new pieces have no moments" in refused(capfd, *flags(longer, "moments", init_optimizer=True))
    error = refused(capfd, *flags(Vocabulary("sentencepiece", spm_model(101)), "other"))
    assert "with a longer one of `albert vocab --extend`" in error


@pytest.mark.very_slow
def test_a_run_with_a_decay_at_the_end_can_be_prolonged(pretraining_files, tmp_path, capfd):
    """From the checkpoint before the decay, which is kept, as if it had been longer from the start."""
    short, prolonged, long = (tmp_path / name for name in ("short", "prolonged", "long"))
    flags = {"num_decay_steps": 5, "num_warmup_steps": 2, "keep_checkpoint_max": 1, "learning_rate": 0.01}
    assert cli.main(pretraining_files.flags(short, **flags)) == 0
    assert min(steps_in(short / "checkpoints")) == 7
    start = {"init_checkpoint": short / "checkpoints" / "ckpt-7", "init_optimizer": True}
    assert cli.main(pretraining_files.flags(prolonged, **flags, **start, num_train_steps=18)) == 0
    assert cli.main(pretraining_files.flags(long, **flags, num_train_steps=18)) == 0
    assert_same_run(prolonged, long)
    assert "Received 5 of 4." in refused(capfd, *pretraining_files.flags(long, **flags, num_train_steps=4))


@pytest.mark.slow
def test_the_sizes_come_from_the_run_or_the_checkpoint(finished, pretraining_files, tmp_path, capsys):
    run, flags = tmp_path / "run", {"albert_config_file": None}
    assert cli.main(pretraining_files.flags(run, **flags)) == 2
    assert "Received neither --albert_config_file nor --init_checkpoint" in capsys.readouterr().err
    flags["do_train"] = None
    assert cli.main(pretraining_files.flags(run, **flags, init_checkpoint=finished)) == 0
    assert read_metrics(run)[-1]["eval_loss"] == read_metrics(finished)[-1]["eval_loss"]
    assert (run / "albert_config.json").read_text() == (finished / "albert_config.json").read_text()
    shutil.copytree(finished, tmp_path / "again")
    assert cli.main(pretraining_files.flags(tmp_path / "again", **flags)) == 0


@pytest.mark.very_slow
def test_without_a_vocabulary_it_trains_and_exports(pretraining_files, tmp_path):
    for path in Path(pretraining_files.train).parent.glob("train.tfrecord*"):
        shutil.copy(path, tmp_path)
    flags = {"input_file": f"{tmp_path}/train.tfrecord*"}
    assert cli.main(pretraining_files.flags(tmp_path / "run", **flags)) == 0
    assert not (tmp_path / "run" / "spm.model").exists()
    assert cli.main(["export", f"--model_dir={tmp_path}/run", f"--output={tmp_path}/saved"]) == 0
    assert tf.saved_model.load(tmp_path / "saved").signatures["mlm"]


@pytest.mark.very_slow
def test_training_without_evaluation_file_reports_it(pretraining_files, tmp_path, capfd):
    """The command of google-research/albert's README has --do_eval and no file of its own for it."""
    assert cli.main(pretraining_files.flags(tmp_path / "run", eval_file=None)) == 0
    assert "--do_eval needs --eval_file" in capfd.readouterr().err
    assert not [line for line in read_metrics(tmp_path / "run") if "eval_loss" in line]


@pytest.mark.very_slow
@pytest.mark.parametrize("by_phase", [False, True])
def test_training_without_do_eval_reports_it(pretraining_files, tmp_path, capfd, by_phase):
    changes = {"do_eval": None, "num_train_steps": 1}
    phase = f"input_file={pretraining_files.train} eval_file={pretraining_files.heldout} num_train_steps=1"
    if by_phase:
        changes |= {"input_file": None, "eval_file": None, "num_train_steps": None, "phase": phase}
    assert cli.main(pretraining_files.flags(tmp_path / "run", **changes)) == 0
    assert "no evaluation: --eval_file is read only with --do_eval" in capfd.readouterr().err
    assert not [line for line in read_metrics(tmp_path / "run") if "eval_loss" in line]


@pytest.mark.very_slow
def test_a_vocabulary_that_is_no_longer_there_is_reported(pretraining_files, tmp_path, capfd):
    data, run, note = tmp_path / "data", tmp_path / "run", f"no vocabulary: {tmp_path}/gone.model, which"
    shutil.copytree(Path(pretraining_files.train).parent, data)
    manifest = json.loads((data / "manifest.json").read_text())
    manifest["vocabulary"]["file"] = f"{tmp_path}/gone.model"
    (data / "manifest.json").write_text(json.dumps(manifest))
    flags = {"input_file": f"{data}/train.tfrecord*", "num_train_steps": 1}
    assert cli.main(pretraining_files.flags(run, **flags)) == 0
    error = capfd.readouterr().err
    assert note in error
    assert "name its new place with --spm_model_file" in error
    assert not (run / "spm.model").exists()
    vocabulary = pretraining_files.spm_model_file
    for named in ({"spm_model_file": vocabulary}, {}):  # once it is named, the run holds it
        assert cli.main(pretraining_files.flags(run, **flags, **named)) == 0
        assert note not in capfd.readouterr().err
        assert (run / "spm.model").read_bytes() == vocabulary.read_bytes()


@pytest.mark.very_slow
def test_evaluation_alone_needs_no_training_files(pretraining_files, tmp_path):
    """Nor a training batch that can be divided. The metrics are those that the run's own last evaluation gave."""
    assert cli.main(pretraining_files.flags(tmp_path / "run", num_train_steps=2)) == 0
    alone = {"do_train": None, "input_file": None, "albert_config_file": None}
    alone |= {"gradient_accumulation_steps": 3, "init_checkpoint": tmp_path / "run"}
    assert cli.main(pretraining_files.flags(tmp_path / "evaluation", **alone)) == 0
    (first,), (second,) = (
        [{key: value for key, value in line.items() if key.startswith("eval_")} for line in lines]
        for lines in (read_metrics(tmp_path / "run")[-1:], read_metrics(tmp_path / "evaluation"))
    )
    assert first["eval_examples"] > 0
    assert first == pytest.approx(second, rel=1e-6)


@pytest.mark.very_slow
def test_ctrl_c_saves_and_a_second_one_does_not(pretraining_files, tmp_path, monkeypatch, capfd):
    run = tmp_path / "run"
    arguments = pretraining_files.flags(run, do_eval=None, eval_file=None, iterations_per_loop=1)
    for too_early in ({"at": "__init__"}, {"presses": 2}):
        assert run_until_ctrl_c(monkeypatch, arguments, **too_early) == 130
        assert capfd.readouterr().err.splitlines()[-1] == "albert: interrupted"
    assert not steps_in(run / CHECKPOINTS)
    assert run_until_ctrl_c(monkeypatch, arguments) == 130
    assert "albert: received SIGINT: step 1 is saved" in capfd.readouterr().err.splitlines()[-1]
    assert steps_in(run / CHECKPOINTS) == [1]
    assert not is_good(run / CHECKPOINTS / "ckpt-1"), "an uninterrupted run could not roll back to it"
    assert cli.main(arguments) == 0
    assert f"resuming at step 1 of the run in {run}" in capfd.readouterr().err


@pytest.mark.very_slow
def test_a_run_that_is_killed_while_it_rolls_back(pretraining_files, tmp_path, monkeypatch):
    """It does not know the checkpoint of a roll-back without the line that says so; both runs evaluate it."""
    whole, run = tmp_path / "whole", tmp_path / "run"
    rate_of_step_8, save = pytest.approx(0.01 * 5 / 12), RunCheckpoints.save
    monkeypatch.setattr(Guard, "spiked", lambda guard, values: values["learning_rate"] == rate_of_step_8)
    monkeypatch.setattr(Guard, "rolled_back", lambda guard, source: "rolled back")
    assert cli.main(pretraining_files.flags(whole)) == 0
    lines = without_speed(whole)
    assert [line["rolled_back_to"] for line in lines if "rolled_back_to" in line] == [4]
    assert [line["step"] for line in lines if "eval_loss" in line] == [4, 8, 12]

    def killed(checkpoints, *, good):
        if not good:
            raise KeyboardInterrupt
        return save(checkpoints, good=good)

    with monkeypatch.context() as patched:
        patched.setattr(RunCheckpoints, "save", killed)
        assert cli.main(pretraining_files.flags(run)) == 130
    assert read_metrics(run)[-1] == {"step": 8, "rolled_back_to": 4}
    assert cli.main(pretraining_files.flags(run)) == 0
    assert without_speed(run) == lines


@pytest.mark.very_slow
def test_evaluation_alone_of_a_run_keeps_the_run(pretraining_files, tmp_path, capfd):
    """It needs none of the flags that the run was trained with, and the run can go on afterwards."""
    folder = tmp_path / "run"
    assert cli.main(pretraining_files.flags(folder, num_train_steps=2, optimizer="adamw")) == 0
    settings = (folder / "settings.json").read_bytes()
    with (folder / "metrics.jsonl").open("a") as file:  # as if killed before the next checkpoint
        file.write('{"step": 3, "loss": 1.5}\n{"step": 4, "lo')
    capfd.readouterr()
    evaluate = ["--do_eval", f"--eval_file={pretraining_files.heldout}", f"--output_dir={folder}"]
    assert cli.main(["pretrain", *evaluate]) == 0
    out, error = capfd.readouterr()
    assert out == f"{folder}\n"
    assert f"evaluating step 2 of the run in {folder}" in error
    assert "held out at step 2" in error
    assert (folder / "settings.json").read_bytes() == settings
    assert [line["step"] for line in read_metrics(folder)][-2:] == [3, 2]
    assert cli.main(pretraining_files.flags(folder, num_train_steps=3, optimizer="adamw")) == 0


@pytest.mark.very_slow
def test_evaluation_alone_chooses_no_checkpoint(pretraining_files, tmp_path, capfd):
    """Commands that read the folder take the newest one, unless training itself evaluates."""
    run, no_evaluation = tmp_path / "run", {"do_eval": None, "eval_file": None}
    warning = f"this run is no longer evaluated, so commands that read {run} go on using the checkpoint of"
    assert cli.main(pretraining_files.flags(run, num_train_steps=1, **no_evaluation)) == 0
    for steps, evaluation, best, warns in ((2, no_evaluation, 2, 0), (3, {}, 3, 0), (4, no_evaluation, 3, 1)):
        evaluate = ["--do_eval", f"--eval_file={pretraining_files.heldout}", f"--output_dir={run}"]
        assert cli.main(["pretrain", *evaluate]) == 0
        capfd.readouterr()
        assert cli.main(pretraining_files.flags(run, num_train_steps=steps, **evaluation)) == 0
        assert capfd.readouterr().err.count(f"{warning} step 3, the best one so far") == warns
        assert open_model(run).path.name == f"ckpt-{best}"


@pytest.mark.very_slow
@pytest.mark.parametrize(
    "changes", [{"masking": "dynamic", "sentence_objective": "none"}, {"sentence_objective": "nsp"}]
)
def test_other_kinds_of_examples(pretraining_files, tmp_path, changes):
    """Masked during training, without a sentence loss, and with next-sentence labels; resumed half-way."""
    write_story(tmp_path / "story.txt")
    settings = PrepareSettings(
        str(tmp_path / "story.txt"),
        str(tmp_path / "data" / "train.tfrecord"),
        str(pretraining_files.spm_model_file),
        max_seq_length=32,
        dupe_factor=1,
        **changes,
    )
    prepare(settings, show_progress=False)
    flags = {"input_file": settings.output_file, "eval_file": None, "do_eval": None}
    for name, steps in (("whole", [12]), ("halves", [8, 12])):
        for num_train_steps in steps:
            # The same schedule in both: a run interrupted at step 8, not one of 8 steps.
            flags |= {"learning_rate": 0.01, "num_warmup_steps": 100}
            arguments = pretraining_files.flags(tmp_path / name, **flags, num_train_steps=num_train_steps)
            assert cli.main(arguments) == 0
    assert_same_run(tmp_path / "whole", tmp_path / "halves")
    last = read_metrics(tmp_path / "whole")[-1]
    assert np.isfinite(last["loss"])
    assert (last["sentence_order_loss"] == 0) == (changes.get("sentence_objective") == "none")


# Each is refused before the folder is made, and the message names the flag.
BAD_FLAGS = [
    {"max_seq_length": 128}, {"max_predictions_per_seq": 20}, {"train_batch_size": 0}, {"learning_rate": -1},
    {"spm_model_file": "nothing.model"}, {"init_optimizer": True}, {"spike_factor": 1}, {"seed": 10**20},
    {"early_stopping_patience": 0}, {"max_rollbacks": -1},
]  # fmt: skip


@pytest.mark.parametrize("changes", BAD_FLAGS, ids=str)
def test_bad_flags(pretraining_files, tmp_path, capfd, changes):
    assert f"--{next(iter(changes))}" in refused(capfd, *pretraining_files.flags(tmp_path / "run", **changes))
    assert not (tmp_path / "run").exists()


ALONE = "--do_eval without --do_train needs a model: --init_checkpoint, or a run"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_file": "nothing/here*"}, "No file matches 'nothing/here*'"),
        ({"albert_config_file": "nothing.json"}, "The file nothing.json must exist"),
        ({"init_checkpoint": "nothing"}, "There is no checkpoint at nothing"),
        (
            {"tpu": "no-such-tpu"},
            "`--tpu` must name a TPU that this machine can reach. Received 'no-such-tpu'",
        ),
        ({"do_train": None, "eval_file": None}, "--do_eval needs --eval_file"),
        ({"do_train": None}, ALONE),
        ({"do_train": None, "input_file": None, "albert_config_file": None}, ALONE),
        ({"do_train": None, "do_eval": None}, "At least one of --do_train and --do_eval"),
        ({"init_optimizer": True, "init_from_group0": True}, "exclude each other"),
        ({"early_stopping_patience": 2, "eval_file": None}, "needs evaluations of the last phase: --do_eval"),
        ({"optimizer": "adam"}, 'Did you mean "adamw"?'),
        ({"save_checkpoint_steps": 5}, "--save_checkpoints_steps"),
        ({"gradient_accumulation_steps": 3}, "which is not divisible by 1 x 3; use for instance 3"),
        ({"mixed_precision": "float16"}, 'Choose from: "bfloat16"'),
        ({"strategy": "multi_worker"}, "needs the environment variable TF_CONFIG"),
        ({"eval_file": "{train}"}, "Evaluation never reads the training files"),
    ],
)
def test_what_is_missing_or_does_not_fit(pretraining_files, tmp_path, capfd, changes, message):
    changes = {
        name: pretraining_files.train if value == "{train}" else value for name, value in changes.items()
    }
    assert message in refused(capfd, *pretraining_files.flags(tmp_path / "run", **changes))
    assert not (tmp_path / "run").exists()


def test_a_finetuning_run_in_the_folder(pretraining_files, tmp_path, capfd):
    (tmp_path / "seed_0").mkdir()
    error = refused(capfd, *pretraining_files.flags(tmp_path))
    assert f"Received {tmp_path}, a run of `albert finetune`; name another one." in error
    assert [path.name for path in tmp_path.iterdir()] == ["seed_0"]


@pytest.mark.parametrize("field", ["vocab_size", "max_position_embeddings"])
def test_configurations_that_do_not_fit_the_data(pretraining_files, tmp_path, capfd, field):
    config = json.loads(pretraining_files.albert_config_file.read_text())
    path = tmp_path / "albert_config.json"
    path.write_text(json.dumps({**config, field: 16}))
    flags = pretraining_files.flags(tmp_path / "run", albert_config_file=path)
    assert f"`{field}`" in refused(capfd, *flags)
    assert not (tmp_path / "run").exists()


def test_truncated_files(pretraining_files, tmp_path, capfd):
    whole = Path(pretraining_files.heldout).read_bytes()
    for name, content in (
        ("cut", whole[:-7]),
        ("empty", b""),
        ("text", b"Once upon a time, there was a file."),
    ):
        (tmp_path / name).write_bytes(content)
        for flag in ("input_file", "eval_file"):
            error = refused(capfd, *pretraining_files.flags(tmp_path / "run", **{flag: tmp_path / name}))
            assert str(tmp_path / name) in error
    assert not (tmp_path / "run").exists()


@pytest.mark.very_slow
def test_a_record_that_is_no_example(pretraining_files, tmp_path, capfd):
    """Not among the first, which are looked at before training; TensorFlow's error quotes it."""
    train = Path(pretraining_files.train)
    records = list(read_records(next(train.parent.glob(train.name))))
    records[3:] = [record.replace(b"\n\x0etoken", b"J\x0etoken") for record in records[3:]]
    (tmp_path / "records").write_bytes(b"".join(map(framed, records)))
    error = refused(capfd, *pretraining_files.flags(tmp_path / "run", input_file=tmp_path / "records"))
    assert "Every record of the input files must be an example" in error
    assert "Prepare that file again; there is no checkpoint yet." in error


@pytest.mark.very_slow
def test_a_damaged_record(pretraining_files, tmp_path, capfd):
    """Its length is intact, so that only reading all of it shows the damage."""
    path = tmp_path / "records"
    content = bytearray(Path(pretraining_files.heldout).read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)
    assert cli.main(pretraining_files.flags(tmp_path / "run", eval_file=path)) == 2
    error = capfd.readouterr().err
    assert "Traceback" not in error
    assert "One is damaged; `albert inspect FILES --verify` names it." in error
    assert error.endswith("the run resumes at step 4.\n")
    assert cli.main(["inspect", str(path), "--verify"]) == 2
    assert f"{path} is damaged" in capfd.readouterr().out


@pytest.mark.slow
def test_a_folder_with_another_run(finished, pretraining_files, tmp_path, capfd):
    config = json.loads(pretraining_files.albert_config_file.read_text())
    (tmp_path / "other.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    before = {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()}
    flags = pretraining_files.flags(finished, albert_config_file=tmp_path / "other.json")
    assert "other sizes: num_hidden_layers is 2, received 3" in refused(capfd, *flags)
    assert "--train_batch_size is 4, received 8" in refused(
        capfd, *pretraining_files.flags(finished, train_batch_size=8)
    )
    other = pretraining_files.flags(
        tmp_path / "run", init_checkpoint=finished, albert_config_file=tmp_path / "o"
    )
    (tmp_path / "o").write_text(json.dumps({**config, "hidden_size": 32}))
    assert "does not fit this configuration: " in refused(capfd, *other)
    assert before == {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()}


def test_output_dir_is_a_file(pretraining_files, tmp_path, capfd):
    (tmp_path / "run").write_text("mine")
    assert "--output_dir must be a folder" in refused(capfd, *pretraining_files.flags(tmp_path / "run"))
    assert (tmp_path / "run").read_text() == "mine"
