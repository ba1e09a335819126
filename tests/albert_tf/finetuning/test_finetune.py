"""The whole program: trains, evaluates, predicts, resumes, refuses bad input."""

import csv
import json
import os
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from albert_cli import cli
from albert_tf import TextClassifier, load_adapters, save_adapters
from albert_tf.checkpoints.run_files import read_metrics
from albert_tf.finetuning.seed_folder import SeedFolder
from albert_tf.runtime.pretrained import load_pretrained
from albert_tf.tasks.problems import Problems
from albert_tf.tasks.reading import read_examples
from albert_tf.tasks.spans.answer_files import read_answers, read_n_best
from albert_tf.tasks.task import find_task
from albert_tf.training.held_out import HeldOut
from data_prep.tokenizers.vocabulary import Vocabulary
from data_prep.tokenizers.vocabulary_extension import extend_vocabulary
from tests.albert_tf.tasks.files import CONFIG, sentences, write_checkpoint
from tests.commands import answers, refused, report
from tests.interrupted import run_until_ctrl_c
from tests.processes import ROOT, Program, run_python

SEED_FILES = {
    "settings.json", "data.json", "spm.model", "metrics.jsonl", "tensorboard", "model.keras", "training.json",
    "results.json",
}  # fmt: skip


def weights(run: Path) -> list[np.ndarray]:
    """The weights of the best model of a seed."""
    return SeedFolder(run).load_model().get_weights()


def without_speed(run: Path) -> list[dict]:
    return [
        {name: value for name, value in line.items() if name != "examples_per_second"}
        for line in read_metrics(run)
    ]


def assert_same_weights(first: Path, second: Path, atol: float = 0.0) -> None:
    """The best weights of one seed are equal, to the bit unless a tolerance is given."""
    for ours, theirs in zip(weights(first), weights(second), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=atol)


def assert_same_run(first: Path, second: Path) -> None:
    """Metrics and best weights of one seed are equal to the bit."""
    assert without_speed(first) == without_speed(second)
    assert_same_weights(first, second)


@pytest.fixture(scope="module")
def finished(finetuning_files, tmp_path_factory) -> Path:
    """An uninterrupted run of 12 steps, with predictions of the test set."""
    run = tmp_path_factory.mktemp("finished") / "run"
    assert cli.main(finetuning_files.flags(run, do_predict=True)) == 0
    return run


@pytest.mark.slow
def test_files_of_the_run(finished):
    assert {path.name for path in finished.iterdir()} == {"seed_0", "results.json", ".lock"}
    splits = {
        f"{split}_{what}" for split in ("dev", "test") for what in ("probabilities.jsonl", "predictions.tsv")
    }
    assert {path.name for path in (finished / "seed_0").iterdir()} == SEED_FILES | splits
    settings = json.loads((finished / "seed_0" / "settings.json").read_text())
    assert settings["num_train_steps"] == 12
    assert settings["classifier_dropout"] == 0.1  # from the recipe
    lines = (finished / "seed_0" / "test_predictions.tsv").read_text().splitlines()
    assert lines[0] == "index\tprediction"
    assert len(lines) == 11
    assert {line.split("\t")[1] for line in lines[1:]} <= {"dark", "light"}


def test_metrics(finished):
    lines = read_metrics(finished / "seed_0")
    training = [line for line in lines if "loss" in line]
    evaluation = [line for line in lines if "eval_loss" in line]
    assert [line["step"] for line in training] == [3, 4, 6, 8, 9, 12]
    assert [line["step"] for line in evaluation] == [4, 8, 12]
    names = {"step", "loss", "learning_rate", "gradient_norm", "examples_per_second"}
    assert all(set(line) == names and line["gradient_norm"] > 0 for line in training)
    expected = {"step", "eval_loss", "eval_accuracy", "eval_macro_f1", "eval_examples"}
    assert all(set(line) == expected for line in evaluation)
    rates = {line["step"]: line["learning_rate"] for line in training}
    assert rates[3] == pytest.approx(0.001 * 2 / 3)
    assert rates[12] == pytest.approx(0.001 / 12)


def test_the_best_weights_on_dev_are_kept(finished):
    results = json.loads((finished / "results.json").read_text())
    best = HeldOut(read_metrics(finished / "seed_0"), "eval_accuracy").best
    assert best is not None
    (seed,) = results["seeds"]
    assert (seed["seed"], seed["steps"], seed["best_step"]) == (0, 12, best["step"])
    assert {f"eval_{name}": value for name, value in seed["dev"].items()} == pytest.approx(
        {name: value for name, value in best.items() if name != "step"}, abs=1e-6
    )
    assert results["dev"]["accuracy"] == dict.fromkeys(("median", "min", "max"), seed["dev"]["accuracy"])


@pytest.mark.very_slow
def test_it_learns(finetuning_files, tmp_path):
    flags = {"num_train_steps": 200, "train_batch_size": 16, "save_checkpoints_steps": 50, "log_steps": 50}
    flags |= {"dropout": 0, "learning_rate": 0.003}
    flags["dev_file"] = finetuning_files.folder / "classification-train.csv"
    assert cli.main(finetuning_files.flags(tmp_path / "run", **flags)) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["dev"]["accuracy"]["max"] > 0.9


