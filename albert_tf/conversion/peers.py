"""Runs files with the library of their format, in a separate process: PyTorch's compiler aborts beside TensorFlow.

    python -P albert_tf/conversion/peers.py huggingface FOLDER INPUTS.npz OUTPUTS.npz

Imports nothing from this library, so that a peer computes with its own code only.
"""

import importlib.util
import json
import pathlib
import sys

import numpy as np

_TASK_CLASSES = (
    "AlbertForSequenceClassification",
    "AlbertForMultipleChoice",
    "AlbertForQuestionAnswering",
    "AlbertForTokenClassification",
)
PACKAGES = {"huggingface": ("transformers", "torch"), "kerashub": ("keras_hub",)}


def is_installed(naming: str) -> bool:
    """Whether a library for files of this format exists and is installed."""
    packages = PACKAGES.get(naming, ())
    return bool(packages) and all(importlib.util.find_spec(package) for package in packages)


def run_huggingface(folder: str, batch) -> dict[str, np.ndarray]:
    """Outputs of transformers' `AlbertForPreTraining`, under our names; heads that the files lack are random.

    For a fine-tuned model also `head_logits`, computed by the class that config.json names, and for a folder of
    sentence-transformers, if that is installed, `sentence_embedding`.
    """
    import torch
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    options = {"local_files_only": True, "torch_dtype": torch.float32}
    model = transformers.AlbertForPreTraining.from_pretrained(folder, **options).eval()
    names = {"input_ids": "input_ids", "attention_mask": "input_mask", "token_type_ids": "token_type_ids"}
    inputs = {theirs: torch.tensor(batch[ours]).long() for theirs, ours in names.items()}
    with torch.no_grad():
        outputs = model.albert(**inputs)
        sequence, pooled = outputs.last_hidden_state, outputs.pooler_output
        logits, order = model.predictions(sequence), model.sop_classifier(pooled)
        head_outputs = {}
        if (name := (model.config.architectures or [""])[0]) in _TASK_CLASSES:
            head_outputs = _run_task_class(getattr(transformers, name), folder, options, inputs)
        if _has_modules(folder):
            from sentence_transformers import SentenceTransformer

            encoder = SentenceTransformer(folder, device="cpu", model_kwargs={"torch_dtype": torch.float32})
            head_outputs["sentence_embedding"] = encoder(dict(inputs))["sentence_embedding"].numpy()
    rows = np.arange(len(sequence))[:, None]
    return {
        **head_outputs,
        "sequence_output": sequence.numpy(),
        "pooled_output": pooled.numpy(),
        "masked_lm_logits": logits.numpy()[rows, batch["masked_lm_positions"]],
        "sentence_order_logits": order.numpy(),
    }


def _has_modules(folder: str) -> bool:
    """Whether sentence-transformers, which must be installed, can load a folder with classes of its own only."""
    files = [pathlib.Path(folder, name) for name in ("modules.json", "tokenizer_config.json")]
    if not all(map(pathlib.Path.exists, files)) or not importlib.util.find_spec("sentence_transformers"):
        return False
    modules = json.loads(files[0].read_text())
    return all(module["type"].startswith("sentence_transformers.") for module in modules)


def _run_task_class(task_class, folder: str, options, inputs) -> dict[str, np.ndarray]:
    """The logits of one of transformers' classes for fine-tuned models."""
    if task_class.__name__ == "AlbertForMultipleChoice":
        inputs = {name: array[:, None] for name, array in inputs.items()}  # one option for each question
    found = task_class.from_pretrained(folder, **options).eval()(**inputs)
    if "start_logits" in found:
        return {"head_logits": np.stack([found.start_logits, found.end_logits], axis=-1)}
    return {"head_logits": found.logits.numpy()}


def run_kerashub(folder: str, batch) -> dict[str, np.ndarray]:
    """Outputs of KerasHub's `AlbertBackbone`, which has our names for them, and of `AlbertTextClassifier`.

    `AlbertMaskedLM` is left out: its head computes with another epsilon.
    """
    import keras_hub

    backbone = keras_hub.models.AlbertBackbone.from_preset(folder)
    names = {"token_ids": "input_ids", "padding_mask": "input_mask", "segment_ids": "token_type_ids"}
    inputs = {theirs: batch[ours] for theirs, ours in names.items()}
    outputs = backbone(inputs)
    task_file = pathlib.Path(folder, "task.json")
    if task_file.exists() and "AlbertTextClassifier" in json.loads(task_file.read_text())["class_name"]:
        # Removes the softmax, which some classifiers have: logits are compared.
        options = {"preprocessor": None, "activation": "linear"}
        classifier = keras_hub.models.AlbertTextClassifier.from_preset(folder, **options)
        outputs["head_logits"] = classifier(inputs)
    return {name: np.asarray(value) for name, value in outputs.items()}


def main(naming: str, folder: str, inputs: str, outputs: str) -> None:
    """Runs a peer on the arrays in one file and writes its outputs to another."""
    run = {"huggingface": run_huggingface, "kerashub": run_kerashub}[naming]
    with np.load(inputs) as batch:
        np.savez(outputs, **run(folder, dict(batch)))  # type: ignore[arg-type]


if __name__ == "__main__":
    main(*sys.argv[1:])
