"""The commands that the documentation quotes are valid."""

import importlib
import inspect
import re
import shlex
from pathlib import Path

import pytest

from albert_cli import program
from benchmarks import data_prep, finetuning, inference, reader, step_profile, tokenization, train_step
from benchmarks.peer_settings import find_peer
from data_prep.errors import InputError
from tests.benchmarks.finished_peers import finished_peer

PAGE = (
    (Path(__file__).parents[2] / "docs" / "performance.md").read_text(encoding="utf-8").replace("\\\n", " ")
)
COMMANDS = re.findall(r"^    python -m ((?:benchmarks|experiments)\..*)$", PAGE, re.MULTILINE)


def parse(module, words: list[str]):
    """The settings that a program's `main` receives."""
    (parameter,) = inspect.signature(module.main).parameters.values()
    received = []
    assert program.run_with_settings(received.append, parameter.annotation, None, words) == 0
    return received[0]


@pytest.mark.parametrize("command", [command for command in COMMANDS if "..." not in command])
def test_the_documentation_quotes_valid_commands(command):
    name, *words = shlex.split(command)
    assert parse(importlib.import_module(name), words)


def test_the_documentation_quotes_most_programs():
    assert len({command.split()[0] for command in COMMANDS}) >= 12


def test_ours_must_not_die():
    other = finished_peer("openvino", [{}])
    assert find_peer([other], "openvino") is other
    with pytest.raises(InputError, match="albert_tf must run to the end.* its error is in albert_tf.log"):
        find_peer([other])


def test_a_list_takes_the_words_up_to_the_next_flag():
    settings = parse(train_step, ["--shapes", "16,128,20", "4,512,77", "--peers", "albert_tf", "keras_hub"])
    assert settings.shapes == ("16,128,20", "4,512,77")
    assert settings.peers == ("albert_tf", "keras_hub")
    words = ["--shapes", "--spm_model_file=30k.model", "--tasks", "sst-2=SST-2", "squad1.1=dev-v1.1.json"]
    settings = parse(inference, words)
    assert (settings.shapes, settings.tasks) == ((), ("sst-2=SST-2", "squad1.1=dev-v1.1.json"))
    assert parse(step_profile, ["--shape", "8", "64", "10"]).shape == (8, 64, 10)
    assert parse(reader, []).runs == 3


@pytest.mark.parametrize(
    ("module", "words", "message"),
    [
        (train_step, ["--peers", "other"], "Received 'other'"),
        (inference, ["--peers", "keras_hub"], "must name albert_tf"),
        (inference, ["--python", "keras_hub"], "--python must be NAME=PATH"),
        (inference, ["--tasks", "sst-2=SST-2"], "--tasks needs --spm_model_file"),
        (inference, ["--dtypes", "int8"], "--dtypes=int8 needs --spm_model_file"),
        (step_profile, ["--dtype=float16"], "float16"),
        (
            inference,
            ["--shapes", "1x16"],
            "--shapes must be positive numbers B,T, such as 8,128. Received 1x16.",
        ),
        (inference, ["--shapes", "0,16"], "Received 0,16."),
        (inference, ["--shapes", "1,513"], "--shapes must have T of at most 512"),
        (inference, ["--shapes"], "--shapes without values needs --tasks to measure."),
        (inference, ["--tasks", "sst-2"], "--tasks must be TASK=DATA, such as sst-2=SST-2. Received sst-2."),
        (inference, ["--turns=0"], "--turns must be at least 1. Received 0."),
        (train_step, ["--shapes", "16,128"], "--shapes must be positive numbers B,T,P"),
        (train_step, ["--shapes", "16,128,129"], "and P of at most T. Received 16,128,129."),
        (train_step, ["--steps=0"], "--steps must be at least 1. Received 0."),
        (reader, ["--runs=0"], "--runs must be at least 1. Received 0."),
        (reader, ["--examples=64"], "--examples must be at least 256. Received 64."),
        (finetuning, ["--data_dir=a", "--spm_model_file=b", "--turns=0"], "--turns must be at least 1."),
        (tokenization, ["--input_file=a", "--spm_model_file=b", "--runs=0"], "--runs must be at least 1."),
        (data_prep, ["--input_file=a", "--spm_model_file=b", "--rounds=0"], "--rounds must be at least 1."),
        (
            data_prep,
            ["--input_file=a", "--spm_model_file=b", "--original_repo=albert"],
            "--original_repo and --original_python need each other. Received only --original_repo.",
        ),
        (
            data_prep,
            ["--input_file=a", "--spm_model_file=b", "--memory_megabytes=20,x"],
            "--memory_megabytes must be positive whole numbers, such as 20,200. Received 20,x.",
        ),
    ],
)
def test_mistakes_are_reported(capsys, module, words, message):
    (parameter,) = inspect.signature(module.main).parameters.values()
    assert program.run_with_settings(pytest.fail, parameter.annotation, None, words) == 2
    assert message in " ".join(capsys.readouterr().err.split())
