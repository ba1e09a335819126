"""Every command that writes, interrupted, run twice at once, on bad disks and with few descriptors."""

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from albert_cli import cli
from albert_tf.tasks.probabilities import Probabilities, probabilities_file, write_probabilities
from albert_tf.tasks.task import BENCHMARKS
from tests.disks import mounted_disk
from tests.processes import ROOT, Program, run_together
from tests.story import write_story

pytestmark = pytest.mark.very_slow

MAIN = "import sys; from albert_cli.cli import main; sys.exit(main(sys.argv[1:]))"
FEW_DESCRIPTORS = (
    "import os, resource; used = len(os.listdir('/proc/self/fd')); "
    "resource.setrlimit(resource.RLIMIT_NOFILE, (used + {}, used + {})); "
)
CLOCK_SET_BACK = "import time; now = time.time; time.time = lambda: now() - 86_400; "


@dataclass(frozen=True)
class Inputs:
    """Finished work that later commands start from."""

    text: Path
    vocabulary: Path
    pretraining: Callable[..., list[str]]
    pretrained: Path
    finetuning: Callable[[Path], list[str]]
    finetuned: Path
    glue_run: Path


@pytest.fixture(scope="module")
def inputs(pretraining_files, finetuning_files, tmp_path_factory) -> Inputs:
    folder = tmp_path_factory.mktemp("inputs")
    pretrained, finetuned, rte = (folder / name for name in ("pretrained", "finetuned", "rte"))
    assert cli.main(pretraining_files.flags(pretrained)) == 0
    assert cli.main(finetuning_files.flags(finetuned, do_predict=True)) == 0
    classes = BENCHMARKS["rte"].labels
    rte.mkdir()
    write_probabilities(
        probabilities_file(rte, "test"), Probabilities(("0",), classes, (np.array([0.75, 0.25]),))
    )
    return Inputs(
        write_story(folder / "text.txt"),
        pretraining_files.spm_model_file,
        pretraining_files.flags,
        pretrained,
        finetuning_files.flags,
        finetuned,
        rte,
    )


def prepare(inputs: Inputs, output: Path) -> list[str]:
    flags = {"input_file": inputs.text, "output_file": output / "e.tfrecord", "max_seq_length": 32}
    flags |= {"spm_model_file": inputs.vocabulary, "num_shards": 2, "workers": 1}
    return ["prepare", *(f"--{name}={value}" for name, value in flags.items())]


# Each command with an empty folder to write into.
COMMANDS: dict[str, Callable[[Inputs, Path], Sequence[object]]] = {
    "vocab": lambda inputs, output: (
        "vocab",
        f"--input_file={inputs.text}",
        f"--output_prefix={output}/v",
        "--vocab_size=80",
    ),
    "prepare": prepare,
    "pretrain": lambda inputs, output: inputs.pretraining(output / "run"),
    "finetune": lambda inputs, output: inputs.finetuning(output / "run"),
    "plot": lambda inputs, output: ("plot", inputs.pretrained, f"--output={output}/curves.png"),
    "convert": lambda inputs, output: ("convert", inputs.pretrained, output / "hf", "--to=huggingface"),
    "convert a task": lambda inputs, output: ("convert", inputs.finetuned, output / "tf1", "--to=tf1"),
    "export": lambda inputs, output: (
        "export",
        "--kind=preprocessor",
        "--seq_length=32",
        f"--model_dir={inputs.pretrained}",
        f"--output={output}/saved_model",
    ),
    "ensemble": lambda inputs, output: (
        "ensemble",
        inputs.finetuned,
        "--task=classification",
        f"--output_dir={output}/all",
    ),
    "submission": lambda inputs, output: (
        "submission",
        f"rte={inputs.glue_run}",
        f"--output={output}/glue.zip",
    ),
}
QUICK = [name for name in COMMANDS if name not in ("finetune", "convert a task", "export")]
KEEP_STATE = {"pretrain", "finetune", "prepare"}


def program(name: str, inputs: Inputs, output: Path, before: str = "") -> list:
    return ["-c", before + MAIN, *COMMANDS[name](inputs, output)]


def files(folder: Path, *, hidden: bool = True) -> set[str]:
    """The files of an output, but for the events of TensorBoard, whose names hold the time.

    Args:
      folder: the output.
      hidden: whether the temporary folders count that a command fills before it renames them.
    """
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    return {name for name in found if "tensorboard" not in name and (hidden or ".tmp/" not in name)}


@dataclass(frozen=True)
class Finished:
    files: set[str]
    seconds: float


@pytest.fixture(scope="module")
def finished(inputs, tmp_path_factory) -> dict[str, Finished]:
    """What each command writes if nothing disturbs it."""
    found = {}
    for name in COMMANDS:
        output = tmp_path_factory.mktemp("finished")
        begin = time.monotonic()
        (result,) = run_together([program(name, inputs, output)], [{}], timeout=240)
        assert result.returncode == 0, result.stderr
        found[name] = Finished(files(output), time.monotonic() - begin)
    return found


def assert_one_sentence(result: subprocess.CompletedProcess) -> str:
    """The command reports what is wrong with its input or its system."""
    assert "Traceback" not in result.stderr, result.stderr
    assert result.returncode == 2, result.stderr
    last = result.stderr.splitlines()[-1]
    assert last.startswith("albert: "), result.stderr
    return last


def assert_complete(name: str, inputs: Inputs, output: Path, finished: dict[str, Finished]) -> None:
    """The same command again ends with the files of an undisturbed one."""
    (result,) = run_together([program(name, inputs, output)], [{}], timeout=240)
    if result.returncode == 2 and any(words in result.stderr for words in ("--overwrite", "new or empty")):
        assert name not in KEEP_STATE  # it was complete already
    else:
        assert result.returncode == 0, result.stderr
    assert files(output, hidden=False) == finished[name].files


