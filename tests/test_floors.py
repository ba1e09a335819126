"""Imports only go down a floor (docs/architecture.md): read from the source, nothing is imported."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

FLOORS = {  # longest prefix wins
    "albert_tf.config": 0,
    "albert_tf.errors": 0,
    "albert_tf.files": 0,
    "albert_tf.flops": 0,
    "albert_tf.parameters": 0,
    "data_prep.documents": 0,
    "data_prep.example_proto": 0,
    "data_prep.records": 0,
    "data_prep.rows": 0,
    "data_prep.sentences": 0,
    "data_prep.sources": 0,
    "data_prep.tfds_rows": 0,
    "data_prep.segments": 0,
    "data_prep.masking": 0,
    "data_prep.tasks.examples": 0,
    "data_prep.tasks.problems": 0,
    "data_prep.tasks.answers": 0,
    "data_prep.tasks.columns": 0,
    "data_prep.tasks.conll": 0,
    "data_prep.tasks.glue": 0,
    "data_prep.tasks.own_data": 0,
    "data_prep.tasks.race": 0,
    "data_prep.tasks.reading": 0,
    "data_prep.tasks.squad": 0,
    "data_prep.tasks.tables": 0,
    "data_prep.tasks.task": 0,
    "data_prep.tasks.text_rows": 0,
    "data_prep.tasks.tfds_examples": 0,
    "albert_tf": 1,
    "data_prep": 1,
    "albert_tf.evaluation": 1,
    "albert_tf.finetuning": 2,
    "albert_tf.finetuning.heads": 1,
    "albert_tf.pretrained": 2,
    "albert_tf.training": 2,
    "data_prep.cluster": 2,
    "data_prep.cluster_files": 2,
    "data_prep.cluster_shards": 2,
    "data_prep.docstrings": 2,
    "data_prep.example_files": 2,
    "data_prep.graph_text": 2,
    "data_prep.graph_tokenizers": 2,
    "data_prep.inspection": 2,
    "data_prep.inspection_settings": 1,
    "data_prep.preprocessing": 2,
    "data_prep.tasks.batches": 2,
    "data_prep.dynamic_masking": 2,
    "data_prep.reader": 2,
    "data_prep.verification": 2,
    "data_prep.wordpiece_graph": 2,
    "data_prep.writer": 2,
    "albert_tf.lab": 3,
    "export": 3,
    "albert_tf.cli": 4,
    "albert_tf.commands": 4,
    "run_finetuning": 4,
    "run_pretraining": 4,
    "examples": 4,
    "benchmarks": 4,
}
# What a floor may not import from outside; floor 1's Keras code runs on any backend.
FOREIGN = {0: {"keras", "tensorflow", "tensorflow_text"}, 1: {"tensorflow", "tensorflow_text"}}


def modules() -> dict[str, Path]:
    files = [
        path for folder in ("albert_tf", "data_prep", "export") for path in (ROOT / folder).rglob("*.py")
    ]
    files += [ROOT / "run_pretraining.py", ROOT / "run_finetuning.py"]
    names = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files}
    return {name.removesuffix(".__init__"): path for path, name in names.items()}


def floor(module: str) -> int:
    prefixes = [prefix for prefix in FLOORS if module == prefix or module.startswith(prefix + ".")]
    return FLOORS[max(prefixes, key=len)]


def imports(path: Path, *, top_level: bool = False) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = set()
    for node in tree.body if top_level else ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: absolute imports only"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("module", modules())
def test_imports_only_go_down(module):
    for name in imports(modules()[module]):
        package = name.split(".")[0]
        if package in (
            "albert_tf",
            "data_prep",
            "export",
            "run_pretraining",
            "run_finetuning",
            "examples",
            "benchmarks",
        ):
            assert floor(name) <= floor(module), f"{module} (floor {floor(module)}) imports {name}"
        assert package not in FOREIGN.get(floor(module), set()), f"{module} imports {package}"


def test_packages_are_quick_to_import():
    """The packages' own __init__ pull in neither Keras nor TensorFlow."""
    for package in ("albert_tf", "data_prep", "export"):
        path = ROOT / package / "__init__.py"
        assert not {name.split(".")[0] for name in imports(path, top_level=True)} & {"keras", "tensorflow"}