@pytest.mark.very_slow
def test_a_seed_among_several_equals_a_run_of_that_seed(finished, finetuning_files, tmp_path, capfd):
    assert cli.main(finetuning_files.flags(tmp_path / "run", seeds=2)) == 0
    assert_same_run(tmp_path / "run" / "seed_0", finished / "seed_0")
    error = capfd.readouterr().err
    assert all(word in error for word in ("median", "minimum", "maximum"))
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert [seed["seed"] for seed in results["seeds"]] == [0, 1]
    assert without_speed(tmp_path / "run" / "seed_1") != without_speed(finished / "seed_0")


@pytest.mark.very_slow
def test_training_from_scratch(finetuning_files, tmp_path, capfd):
    flags = {"init_checkpoint": None, "albert_config_file": tmp_path / "albert_config.json"}
    CONFIG.to_json_file(tmp_path / "albert_config.json")
    assert cli.main(finetuning_files.flags(tmp_path / "run", **flags)) == 2
    assert "albert_config.json comes without one. Name the SentencePiece model" in capfd.readouterr().err
    (flags["vocab_file"],) = finetuning_files.checkpoint.glob("*.model")
    steps = {"num_train_steps": 2, "num_warmup_steps": 0, "save_checkpoints_steps": 2}
    assert cli.main(finetuning_files.flags(tmp_path / "run", **flags, **steps)) == 0
    model = SeedFolder.of(tmp_path / "run", 0).load_model()
    assert model.encoder.config.hidden_size == CONFIG.hidden_size


ADAPTED = {
    "optimizer": "lamb",
    "lora_rank": 2,
    "layer_decay": 0.5,
    "ema_decay": 0.75,
    "class_weights": "balanced",
    "remat": "activations",
    "gradient_accumulation_steps": 2,
}


@pytest.mark.very_slow
def test_ctrl_c_saves_and_the_same_command_resumes(finetuning_files, tmp_path, monkeypatch, capfd):
    arguments = finetuning_files.flags(tmp_path, iterations_per_loop=1)
    assert run_until_ctrl_c(monkeypatch, arguments) == 130
    assert "albert: received SIGINT: step 1 is saved" in capfd.readouterr().err.splitlines()[-1]
    assert cli.main(arguments) == 0
    assert f"resuming at step 1 of {tmp_path / 'seed_0'}" in capfd.readouterr().err


@pytest.mark.very_slow
def test_a_run_starts_from_adapters(finetuning_files, tmp_path, capfd):
    def flags(output_dir, **changes):
        return finetuning_files.flags(tmp_path / output_dir, **{"lora_rank": 2, "do_eval": None, **changes})

    model = TextClassifier.from_pretrained(finetuning_files.checkpoint, ("dark", "light"))
    model.enable_lora(2, alpha=16)
    for variable in model.trainable_variables:
        variable.assign(np.random.default_rng(0).normal(0, 0.1, variable.shape))
    save_adapters(model, tmp_path / "adapters.safetensors")
    still = {"init_adapters": tmp_path / "adapters.safetensors", "learning_rate": 1e-30}
    assert cli.main(flags("run", **still)) == 0
    merged, texts = SeedFolder.of(tmp_path / "run", 0).load_model(), sentences(5, 1)
    np.testing.assert_allclose(merged.predict(texts), model.predict(texts), atol=1e-5)
    assert "the rank of --init_adapters, 2. Received 3." in refused(
        capfd, *flags("third", **still, lora_rank=3)
    )
    other = write_checkpoint(tmp_path / "other", finetuning_files.checkpoint / "spm.model", seed=9)
    assert "that they were trained on" in refused(capfd, *flags("third", **still, init_checkpoint=other))
    assert not (tmp_path / "third").exists()


@pytest.mark.very_slow
def test_averages_of_the_weights_are_evaluated_and_saved(finished, finetuning_files, tmp_path):
    """They do not disturb training, and with a decay of 0 they are the weights."""
    for decay in (0, 0.5):
        assert cli.main(finetuning_files.flags(tmp_path / str(decay), ema_decay=decay)) == 0
    assert_same_run(tmp_path / "0" / "seed_0", finished / "seed_0")
    averaged, plain = without_speed(tmp_path / "0.5" / "seed_0"), without_speed(finished / "seed_0")
    assert [line for line in averaged if "loss" in line] == [line for line in plain if "loss" in line]
    assert [line for line in averaged if "eval_loss" in line] != [
        line for line in plain if "eval_loss" in line
    ]
    settings = json.loads((tmp_path / "0.5" / "seed_0" / "settings.json").read_text())
    assert settings["ema_decay"] == 0.5


@pytest.mark.very_slow
def test_recomputed_activations_give_the_same_run(finished, finetuning_files, tmp_path):
    """With dropout; the saved model does not recompute."""
    flags = {"remat": "layers", "scan_layers": True}
    assert cli.main(finetuning_files.flags(tmp_path / "run", **flags)) == 0
    run = tmp_path / "run" / "seed_0"
    for line, expected in zip(without_speed(run), without_speed(finished / "seed_0"), strict=True):
        assert line == pytest.approx(expected, abs=1e-5)
    models = [SeedFolder(folder).load_model() for folder in (run, finished / "seed_0")]
    assert models[0].get_config() == models[1].get_config()


