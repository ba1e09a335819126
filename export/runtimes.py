"""From a model in any format to a file for a runtime that is not TensorFlow, and what quantization costs."""

from pathlib import Path
from typing import Literal

import numpy as np

from albert_tf.finetuning.task_models import TextClassifier, TextRegressor
from albert_tf.pretrained.card import (
    CARD_FILE,
    check_section,
    model_section,
    source_section,
    table,
    use_section,
    version,
)
from albert_tf.pretrained.own import build_model
from albert_tf.pretrained.recognition import read
from albert_tf.pretrained.stored import StoredModel
from albert_tf.pretrained.verification import Comparison, check_equal, random_batch
from albert_tf.training.run_files import CONFIG_FILE
from export import litert, onnx
from export.evaluation import Evaluation, masked_lm_evaluation, task_evaluation
from export.finetuned import read_finetuned, tokenizer_of
from export.portable import (
    POSITIONS,
    Portable,
    Runner,
    portable_classifier,
    portable_encoder,
    to_hub_names,
)
from export.run import Exported
from export.saving import WRITTEN_BY, check_apart, replaced_folder

RuntimeFormat = Literal["onnx", "litert"]
Quantization = Literal["none", "float16", "int8"]
PortableKind = Literal["encoder", "classifier"]
_RUNTIMES = {"onnx": onnx, "litert": litert}
_WRITERS = {"onnx": onnx.write_onnx, "litert": litert.write_litert}
_RUN_BY = {"onnx": "ONNX Runtime", "litert": "LiteRT"}


def export_for_runtime(
    source: str | Path,
    output: str | Path,
    format: RuntimeFormat,  # noqa: A002 - the flag's name
    quantize: Quantization = "none",
    eval_file: str | None = None,
    kind: PortableKind = "encoder",
) -> Exported:
    """Writes a model as one file that takes ids; README.md, configuration and vocabulary lie beside it.

    Args:
      source: anything that `albert_tf.load_pretrained` reads; for a classifier what
        `export.finetuned.read_finetuned` reads.
      output: a new or empty folder, or an earlier export, which is replaced.
      format: "onnx" for model.onnx or "litert" for model.tflite; see `write_onnx` and `write_litert`.
      quantize: how weights are stored, and with "int8" multiplied.
      eval_file: what is lost is measured on it and noted: of an encoder the masked-LM accuracy on TFRecord files
        of pretraining examples, globs allowed; of a classifier its task's metric on a file like its dev set.
      kind: the encoder with the heads that it has, or a fine-tuned classifier or regressor.

    Returns:
      What there is to note, and how far the file's outputs, run by its runtime, are from the model's.

    Raises:
      InputError: `source` or `eval_file` cannot be read or do not fit each other, a package is missing, `output`
        holds something that is not an export or the source itself, or the file does not compute what the model
        does; then nothing has been written.
    """
    output = Path(output)
    _RUNTIMES[format].check_installed()
    check_apart(source, output)
    stored, portable, evaluation = (_encoder if kind == "encoder" else _classifier)(source, eval_file)
    with replaced_folder(output) as aside:
        run = _WRITERS[format](portable, quantize, aside)
        comparison = _compared(run, portable, stored, _RUN_BY[format])
        if quantize == "none":
            check_equal(comparison)
        notes = list(stored.notes)
        if evaluation:
            notes.append(evaluation.loss(portable, run, quantize))
        elif quantize != "none":
            notes.append(f"what {quantize} costs in accuracy was not measured: --eval_file was not given")
        stored.config.to_json_file(aside / CONFIG_FILE)
        if stored.vocabulary:
            stored.vocabulary.save(aside)
        _write_card(aside, source, stored, format, kind, quantize, notes, portable, comparison)
    return Exported(tuple(notes), comparison)


def _encoder(source: str | Path, eval_file: str | None) -> tuple[StoredModel, Portable, Evaluation | None]:
    stored = read(source)
    evaluation = masked_lm_evaluation(eval_file, stored) if eval_file else None
    return stored, portable_encoder(build_model(stored, seed=0), stored.parts), evaluation


def _classifier(source: str | Path, eval_file: str | None) -> tuple[StoredModel, Portable, Evaluation | None]:
    model, stored = read_finetuned(source, TextClassifier, TextRegressor)
    if eval_file:
        tokenizer_of(model, source)  # or an error that says why
    evaluation = task_evaluation(eval_file, model, stored.path.parent) if eval_file else None
    return stored, portable_classifier(model), evaluation


def _compared(run: Runner, portable: Portable, stored: StoredModel, run_by: str) -> Comparison:
    """Of the file and of the model, on the same random input."""
    batch = to_hub_names(random_batch(stored.config, seed=0))
    batch = {name: batch[name] for name in portable.inputs}
    ours, theirs = portable(batch), run(batch)
    # np.max, since max() may pass over a NaN
    difference = float(np.max([np.abs(theirs[name] - ours[name]).max() for name in ours]))
    scale = float(np.max([np.abs(array).max() for array in ours.values()]))
    comparison = Comparison(difference, scale, tuple(ours), "albert_tf", run_by)
    if not np.isfinite(difference):
        check_equal(comparison)
    return comparison


def _write_card(
    folder: Path,
    source,
    stored: StoredModel,
    format: RuntimeFormat,  # noqa: A002
    kind: PortableKind,
    quantize,
    notes,
    portable: Portable,
    comparison: Comparison,
) -> None:
    runtime = _RUNTIMES[format]
    inputs = "`input_word_ids`, `input_mask`, `input_type_ids` int32 (B, T)"
    if POSITIONS in portable.inputs:
        inputs += f"; for `mlm_logits` also `{POSITIONS}` int32 (B, P)"
    outputs = [(f"`{name}`", f"float32 ({shape})") for name, shape in portable.outputs.items()]
    sentence = comparison.sentence
    if quantize != "none":
        sentence = sentence.replace("verified", f"weights in {quantize}", 1)
    sections = [
        f"# ALBERT: {runtime.FILE}, {kind}\n\n{WRITTEN_BY} of albert_tf {version()}.",
        model_section(stored, notes),
        source_section(source, stored),
        check_section(sentence),
        f"## Inputs and outputs\n\nInputs: {inputs}.\n\n" + table(("output", "type"), outputs),
        use_section(runtime.EXAMPLE.replace("sequence_output", next(iter(portable.outputs)))),
    ]
    (folder / CARD_FILE).write_text("\n\n".join(sections), encoding="utf-8")
