"""Hugging Face's ALBERT in PyTorch: training steps, fine-tuning and inference, on a CPU or a GPU."""

import importlib.metadata
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.batches import CALIBRATION_FILE, encoding_turns, training_batch
from benchmarks.processes import peak_megabytes
from benchmarks.task_examples import RATE, Train, padded_batches, train_in_turns

_ACTIVATIONS = {"gelu": "gelu_new", "gelu_erf": "gelu"}
_NAMES = {"input_ids": "input_ids", "attention_mask": "input_mask", "token_type_ids": "token_type_ids"}


def training(
    config: dict[str, Any], dtype: str, B: int, T: int, P: int, compiled: bool = False
) -> Callable[..., dict]:
    """Steps with AdamW of the model for pretraining, which projects all T positions to the vocabulary."""
    import torch
    from transformers import AlbertForPreTraining

    torch.manual_seed(0)
    model = _new(AlbertForPreTraining, config).train()
    data = training_batch(B, T, P, config["vocab_size"])
    labels = np.full((B, T), -100)  # -100: no prediction here
    np.put_along_axis(labels, data["masked_lm_positions"], data["masked_lm_ids"], axis=1)
    inputs = _inputs({name: data[ours] for name, ours in _NAMES.items()} | {"labels": labels})
    inputs |= _inputs({"sentence_order_label": data["sentence_order"]})
    step = _training_step(model, dtype, 1e-4, compiled)
    return lambda steps=1: {"loss": [step(inputs) for _ in range(steps)][-1].item(), **_device_facts(steps)}


def forward(
    config: dict[str, Any], dtype: str, B: int, T: int, P: int, compiled: bool = False
) -> Callable[..., dict]:
    """The encoder on a batch of training."""
    import torch
    from transformers import AlbertModel

    model = _new(AlbertModel, config).to(getattr(torch, dtype)).eval()
    data = training_batch(B, T, P, config["vocab_size"])
    inputs = _inputs({name: data[ours] for name, ours in _NAMES.items()})
    run = torch.compile(model) if compiled else model

    def turn(steps: int) -> dict:
        with torch.inference_mode():
            for _ in range(steps):
                run(**inputs)
        return _device_facts(steps)

    return turn


def finetuning(compiled: bool = False, grouped: bool = False, **setup) -> Callable[..., dict]:
    """The classifier, each batch as long as its longest example.

    Args:
      compiled: with `torch.compile`.
      grouped: batches of similar lengths, an option of the Trainer (`group_by_length`).
      **setup: of `train_in_turns`.
    """

    def make(config, dtype, B, length) -> Train:
        import torch
        from transformers import AlbertForSequenceClassification

        torch.manual_seed(0)
        torch.set_num_threads(os.cpu_count() or 1)
        model = _new(AlbertForSequenceClassification, config.to_dict()).train()
        step = _training_step(model, dtype, RATE, compiled, dynamic=True)

        def train(examples, count, turn):
            batches = list(padded_batches(examples, B, count, turn, grouped=grouped))
            losses = [step(_inputs(batch)).item() for batch in batches]
            return float(np.mean(losses)), [batch["input_ids"].shape for batch in batches]

        return train

    return train_in_turns(make, **setup)


def _new(kind, config: dict[str, Any]):
    """A model with random weights and fused attention (SDPA), on the GPU if there is one."""
    import torch
    from transformers import AlbertConfig

    fields = {name: value for name, value in config.items() if name != "parameter_sharing"}
    fields["hidden_act"] = _ACTIVATIONS.get(fields["hidden_act"], fields["hidden_act"])
    model = kind._from_config(AlbertConfig(**fields), attn_implementation="sdpa")
    return model.to("cuda" if torch.cuda.is_available() else "cpu")


