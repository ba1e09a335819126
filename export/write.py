"""`albert export`: from a model in any format to a SavedModel, or to a file for ONNX Runtime or LiteRT."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import keras
import numpy as np

from albert_tf.checkpoints.card import CARD_FILE, Usage, write_card, written_by
from albert_tf.checkpoints.output_folder import check_replaceable, replaced_folder
from albert_tf.checkpoints.sources import NO_FLAGS, SourceFlags
from albert_tf.config import CONFIG_FILE
from albert_tf.conversion.verification import OutputComparison, check_equal
from albert_tf.runtime.portable_folder import write_manifest, write_tables
from albert_tf.runtime.pretrained import Pretrained
from albert_tf.runtime.trained_model import USUAL_ANSWER_LENGTH
from albert_tf.tasks.runner import Runner
from albert_tf.tasks.task_model import TaskModel
from data_prep.errors import InputError, check_choice
from data_prep.files import check_is_folder
from export.constants import layer_with_constants, leave_out_constants
from export.evaluation import (
    EvalFile,
    Evaluation,
    embedding_evaluation,
    masked_lm_evaluation,
    recorded,
    task_evaluation,
)
from export.export_flags import (
    ExportSettings,
    Layout,
    Precision,
    Quantization,
    RuntimeName,
    check_calibration,
)
from export.huggingface_layout import write_onnx_folder
from export.kinds import TEXT_KINDS, export_kinds
from export.litert import LITERT
from export.onnx import ONNX
from export.portable import Portable
from export.savedmodel import Export, check_savedmodel, signatures_section, track_vocabulary, write_savedmodel
from export.source import ExportSource, read_export_source
from export.usage import COMMAND, as_kind, portable_usage

_RUNTIMES = {"onnx": ONNX, "litert": LITERT}
_TASK_SETTINGS = ("task", "column_names", "label_separator")  # of our run


@dataclass(frozen=True)
class Exported:
    """The result of an export.

    Attributes:
      notes: sentences on what the source lacks and what quantization costs.
      comparison: the comparison of the outputs with the model's.
    """

    notes: tuple[str, ...]
    comparison: OutputComparison


@contextlib.contextmanager
def _dtype_policy(name: str) -> Iterator[None]:
    """Models that are built in the block keep their weights in this precision and compute in it."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def export_with_settings(settings: ExportSettings, flags: SourceFlags = NO_FLAGS) -> Exported:
    """Runs `export_model` or `export_for_runtime` with the flags of `albert export`."""
    source, output, kind = settings.model_dir, settings.output, settings.kind
    if settings.format == "savedmodel":
        dtype, keep_padding = settings.dtype, settings.keep_padding
        return export_model(source, output, kind, dtype, keep_padding, flags, **settings.options)
    eval_file = EvalFile(settings.eval_file, settings.max_loss) if settings.eval_file else None
    return export_for_runtime(
        source,
        output,
        settings.format,
        settings.quantize,
        eval_file,
        kind,
        flags,
        settings.layout,
        **settings.options,
    )


@_dtype_policy("float32")
def export_model(
    source: str | Path,
    output: str | Path,
    kind: str | None = None,
    dtype: Precision = "float32",
    keep_padding: bool = False,
    flags: SourceFlags = NO_FLAGS,
    **options,
) -> Exported:
    """Writes a model as a SavedModel with a README.md.

    Args:
      source: anything that `albert_tf.load_pretrained` reads; for the kinds of fine-tuned models, also a
        fine-tuned model of any format.
      output: a new or empty folder, or an earlier export, which is replaced.
      kind: what the SavedModel does. Default: what a fine-tuned model was trained for; "encoder" for a pretrained
        model.
      dtype: precision of weights and products. bfloat16 halves the file, is faster on processors that support
        it, and is for prediction. Outputs are always float32.
      keep_padding: compute padding too, so that all shapes follow from those of the inputs, as XLA and TPUs
        need. Without it, only attention computes padding.
      flags: what the source's files lack.
      options: the option of the kind, if it has one; see its builder in `export.kinds`.

    Returns:
      Notes on what the source lacks, and the comparison of the SavedModel's outputs with the model's.

    Raises:
      InputError: the source cannot be read or lacks what the kind needs, an option does not belong to the kind,
        `output` holds something other than an export, or the source itself, or the SavedModel does not compute
        what the model does; nothing is written then.

    >>> exported = export_model("runs/base", "fill_mask", kind="fill-mask")
    >>> exported.comparison.is_equal
    True
    """
    check_choice(get_args(Precision), "dtype", dtype)
    output = Path(output)
    _check_output(output, source)
    model = read_export_source(source, kind, flags, options)
    if model.kind == "preprocessor" and dtype != "float32":
        raise InputError(
            f"--dtype is for exports with weights. Received {dtype} with --kind=preprocessor; leave it out."
        )
    with tempfile.TemporaryDirectory() as assets, replaced_folder(output) as aside:
        unpad = not keep_padding
        export = exact = build_export(model, model.build_model(), Path(assets), unpad, options)
        if dtype == "float32":
            write_savedmodel(export, aside)
        else:  # with padding it may run on XLA, which arranges variables itself
            with _dtype_policy(dtype):
                built = model.build_model()
                export = build_export(model, built, Path(assets), unpad, options)
                if unpad and (kernels := built.encoder.kernels):
                    kernels.make_layer_function = layer_with_constants
                    leave_out_constants(export.root, built.encoder)
                write_savedmodel(export, aside)
        comparison = check_savedmodel(exact, aside, rounded=dtype != "float32")
        notes = (*model.stored.notes, *export.notes)
        usage = Usage(f"SavedModel, {model.kind}", COMMAND, export.example, signatures_section(aside))
        write_card(aside, source, model.stored, as_kind(usage, model), notes, comparison.describe())
    return Exported(notes, comparison)