@pytest.mark.slow
def test_a_frozen_encoder_stays_as_it_was(finetuning_files, tmp_path):
    flags = {"freeze_encoder": True, "do_eval": None, "ema_decay": 0.5}
    assert cli.main(finetuning_files.flags(tmp_path / "run", **flags)) == 0
    model = SeedFolder.of(tmp_path / "run", 0).load_model()
    before = load_pretrained(finetuning_files.checkpoint).encoder
    for ours, theirs in zip(model.encoder.get_weights(), before.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert np.abs(model.classifier.output_dense.bias).max() > 0


def _start(finetuning_files, output_dir: Path, kind: str = "classification", **flags) -> Program:
    return Program([ROOT / "run_finetuning.py", *finetuning_files.flags(output_dir, kind, **flags)[1:]])


def _kill_after(process: Program, run: Path, step: int) -> bool:
    """Kills the process (SIGKILL) once it has logged that step; returns whether it was still running."""
    deadline = time.monotonic() + 240
    while process.poll() is None and time.monotonic() < deadline:
        if any(line["step"] >= step for line in read_metrics(run)):
            os.kill(process.pid, signal.SIGKILL)
            break
        time.sleep(0.005)
    process.communicate()
    return process.returncode == -signal.SIGKILL


@pytest.mark.very_slow
@pytest.mark.parametrize(
    ("kind", "flags"),
    [("squad2.0", {}), ("classification", ADAPTED)],
    ids=["squad2.0", "adapted"],
)
def test_killed_and_restarted_equals_uninterrupted(finetuning_files, tmp_path, kind, flags):
    """SIGKILL at an arbitrary moment, perhaps within a line of metrics.jsonl, then the same command to the end."""
    flags = {"num_train_steps": 120, "save_checkpoints_steps": 20, "log_steps": 10, **flags}
    assert cli.main(finetuning_files.flags(tmp_path / "whole", kind, **flags)) == 0
    with _start(finetuning_files, tmp_path / "killed", kind, **flags) as process:
        assert _kill_after(process, tmp_path / "killed" / "seed_0", 50)
    run, whole = tmp_path / "killed" / "seed_0", tmp_path / "whole" / "seed_0"
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 121, "loss": 1.')
    assert cli.main(finetuning_files.flags(tmp_path / "killed", kind, **flags)) == 0
    assert_same_run(run, whole)
    assert not (run / "checkpoints").exists()
    ours, theirs = (json.loads((tmp_path / run / "results.json").read_text()) for run in ("killed", "whole"))
    assert ours == theirs
    if "lora_rank" in flags:  # adapters alone are the merged model
        merged = SeedFolder(run).load_model()
        model = TextClassifier.from_pretrained(finetuning_files.checkpoint, merged.labels)
        load_adapters(model, run / "adapters.safetensors")
        texts = sentences(5, 1)
        np.testing.assert_allclose(model.predict(texts), merged.predict(texts), atol=1e-5)


@pytest.mark.very_slow
def test_sigterm_saves_and_the_same_command_resumes(finetuning_files, tmp_path):
    long = {"num_train_steps": 240, "save_checkpoints_steps": 240, "log_steps": 10}
    with _start(finetuning_files, tmp_path / "run", **long) as process:
        deadline = time.monotonic() + 240
        while not read_metrics(tmp_path / "run" / "seed_0") and time.monotonic() < deadline:
            time.sleep(0.005)
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate(timeout=120)
        assert process.returncode == 143, error
    assert "albert: received SIGTERM: step " in error.splitlines()[-1]
    assert cli.main(finetuning_files.flags(tmp_path / "run", **long)) == 0
    assert cli.main(finetuning_files.flags(tmp_path / "whole", **long)) == 0
    assert_same_weights(tmp_path / "run" / "seed_0", tmp_path / "whole" / "seed_0")


@pytest.mark.very_slow
def test_two_devices_equal_one_in_a_run(finetuning_files, tmp_path):
    """The two take every batch in micro-batches."""
    flags = {"dropout": 0, "classifier_dropout": 0, "train_batch_size": 8, "num_train_steps": 20}
    for devices in (1, 2):
        flags |= {"num_devices": devices, "gradient_accumulation_steps": devices}
        arguments = finetuning_files.flags(tmp_path / str(devices), "token-classification", **flags)
        run_python(ROOT / "run_finetuning.py", *arguments[1:])
    one, two = (tmp_path / devices / "seed_0" for devices in ("1", "2"))
    assert_same_weights(one, two, atol=1e-5)
    for expected, line in zip(without_speed(one), without_speed(two), strict=True):
        assert line == pytest.approx(expected, abs=1e-5)


@pytest.mark.very_slow
def test_early_stop(finetuning_files, tmp_path, capfd):
    """With a learning rate near 0, no evaluation is better than the first."""
    flags = {"learning_rate": 1e-12, "early_stopping_patience": 2, "num_train_steps": 100}
    assert cli.main(finetuning_files.flags(tmp_path / "run", **flags)) == 0
    error = capfd.readouterr().err
    assert "stopped at step 12: 2 evaluations without a better accuracy than at step 4" in error
    run = tmp_path / "run" / "seed_0"
    assert read_metrics(run)[-1]["step"] == 12
    facts = json.loads((run / "training.json").read_text())
    assert (facts["steps"], facts["best_step"]) == (12, 4)


@pytest.mark.very_slow
def test_longer_texts_than_the_position_table(finetuning_files, tmp_path):
    """Positions from 64 on repeat the others; the saved model includes them."""
    longer = {"max_seq_length": 80, "resize_positions": True}
    assert cli.main(finetuning_files.flags(tmp_path / "run", **longer)) == 0
    model = SeedFolder.of(tmp_path / "run", 0).load_model()
    assert model.encoder.config.max_position_embeddings == 80
    padded = {"do_train": None, "max_seq_length": None, "pad_to_max_length": True}
    assert cli.main(finetuning_files.flags(tmp_path / "run", **padded)) == 0


@pytest.mark.very_slow
def test_without_evaluation_the_last_weights_are_kept(finetuning_files, tmp_path):
    arguments = finetuning_files.flags(tmp_path / "run", do_eval=None)
    assert cli.main(arguments) == 0
    run = tmp_path / "run" / "seed_0"
    assert {path.name for path in run.iterdir()} == SEED_FILES
    assert not [line for line in read_metrics(run) if "eval_loss" in line]
    assert cli.main(finetuning_files.flags(tmp_path / "run", do_train=None)) == 0
    assert "accuracy" in json.loads((run / "results.json").read_text())["dev"]


@pytest.mark.very_slow
def test_a_finished_run_is_only_evaluated(finished, finetuning_files, tmp_path, capfd):
    shutil.copytree(finished, tmp_path / "run")
    for do_train in (True, None):
        assert cli.main(finetuning_files.flags(tmp_path / "run", do_train=do_train)) == 0
        assert_same_run(tmp_path / "run" / "seed_0", finished / "seed_0")
    assert "is already trained" in capfd.readouterr().err
    first, second = (json.loads((run / "results.json").read_text()) for run in (finished, tmp_path / "run"))
    assert first["dev"] == second["dev"]


@pytest.mark.very_slow
def test_predicting_alone_keeps_all_seeds(finetuning_files, tmp_path):
    """7 is not the seed that a command has without flags."""
    run, test_file = tmp_path / "run", finetuning_files.folder / "classification-test.csv"
    assert cli.main(finetuning_files.flags(run, seeds=2, seed=7, num_train_steps=4)) == 0
    before = json.loads((run / "results.json").read_text())
    predict = ["finetune", "--task=classification", f"--output_dir={run}", "--do_predict"]
    assert cli.main([*predict, f"--test_file={test_file}"]) == 0
    after = json.loads((run / "results.json").read_text())
    assert [seed["seed"] for seed in after["seeds"]] == [7, 8]
    assert (after["best_seed"], after["dev"]) == (before["best_seed"], before["dev"])
    for seed in (7, 8):
        assert (run / f"seed_{seed}" / "test_probabilities.jsonl").exists()


@pytest.mark.very_slow
def test_a_later_seed_joins_the_earlier_ones(finished, finetuning_files, tmp_path):
    """The best of all seeds that have not failed counts; a folder of another task's seed does not."""
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    (earlier,) = json.loads((run / "results.json").read_text())["seeds"]
    (run / "seed_9").mkdir()
    (run / "seed_9" / "settings.json").write_text('{"task": "regression"}')
    (run / "seed_9" / "training.json").write_text("{}")
    assert cli.main(finetuning_files.flags(run, seed=3, num_train_steps=1)) == 0
    results = json.loads((run / "results.json").read_text())
    first, second = results["seeds"]
    assert (first, second["seed"]) == (earlier, 3)
    accuracies = {seed["seed"]: seed["dev"]["accuracy"] for seed in results["seeds"]}
    sound = [seed["seed"] for seed in results["seeds"] if "failed" not in seed]
    assert results["best_seed"] == max(sound or accuracies, key=accuracies.__getitem__)
    spread = results["dev"]["accuracy"]
    assert (spread["min"], spread["max"]) == (min(accuracies.values()), max(accuracies.values()))


@pytest.mark.very_slow
def test_another_dev_set_is_reported(finished, finetuning_files, tmp_path, capfd, monkeypatch):
    """The same file under another path is none."""
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    dev_file = finetuning_files.folder / "classification-dev.csv"
    evaluate = ["finetune", "--task=classification", f"--output_dir={run}", "--do_eval"]
    monkeypatch.chdir(finetuning_files.folder)
    assert cli.main([*evaluate, "--dev_file=classification-dev.csv"]) == 0
    assert "the weights were chosen by" not in capfd.readouterr().err
    other = shutil.copy(dev_file, tmp_path / "other.csv")
    assert cli.main([*evaluate, f"--dev_file={other}"]) == 0
    said = f"the weights were chosen by the dev set {dev_file}; results.json"
    assert said in capfd.readouterr().err
    # The command that trains, which may also resume an interrupted run.
    assert cli.main(finetuning_files.flags(run)) == 0
    assert "the weights were chosen by" not in capfd.readouterr().err
    assert cli.main(finetuning_files.flags(run, dev_file=other)) == 0
    error = capfd.readouterr().err
    assert said in error
    assert f"are now those of {other}" in error


@pytest.mark.slow
def test_a_test_set_that_is_labelled_in_part(finished, tmp_path, capfd):
    """It has no metrics, and not those of an earlier test set."""
    run, test_file = tmp_path / "run", tmp_path / "test.csv"
    shutil.copytree(finished, run)
    assert "test" in json.loads((run / "results.json").read_text())
    test_file.write_text("text,label\nthe captain,light\nthe lighthouse,\n")
    predict = ["finetune", "--task=classification", f"--output_dir={run}", "--do_predict"]
    assert cli.main([*predict, f"--test_file={test_file}"]) == 0
    assert "test" not in json.loads((run / "results.json").read_text())
    assert "test: no metrics, because 1 of 2 rows have no label" in capfd.readouterr().err


@pytest.mark.very_slow
def test_a_run_whose_data_has_changed(finetuning_files, tmp_path, capfd):
    """Other labels of the same examples; another seed may have other classes, but then no command is for both."""
    files = {f"{split}_file": tmp_path / f"{split}.csv" for split in ("train", "dev")}
    for split, file in zip(("train", "dev"), files.values(), strict=True):
        shutil.copy(finetuning_files.folder / f"classification-{split}.csv", file)

    def command(**flags):
        return finetuning_files.flags(tmp_path / "run", num_train_steps=2, **files, **flags)

    assert cli.main(command()) == 0
    for file in files.values():
        file.write_text(file.read_text().replace(",dark", ",dim").replace(",light", ",lit"))
    assert "holds a run that began with other training examples" in refused(capfd, *command())
    assert cli.main(command(seed=1)) == 0
    predict = ["finetune", "--task=classification", f"--output_dir={tmp_path / 'run'}", "--do_predict"]
    error = refused(capfd, *predict, f"--test_file={finetuning_files.folder / 'classification-test.csv'}")
    assert "must be those that the model was trained with, dim, lit. Received dark, light" in error


@pytest.mark.slow
def test_fixed_padding_gives_the_same_evaluation(finished, finetuning_files, tmp_path):
    shutil.copytree(finished, tmp_path / "run")
    arguments = finetuning_files.flags(
        tmp_path / "run", do_train=None, pad_to_max_length=True, eval_batch_size=5
    )
    assert cli.main(arguments) == 0
    first, second = (json.loads((run / "results.json").read_text()) for run in (finished, tmp_path / "run"))
    for name, spread in first["dev"].items():
        assert second["dev"][name] == pytest.approx(spread, abs=1e-5)


KINDS = {
    "ordinal-classification": (
        {"quadratic_kappa", "accuracy", "mean_absolute_error"},
        "predictions.tsv",
        "label",
    ),
    "multi-label-classification": ({"micro_f1", "macro_f1"}, "predictions.json", "labels"),
    "regression": ({"pearson", "spearman"}, "predictions.tsv", "score"),
    "squad2.0": ({"f1", "best_f1", "HasAns_exact"}, "predictions.json", "answer"),
    "question-answering": ({"exact_match", "f1"}, "predictions.json", "answer"),
    "multiple-choice": ({"accuracy"}, "predictions.json", "label"),
    "token-classification": ({"accuracy", "f1"}, "predictions.json", "labels"),
}
TEXTS_OF_A_ROW = ("text_a", "text_b", "passage", "question", "options", "words", "context")


OF_ONE_KIND = {
    "squad2.0": {"n_best_size": 3, "start_n_top": 4, "end_n_top": 2},
    "multiple-choice": {"max_qa_length": 9},
}


def assert_predicts_alike(finetuning_files, run: Path, kind: str, capfd, standard_input) -> None:
    """`albert predict` answers as the run has predicted its test set."""
    _, file, answer = KINDS[kind]
    path, task = run / "seed_0" / f"test_{file}", find_task(kind)
    (test_file,) = finetuning_files.folder.glob(f"{kind}-test.*")
    rows = [vars(example) for example in read_examples(task, test_file, "test", Problems())]
    lines = [{name: row[name] for name in TEXTS_OF_A_ROW if row.get(name) is not None} for row in rows]
    lines = "\n".join(map(json.dumps, lines))
    found = [one[answer] for one in answers(capfd, standard_input, lines, f"--model_dir={run}")]
    predicted = read_answers(path) if answer == "answer" else task.kind.read_predictions(task, path)
    expected = list(predicted.values())
    assert found == (pytest.approx(expected, abs=1e-5) if kind == "regression" else expected)


@pytest.mark.very_slow
@pytest.mark.parametrize("kind", KINDS)
def test_other_kinds_of_tasks(finetuning_files, tmp_path, kind, capfd, standard_input):
    """`albert predict` answers as the run predicts its test set."""
    metrics, file, _ = KINDS[kind]
    flags = OF_ONE_KIND.get(kind, {})
    assert cli.main(finetuning_files.flags(tmp_path / "run", kind, do_predict=True, **flags)) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert metrics <= set(results["dev"])
    assert 0 < results["dev"]["loss"]["median"] < 100
    run = tmp_path / "run" / "seed_0"
    assert {f"dev_{file}", f"test_{file}"} <= {path.name for path in run.iterdir()}
    model = SeedFolder(run).load_model()
    if kind == "squad2.0":
        assert (model.span.beam, model.span.end_beam) == (4, 2)
        assert max(map(len, read_n_best(run, "dev").n_best.values())) <= 3
    if kind == "multiple-choice":
        assert model.preprocessor.max_qa_length == 9
    assert_predicts_alike(finetuning_files, tmp_path / "run", kind, capfd, standard_input)


@pytest.mark.very_slow
def test_ordered_classes_with_names(finetuning_files, tmp_path, capfd):
    flags = {"task": "ordinal-classification", "num_train_steps": 2, "num_warmup_steps": 0}
    run = tmp_path / "run"
    assert "names in the order of --label_order" in refused(capfd, *finetuning_files.flags(run, **flags))
    assert "the training data also has dark" in refused(
        capfd, *finetuning_files.flags(run, **flags, label_order="light,bright")
    )
    assert cli.main(finetuning_files.flags(run, **flags, label_order="light, dim, dark")) == 0
    assert SeedFolder.of(run, 0).load_model().labels == ("light", "dim", "dark")
    assert {"quadratic_kappa", "mean_absolute_error"} <= set(SeedFolder.of(run, 0).read_results()["dev"])


@pytest.mark.very_slow
def test_several_labels_of_a_text(finetuning_files, tmp_path, capfd, standard_input):
    """The thresholds that are best on dev are stored with the model; every program uses them."""
    kind = "multi-label-classification"
    longer = {"num_train_steps": 40, "save_checkpoints_steps": 20, "learning_rate": 0.003, "dropout": 0}
    assert cli.main(finetuning_files.flags(tmp_path / "run", kind, do_predict=True, **longer)) == 0
    run = tmp_path / "run" / "seed_0"
    model = SeedFolder(run).load_model()
    assert model.labels == ("captain", "lighthouse")
    assert all(0 < threshold < 1 for threshold in model.thresholds)
    dev = json.loads((run / "results.json").read_text())["dev"]
    assert set(dev) == {"loss", "accuracy", "micro_f1", "macro_f1", "examples"}
    best = HeldOut(read_metrics(run), "eval_micro_f1").best
    assert dev["micro_f1"] == pytest.approx(best["eval_micro_f1"])
    gold = finetuning_files.folder / f"{kind}-dev.csv"
    flags = [f"--predictions={run}/dev_predictions.json", f"--gold={gold}", "--label_separator=;"]
    evaluated = report(capfd, "evaluate", f"--task={kind}", *flags)
    assert evaluated == pytest.approx({name: dev[name] for name in ("accuracy", "micro_f1", "macro_f1")})
    # The run knows task, separator and thresholds, also if it is evaluated alone.
    evaluated = report(capfd, "evaluate", f"--model_dir={tmp_path / 'run'}", f"--gold={gold}")
    assert evaluated == pytest.approx(dev)
    alone = finetuning_files.flags(tmp_path / "run", kind, do_train=None, label_separator=None)
    assert cli.main(alone) == 0
    assert json.loads((run / "results.json").read_text())["dev"] == pytest.approx(dev)
    texts = [row["text"] for row in csv.DictReader(gold.read_text(encoding="utf-8").splitlines())]
    predicted = json.loads((run / "dev_predictions.json").read_text())
    lines = answers(capfd, standard_input, "\n".join(texts), f"--model_dir={run}")
    assert [line["labels"] for line in lines] == list(predicted.values())
    assert all(set(line["probabilities"]) == set(model.labels) for line in lines)


# Each is refused before the folder is made, and the message names the flag.
BAD_FLAGS = [
    {"optimizer": "lamb", "learning_rate": None}, {"max_seq_length": 65}, {"train_batch_size": 0},
    {"learning_rate": -1}, {"dropout": 1}, {"early_stopping_patience": 2, "do_eval": None},
    {"column_names": "texts=review"}, {"label_separator": ""}, {"high_only": True},
    {"high_only": True, "middle_only": True}, {"start_n_top": 0}, {"class_weights": "lighter:2"},
    {"class_weights": "light"}, {"class_weights": "light:-1"}, {"lora_rank": 0},
    {"freeze_encoder": True, "lora_rank": 2}, {"init_adapters": "a"}, {"layer_decay": 1.5}, {"ema_decay": 1},
    {"seeds": 0}, {"label_order": "dark,light"},
    {"label_order": "dark,light,dark", "task": "Ordinal-Classification"},
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("changes", BAD_FLAGS, ids=str)
def test_bad_flags(finetuning_files, tmp_path, capfd, changes):
    assert f"--{next(iter(changes))}" in refused(capfd, *finetuning_files.flags(tmp_path / "run", **changes))
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "colla"}, "Did you mean cola?"),
        ({"task": "ax"}, "--task=ax has no training data: train on mnli"),
        ({"do_train": None, "do_eval": None}, "At least one of --do_train, --do_eval and --do_predict"),
        ({"do_train": None}, "train with --do_train first"),
        ({"init_checkpoint": None}, "--do_train needs --init_checkpoint"),
        ({"init_checkpoint": "nothing"}, "There is no checkpoint at nothing"),
        ({"init_adapters": "nothing", "lora_rank": 2}, "The file nothing must exist"),
        ({"vocab_file": "nothing.model"}, "The file nothing.model must exist"),
        ({"train_file": None}, "--do_train needs data: --data_dir, the task's folder, or --train_file"),
        ({"train_file": "nothing.csv"}, "There is no file or folder nothing.csv"),
        ({"column_names": "text_a=review"}, "has no 'review'"),
        ({"num_train_epochs": 2}, "exclude each other"),
        ({"gradient_accumulation_steps": 3}, "which is not divisible by 1 x 3; use for instance 3."),
        (
            {"task": "ordinal-classification"},
            "must be whole numbers, such as 1 to 5 stars, at most 100 apart",
        ),
        ({"strategy": "multi_worker"}, "needs the environment variable TF_CONFIG"),
        ({"train_batchsize": 4}, "--train_batch_size"),
    ],
)
def test_what_is_missing_or_does_not_fit(finetuning_files, tmp_path, capfd, changes, message):
    assert message in refused(capfd, *finetuning_files.flags(tmp_path / "run", **changes))
    assert not (tmp_path / "run").exists()


