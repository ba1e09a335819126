"""Imports only go down and never in circles (docs/architecture.md): read from the source, nothing is imported."""

import ast
import graphlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
KERAS, TENSORFLOW = {"keras"}, {"tensorflow", "tensorflow_text"}

# From the ground up: a folder imports from itself and from those listed before it. Beside each: what it must do
# without, since the model runs on every Keras backend and data is prepared without starting TensorFlow.
FOLDERS = {
    "data_prep": KERAS | TENSORFLOW,  # errors.py and files.py
    "data_prep/storage": KERAS | TENSORFLOW,
    "data_prep/tfrecord": KERAS | TENSORFLOW,
    "data_prep/text": KERAS | TENSORFLOW,
    "data_prep/tokenizers": KERAS | TENSORFLOW,
    "data_prep/in_graph": KERAS,
    "data_prep/examples": KERAS | TENSORFLOW,
    "data_prep/prepare": KERAS | TENSORFLOW,
    "data_prep/reading": KERAS,
    "data_prep/inspection": KERAS,
    "albert_tf": KERAS | TENSORFLOW,  # config.py, parameters.py, flops.py, memory.py, keras_registry.py
    "albert_tf/checkpoints": KERAS,
    "albert_tf/optimizers": TENSORFLOW,
    "albert_tf/kernels": TENSORFLOW,
    "albert_tf/model": TENSORFLOW,
    "albert_tf/training": set(),
    "albert_tf/tasks": set(),  # with the folders in it, one for each form of row
    "albert_tf/pretraining": set(),
    "albert_tf/finetuning": set(),
    "albert_tf/runtime": set(),
    "albert_tf/conversion": set(),
    "export": set(),
    "albert_cli/commands": KERAS,
    "albert_cli": KERAS,
    ".": KERAS | TENSORFLOW,  # run_pretraining.py, run_finetuning.py
    "benchmarks": set(),  # with benchmarks/libraries
    "experiments": set(),  # with experiments/paper
    "examples": set(),
    "examples/demo": set(),
    "examples/serve": set(),
}
WITHOUT_TENSORFLOW = [
    "experiments.paper.run",  # starts the processes that need a device, and holds none of its memory
    # Data of tasks, files of predictions, and portable models.
    *("albert_tf.tasks.reading", "albert_tf.tasks.scores", "albert_tf.tasks.benchmarks.ensemble"),
    "albert_tf.runtime.portable_loading",
    *("albert_tf.runtime.predictor", "albert_tf.runtime.vector_stream"),
]
# Measurements of processes, which Python has on Unix only.
UNIX_ONLY = ("benchmarks",)
# Folders that are a floor together with those in them.
WHOLE = ("albert_tf/tasks", "benchmarks", "experiments")
HEIGHT = {folder: height for height, folder in enumerate(FOLDERS)}
PATHS = [path for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.py"))]
PATHS += [path for folder in WHOLE for path in sorted((ROOT / folder).glob("*/*.py"))]
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in PATHS
}
# The module of each public name, which `albert_tf.NAME` imports on first use.
PUBLIC = {
    alias.name: statement.module
    for statement in ast.parse((ROOT / "albert_tf/__init__.pyi").read_text(encoding="utf-8")).body
    if isinstance(statement, ast.ImportFrom) and statement.module
    for alias in statement.names
}


def folder_of(module: str) -> str:
    folder = MODULES[module].parent.relative_to(ROOT).as_posix()
    return next((whole for whole in WHOLE if folder.startswith(f"{whole}/")), folder)


def imported_names(path: Path, at_once: bool = False) -> set[str]:
    """What a file imports, or what it imports at once: outside functions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = set()
    for node in tree.body if at_once else ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: absolute imports only"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif not at_once:
            names |= lazy_names(node)
    return names


def lazy_names(node: ast.AST) -> set[str]:
    """The module of what is named without an import: `albert_tf.NAME`, and a class in Keras' registry."""
    match node:
        case ast.Attribute(value=ast.Name("albert_tf"), attr=name):
            found = PUBLIC.get(name)
        case ast.Constant(str(text)):
            found = PUBLIC.get(text.removeprefix("albert_tf>")) if text.startswith("albert_tf>") else None
        case _:
            found = None
    return {found} if found else set()


def imported_modules(module: str, at_once: bool = False) -> set[str]:
    """The modules of this repository that a module imports."""
    found = set()
    for name in imported_names(MODULES[module], at_once):
        while name and name not in MODULES:
            name = name.rpartition(".")[0]
        found |= {name} - {"", module}
    return found


def test_every_folder_has_a_line():
    tops = {folder.split("/")[0] for folder in FOLDERS} - {"."}
    there = {path.parent.relative_to(ROOT).as_posix() for top in tops for path in (ROOT / top).rglob("*.py")}
    inside = {folder for folder in there if any(folder.startswith(f"{whole}/") for whole in WHOLE)}
    assert there - inside == set(FOLDERS) - {"."}


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_down(module):
    folder = folder_of(module)
    for name in imported_modules(module):
        assert HEIGHT[folder_of(name)] <= HEIGHT[folder], f"{module} imports {name}, which is above it"
    foreign = {name.split(".")[0] for name in imported_names(MODULES[module])}
    assert not foreign & FOLDERS[folder], f"{module} is to run without {sorted(foreign & FOLDERS[folder])}"


@pytest.mark.parametrize("folder", sorted(set(FOLDERS) - set(UNIX_ONLY)))
def test_is_imported_on_windows(folder):
    for path in (ROOT / folder).glob("*.py"):
        found = imported_names(path, at_once=True) & {"fcntl", "grp", "pwd", "resource", "termios"}
        assert not found, f"{path} imports {sorted(found)}, which Python has on Unix only"


@pytest.mark.parametrize("module", WITHOUT_TENSORFLOW)
def test_is_imported_without_tensorflow(module):
    reached, waiting = set(), {module}
    while waiting:
        reached |= waiting
        waiting = set().union(*(imported_modules(name, at_once=True) for name in waiting)) - reached
    for name in reached:
        foreign = {found.split(".")[0] for found in imported_names(MODULES[name], at_once=True)}
        assert not foreign & (KERAS | TENSORFLOW), f"{module} imports {name}, which imports {sorted(foreign)}"


@pytest.mark.slow
def test_no_circles():
    # A package's __init__ imports names on their first use only.
    graph = {
        module: {name for name in imported_modules(module) if MODULES[name].name != "__init__.py"}
        for module in MODULES
    }
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle
