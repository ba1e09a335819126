"""Steps of each library on a GPU or TPU, in processes that benchmarks/accelerator.py controls.

There is one process per library; ours is Keras on JAX and needs no TensorFlow. A line on standard input requests
steps, as many as it says, or with `--largest` the search for the largest batch. The reply is a line of JSON.
"""

import argparse
import gc
import importlib.metadata
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.lab.peer_processes import open_replies, peak_megabytes, serve_steps
from albert_tf.lab.training_step import random_training_batch

RATE = 1e-4
# So that cuBLAS multiplies, which adds biases and computes gelu in the same kernel; Triton's products do not.
XLA_FLAGS = "--xla_gpu_enable_triton_gemm=false"
FIRST_TOKENS = 4096  # in the first batch that the search for the largest tries


@dataclass(frozen=True)
class Cell:
    """What all libraries compute.

    Attributes:
      config: fields of `AlbertConfig`.
      kind: training: forward, backward, clipping and AdamW for both heads; inference: the encoder's outputs.
      dtype: float32 or bfloat16.
      T: tokens in a row, without padding.
      P: predictions in a row.
      remat: of this library, as in `AlbertEncoder`.
    """

    config: dict[str, Any]
    kind: str
    dtype: str
    T: int
    P: int
    remat: str | bool = False


@dataclass(frozen=True)
class Library:
    """A library on its device.

    Attributes:
      prepare: (cell, B) -> a function that starts one step, and one that waits for all that were started.
      device: the device's name, as its driver reports it.
      versions: packages and their versions.
      peak: the most memory in use so far, in MB.
      memory: the memory that the device has for this process, in MB; None if it is the computer's.
      forget: frees what the prepared steps held.
    """

    prepare: Callable[[Cell, int], tuple[Callable[[], Any], Callable[[], Any]]]
    device: str
    versions: dict[str, str]
    peak: Callable[[], float]
    memory: float | None
    forget: Callable[[], None]


def albert_tf() -> Library:
    """This library: Keras on JAX."""
    os.environ["KERAS_BACKEND"] = "jax"
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # the other libraries need memory, too
    os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = "0.95"
    os.environ.setdefault("XLA_FLAGS", XLA_FLAGS)
    import jax

    device = jax.devices()[0]
    statistics = device.memory_stats()  # none on CPUs
    memory = statistics["bytes_limit"] / 2**20 if statistics else None

    def peak() -> float:
        return device.memory_stats()["peak_bytes_in_use"] / 2**20 if memory else peak_megabytes()

    versions = _versions("jax", "jaxlib", "keras")
    return Library(_prepare_jax, device.device_kind, versions, peak, memory, jax.clear_caches)


def _prepare_jax(cell: Cell, B: int):
    import jax
    import keras

    from albert_tf.lab.training_step import pure_training_step
    from albert_tf.model.encoder import AlbertEncoder
    from albert_tf.model.pretrainer import AlbertPretrainer
    from albert_tf.optimizers import AdamW

    is_bfloat16, config = cell.dtype == "bfloat16", AlbertConfig.from_dict(cell.config)
    batch = jax.device_put(random_training_batch(B, cell.T, cell.P, config.vocab_size))
    last: list = []
    if cell.kind == "training":
        dtype = keras.DTypePolicy("mixed_bfloat16" if is_bfloat16 else "float32")
        model = AlbertPretrainer(config, seed=1, remat=cell.remat, dtype=dtype)
        step, state = pure_training_step(model, AdamW(RATE, global_clipnorm=1.0))
        step = jax.jit(step, donate_argnums=(0, 1, 2))
        last = [*state, None]

        def start():
            last[:] = step(*last[:3], batch)
    else:
        encoder = AlbertEncoder(config, seed=1, dtype=cell.dtype)
        variables = (encoder.trainable_variables, encoder.non_trainable_variables)
        weights, others = ([variable.value for variable in kind] for kind in variables)
        inputs = {name: batch[name] for name in encoder.input_names}
        forward = jax.jit(lambda weights, others, x: encoder.stateless_call(weights, others, x)[0])

        def start():
            last[:] = [forward(weights, others, inputs)]

    return start, lambda: jax.block_until_ready(last)


def hugging_face(compiled: bool = False) -> Library:
    """Hugging Face's models in PyTorch, with fused attention (SDPA)."""
    import torch

    torch.manual_seed(0)
    is_cuda = torch.cuda.is_available()

    def forget() -> None:
        torch._dynamo.reset()
        gc.collect()
        torch.cuda.empty_cache()

    return Library(
        lambda cell, B: _prepare_torch(cell, B, compiled),
        torch.cuda.get_device_name() if is_cuda else "cpu",
        _versions("torch", "transformers"),
        lambda: torch.cuda.max_memory_allocated() / 2**20 if is_cuda else peak_megabytes(),
        torch.cuda.mem_get_info()[1] / 2**20 if is_cuda else None,
        forget,
    )


def hugging_face_compiled() -> Library:
    """The same with torch.compile."""
    return hugging_face(compiled=True)