def test_a_pretraining_run_in_the_folder(finetuning_files, tmp_path, capfd):
    """Readers of the folder would find the seeds' folders, and no longer the pretrained model."""
    (tmp_path / "checkpoints").mkdir()
    error = refused(capfd, *finetuning_files.flags(tmp_path))
    assert f"Received {tmp_path}, a run of `albert pretrain`; name another one." in error
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoints"]


@pytest.mark.very_slow
def test_a_checkpoint_without_a_vocabulary(finetuning_files, tmp_path, capfd):
    checkpoint = write_checkpoint(tmp_path / "checkpoint", None)
    flags = {"init_checkpoint": checkpoint, "num_train_steps": 1}
    error = refused(capfd, *finetuning_files.flags(tmp_path / "run", **flags))
    assert "Name the SentencePiece model or the WordPiece vocab.txt with --vocab_file" in error
    vocabulary = finetuning_files.checkpoint / "spm.model"
    assert cli.main(finetuning_files.flags(tmp_path / "run", **flags, vocab_file=vocabulary)) == 0
    large = tmp_path / "vocab.txt"
    large.write_text(
        "".join(f"{piece}\n" for piece in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *range(200)))
    )
    error = refused(capfd, *finetuning_files.flags(tmp_path / "other", **flags, vocab_file=large))
    assert f"where the model has {CONFIG.vocab_size} embeddings" in error