@pytest.mark.parametrize(
    ("name", "number"), list(zip(COMMANDS, itertools.cycle([signal.SIGTERM, signal.SIGKILL]), strict=False))
)
def test_signal_at_a_random_moment(name, number, inputs, finished, tmp_path):
    share = random.Random(f"{name} {number}").uniform(0.1, 0.9)
    with Program(program(name, inputs, tmp_path)) as process:
        time.sleep(share * finished[name].seconds)
        process.send_signal(number)
        _, error = process.communicate(timeout=120)
    if number != signal.SIGKILL:
        assert "Traceback" not in error, error
        assert process.returncode in {0, 128 + number, -number}, error
        if name not in KEEP_STATE:
            assert files(tmp_path) in (set(), finished[name].files), "nothing is half-written"
    assert_complete(name, inputs, tmp_path, finished)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, "size=4k") for name in COMMANDS),
        *((name, "ro") for name in ("prepare", "pretrain", "convert")),
    ],
)
def test_a_disk_that_is_full_or_read_only(name, options, inputs, tmp_path):
    with mounted_disk(tmp_path, options):
        (result,) = run_together([program(name, inputs, tmp_path)], [{}], timeout=240)
        if result.returncode == 0:  # what it writes is that small
            assert (name, options) == ("submission", "size=4k")
            return
        last = assert_one_sentence(result)
        assert any(word in last for word in ("No space left", "full", "Read-only")), last
        if name == "ensemble":  # one file after the other, each complete
            assert files(tmp_path) <= {"all/dev_probabilities.jsonl"}
        elif name not in KEEP_STATE:
            assert not files(tmp_path)


@pytest.mark.parametrize("name", QUICK)
def test_few_descriptors(name, inputs, finished, tmp_path):
    """The command either works or reports it; a folder cannot even be removed without descriptors."""
    for spare in (0, 6):
        output = tmp_path / str(spare)
        output.mkdir()
        before = FEW_DESCRIPTORS.format(spare, spare)
        (result,) = run_together([program(name, inputs, output, before)], [{}], timeout=240)
        if result.returncode and "random_device" not in result.stderr:  # TensorFlow's C++ ends the process
            assert "Too many open files" in assert_one_sentence(result)
    assert_complete(name, inputs, output, finished)


@pytest.mark.parametrize("name", QUICK)
def test_two_at_once(name, inputs, finished, tmp_path):
    results = run_together([program(name, inputs, tmp_path)] * 2, [{}] * 2, timeout=240)
    for result in results:
        if result.returncode:
            assert_one_sentence(result)
    assert any(result.returncode == 0 for result in results)
    assert files(tmp_path) == finished[name].files


@pytest.mark.parametrize("name", sorted(KEEP_STATE))
def test_the_clock_set_back_between_two_runs(name, inputs, finished, tmp_path):
    with Program(program(name, inputs, tmp_path)) as process:
        time.sleep(0.7 * finished[name].seconds)
        process.kill()
        process.communicate(timeout=60)
    (result,) = run_together([program(name, inputs, tmp_path, CLOCK_SET_BACK)], [{}], timeout=240)
    assert result.returncode == 0, result.stderr
    assert files(tmp_path) == finished[name].files


def predicting(inputs: Inputs, lines: Path, before: str = "") -> list:
    """A program that predicts the lines of a file."""
    before += f"import sys; sys.stdin = open({str(lines)!r}); "
    return ["-c", before + MAIN, "predict", f"--model_dir={inputs.finetuned}"]


def test_predict_on_a_full_disk(inputs, tmp_path):
    """In a new interpreter, because what a forked one does when it ends is not Python's."""
    lines = tmp_path / "lines.txt"
    lines.write_text("the captain\n" * 5)
    command = [sys.executable, *predicting(inputs, lines)]
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, timeout=240, check=False
        )
    assert "No space left on device" in assert_one_sentence(result)


def test_predict_with_few_descriptors(inputs, tmp_path):
    """It answers all lines or reports what is wrong."""
    lines = tmp_path / "lines.txt"
    lines.write_text("the captain\n" * 5)
    for spare in (2, 6):
        few = FEW_DESCRIPTORS.format(spare, spare)
        (result,) = run_together([predicting(inputs, lines, few)], [{}], timeout=240)
        if result.returncode and "random_device" not in result.stderr:
            assert "Too many open files" in assert_one_sentence(result)
        elif not result.returncode:
            assert len(result.stdout.splitlines()) == 5


def test_predict_ends_with_what_it_has_answered(inputs, tmp_path):
    pipe = tmp_path / "lines"
    os.mkfifo(pipe)
    with Program(predicting(inputs, pipe)) as process, pipe.open("w") as lines:
        lines.write("the captain\n" * 3)
        lines.flush()
        deadline = time.monotonic() + 240
        while len(process.output().splitlines()) < 3:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        answers, error = process.communicate(timeout=120)
    assert (process.returncode, error.splitlines()[-1]) == (143, "albert: received SIGTERM")
    assert len(answers.splitlines()) == 3
    assert "Traceback" not in error, error


def test_checkpoints_deleted_under_a_running_process(inputs, tmp_path):
    """The run ends all the same, and the newest checkpoint is there."""
    run = tmp_path / "run"
    flags = inputs.pretraining(run, num_train_steps=24, save_checkpoints_steps=4)
    with Program(["-c", MAIN, *flags]) as process:
        while process.poll() is None:
            for path in (run / "checkpoints").glob("*.index"):
                path.unlink(missing_ok=True)
            time.sleep(0.2)
        _, error = process.communicate(timeout=240)
    assert "Traceback" not in error, error
    assert process.returncode == 0, error
