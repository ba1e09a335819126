"""The tutorials run, in tiny form; the notebooks hold their cells."""

import dataclasses
import itertools
import re
import shlex
import subprocess
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import pytest

from albert_cli import cli
from docs.run_tutorials import FOLDER, read_script
from tests.albert_tf.tasks.files import CONFIG, write_checkpoint
from tests.story import write_story

# What the cell of the parameters is changed to, and the files that the reader has at the end.
TINY = {
    "classifier": (
        {"PACKAGES": ("json", "logging"), "SENTENCES": 20, "EPOCHS": 1},
        ["sentences.csv", "model.keras"],
    ),
    "questions": (
        {
            "PACKAGE": "keras.src.losses",
            "TRAINING_FLAGS": "--num_train_steps=2 --train_batch_size=4 --max_seq_length=128 "
            "--max_query_length=24 --doc_stride=64",
        },
        ["squad/dev-v1.1.json", "runs/questions/results.json"],
    ),
    "pretraining": (
        {
            "LANGUAGE": "en",
            "VOCABULARY": 100,
            "SIZES": {
                "embedding_size": 8,
                "hidden_size": 16,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
            },
            "STEPS": {32: 2, 64: 2},
            "WARMUP": 1,
            "SENTENCE": "The captain sailed past.",
            "MASKED": ["The captain [MASK] past."],
        },
        ["vocab/spm.model", "runs/mine/metrics.jsonl", "fill_mask/saved_model.pb"],
    ),
    "search": (
        {"PACKAGES": ("json", "logging"), "PAIRS": 40, "LENGTH": 16, "EPOCHS": 1, "BATCH": 8},
        ["embedding/saved_model.pb"],
    ),
    "formats": (
        {},
        [
            "converted/tf1/spm.model",
            "converted/huggingface/model.safetensors",
            "converted/kerashub/config.json",
        ],
    ),
    "serving": ({"REQUESTS": 2}, ["models/albert/1/saved_model.pb", "portable/model.onnx"]),
}
TEXT = "\n".join(
    cell.source
    for name in TINY
    for cell in read_script(FOLDER / f"{name}.py").cells
    if cell.cell_type == "markdown"
)
COMMANDS = [
    shlex.split(command)
    for command in re.findall(r"^    (albert .*)", re.sub(r"\\\n\s*", "", TEXT), re.MULTILINE)
]


def test_every_tutorial_is_listed():
    assert sorted(TINY) == sorted(path.stem for path in FOLDER.glob("*.py"))


def code_of(name: str, changes: dict) -> str:
    """A script's code, with other values after its cell of parameters."""
    code = []
    for cell in read_script(FOLDER / f"{name}.py").cells:
        if cell.cell_type == "code":
            code.append(cell.source)
            if "parameters" in cell.metadata.get("tags", ()):
                assert all(f"{parameter} = " in cell.source for parameter in changes)
                code += [f"{parameter} = {value!r}" for parameter, value in changes.items()]
    return "\n".join(code)


@pytest.mark.parametrize("name", TINY)
def test_the_notebook_holds_the_scripts_cells(name):
    script = read_script(FOLDER / f"{name}.py")
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    assert [(cell.cell_type, cell.source) for cell in notebook.cells] == [
        (cell.cell_type, cell.source) for cell in script.cells
    ], f"make tutorials TUTORIALS={name} writes the notebook of the script"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:2]))
def test_commands_in_the_text(command):
    """The commands that are shown and not run parse."""
    words = list(itertools.takewhile(lambda word: word != "<", command))
    cli.app.parse_args(words[1:], exit_on_error=False, print_error=False)


@pytest.fixture(scope="module")
def tiny_model(finetuning_files, tmp_path_factory):
    """A checkpoint with random weights and its vocabulary."""
    config = dataclasses.replace(CONFIG, vocab_size=100, max_position_embeddings=256)
    (vocabulary,) = finetuning_files.checkpoint.glob("*.model")
    return write_checkpoint(tmp_path_factory.mktemp("tutorials") / "tiny", vocabulary, config=config)


@pytest.fixture
def commands(monkeypatch):
    """The `albert` commands of a script, which run in this process."""
    words = []
    run = subprocess.run

    def run_here(command, **options):
        if not options.get("shell"):
            return run(command, **options)
        program, *arguments = shlex.split(command)
        assert program == "albert"
        words.append(arguments[0])
        assert cli.main(arguments) == 0
        return subprocess.CompletedProcess(command, 0, stdout="")

    monkeypatch.setattr(subprocess, "run", run_here)
    return words


@pytest.fixture
def pictures(monkeypatch):
    """The number of axes of each picture that a script shows."""
    shown = []

    def show():
        shown.extend(len(plt.figure(number).axes) for number in plt.get_fignums())
        plt.close("all")

    plt.switch_backend("agg")
    monkeypatch.setattr(plt, "show", show)
    return shown


@pytest.mark.very_slow
@pytest.mark.parametrize("name", TINY)
def test_runs(name, tiny_model, commands, pictures, tmp_path, monkeypatch):
    changes, made = TINY[name]
    if name == "pretraining":
        (tmp_path / "texts").mkdir()
        for seed in (0, 1):
            write_story(tmp_path / "texts" / f"{seed}.txt", seed=seed)
    else:
        changes = {**changes, "MODEL": str(tiny_model)}
    monkeypatch.chdir(tmp_path)
    exec(compile(code_of(name, changes), f"{name}.py", "exec"), {"__name__": "__main__"})
    assert pictures
    assert all(pictures)
    assert [file for file in made if not Path(file).exists()] == []
