"""`load_portable`: the folder that `albert export --format=onnx` wrote, ready to answer without TensorFlow."""

from pathlib import Path
from typing import Any

from albert_tf.runtime.engine_flags import EngineName, EnginePrecision, EngineSettings
from albert_tf.runtime.engines import open_engine
from albert_tf.runtime.portable_folder import ONNX_FILE, PortableFacts, PortableFolder
from albert_tf.runtime.portable_model import PortableEncoder, PortableModel
from albert_tf.runtime.portable_text_model import PortableEmbedding, PortableFillMask, PortableTask
from albert_tf.runtime.trained_model import TrainedModel
from albert_tf.tasks.splits import USUAL_SIZE, BatchSize
from data_prep.errors import InputError

_PRETRAINED: dict[str, type[PortableModel]] = {
    "encoder": PortableEncoder,
    "fill-mask": PortableFillMask,
    "embedding": PortableEmbedding,
}


def model_class(facts: PortableFacts) -> type[PortableModel]:
    """The class of a folder's model."""
    return PortableTask if facts.task_kind else _PRETRAINED[facts.kind]


def load_portable(
    path: str | Path,
    *,
    engine: EngineName = "auto",
    precision: EnginePrecision = "float32",
    requests: int = 1,
    cache_dir: str | None = None,
    size: BatchSize = USUAL_SIZE,
) -> Any:
    """Loads a portable model, which is called like the SavedModel of its kind, with lists and NumPy arrays.

    Args:
      path: folder that `albert export --format=onnx` wrote, or its address: hf://OWNER/NAME, the https:// address
        of an archive, or kaggle://OWNER/MODEL/FRAMEWORK/VARIATION.
      engine: openvino or onnxruntime; auto prefers OpenVINO if both are installed, and ONNX Runtime for models
        quantized with int8.
      precision: float32, or bfloat16, which needs OpenVINO.
      requests: number of batches that the engine computes at the same time.
      cache_dir: folder in which OpenVINO keeps the compiled model, so that the next process starts faster;
        ignored in bfloat16: OpenVINO's cache does not store which operations may be bfloat16.
      size: maximum size of the engine's batches.

    Returns:
      A `PortableModel` of the kind in the folder.

    Raises:
      InputError: a file is missing or has changed, the files do not fit each other, the download fails, no engine
        is installed, or an argument has the wrong type.

    >>> exported = export_for_runtime("runs/base", "portable", "onnx", kind="fill-mask")  # doctest: +SKIP
    >>> load_portable("portable")(["The captain [MASK]."])["pieces"].shape  # doctest: +SKIP
    (1, 1, 5)
    """
    return load_folder(PortableFolder(path), EngineSettings(engine, precision, requests, cache_dir), size)


def load_trained(path: str | Path, settings: EngineSettings) -> TrainedModel:
    """Loads a fine-tuned portable model for `albert predict` and `albert evaluate`.

    Raises:
      InputError: as `load_portable`, or the model is not fine-tuned.
    """
    folder = PortableFolder(path)
    if (kind := folder.task_kind) is None:
        raise InputError(
            f"{path} must hold a fine-tuned model. Received one of the kind {folder.facts.kind}."
        )
    runner = load_folder(folder, settings).runner
    return TrainedModel(
        str(folder.path),
        folder.facts,
        folder.preprocessor(),
        lambda features, size: list(map(kind.task_outputs, runner.rows(features, size))),
        "export the model again with --labels, which names them in the order of the outputs",
    )


def load_folder(
    folder: PortableFolder, settings: EngineSettings, size: BatchSize = USUAL_SIZE
) -> PortableModel:
    """Loads the model of a folder that has been read."""
    if not isinstance(size, BatchSize):
        raise InputError(
            "`size` must be a BatchSize of albert_tf.tasks.splits, such as BatchSize(rows=8). Received "
            f"{size!r}."
        )
    engine = open_engine(folder.path / ONNX_FILE, settings, folder.facts.quantize)
    model = model_class(folder.facts)(folder, engine, size)
    model.try_out()
    return model
