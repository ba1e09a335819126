"""Hugging Face's layout of ONNX: onnx/model.onnx, which takes int64 ids, beside config.json and the tokenizer.

Transformers.js and optimum load such a folder, and ONNX Runtime and OpenVINO the file in it.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints.card import Usage, write_card
from albert_tf.checkpoints.heads import Head
from albert_tf.checkpoints.huggingface import write_config
from albert_tf.checkpoints.names import SPAN_HEAD, TOKEN_HEAD
from albert_tf.checkpoints.output_folder import replaced_folder
from albert_tf.checkpoints.stored import StoredModel
from albert_tf.conversion.verification import OutputComparison, check_equal, head_logits
from albert_tf.model.inputs import random_inputs
from albert_tf.runtime.portable_folder import ONNX_FILE
from albert_tf.runtime.pretrained import Pretrained, as_pretrained
from albert_tf.tasks.hub_names import OURS
from albert_tf.tasks.open_task import kinds_of
from albert_tf.tasks.task_model import TaskModel
from data_prep.errors import InputError
from data_prep.files import read_json_object, write_json
from data_prep.tokenizers.tokenizer_json import TOKENIZER_JSON
from data_prep.tokenizers.tokenizer_json_writing import write_plain_tokenizer_json
from data_prep.tokenizers.vocabulary import TOKENIZER_CONFIG
from export.onnx import ONNX
from export.portable import Portable
from export.source import ExportSource
from export.usage import COMMAND, as_kind

_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
# The names by which Transformers.js finds the values of its `dtype`: fp32, fp16 and q8.
_FILES = {"none": "model.onnx", "float16": "model_fp16.onnx", "int8": "model_quantized.onnx"}
_EXAMPLE = """
import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession("onnx/{file}")
ids = np.array([[2, 13, 1, 9, 3]])
inputs = {{"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}}
print(session.run(["{output}"], inputs)[0].shape)
"""
_JAVASCRIPT = """
import {{ env, pipeline }} from "@huggingface/transformers";

env.allowRemoteModels = false;
env.localModelPath = "/";
const run = await pipeline("{task}", "/PATH/OF/THIS/FOLDER");
console.log(await run("{text}"));
"""


def write_onnx_folder(
    source: str | Path, found: ExportSource, quantize: str, output: Path
) -> tuple[tuple[str, ...], OutputComparison]:
    """Writes the layout without the weights of transformers; returns notes and the comparison of the outputs."""
    file = _file(quantize)
    kind = "encoder" if found.kind == "embedding" else found.kind
    # A pretrained kind leaves out the head of a fine-tuned model.
    stored = found.stored if found.finetuned else replace(found.stored, head=None)
    with replaced_folder(output) as aside:
        portable = _function(found.build_model(), stored.head, kind)
        notes = [
            *found.stored.notes,
            *write_config(stored, aside),
            *_for_javascript(stored, aside),
        ]
        comparison = _write(portable, quantize, aside)
        if quantize != "none":
            notes.append(f"the cost of {quantize} in accuracy was not measured")
        outputs = list(portable.output_dimensions)
        example = _EXAMPLE.format(file=file, output=outputs[0])
        interface = (
            f"## Inputs and outputs\n\nonnx/{file} takes {', '.join(f'`{name}`' for name in _INPUTS)}, int64 "
            f"(batch_size, sequence_length), and returns {', '.join(f'`{name}`' for name in outputs)}."
        )
        usage = as_kind(Usage(f"ONNX, {kind}", COMMAND, example, interface, "transformers.js"), found)
        text = (
            "The captain [MASK] past the lighthouse." if kind == "fill-mask" else "The captain sailed past."
        )
        if usage.pipeline in ("fill-mask", "feature-extraction", "text-classification"):
            javascript = _JAVASCRIPT.format(task=usage.pipeline, text=text)
            usage = replace(usage, interface=f"{interface}\n\nIn JavaScript:\n\n```js{javascript}```")
        check = comparison.describe("verified" if quantize == "none" else f"weights in {quantize}")
        write_card(aside, source, found.stored, usage, notes, check)
    return tuple(notes), comparison


def add_onnx(stored: StoredModel, folder: Path) -> list[str]:
    """Adds the layout to a Hugging Face directory that was written from the model; returns notes.

    The file computes what a fine-tuned model is for; of a pretrained one the logits of all tokens if it has a
    masked-LM head and does not say how texts become vectors, otherwise the vectors of all tokens.
    """
    kind, model = "encoder", None
    if head := stored.head:
        model = kinds_of(head)[0].model.from_stored(stored, seed=0, dtype="float32")
    elif "masked_lm" in stored.parts and not stored.sentence_vectors:
        kind = "fill-mask"
    function = _function(model or as_pretrained(stored, seed=0, dtype="float32"), head, kind)
    comparison = _write(function, "none", folder)
    return [*_for_javascript(stored, folder), f"onnx/{ONNX_FILE} {comparison.describe()}"]


def _file(quantize: str) -> str:
    if quantize not in _FILES:
        raise InputError(
            f"--layout=huggingface supports --quantize={', '.join(_FILES)}. Received {quantize}."
        )
    return _FILES[quantize]


def _write(portable: Portable, quantize: str, folder: Path) -> OutputComparison:
    """Writes the file and compares its outputs with the model's."""
    (folder / "onnx").mkdir()
    run = ONNX.write(portable, quantize, folder / "onnx", ())
    (folder / "onnx" / ONNX_FILE).rename(folder / "onnx" / _file(quantize))
    comparison = portable.compare(run, ONNX.name, rounded=quantize != "none")
    check_equal(comparison, rounded=quantize != "none")
    return comparison


def _function(model: Pretrained | TaskModel, head: Head | None, kind: str) -> Portable:
    """The model as a function of Hugging Face's inputs, with the outputs of its class there.

    Raises:
      InputError: Transformers.js and optimum have no such class, or the model lacks what it needs.
    """
    encoder = model.encoder
    if kernels := encoder.kernels:
        encoder.unpad = kernels.textbook_layer_norm = True
    if isinstance(model, Pretrained):
        if kind not in ("encoder", "fill-mask") or (kind == "fill-mask" and "masked_lm" not in model.parts):
            raise InputError(
                "--layout=huggingface supports --kind=encoder, embedding, fill-mask of a model with a masked-LM "
                f"head, classifier, token-classification and question-answering. Received --kind={kind}."
            )
        dimensions = {"logits": "B, T, V"} if kind == "fill-mask" else {"last_hidden_state": "B, T, H"}
    else:
        if model.input_rank != 2:
            raise InputError(
                "--layout=huggingface is for models of one text or a pair. Received one for multiple choice, "
                "which Transformers.js does not run."
            )
        assert head, "task models have one"
        if head.size.part == SPAN_HEAD:
            dimensions = dict.fromkeys(("start_logits", "end_logits"), "B, T")
        else:
            dimensions = {"logits": "B, T, C" if head.size.part == TOKEN_HEAD else "B, C"}

    def outputs(inputs):
        batch = {ours: tf.cast(inputs[theirs], tf.int32) for ours, theirs in zip(OURS, _INPUTS, strict=True)}
        found = encoder(batch, training=False)
        sequence = found["sequence_output"]
        if isinstance(model, TaskModel) and head:
            logits = head_logits(model, head, sequence, found["pooled_output"])
            values = tf.unstack(logits, axis=-1) if len(dimensions) == 2 else [logits]
        elif kind == "fill-mask":
            values = [model.model.masked_lm(sequence, None, encoder.embeddings.word_embeddings)]
        else:
            values = [sequence]
        return dict(zip(dimensions, values, strict=True))

    specs = {name: tf.TensorSpec([None, None], tf.int64, name=name) for name in _INPUTS}
    function = tf.function(outputs, input_signature=[specs], autograph=False)
    random = random_inputs(encoder.config, 0)
    sample = {theirs: np.asarray(random[ours], np.int64) for ours, theirs in zip(OURS, _INPUTS, strict=True)}
    keras_model = model.model if isinstance(model, Pretrained) else model
    return Portable(keras_model, {"serving_default": function}, dimensions, sample)


def _for_javascript(stored: StoredModel, folder: Path) -> list[str]:
    """Changes the tokenizer's files to those that Transformers.js computes the same ids from; returns notes."""
    if stored.vocabulary is None:
        return ["no tokenizer: the model comes without a vocabulary"]
    if not (folder / TOKENIZER_JSON).exists():
        return ["Transformers.js cannot encode texts, since there is no tokenizer.json"]
    write_plain_tokenizer_json(stored.vocabulary, folder / TOKENIZER_JSON)
    # Of all classes that Transformers.js has, this one gives a pair token_type_ids, and transformers the same ids.
    values = read_json_object(folder / TOKENIZER_CONFIG) | {"tokenizer_class": "AlbertTokenizer"}
    write_json(folder / TOKENIZER_CONFIG, values)
    return [
        "tokenizer_class is AlbertTokenizer, without which Transformers.js gives pairs no token_type_ids; with it "
        "transformers gives other ids to Korean, to vowel signs of Indic scripts, final sigmas, and `` and ''"
    ]
