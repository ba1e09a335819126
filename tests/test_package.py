"""The package: what it declares, and a wheel that works alone, outside the checkout and without any extra."""

import ast
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import albert_tf
from tests.test_documentation import SNIPPETS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PACKAGES = ("albert_cli", "albert_tf", "data_prep", "export")
IN_REQUIREMENTS = ("metrics", "plot", "text", "tfds")  # the extras whose packages requirements.txt has, too
OPTIONAL_MODULES = ("matplotlib", "scipy", "sklearn", "seqeval", "tensorflow_datasets", "tensorflow_text")
# Behind a check of their own, in export/portable.py, albert_tf/runtime/engines.py, albert_tf/conversion/peers.py,
# data_prep/prepare/beam.py and, of Keras' backend, albert_tf/kernels/formulas.py.
CHECKED = {
    "ai_edge_litert",
    "apache_beam",
    "compression",
    "jax",
    "keras_hub",
    "nncf",
    "onnx",
    "onnxruntime",
    "openvino",
    "tf2onnx",
}
CHECKED |= {"torch", "transformers", "sentence_transformers", "distributed"}
# TensorFlow writes TensorBoard's files, and people open them; Windows has no tensorflow-text.
UNIMPORTED = {"tensorboard", "tensorflow-text"}


def name_of(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement)[0].lower().replace("_", "-")


def imported_without_an_extra(path: Path) -> set[str]:
    """The first words of the absolute imports outside `with needs_extra(...)`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    optional = {
        part
        for node in ast.walk(tree)
        if isinstance(node, ast.With) and "needs_extra" in ast.unparse(node.items[0].context_expr)
        for part in ast.walk(node)
    }
    imports = [node for node in ast.walk(tree) if node not in optional]
    names = [name.name for node in imports if isinstance(node, ast.Import) for name in node.names]
    names += [node.module for node in imports if isinstance(node, ast.ImportFrom) and node.module]
    return {name.split(".")[0] for name in names}


@pytest.mark.slow
def test_what_is_imported_is_what_is_declared():
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    modules = set().union(*map(imported_without_an_extra, files))
    modules -= {*sys.stdlib_module_names, *PACKAGES, *CHECKED}
    owners = importlib.metadata.packages_distributions()
    declared = {name_of(requirement) for requirement in PROJECT["dependencies"]} - UNIMPORTED
    assert all(declared & set(map(name_of, owners[module])) for module in modules)
    assert declared == declared & {name_of(owner) for module in modules for owner in owners[module]}


def test_requirements_are_the_dependencies_and_the_common_extras():
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    extras = PROJECT["optional-dependencies"]
    expected = {*PROJECT["dependencies"], *(one for name in IN_REQUIREMENTS for one in extras[name])}
    assert {line for line in lines if not line.startswith("#")} == expected
    assert extras["all"] == [f"albert-tf[{','.join(IN_REQUIREMENTS)}]"]


def test_errors_name_extras_that_exist():
    text = "".join(
        path.read_text(encoding="utf-8") for top in PACKAGES for path in (ROOT / top).rglob("*.py")
    )
    named = set(re.findall(r'needs_extra\([^)]*, "([\w-]+)"\)', text))
    assert len(named) >= 8
    assert named <= set(PROJECT["optional-dependencies"])


def test_one_version():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## \[(\d.*?)\]", changelog, re.MULTILINE)[0] == albert_tf.__version__
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {albert_tf.__version__}\n" in citation


@pytest.fixture
def bin_folder(tmp_path) -> Path:
    """The programs of an environment with the wheel, and of this one all packages but the optional ones."""
    source, environment = tmp_path / "source", tmp_path / "environment"
    skipped = shutil.ignore_patterns("__pycache__")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=skipped)
    for name in ("pyproject.toml", "README.md", "LICENSE", "run_finetuning.py", "run_pretraining.py"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = ("wheel", "--no-deps", "--no-build-isolation", f"--wheel-dir={tmp_path}")
    subprocess.run([*pip, *build, source], check=True)
    (wheel,) = tmp_path.glob(f"albert_tf-{albert_tf.__version__}-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {f"{package}/py.typed" for package in PACKAGES} <= set(names)
    assert {name.split("/")[0] for name in names if name.endswith(".py") and "/" in name} == set(PACKAGES)
    venv.create(environment, symlinks=True)
    python = environment / "bin" / "python"
    subprocess.run([*pip, f"--python={python}", "install", "--no-deps", "--no-index", wheel], check=True)
    (packages,) = environment.glob("lib/*/site-packages")
    # A line of a .pth file is a folder of modules; the .pth files there, such as that of a checkout, stay unread.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    hidden = f"import sys; sys.modules.update(dict.fromkeys({OPTIONAL_MODULES}))"
    (packages / "sitecustomize.py").write_text(hidden)
    return python.parent


def test_the_level_of_tensorflows_log_is_set_unless_the_user_set_it():
    program = "import albert_tf, os; print(os.environ['TF_CPP_MIN_LOG_LEVEL'])"
    unset = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    for variables, expected in ((unset, ("2", "3")), ({**unset, "TF_CPP_MIN_LOG_LEVEL": "0"}, ("0",))):
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=True)
        assert done.stdout.strip() in expected


@pytest.mark.very_slow
def test_the_wheel_works_alone(bin_folder, pretraining_files, tmp_path):
    """Pretraining, conversion and prediction work; what needs an extra names it; a user's program has types."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(program, *arguments, status=0):
        done = subprocess.run(
            [bin_folder / program, *arguments], cwd=tmp_path, env=variables, capture_output=True, text=True
        )
        assert done.returncode == status, done.stderr
        if program == "albert":  # TensorFlow logs nothing, as it does in a program of the user's
            assert not re.search(r"^(WARNING|[IWEF]0000 |.*\.cc:\d+\])", done.stderr, re.MULTILINE)
        return done.stdout + done.stderr

    assert run("albert", "--version") == f"{albert_tf.__version__}\n"
    where = run("python", "-c", "import albert_tf, export; print(albert_tf.__file__, export.__file__)")
    assert where.count(str(bin_folder.parent)) == 2
    run("albert", *pretraining_files.flags("runs/base", num_train_steps=1))
    run("python", "-c", SNIPPETS[0].replace("128", "32") + "\nmodel.save('model.keras')")
    run("albert", "convert", "runs/base", "converted", "--to=huggingface")
    (tmp_path / "text").write_text("What a film!\n")
    predict = f"{bin_folder}/albert predict --model_dir=model.keras < text"
    predicted = subprocess.run(
        predict, shell=True, cwd=tmp_path, env=variables, capture_output=True, text=True
    )
    assert '"label"' in predicted.stdout, predicted.stderr

    message = "Run `pip install '.[{}]'` in a copy of the repository."
    assert message.format("plot") in run("albert", "plot", "runs/base", status=2)
    export = ("export", "--kind=fill-mask", "--model_dir=runs/base", "--output=saved_model")
    assert message.format("text") in run("albert", *export, status=2)
    (tmp_path / "gold.tsv").write_text("index\tprediction\n")
    evaluate = ("evaluate", "--task=rte", "--predictions=gold.tsv", "--gold=gold.tsv")
    assert message.format("metrics") in run("albert", *evaluate, status=2)

    program = shutil.copy(ROOT / "tests" / "user_program.py", tmp_path)
    mypy = [sys.executable, "-m", "mypy", "--strict", f"--python-executable={bin_folder}/python", program]
    checked = subprocess.run(mypy, cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout
