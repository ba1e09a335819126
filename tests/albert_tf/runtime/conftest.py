"""Models exported for other runtimes, at most once in a run of the tests."""

import pytest

from export.write import export_for_runtime, export_model
from tests.export.conftest import source
from tests.export.test_finetuned import saved

__all__ = ["source"]


@pytest.fixture(scope="session")
def portable(model_file, source, tmp_path_factory):
    """A function of a model's name: the folder of its portable model, or "savedmodel", or the file "keras"."""
    folder = tmp_path_factory.mktemp("portable")

    def get(name, form="onnx"):
        kind = name if name in ("encoder", "fill-mask", "embedding") else None
        file, made = source if kind else folder / f"{name}.keras", folder / f"{name} {form}"
        if not file.exists():
            saved(name, model_file, folder)
        if form == "onnx" and not made.exists():
            pytest.importorskip("onnxruntime", reason="an extra: pip install '.[onnx]'")
            pytest.importorskip("tf2onnx", reason="an extra: pip install '.[onnx]'")
            export_for_runtime(file, made, "onnx", kind=kind)
        elif form == "savedmodel" and not made.exists():
            export_model(file, made, kind)
        return file if form == "keras" else made

    return get