@_dtype_policy("float32")
def export_for_runtime(
    source: str | Path,
    output: str | Path,
    format: RuntimeName,  # noqa: A002 - the flag's name
    quantize: Quantization = "none",
    eval_file: str | EvalFile | None = None,
    kind: str | None = None,
    flags: SourceFlags = NO_FLAGS,
    layout: Layout = "albert_tf",
    **options,
) -> Exported:
    """Writes a model as one file that takes ids, with README.md, configuration and vocabulary beside it.

    With "onnx" the folder is what `albert_tf.load_portable` reads, which takes text.

    Args:
      source: as for `export_model`.
      output: a new or empty folder, or an earlier export, which is replaced.
      format: "onnx" for model.onnx or "litert" for model.tflite; see `write_onnx` and `write_litert`.
      quantize: how weights are stored, and with "int8" and "int8-static" multiplied.
      eval_file: data to measure what is lost: for a pretrained model the masked-LM accuracy on TFRecord files of
        pretraining examples (globs allowed), or of its embeddings the cosine with the exact ones; for a fine-tuned
        model its task's metric on a file like its dev set. "int8-static" is calibrated on it.
      kind: "encoder", with the heads that it has, or the kind of a fine-tuned model; "onnx" also writes the
        other kinds of pretrained models. Default: as for `export_model`.
      flags: what the source's files lack.
      layout: "huggingface" for an "onnx" folder as `write_onnx_folder` writes it, without options and `eval_file`.
      options: the option of the kind, if it has one; see its builder in `export.functions_of_ids`.

    Returns:
      Notes on what the source lacks and what is lost, and the comparison of the file's outputs with the model's.

    Raises:
      InputError: the format has no such kind or quantization, `source` or `eval_file` cannot be read or do not
        fit each other, a package is missing, `output` holds something other than an export, or the source itself,
        or the file does not compute what the model does; nothing is written then.

    >>> export_for_runtime("runs/base", "onnx", "onnx").notes  # doctest: +SKIP
    ()
    """
    check_choice(_RUNTIMES, "format", format)
    check_choice(get_args(Quantization), "quantize", quantize)
    file = EvalFile(eval_file) if isinstance(eval_file, str) else eval_file
    check_calibration(quantize, format, file.path if file else None)
    if format == "litert" and "max_answer_length" in options:
        raise InputError(
            "--max_answer_length is for exports that find the answer. Received it with --format=litert, whose "
            "file returns the logits of all tokens; leave it out."
        )
    runtime = _RUNTIMES[format]
    runtime.check_installed(quantize)
    output = Path(output)
    _check_output(output, source)
    found = read_export_source(source, kind, flags, options)
    if layout == "huggingface":
        return Exported(*write_onnx_folder(source, found, quantize, output))
    build = _portable_builder(found.kind, format)
    if found.kind in TEXT_KINDS:
        found.need_vocabulary()
    stored, model = found.stored, found.build_model()
    if kernels := model.encoder.kernels:
        model.encoder.unpad = format == "onnx"  # LiteRT's converter needs static shapes
        kernels.textbook_layer_norm = format == "onnx"
    portable = build(model, **options)
    batches: list[dict[str, np.ndarray]] = []
    exact = recorded(portable, batches)
    evaluation, before = _evaluation(file.path, portable, exact, model, found) if file else (None, 0.0)
    with replaced_folder(output) as aside:
        run = runtime.write(portable, quantize, aside, batches)
        comparison = portable.compare(run, runtime.name, rounded=quantize != "none")
        check_equal(comparison, rounded=quantize != "none")
        notes = list(stored.notes)
        if evaluation and file:
            notes.append(evaluation.change(before, run, quantize, file.limit(quantize)))
        elif quantize != "none":
            notes.append(f"the cost of {quantize} in accuracy was not measured: --eval_file was not given")
        stored.config.to_json_file(aside / CONFIG_FILE)
        if stored.vocabulary:
            stored.vocabulary.save(aside)
        if format == "onnx":
            _write_portable(aside, quantize, portable, found)
        check = comparison.describe("verified" if quantize == "none" else f"weights in {quantize}")
        usage = portable_usage(portable, runtime, found)
        write_card(aside, source, stored, as_kind(usage, found), notes, check)
    return Exported(tuple(notes), comparison)


