"""OpenVINO and ONNX Runtime behind one interface: arrays in, arrays out, several batches at a time."""

import contextlib
import mmap
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from albert_tf.runtime.engine_flags import EngineSettings
from albert_tf.runtime.openvino_graph import round_before_products
from albert_tf.tasks.runner import Arrays, Runner
from data_prep.cores import available_cores
from data_prep.errors import InputError
from data_prep.files import check_file

T = TypeVar("T")
_CANNOT_RUN = "The engine cannot run the model on these inputs"
_HINTS = {"float32": "f32", "bfloat16": "bf16"}


class Engine(Runner):
    """A model file, ready to run.

    Attributes:
      name: the engine's package.
      inputs: the names of the model's inputs.
    """

    name: str
    inputs: tuple[str, ...]


def open_engine(file: Path, settings: EngineSettings, quantize: str = "none") -> Engine:
    """Loads an ONNX file.

    Args:
      file: the file.
      settings: how it runs.
      quantize: how `albert export` quantized it.

    Raises:
      InputError: the engine is not installed, or cannot load the file.
    """
    package = settings.package(quantize)
    with _errors_of(f"{package} cannot load {file}"):
        _check_onnx(file)
        return _ENGINES[package](file, settings)


def _check_onnx(file: Path) -> None:
    """Raises InputError if a file is not ONNX, or keeps its data in other files.

    A tensor with its data in another file names that file under the key "location".
    """
    check_file(file)
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        is_onnx, is_whole = content[:1] == b"\x08", content.find(b"location") < 0
    if not (is_onnx and is_whole):
        received = "one with data in other files" if is_onnx else "another format"
        raise InputError(f"{file} must be an ONNX file that holds all its data. Received {received}.")


@contextlib.contextmanager
def _errors_of(what: str) -> Iterator[None]:
    """Turns an engine's error into an InputError that begins with `what` and ends with the error's reason."""
    try:
        yield
    except (AttributeError, NameError, TypeError, InputError):  # a defect of this library
        raise
    except Exception as error:  # the engines' errors have no common class
        # OpenVINO's messages begin with places in its source.
        reason = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        raise InputError(f"{what}: {reason[-1].strip(' -.')}.") from None


class _OpenVino(Engine):
    def __init__(self, file: Path, settings: EngineSettings):
        import openvino

        core, model, cache = openvino.Core(), str(file), {}
        if settings.precision == "bfloat16":
            model = core.read_model(file)
            round_before_products(model)
        elif settings.cache_dir:
            cache = {"CACHE_DIR": settings.cache_dir}
        self._model = core.compile_model(
            model,
            "CPU",
            {
                **cache,
                "INFERENCE_PRECISION_HINT": _HINTS[settings.precision],
                "PERFORMANCE_HINT": "LATENCY" if settings.requests == 1 else "THROUGHPUT",
                "NUM_STREAMS": str(settings.requests),
            },
        )
        self.name = "openvino"
        self.inputs = tuple(port.get_any_name() for port in self._model.inputs)
        self._names = [port.get_any_name() for port in self._model.outputs]
        self._requests, self._process = settings.requests, os.getpid()
        self._idle: deque[Any] = deque()  # requests that no call uses; several threads may call

    def outputs(self, batches):
        if os.getpid() != self._process:
            # A fork does not copy OpenVINO's threads; a call would wait for them forever.
            raise InputError(
                "A model on OpenVINO must be loaded by the process that runs it. Received one that was loaded "
                "before a fork; call `load_portable` after it, or start processes with `spawn`."
            )
        free = deque(self._request() for _ in range(self._requests))

        def start(arrays: Arrays):
            request = free.popleft()
            with _errors_of(_CANNOT_RUN):
                request.start_async({name: arrays[name] for name in self.inputs})
            return request

        def finish(request) -> Arrays:
            with _errors_of(_CANNOT_RUN):
                request.wait()
                # Copies: the next batch overwrites the request's memory.
                found = {name: request.get_output_tensor(i).data.copy() for i, name in enumerate(self._names)}
            free.append(request)
            return found

        try:
            yield from _in_flight(batches, len(free), start, finish)
        finally:
            self._idle.extend(free)

    def _request(self):
        try:
            return self._idle.pop()
        except IndexError:
            return self._model.create_infer_request()


class _OnnxRuntime(Engine):
    def __init__(self, file: Path, settings: EngineSettings):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = max(1, available_cores() // settings.requests)
        self._session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        self.name = "onnxruntime"
        self.inputs = tuple(value.name for value in self._session.get_inputs())
        self._names = [value.name for value in self._session.get_outputs()]
        self._requests = settings.requests

    def outputs(self, batches):
        if self._requests == 1:
            yield from map(self._run, batches)
            return
        with ThreadPoolExecutor(self._requests) as pool:
            yield from _in_flight(
                batches,
                self._requests,
                lambda arrays: pool.submit(self._run, arrays),
                lambda run: run.result(),
            )

    def _run(self, arrays: Arrays) -> Arrays:
        with _errors_of(_CANNOT_RUN):
            found = self._session.run(self._names, {name: arrays[name] for name in self.inputs})
        return dict(zip(self._names, found, strict=True))


_ENGINES: dict[str, Callable[[Path, EngineSettings], Engine]] = {
    "openvino": _OpenVino,
    "onnxruntime": _OnnxRuntime,
}


def _in_flight(
    items: Iterable[Arrays], limit: int, start: Callable[[Arrays], Any], finish: Callable[[Any], T]
) -> Iterator[T]:
    """Starts up to `limit` items and finishes them in order."""
    started: deque[Any] = deque()
    try:
        for item in items:
            if len(started) == limit:
                yield finish(started.popleft())
            started.append(start(item))
        while started:
            yield finish(started.popleft())
    finally:
        while started:  # after an error, or if the caller stops early: no request may stay busy
            with contextlib.suppress(Exception):
                finish(started.popleft())
