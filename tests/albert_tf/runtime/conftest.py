"""Models exported for other runtimes, at most once in a run of the tests."""

import pytest

from export.write import export_for_runtime
from tests.export.conftest import source
from tests.export.test_finetuned import saved

__all__ = ["source"]


def pretrained_kind(name: str) -> str | None:
    """The kind of export by the name of a model; None if that is the model's task."""
    return name if name in ("encoder", "fill-mask", "embedding") else None


@pytest.fixture(scope="session")
def portable(model_file, source, tmp_path_factory):
    """A function of a model's name: the folder of its portable model, or what it was exported from."""
    folder = tmp_path_factory.mktemp("portable")

    def get(name, exported=True):
        kind = pretrained_kind(name)
        file, made = source if kind else folder / f"{name}.keras", folder / name
        if not file.exists():
            saved(name, model_file, folder)
        if exported and not made.exists():
            pytest.importorskip("onnxruntime", reason="an extra: pip install '.[onnx]'")
            pytest.importorskip("tf2onnx", reason="an extra: pip install '.[onnx]'")
            export_for_runtime(file, made, "onnx", kind=kind)
        return made if exported else file

    return get
