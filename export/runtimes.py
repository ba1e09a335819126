"""From a model in any format to a file for a runtime that is not TensorFlow, and what quantization costs."""

from pathlib import Path
from typing import Literal

import numpy as np

from albert_tf.errors import InputError
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
from albert_tf.training.checkpoints import CONFIG_FILE
from data_prep.documents import expand_files
from data_prep.reader import check_features, feature_lengths, pretraining_dataset
from export import litert, onnx
from export.portable import Runner, encoder_function, masked_lm_accuracy, to_hub_names
from export.run import Exported
from export.saving import WRITTEN_BY, check_apart, replaced_folder

RuntimeFormat = Literal["onnx", "litert"]
Quantization = Literal["none", "float16", "int8"]
_RUNTIMES = {"onnx": onnx, "litert": litert}
_WRITERS = {"onnx": onnx.write_onnx, "litert": litert.write_litert}
_RUN_BY = {"onnx": "ONNX Runtime", "litert": "LiteRT"}
_EVAL_BATCH = 8


def export_for_runtime(
    source: str | Path,
    output: str | Path,
    format: RuntimeFormat,  # noqa: A002 - the flag's name
    quantize: Quantization = "none",
    eval_file: str | None = None,
) -> Exported:
    """Writes the encoder of a model, with the heads that it has, as one file; README.md, configuration and
    vocabulary lie beside it.

    Args:
      source: anything that `albert_tf.load_pretrained` reads.
      output: a new or empty folder, or an earlier export, which is replaced.
      format: "onnx" for model.onnx or "litert" for model.tflite; see `write_onnx` and `write_litert`.
      quantize: how weights are stored, and with "int8" multiplied.
      eval_file: TFRecord files of pretraining examples, globs allowed: the masked-LM accuracy before and after is
        measured on them and noted.

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
    stored = read(source)
    examples = _examples(eval_file, stored) if eval_file else None
    model = build_model(stored, seed=0)
    with replaced_folder(output) as aside:
        run = _WRITERS[format](model, stored.parts, quantize, aside)
        reference = _reference(model, stored)
        comparison = _compared(run, reference, stored, _RUN_BY[format])
        if quantize == "none":
            check_equal(comparison)
        notes = list(stored.notes)
        if examples is not None:
            notes.append(_loss(run, reference, examples, quantize, str(eval_file)))
        elif quantize != "none":
            notes.append(f"what {quantize} costs in accuracy was not measured: --eval_file was not given")
        stored.config.to_json_file(aside / CONFIG_FILE)
        if stored.vocabulary:
            stored.vocabulary.save(aside)
        _write_card(aside, source, stored, format, quantize, notes, comparison)
    return Exported(tuple(notes), comparison)


def _reference(model, stored: StoredModel) -> Runner:
    """The model itself, as a runner."""
    function = encoder_function(model, stored.parts, masked="masked_lm" in stored.parts)
    return lambda inputs: {name: array.numpy() for name, array in function(inputs).items()}


def _compared(run: Runner, reference: Runner, stored: StoredModel, run_by: str) -> Comparison:
    """Of the file and of the model, on the same random input."""
    batch = to_hub_names(random_batch(stored.config, seed=0))
    if "masked_lm" not in stored.parts:
        del batch["masked_lm_positions"]
    ours, theirs = reference(batch), run(batch)
    # np.max, since max() may pass over a NaN
    difference = float(np.max([np.abs(theirs[name] - ours[name]).max() for name in ours]))
    scale = float(np.max([np.abs(array).max() for array in ours.values()]))
    comparison = Comparison(difference, scale, tuple(ours), "albert_tf", run_by)
    if not np.isfinite(difference):
        check_equal(comparison)
    return comparison


def _examples(eval_file: str, stored: StoredModel) -> list[dict]:
    """The evaluation batches, after checking that they fit the model."""
    if "masked_lm" not in stored.parts:
        raise InputError(
            "--eval_file measures masked-LM accuracy, and the source holds no masked-LM head. Leave it out."
        )
    files = expand_files(eval_file)
    T, P = feature_lengths(files[0])
    for file in files:
        check_features(file, T, P, stored.config.vocab_size)
    longest = stored.config.max_position_embeddings
    if T > longest:
        raise InputError(f"--eval_file must have examples of at most {longest} tokens. Received {T}.")
    return pretraining_dataset(
        files,
        batch_size=_EVAL_BATCH,
        max_seq_length=T,
        max_predictions_per_seq=P,
        repeat=False,
        drop_remainder=False,
    )


def _loss(run: Runner, reference: Runner, examples, quantize: Quantization, eval_file: str) -> str:
    """What the accuracy was and is, in a sentence."""
    before, count = masked_lm_accuracy(reference, examples)
    after, _ = masked_lm_accuracy(run, examples)
    return (
        f"masked-LM accuracy on {eval_file}: {before:.4f} before, {after:.4f} in the file "
        f"(quantize={quantize}), a change of {after - before:+.4f}; {count:,} predictions"
    )


def _write_card(
    folder: Path, source, stored: StoredModel, kind: RuntimeFormat, quantize, notes, comparison: Comparison
) -> None:
    runtime = _RUNTIMES[kind]
    inputs = (
        "`input_word_ids`, `input_mask`, `input_type_ids` int32 (B, T); for `mlm_logits` also "
        "`masked_lm_positions` int32 (B, P)"
    )
    sizes = [("sequence_output", "B, T, H"), ("pooled_output", "B, H"), ("sop_logits", "B, 2")]
    shapes = dict([*sizes, ("mlm_logits", "B, P, V")])
    outputs = [(f"`{name}`", f"float32 ({shapes[name]})") for name in comparison.outputs]
    sentence = comparison.sentence
    if quantize != "none":
        sentence = sentence.replace("verified", f"weights in {quantize}", 1)
    sections = [
        f"# ALBERT: {runtime.FILE}, encoder\n\n{WRITTEN_BY} of albert_tf {version()}.",
        model_section(stored, notes),
        source_section(source, stored),
        check_section(sentence),
        f"## Inputs and outputs\n\nInputs: {inputs}.\n\n" + table(("output", "type"), outputs),
        use_section(runtime.EXAMPLE),
    ]
    (folder / CARD_FILE).write_text("\n\n".join(sections), encoding="utf-8")