def _prepare_torch(cell: Cell, B: int, compiled: bool):
    import torch
    from transformers import AlbertConfig as Config
    from transformers import AutoModel, AutoModelForPreTraining

    device = "cuda" if torch.cuda.is_available() else "cpu"
    fields = {name: value for name, value in cell.config.items() if name != "parameter_sharing"}
    fields["hidden_act"] = {"gelu": "gelu_new", "gelu_erf": "gelu"}.get(
        fields["hidden_act"], fields["hidden_act"]
    )
    config, make = Config(**fields), AutoModelForPreTraining if cell.kind == "training" else AutoModel
    model = make.from_config(config, attn_implementation="sdpa").to(device)
    data = random_training_batch(B, cell.T, cell.P, config.vocab_size)
    arrays = {"input_ids": "input_ids", "attention_mask": "input_mask", "token_type_ids": "token_type_ids"}
    inputs = {name: torch.tensor(data[ours]).long().to(device) for name, ours in arrays.items()}
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    if cell.kind == "inference":
        model = model.to(getattr(torch, cell.dtype)).eval()
        forward = torch.compile(model) if compiled else model

        def infer():
            with torch.inference_mode():
                return forward(**inputs)

        return infer, wait
    labels = torch.full((B, cell.T), -100)  # -100: no prediction here
    labels.scatter_(
        1, torch.tensor(data["masked_lm_positions"]).long(), torch.tensor(data["masked_lm_ids"]).long()
    )
    inputs["labels"] = labels.to(device)
    inputs["sentence_order_label"] = torch.tensor(data["sentence_order"]).long().to(device)
    optimizer = torch.optim.AdamW(model.train().parameters(), RATE, fused=True)
    forward = torch.compile(model) if compiled else model

    def train():
        with torch.autocast(device, torch.bfloat16, enabled=cell.dtype == "bfloat16"):
            loss = forward(**inputs).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return train, wait


def largest_batch(peak: Callable[[int], float | None], memory: float | None, first: int, most: int) -> int:
    """The largest batch that fits, to within 1/16; 0 if a single row does not fit.

    Memory is about linear in the batch, so that the batches tried so far say where to look.

    Args:
      peak: the memory in MB that steps of a batch take; None if it does not fit.
      memory: the memory that there is, in MB; None if unknown.
      first: the first batch to try.
      most: the largest batch to try.
    """
    used: dict[int, float] = {}  # of the batches that fit, in increasing order
    fitting, failing, guess = 0, most + 1, min(first, most)
    while failing - fitting > max(1, fitting // 16):
        megabytes = peak(guess)
        if megabytes is None:
            failing = guess
        else:
            fitting, used[guess] = guess, megabytes
        if failing > most and len(used) < 2:
            guess = min(2 * fitting, most)
        else:
            guess = (fitting + failing) // 2
            if memory and len(used) > 1 and (estimate := min(_estimate(used, memory), most)) < failing:
                guess = max(estimate, min(fitting + max(1, fitting // 16), failing - 1))
    return fitting


def _estimate(used: dict[int, float], memory: float) -> int:
    """The batch that takes almost all memory, by the line through the smallest and the largest batch that fit."""
    (small, low), *_, (large, high) = used.items()
    return large + int((0.97 * memory - high) / max((high - low) / (large - small), 1e-9))


def memory_of_steps(library: Library, cell: Cell, B: int) -> float | None:
    """The most memory in use so far, in MB, after two steps of a batch; None if they do not fit."""
    try:
        start, wait = library.prepare(cell, B)
        for _ in range(2):
            start()
        wait()
        return library.peak()
    except (MemoryError, RuntimeError) as error:  # JAX and PyTorch raise subclasses of RuntimeError
        if not any(words in str(error) for words in ("RESOURCE_EXHAUSTED", "out of memory", "Out of memory")):
            raise
        return None
    finally:
        start = wait = None  # the device's arrays live as long as these
        gc.collect()
        library.forget()


def _versions(*packages: str) -> dict[str, str]:
    return {package: importlib.metadata.version(package) for package in packages}


PEERS = {function.__name__: function for function in (albert_tf, hugging_face, hugging_face_compiled)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("cell", help="the fields of a Cell as JSON")
    parser.add_argument("batch_size", type=int, help="B; with --largest the most to try")
    parser.add_argument("--largest", action="store_true")
    arguments = parser.parse_args()
    replies = open_replies()
    cell, B, library = Cell(**json.loads(arguments.cell)), arguments.batch_size, PEERS[arguments.peer]()
    facts = {"device": library.device, "versions": library.versions}
    if arguments.largest:
        sys.stdin.readline()
        found = largest_batch(
            lambda guess: memory_of_steps(library, cell, guess),
            library.memory,
            max(1, FIRST_TOKENS // cell.T),
            B,
        )
        replies.write(json.dumps({"largest": found, **facts}) + "\n")
        return
    start, wait = library.prepare(cell, B)

    def steps(number: str) -> dict:
        for _ in range(int(number)):
            start()
        wait()
        return {"steps": int(number), "peak_megabytes": library.peak(), **facts}

    serve_steps(replies, steps)


if __name__ == "__main__":
    main()
