"""Which engine runs a portable model."""

import importlib.util

import pytest

from albert_tf.runtime.engine_flags import EngineSettings
from data_prep.errors import InputError


@pytest.mark.parametrize(
    ("settings", "quantize", "engine"),
    [
        (EngineSettings(), "none", "openvino"),
        (EngineSettings(), "int8-static", "openvino"),
        (EngineSettings(), "int8", "onnxruntime"),
        (EngineSettings(precision="bfloat16"), "int8", "openvino"),
        (EngineSettings("openvino"), "int8", "openvino"),
        (EngineSettings("onnxruntime"), "none", "onnxruntime"),
    ],
)
def test_takes_the_faster_engine(settings, quantize, engine, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    assert settings.package(quantize) == engine


@pytest.mark.parametrize("requests", ["2", 1.5, None])
def test_requests_are_a_whole_number(requests):
    with pytest.raises(InputError, match=f"--requests must be a whole number. Received {requests!r}."):
        EngineSettings(requests=requests)


@pytest.mark.parametrize(("quantize", "extra"), [("none", "openvino"), ("int8", "onnx")])
def test_names_the_extra_of_the_faster_engine(quantize, extra, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=rf"pip install '.\[{extra}\]'"):
        EngineSettings().package(quantize)
