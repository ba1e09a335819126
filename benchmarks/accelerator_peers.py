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
      forget: frees what the prepared steps held.
    """

    prepare: Callable[[Cell, int], tuple[Callable[[], Any], Callable[[], Any]]]
    device: str
    versions: dict[str, str]
    peak: Callable[[], float]
    forget: Callable[[], None]


def albert_tf() -> Library:
    """This library: Keras on JAX."""
    os.environ["KERAS_BACKEND"] = "jax"
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # the other libraries need memory, too
    os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = "0.95"
    import jax

    device = jax.devices()[0]

    def peak() -> float:
        statistics = device.memory_stats()  # none on CPUs
        return statistics["peak_bytes_in_use"] / 2**20 if statistics else peak_megabytes()

    return Library(
        _prepare_jax, device.device_kind, _versions("jax", "jaxlib", "keras"), peak, jax.clear_caches
    )


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


def largest_batch(fits: Callable[[int], bool], most: int) -> int:
    """The largest batch that fits, to within 1/16, by doubling and bisection; 0 if a single row does not fit."""
    fitting, failing = 0, most + 1
    while fitting < most and fits(guess := min(max(1, 2 * fitting), most)):
        fitting = guess
    if fitting < most:
        failing = guess
    while failing - fitting > max(1, fitting // 16):
        guess = (fitting + failing) // 2
        fitting, failing = (guess, failing) if fits(guess) else (fitting, guess)
    return fitting


def fits(library: Library, cell: Cell, B: int) -> bool:
    """Whether two steps of a batch run without running out of the device's memory."""
    try:
        start, wait = library.prepare(cell, B)
        for _ in range(2):
            start()
        wait()
    except (MemoryError, RuntimeError) as error:  # JAX and PyTorch raise subclasses of RuntimeError
        if not any(words in str(error) for words in ("RESOURCE_EXHAUSTED", "out of memory", "Out of memory")):
            raise
        return False
    finally:
        start = wait = None  # the device's arrays live as long as these
        gc.collect()
        library.forget()
    return True


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
        found = largest_batch(lambda guess: fits(library, cell, guess), B)
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
