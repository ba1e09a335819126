"""The examples of the README, of the pages about tasks and of public docstrings work; links lead to files."""

import ast
import doctest
import itertools
import re
import runpy
import shlex
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest

import albert_tf
from albert_cli import cli
from tests.data_prep.wordpieces import vocab_file  # noqa: F401  a fixture
from tests.selection import all_but_very_slow
from tests.test_floors import FOLDERS

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    *(
        ROOT / "docs" / f"{task}.md"
        for task in (
            "demo",
            "prepare",
            "languages",
            "pretrain",
            "recipes",
            "devices",
            "finetune",
            "convert",
            "export",
            "lab",
        )
    ),
]
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
SNIPPETS = list(dict.fromkeys(re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)))
COMMANDS = [
    shlex.split(command, comments=True)
    for block in re.findall(r"(?:^    .*\n)+", re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL), re.MULTILINE)
    for command in re.sub(r"\\\n\s*", "", block).strip().split("\n")
]


@pytest.fixture(scope="module")
def run_folder(pretraining_files, tmp_path_factory):
    """A folder with a run, runs/base."""
    folder = tmp_path_factory.mktemp("readme")
    assert cli.main(pretraining_files.flags(folder / "runs" / "base", num_train_steps=1)) == 0
    return folder


@pytest.fixture(scope="module")
def folder(run_folder):
    """A folder with runs/base and its exports, as after the earlier pages."""
    folder = run_folder
    export = ["export", f"--model_dir={folder}/runs/base", f"--output={folder}/saved_model"]
    assert cli.main(export) == 0
    fill_mask = [*export[:2], "--kind=fill-mask"]
    assert cli.main([*fill_mask, f"--output={folder}/models/albert/1"]) == 0
    assert cli.main([*fill_mask, "--format=onnx", f"--output={folder}/portable"]) == 0
    return folder


def statements(snippet):
    """Each statement, and the answer that a comment in the next line gives for it, or None."""
    lines = snippet.splitlines()
    for statement in ast.parse(snippet).body:
        following = lines[statement.end_lineno] if statement.end_lineno < len(lines) else ""
        answer = following.removeprefix("# ") if following.startswith("# [") else None
        yield "\n".join(lines[statement.lineno - 1 : statement.end_lineno]), answer


def rounded(answer):
    """The answer with numbers of two decimals, as the README shows it."""
    if isinstance(answer, float):
        return round(answer, 2)
    return type(answer)(map(rounded, answer)) if isinstance(answer, list | tuple) else answer


@pytest.mark.very_slow
@pytest.mark.parametrize("snippet", SNIPPETS)
def test_python(snippet, folder, monkeypatch):
    # The fixture's model is for sequences of 32.
    names: dict = {}
    monkeypatch.chdir(folder)
    for code, answer in statements(snippet.replace("128", "32")):
        if answer is None:
            exec(code, names)
        else:
            assert rounded(eval(code, names)) == ast.literal_eval(answer)
    if "texts" in names:
        model, texts = names["model"], names["texts"]
        assert set(model.evaluate(texts, names["labels"], verbose=0, return_dict=True)) == {
            "accuracy",
            "loss",
        }
        model.save(folder / "model.keras")
        loaded = keras.saving.load_model(folder / "model.keras")
        expected = model.predict(texts, verbose=0)
        np.testing.assert_allclose(loaded.predict(texts, verbose=0), expected, rtol=1e-5, atol=1e-7)


SLOW = {
    "MultiLabelClassifier",
    "QuestionAnswering",
    "TextClassifier",
    "TokenClassifier",
    "convert",
    "export_model",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", all_but_very_slow(albert_tf.__all__, set(albert_tf.__all__) - SLOW))
def test_public_docstrings(name, run_folder, pretraining_files, vocab_file, monkeypatch, tmp_path):  # noqa: F811
    """Every public name has an example, which runs beside a run, held-out examples and a vocab.txt."""
    monkeypatch.chdir(tmp_path)
    Path("runs").symlink_to(run_folder / "runs")
    shutil.copy(vocab_file, "vocab.txt")
    for file in Path(pretraining_files.heldout).parent.glob("*.*"):
        shutil.copy(file, file.name)
    names = {public: getattr(albert_tf, public) for public in albert_tf.__all__} | {"np": np, "Path": Path}
    examples = doctest.DocTestParser().get_doctest(names[name].__doc__, names, name, None, None)
    assert examples.examples
    said: list[str] = []
    assert not doctest.DocTestRunner().run(examples, out=said.append).failed, "".join(said)


def test_summary_prints_the_count_of_the_paper():
    lines: list[str] = []
    albert_tf.AlbertEncoder(albert_tf.AlbertConfig.from_preset("albert_base_v2")).summary(
        print_fn=lines.append
    )
    assert "11,683,584" in "".join(lines)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:2]))
def test_commands(command, tmp_path, monkeypatch):
    """`albert` commands parse, `python -c` runs, `python -m` exists; make and pip are CI's own first steps."""
    if command[:2] == ["python", "run_pretraining.py"]:
        command = ["albert", "pretrain", *command[2:]]
    if command[0] == "albert":
        flags = list(itertools.takewhile(lambda word: word != "<", command[1:]))
        cli.app.parse_args(flags, exit_on_error=False, print_error=False)
    elif command[:2] == ["python", "-c"]:
        monkeypatch.chdir(tmp_path)
        exec(command[2])
        assert (tmp_path / "albert_config.json").exists() == ("albert_config.json" in command[2])
    elif command[:2] == ["python", "-m"]:
        module = ROOT / command[2].replace(".", "/")
        assert module.with_suffix(".py").exists() or (module / "__main__.py").exists()
    else:
        assert command[0] in ("make", "pip", "dask")


def test_the_pages_have_examples():
    assert len(SNIPPETS) == 8
    assert len([command for command in COMMANDS if command[0] == "albert"]) >= 20


@pytest.mark.parametrize(
    "page", [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"], ids=lambda page: page.name
)
def test_links(page):
    """Links to files lead to files."""
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing


def test_the_drawing_is_what_its_program_draws():
    program = runpy.run_path(str(ROOT / "docs" / "overview.py"))
    assert program["FILE"].read_text(encoding="utf-8") == program["drawing"]()


def test_the_architecture_names_files_that_exist():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    paths = set(
        re.findall(r"`((?:albert_tf|albert_cli|data_prep|export|tests|benchmarks)/[a-z0-9_./]*)`", page)
    )
    assert len(paths) > 40
    assert not sorted(path for path in paths if not (ROOT / path).exists())


def test_the_architecture_lists_the_folders_in_their_order():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    listed = [folder.rstrip("/") for folder in re.findall(r"^\| `([a-z_/]+/)` \|", page, re.MULTILINE)]
    library = [
        folder
        for folder in FOLDERS
        if folder.split("/")[0] in ("albert_tf", "data_prep", "export", "albert_cli")
    ]
    assert listed == [folder for folder in library if folder != "albert_cli/commands"]
