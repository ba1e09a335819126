"""`albert export`: from a model in any format to a SavedModel, or to a file for ONNX Runtime or LiteRT."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

import keras
import numpy as np

from albert_tf.config import CONFIG_FILE
from albert_tf.conversion.verification import OutputComparison, check_equal
from albert_tf.finetuning.finetuned import Finetuned, read_finetuned
from albert_tf.finetuning.task_model import TaskModel
from albert_tf.model.execution import layers_made_by
from albert_tf.portable.folder import PortableFacts, write_manifest, write_tables
from albert_tf.prediction.trained_model import USUAL_ANSWER_LENGTH
from albert_tf.pretrained.card import CARD_FILE, Usage, pipeline_of, python_block, write_card, written_by
from albert_tf.pretrained.loading import Pretrained, as_pretrained, read_source
from albert_tf.pretrained.output_folder import replaced_folder
from albert_tf.pretrained.own import find_model_file, read_task_kind
from albert_tf.pretrained.recognition import named_files
from albert_tf.pretrained.sources import NO_FLAGS, SourceFlags
from albert_tf.pretrained.stored import StoredModel
from data_prep.errors import InputError, check_choice
from data_prep.files import check_is_folder
from data_prep.tokenizers.vocabulary import Vocabulary
from export.constants import layer_with_constants, leave_out_constants
from export.evaluation import (
    EvalFile,
    Evaluation,
    embedding_evaluation,
    masked_lm_evaluation,
    recorded,
    task_evaluation,
)
from export.kinds import KINDS, TEXT_KINDS, check_options, kind_for
from export.litert import LITERT
from export.onnx import ONNX
from export.portable import Portable, Runner, Runtime
from export.savedmodel import Export, check_savedmodel, signatures_section, track_vocabulary, write_savedmodel
from export.settings import (
    ExportSettings,
    KindName,
    Precision,
    Quantization,
    RuntimeName,
    check_calibration,
)

_COMMAND = "albert export"
_RUNTIMES = {"onnx": ONNX, "litert": LITERT}
_TASK_SETTINGS = ("task", "column_names", "label_separator")  # of our run


@dataclass(frozen=True)
class Exported:
    """The result of an export.

    Attributes:
      notes: sentences on what the source does not hold, and on what quantization costs.
      comparison: the comparison of the outputs with the model's.
    """

    notes: tuple[str, ...]
    comparison: OutputComparison


@dataclass(frozen=True)
class _Source:
    """A model to export.

    Attributes:
      path: the model as the user named it.
      kind: what is exported.
      stored: the model as it was read, for README.md.
      build_model: builds it in the precision that Keras is set to.
      finetuned: a fine-tuned model as it was read; None for a pretrained one.
    """

    path: str | Path
    kind: KindName
    stored: StoredModel
    build_model: Callable[[], Pretrained | TaskModel]
    finetuned: Finetuned | None = None


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
        **settings.options,
    )


def export_model(
    source: str | Path,
    output: str | Path,
    kind: KindName | None = None,
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
        need. Without it, padding costs next to nothing.
      flags: what the source's files lack.
      options: the option of the kind, if it has one; see its builder in `export.kinds.KINDS`.

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
    model = _read(source, kind, flags, options)
    if model.kind == "preprocessor" and dtype != "float32":
        raise InputError(
            f"--dtype is for exports with weights. Received {dtype} with --kind=preprocessor; leave it out."
        )
    with tempfile.TemporaryDirectory() as assets, replaced_folder(output) as aside:
        unpad = not keep_padding
        export = exact = _build(model, model.build_model(), Path(assets), unpad, options)
        if dtype == "float32":
            write_savedmodel(export, aside)
        else:  # with padding it may be for XLA, which arranges variables by itself
            layer_maker = layer_with_constants if unpad else None
            with _dtype_policy(dtype), layers_made_by(layer_maker):
                built = model.build_model()
                export = _build(model, built, Path(assets), unpad, options)
                if layer_maker:
                    leave_out_constants(export.root, built.encoder)
                write_savedmodel(export, aside)
        comparison = check_savedmodel(exact, aside, rounded=dtype != "float32")
        notes = (*model.stored.notes, *export.notes)
        usage = Usage(f"SavedModel, {model.kind}", _COMMAND, export.example, signatures_section(aside))
        write_card(aside, source, model.stored, _as_kind(usage, model), notes, comparison.describe())
    return Exported(notes, comparison)


def export_for_runtime(
    source: str | Path,
    output: str | Path,
    format: RuntimeName,  # noqa: A002 - the flag's name
    quantize: Quantization = "none",
    eval_file: str | EvalFile | None = None,
    kind: KindName | None = None,
    flags: SourceFlags = NO_FLAGS,
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
      options: the option of the kind, if it has one; see its builder in `export.portable_kinds`.

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
    found = _read(source, kind, flags, options)
    build = _portable_builder(found.kind, format)
    if found.kind in TEXT_KINDS:
        _vocabulary(found)
    stored, model = found.stored, found.build_model()
    model.encoder.unpad = format == "onnx"  # LiteRT's converter needs static shapes
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
        usage = _usage(portable, runtime, found)
        write_card(aside, source, stored, _as_kind(usage, found), notes, check)
    return Exported(tuple(notes), comparison)


def _portable_builder(kind: KindName, format: RuntimeName) -> Callable[..., Portable]:  # noqa: A002
    """What builds the function of a kind.

    Raises:
      InputError: the format has no such kind.
    """
    supported = [name for name, entry in KINDS.items() if entry.portable]
    if format == "litert":
        supported = [name for name in supported if name not in TEXT_KINDS]
    build = KINDS[kind].portable
    if build is None or kind not in supported:
        kinds = ", ".join(f"--kind={name}" for name in supported)
        raise InputError(f"--format={format} supports {kinds}. Received --kind={kind}.")
    return build


def _write_portable(folder: Path, quantize: str, portable: Portable, source: _Source) -> None:
    """Writes what `load_portable` needs beside the model, its configuration and the vocabulary."""
    vocabulary = source.stored.vocabulary
    facts = PortableFacts(source.kind, quantize, options=portable.options)
    if found := source.finetuned:
        preprocessor, settings = found.model.preprocessor, found.settings
        facts = replace(
            facts,
            task_kind=found.kind,
            labels=found.labels,
            thresholds=found.thresholds,
            answerable=found.answerable,
            null_threshold=found.null_threshold,
            lengths=preprocessor.lengths if preprocessor else {},
            settings={name: str(settings[name]) for name in _TASK_SETTINGS if settings.get(name)},
        )
    if vocabulary and source.kind == "question-answering":
        write_tables(folder, vocabulary)
    write_manifest(folder, facts)


def _usage(portable: Portable, runtime: Runtime, source: _Source) -> Usage:
    """The card shows how to call the model with texts, if it takes them, and the file with ids."""
    title, with_ids, interface = (
        f"{runtime.file}, {source.kind}",
        portable.example(runtime.example),
        portable.section,
    )
    call = KINDS[source.kind].call
    if call is None or runtime is not ONNX or source.stored.vocabulary is None:
        return Usage(title, _COMMAND, with_ids, interface)
    example = f'from albert_tf import load_portable\n\nmodel = load_portable(".")\nprint({call})'
    interface += f"\n\nWithout `albert_tf`, in {runtime.name}:\n\n{python_block(with_ids)}"
    return Usage(title, _COMMAND, example, interface)


def _as_kind(usage: Usage, source: _Source) -> Usage:
    """The card describes what is exported, which may be less than the model."""
    if source.finetuned:
        return replace(usage, pipeline=pipeline_of(source.finetuned.kind))
    pipeline = "fill-mask" if source.kind == "fill-mask" else "feature-extraction"
    return replace(usage, pipeline=pipeline, has_head=False)


def _read(source: str | Path, kind: KindName | None, flags: SourceFlags, options: dict) -> _Source:
    """Reads what a kind exports, or all that the source has.

    Raises:
      InputError: as `read_source`, `read_finetuned`, `kind_for` and `check_options`.
    """
    stored = None
    if kind is None and (task_kind := _task_kind(source)):
        kind = kind_for((task_kind,))
    elif kind is None:
        stored = read_source(source, flags)
        kind = kind_for(stored.head.kinds if stored.head else ())
    check_options(kind, options)
    if task_models := KINDS[kind].task_models:
        found = read_finetuned(source, flags, classes=task_models)
        return _Source(source, kind, found.stored, lambda: _with_current_dtype(found.model), found)
    pretrained = stored or read_source(source, flags)
    return _Source(source, kind, pretrained, lambda: as_pretrained(pretrained, seed=0))


def _task_kind(source: str | Path) -> str | None:
    """The kind of task of a fine-tuned model of ours, which need not be read for it; None for any other model."""
    with named_files(source) as path:
        file = find_model_file(path)
        return read_task_kind(file) if file else None


def _build(
    source: _Source, model: Pretrained | TaskModel, assets: Path, unpad: bool, options: dict
) -> Export:
    kind = source.kind
    model.encoder.unpad = unpad
    if kind == "encoder":  # takes ids, so that it needs no tokenizer
        return KINDS[kind].build(model, assets)
    vocabulary = _vocabulary(source)
    if kind == "question-answering":
        assert source.finetuned, "it is where the model comes from"
        options = {**options, "null_threshold": source.finetuned.null_threshold}
    export = KINDS[kind].build(model, vocabulary.tokenizer(), **options)
    track_vocabulary(export.root, vocabulary, assets)
    return export


def _vocabulary(source: _Source) -> Vocabulary:
    """The vocabulary of a model that is to take text."""
    if source.stored.vocabulary is None:
        raise InputError(
            f"Text input needs a vocabulary, which {source.path} does not hold. Name the SentencePiece "
            "model or the WordPiece vocab.txt with --vocab_file."
        )
    return source.stored.vocabulary


def _evaluation(
    eval_file: str, portable: Portable, exact: Runner, model: Pretrained | TaskModel, source: _Source
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


def _with_current_dtype(model: TaskModel) -> TaskModel:
    """A copy of a model in the precision that Keras is set to, in place of the precision of its training."""
    dtype = keras.dtype_policies.serialize(keras.config.dtype_policy())
    config = model.get_config()
    encoder = {**config["encoder"], "dtype": dtype}
    copy = type(model).from_config({**config, "encoder": encoder, "dtype": dtype})
    copy.set_weights(model.get_weights())
    return copy


@contextlib.contextmanager
def _dtype_policy(name: str) -> Iterator[None]:
    """Models that are built in the block keep their weights in this precision and compute in it."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def _check_output(folder: Path, source: str | Path) -> None:
    """Raises InputError unless `folder` is free, empty or an earlier export, and not the source or around it."""
    check_is_folder("output", folder)
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
    return card.is_file() and written_by(_COMMAND) in card.read_text(encoding="utf-8", errors="replace")
