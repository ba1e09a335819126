"""The flags of a portable model, in a file of their own so that --help does not import NumPy."""

import importlib.util
from dataclasses import dataclass
from numbers import Integral
from typing import Literal, get_args

from data_prep.errors import InputError, check_at_least, check_choice
from data_prep.files import check_local

EngineName = Literal["auto", "openvino", "onnxruntime"]
EnginePrecision = Literal["float32", "bfloat16"]
# In the order of preference (docs/export.md).
_PACKAGES = ("openvino", "onnxruntime")
_PACKAGES_FOR_INT8 = ("onnxruntime", "openvino")
_EXTRAS = {"openvino": "openvino", "onnxruntime": "onnx"}  # of this library


@dataclass(frozen=True)
class EngineSettings:
    """How a portable model runs.

    Attributes:
      engine: engine that runs a model from `albert export --format=onnx`; "auto" prefers OpenVINO if both are
        installed, and ONNX Runtime for --quantize=int8.
      precision: precision in which the engine computes; bfloat16 needs OpenVINO and is faster on CPUs with AMX
        or AVX512-BF16.
      cache_dir: folder in which OpenVINO keeps the compiled model, so that the next process starts faster;
        ignored in bfloat16: OpenVINO's cache does not store which operations may be bfloat16.
      requests: number of batches that the engine computes at the same time, each on its share of the cores. 1
        answers each batch soonest; the number of cores gives the highest throughput.
    """

    engine: EngineName = "auto"
    precision: EnginePrecision = "float32"
    requests: int = 1
    cache_dir: str | None = None

    def __post_init__(self):
        if not isinstance(self.requests, Integral):
            raise InputError(f"--requests must be a whole number. Received {self.requests!r}.")
        check_at_least(1, self, "requests")
        check_local(self.cache_dir or "")
        for name, kind in (("engine", EngineName), ("precision", EnginePrecision)):
            check_choice(get_args(kind), name, getattr(self, name))
        if self.precision == "bfloat16" and self.engine == "onnxruntime":
            raise InputError("--precision=bfloat16 needs --engine=openvino. Received --engine=onnxruntime.")

    def package(self, quantize: str = "none") -> str:
        """The package of the engine.

        Args:
          quantize: how the model was quantized.

        Raises:
          InputError: it is not installed.
        """
        preferred = _PACKAGES_FOR_INT8 if quantize == "int8" else _PACKAGES
        wanted = preferred if self.engine == "auto" else (self.engine,)
        if self.precision == "bfloat16":
            wanted = ("openvino",)
        for name in wanted:
            if importlib.util.find_spec(name) is not None:
                return name
        raise InputError(
            f"A portable model needs {' or '.join(wanted)}. Not installed; run "
            f"`pip install '.[{_EXTRAS[wanted[0]]}]'` in a copy of the repository."
        )


USUAL_ENGINE = EngineSettings()