def _inputs(arrays: dict[str, np.ndarray]) -> dict:
    """Arrays as tensors of int64 on the device."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    return {name: torch.tensor(array).long().to(device) for name, array in arrays.items()}


def _training_step(model, dtype: str, rate: float, compiled: bool, dynamic: bool | None = None) -> Callable:
    """A function that trains on a batch and returns the loss, for which a GPU need not have finished."""
    import torch

    device = next(model.parameters()).device.type
    fused = True if device == "cuda" else None
    optimizer = torch.optim.AdamW(model.parameters(), rate, fused=fused)
    run = torch.compile(model, dynamic=dynamic) if compiled else model

    def step(inputs: dict):
        with torch.autocast(device, torch.bfloat16, enabled=dtype == "bfloat16"):
            loss = run(**inputs).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step


def _device_facts(steps: int) -> dict[str, Any]:
    """Waits for the device; its name, its memory and the versions."""
    import torch

    facts = {
        "steps": steps,
        "versions": {package: importlib.metadata.version(package) for package in ("torch", "transformers")},
    }
    if not torch.cuda.is_available():
        return {**facts, "device": "cpu", "peak_megabytes": peak_megabytes()}
    torch.cuda.synchronize()
    megabytes = torch.cuda.max_memory_allocated() / 2**20
    return {**facts, "device": torch.cuda.get_device_name(), "peak_megabytes": megabytes}


def inference(files: str, config: dict[str, Any], dtype: str, compiled: bool = False) -> Callable[..., dict]:
    """AlbertModel, loaded from our Hugging Face export, with weights in `dtype`; int8 is PyTorch's dynamic one."""
    import torch
    from transformers import AlbertModel

    floats = "float32" if dtype == "int8" else dtype
    model = AlbertModel.from_pretrained(f"{files}/huggingface", dtype=getattr(torch, floats)).eval()
    if dtype == "int8":
        model = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, torch.qint8)
    if compiled:
        torch._dynamo.config.recompile_limit = 64  # more shapes than its default of 8
        static, dynamic = torch.compile(model, dynamic=False), torch.compile(model, dynamic=True)

    def encode(ids, mask):
        # Batches without padding repeat a few shapes, which are worth compiling; real lengths rarely repeat.
        run = model if not compiled else static if mask.all() else dynamic
        with torch.inference_mode():
            outputs = run(input_ids=torch.from_numpy(ids), attention_mask=torch.from_numpy(mask))
            return outputs.last_hidden_state.float().numpy()

    return encoding_turns(encode, config["vocab_size"])


def inference_on_openvino(files: str, config: dict[str, Any], dtype: str) -> Callable[..., dict]:
    """AlbertModel, converted by OpenVINO from PyTorch, as optimum-intel does; int8 is NNCF's, on our batches."""
    import openvino
    import torch
    from transformers import AlbertModel

    model = AlbertModel.from_pretrained(f"{files}/huggingface").eval()
    example = {name: torch.ones((2, 8), dtype=torch.int64) for name in _NAMES}
    with torch.inference_mode():
        graph = openvino.convert_model(model, example_input=example)
    if dtype == "int8":
        import nncf

        batch = dict(np.load(f"{files}/{CALIBRATION_FILE}"))
        count = len(next(iter(batch.values())))
        rows = [
            {name: array[i : i + 1].astype("int64") for name, array in batch.items()} for i in range(count)
        ]
        graph = nncf.quantize(graph, nncf.Dataset(rows), model_type=nncf.ModelType.TRANSFORMER)
    hints = {
        "INFERENCE_PRECISION_HINT": "f32" if dtype == "float32" else "bf16",
        "PERFORMANCE_HINT": "LATENCY",
    }
    compiled = openvino.Core().compile_model(graph, "CPU", hints)

    def encode(ids, mask):
        inputs = (ids.astype("int64"), mask.astype("int64"), np.zeros(ids.shape, "int64"))
        return compiled(dict(zip(_NAMES, inputs, strict=True)))[0]

    return encoding_turns(encode, config["vocab_size"])