def _portable_builder(kind: str, format: RuntimeName) -> Callable[..., Portable]:  # noqa: A002
    """What builds the function of a kind.

    Raises:
      InputError: the format has no such kind.
    """
    kinds = export_kinds()
    supported = [name for name, entry in kinds.items() if entry.portable]
    if format == "litert":
        supported = [name for name in supported if name not in TEXT_KINDS]
    build = kinds[kind].portable
    if build is None or kind not in supported:
        flags = ", ".join(f"--kind={name}" for name in supported)
        raise InputError(f"--format={format} supports {flags}. Received --kind={kind}.")
    return build


def _write_portable(folder: Path, quantize: str, portable: Portable, source: ExportSource) -> None:
    """Writes what `load_portable` needs beside the model, its configuration and the vocabulary."""
    vocabulary = source.stored.vocabulary
    pieces = vocabulary.count_pieces() if vocabulary else 0
    facts: dict[str, Any] = {
        "kind": source.kind,
        "pieces": pieces,
        "quantize": quantize,
        "options": portable.options,
    }
    if found := source.finetuned:
        settings = found.facts.settings
        kept = {name: str(settings[name]) for name in _TASK_SETTINGS if settings.get(name)}
        facts = {**vars(found.facts), **facts, "settings": kept}
    if vocabulary and found and found.kind.needs_offsets:
        write_tables(folder, vocabulary)
    write_manifest(folder, facts)


def build_export(
    source: ExportSource, model: Pretrained | TaskModel, assets: Path, unpad: bool, options: dict
) -> Export:
    """What a SavedModel of `model`, built from `source`, holds; the vocabulary is written to `assets`."""
    build = export_kinds()[source.kind].build
    model.encoder.unpad = unpad and model.encoder.kernels is not None
    if source.kind == "encoder":  # takes ids, so that it needs no tokenizer
        return build(model, assets)
    vocabulary = source.need_vocabulary()
    if source.finetuned:
        options = {**options, "null_threshold": source.finetuned.facts.null_threshold}
    export = build(model, vocabulary.tokenizer(), **options)
    track_vocabulary(export.root, vocabulary, assets)
    return export


def _evaluation(
    eval_file: str, portable: Portable, exact: Runner, model: Pretrained | TaskModel, source: ExportSource
) -> tuple[Evaluation, float]:
    """The evaluation of a file, and the metric of the model itself, which `exact` runs once."""
    if isinstance(model, Pretrained):
        if source.kind == "embedding":
            return embedding_evaluation(eval_file, model, exact), 1.0  # a vector's cosine with itself
        evaluation = masked_lm_evaluation(eval_file, model)
    else:
        assert source.finetuned, "it is where the model comes from"
        longest = int(portable.options.get("max_answer_length", USUAL_ANSWER_LENGTH))
        evaluation = task_evaluation(eval_file, model, source.finetuned, longest)
    return evaluation, evaluation.measure(exact)


def _check_output(folder: Path, source: str | Path) -> None:
    """Raises InputError unless `folder` is new, empty or an earlier export, and apart from the source."""
    check_is_folder("output", folder)
    check_replaceable(folder)
    if folder.resolve() in (Path(source).resolve(), *Path(source).resolve().parents):
        raise InputError(
            f"--output must not be the model itself, or a folder around it. Received {folder} for both."
        )
    if folder.exists() and any(folder.iterdir()) and not _is_export(folder):
        raise InputError(
            f"--output must be a new or empty folder, or an earlier export. Received {folder}, which holds other "
            "files."
        )


def _is_export(folder: Path) -> bool:
    """Whether our README.md is in the folder: other programs write saved_model.pb and model.onnx too."""
    card = folder / CARD_FILE
    return card.is_file() and written_by(COMMAND) in card.read_text(encoding="utf-8", errors="replace")
