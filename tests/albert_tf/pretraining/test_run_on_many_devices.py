"""The program on several devices and in several processes: the same run, one folder, no hanging process."""

import glob
from pathlib import Path

import pytest

from albert_cli import cli
from albert_tf.checkpoints.run_files import read_metrics
from data_prep.examples.prepare_flags import PrepareSettings
from data_prep.prepare.local import prepare
from tests.albert_tf.pretraining.test_phases import copy_until
from tests.albert_tf.pretraining.test_pretrain import assert_nearly_same_run, assert_same_run
from tests.processes import ROOT, run_python, run_workers
from tests.story import write_story

pytestmark = pytest.mark.very_slow


@pytest.fixture(scope="module")
def short_examples(pretraining_files, tmp_path_factory) -> Path:
    """Examples of 16 tokens; the other files have 32."""
    folder = tmp_path_factory.mktemp("short")
    text, examples = write_story(folder / "text.txt", 6, 25), folder / "short.tfrecord"
    vocabulary = str(pretraining_files.spm_model_file)
    prepare(PrepareSettings(str(text), str(examples), vocabulary, max_seq_length=16), show_progress=False)
    return examples


def program(pretraining_files, run: Path, **flags) -> list:
    return [ROOT / "run_pretraining.py", *pretraining_files.flags(run, **flags)[1:]]


def test_two_workers_equal_one(pretraining_files, short_examples, without_dropout, tmp_path):
    """In two phases, over several epochs, resumed in the second phase, evaluated on an odd number of examples.

    Both read one file; of two files each worker would read one, in another order than a single worker.
    """
    first_file = sorted(glob.glob(pretraining_files.train))[0]  # noqa: PTH207
    flags = dict.fromkeys(("input_file", "eval_file", "num_train_steps"))  # the phases have them
    flags |= {"albert_config_file": without_dropout, "train_batch_size": 16, "eval_batch_size": 7}
    flags |= {"num_warmup_steps": 100, "learning_rate": 0.1}  # the same schedule whatever the number of steps

    def phases(steps):
        short = f"input_file={short_examples} num_train_steps=5 train_batch_size=32"
        long = f"input_file={first_file} eval_file={pretraining_files.heldout} num_train_steps={steps}"
        return [f"--phase={short}", f"--phase={long}"]

    assert cli.main([*pretraining_files.flags(tmp_path / "one", **flags), *phases(7)]) == 0
    for steps in (3, 7):
        command = [*program(pretraining_files, tmp_path / "two", **flags), *phases(steps)]
        for worker in run_workers(command, command):
            assert worker.returncode == 0, worker.stderr

    assert_nearly_same_run(tmp_path / "one", tmp_path / "two", atol=1e-5)
    assert {path.name for path in (tmp_path / "two").iterdir()} == {
        path.name for path in (tmp_path / "one").iterdir()
    }
    events = list((tmp_path / "two" / "tensorboard").iterdir())
    assert len(events) == 2, "only from the chief, which was started twice"


@pytest.mark.journey
def test_dropout_on_two_devices_resumes_to_the_bit(pretraining_files, tmp_path):
    whole, run = tmp_path / "whole", tmp_path / "run"
    flags = {"num_devices": 2, "gradient_accumulation_steps": 2, "eval_file": None, "do_eval": None}
    run_python(*program(pretraining_files, whole, **flags))
    copy_until(whole, run, 8)
    run_python(*program(pretraining_files, run, **flags))
    assert_same_run(whole, run)


def test_workers_that_disagree(pretraining_files, tmp_path):
    commands = [program(pretraining_files, tmp_path / "run", seed=seed) for seed in (1, 2)]
    for worker in run_workers(*commands):
        assert worker.returncode == 2
        assert "albert: All workers must be started with the same flags" in worker.stderr
    assert not (tmp_path / "run").exists()


def test_workers_without_a_common_folder(pretraining_files, tmp_path):
    """As on two machines with a /runs of their own: one has a checkpoint, the other has none."""
    run = tmp_path / "run"
    assert cli.main(pretraining_files.flags(run, num_train_steps=4)) == 0
    (tmp_path / "elsewhere").mkdir()
    commands = [program(pretraining_files, Path("run"), num_train_steps=8) for _ in range(2)]
    workers = run_workers(*commands, folders=[tmp_path, tmp_path / "elsewhere"])
    for worker in workers:
        assert worker.returncode == 2
        assert "albert: --output_dir must be one folder that all workers share" in worker.stderr
    assert read_metrics(run)[-1]["step"] == 4


def test_a_worker_with_an_error_stops_the_other(pretraining_files, tmp_path):
    run = tmp_path / "run"
    assert cli.main(pretraining_files.flags(run, num_train_steps=4)) == 0
    command = program(pretraining_files, run, seed=1)
    chief, other = run_workers(command, command)
    assert (chief.returncode, other.returncode) == (2, 2)
    assert "holds a run with other flags: --seed is 12345" in chief.stderr
    assert "another one stopped" in other.stderr