@pytest.mark.very_slow
def test_a_longer_vocabulary(finetuning_files, tmp_path):
    own = Vocabulary.read(finetuning_files.checkpoint / "spm.model")
    longer = extend_vocabulary(own, ["norblak veltrim veltrona grokik covid"], 200).save(tmp_path)
    flags = {"vocab_file": longer, "num_train_steps": 1}
    assert cli.main(finetuning_files.flags(tmp_path / "run", **flags)) == 0
    model = SeedFolder.of(tmp_path / "run", 0).load_model()
    assert model.encoder.config.vocab_size == 105
    assert model.preprocessor.vocabulary == Vocabulary.read(longer)


@pytest.mark.slow
def test_another_run_in_the_folder(finished, finetuning_files, capfd):
    before = {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()}
    assert "--learning_rate is 0.001, received 0.1" in refused(
        capfd, *finetuning_files.flags(finished, learning_rate=0.1)
    )
    flags = {"do_train": None, "num_train_steps": None}
    error = refused(capfd, *finetuning_files.flags(finished, "regression", **flags))
    assert "holds a run of classification. Received --task=regression" in error
    for name, trained_with in (("max_seq_length", 64), ("start_n_top", 5)):
        error = refused(capfd, *finetuning_files.flags(finished, do_train=None, **{name: 9}))
        assert f"--{name} must be what the model was trained with, {trained_with}. Received 9" in error
    assert before == {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()}


LENGTHS = {"max_seq_length": 48, "max_query_length": None, "doc_stride": None}
ALONE = {"do_train": None, "num_train_steps": None, **dict.fromkeys(LENGTHS)}


@pytest.fixture(scope="module")
def questions(finetuning_files, tmp_path_factory) -> Path:
    """A run of one step with short windows and answers of one token."""
    run = tmp_path_factory.mktemp("questions") / "run"
    flags = {**LENGTHS, "num_train_steps": 1, "max_answer_length": 1, "n_best_size": 2}
    assert cli.main(finetuning_files.flags(run, "question-answering", **flags)) == 0
    return run


@pytest.mark.very_slow
def test_windows_follow_from_the_length(questions, finetuning_files, capfd):
    """The usual question of 64 tokens and stride of 128 are too long for windows of 48."""
    settings = json.loads((questions / "seed_0/settings.json").read_text())
    assert [settings[name] for name in LENGTHS] == [48, 12, 16]
    flags = finetuning_files.flags(questions, "question-answering", **{**ALONE, "doc_stride": 9})
    assert "--doc_stride must be what the model was trained with, 16. Received 9" in refused(capfd, *flags)


@pytest.mark.very_slow
def test_problems_are_reported_and_strict_refuses(finetuning_files, tmp_path, capfd, monkeypatch):
    """Rows that are left out, texts that are cut, and batches that are larger than the data or than memory."""
    text, file = (finetuning_files.folder / "classification-train.csv").read_text(), tmp_path / "train.csv"
    file.write_text(text + ",light\nthe captain,\n")
    flags = {"train_file": file, "train_batch_size": 10**6, "eval_batch_size": 10**6, "do_predict": True}
    flags |= {"num_train_steps": 2, "max_seq_length": 8}
    assert cli.main(finetuning_files.flags(tmp_path / "run", **flags)) == 0
    error = capfd.readouterr().err
    assert f"warning: 1 row: empty text, left out ({file}:32: received ''" in error
    assert f"warning: 1 row: no label, left out ({file}:33" in error
    assert "warning: train: 30 examples are cut to --max_seq_length=8" in error
    assert "--train_batch_size=1000000: a batch has all 30 examples" in error
    settings = json.loads((tmp_path / "run" / "seed_0" / "settings.json").read_text())
    assert settings["train_batch_size"] == 30
    error = refused(capfd, *finetuning_files.flags(tmp_path / "other", **flags, strict=True))
    assert f"--strict allows no problem in the data. Received 1 row: empty text, left out ({file}:32" in error
    monkeypatch.setattr("albert_tf.memory.memory_of_machine", lambda: 1000)
    error = refused(capfd, *finetuning_files.flags(tmp_path / "other", **flags))
    assert "A batch of --train_batch_size, 30 examples at a time, must fit into memory" in error
    assert not (tmp_path / "other").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("the captain,light\n", "needs examples of two classes or more"),
        ("", "A train file must have rows"),
    ],
)
def test_rows_left_out_are_told_before_an_error_for_want_of_them(
    rows, message, finetuning_files, tmp_path, capfd
):
    file = tmp_path / "train.csv"
    file.write_text(f"text,label\n{rows}the captain, painted,dark\n")
    error = refused(capfd, *finetuning_files.flags(tmp_path / "run", train_file=file))
    told, last = error.splitlines()[-2:]
    assert message in last
    assert told.startswith("warning: 1 row: wrong number of columns, left out")


@pytest.mark.slow
def test_an_answer_longer_than_a_window_is_reported(finetuning_files, tmp_path, capfd):
    passage = "the captain painted the lighthouse . " * 20
    answers = [{"text": passage.strip(), "answer_start": 0}]
    paragraph = {"context": passage, "qas": [{"id": "long", "question": "who ?", "answers": answers}]}
    file = tmp_path / "train.json"
    file.write_text(json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": [paragraph]}]}))
    flags = {"train_file": file, "strict": True}
    error = refused(capfd, *finetuning_files.flags(tmp_path / "run", "question-answering", **flags))
    assert (
        'Received 1 row: answer in no window, treated as "no answer" (question long: 739 characters' in error
    )


@pytest.mark.slow
def test_a_dev_set_without_answers_is_refused_before_training(finetuning_files, tmp_path, capfd):
    text = (finetuning_files.folder / "question-answering-dev.json").read_text()
    data = json.loads(text)
    for paragraph in data["data"][0]["paragraphs"]:
        paragraph["qas"][0]["answers"] = []
    (tmp_path / "dev.json").write_text(json.dumps(data))
    flags = finetuning_files.flags(tmp_path / "run", "question-answering", dev_file=tmp_path / "dev.json")
    assert "--do_eval needs a dev set with answers. Received one without any" in refused(capfd, *flags)
    assert not (tmp_path / "run").exists()


@pytest.mark.very_slow
def test_evaluating_alone_needs_answers(questions, tmp_path, capfd):
    """Otherwise a command would end without a metric."""
    dev_file = tmp_path / "dev.csv"
    dev_file.write_text("question,context,answer\nwho painted ?,the captain painted the lighthouse .,\n")
    command = ["finetune", "--task=question-answering", f"--output_dir={questions}", "--do_eval"]
    error = refused(capfd, *command, f"--dev_file={dev_file}")
    assert "--do_eval needs a dev set with answers. Received one without any" in error


@pytest.mark.very_slow
def test_divergence_is_reported(finetuning_files, tmp_path, capfd):
    flags = {"learning_rate": 1e30, "num_warmup_steps": 0}
    error = refused(capfd, *finetuning_files.flags(tmp_path / "run", **flags))
    assert "Training diverged: the loss or its gradient is not finite" in error


@pytest.mark.very_slow
def test_answers_are_as_long_as_in_training(questions, finetuning_files, tmp_path):
    """Unless the command asks for another length."""
    run = shutil.copytree(questions, tmp_path / "run")

    def found(**flags):
        assert cli.main(finetuning_files.flags(run, "question-answering", **ALONE, **flags)) == 0
        return read_n_best(run / "seed_0", "dev").n_best.values()

    assert all(len(answers) == 2 for answers in found())
    assert all(len(answer.text.split()) == 1 for answers in found() for answer in answers)
    assert all(len(answers) > 2 for answers in found(n_best_size=5))
