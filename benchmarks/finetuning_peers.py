"""Fine-tuning of a text classifier in each library, in processes that benchmarks/finetuning.py controls.

There is one process per library. All train on the same examples, but each makes batches as its library does. The
line "TURN BATCHES" on standard input requests a turn; the reply is a line of JSON on standard output.
"""

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.lab.peer_processes import open_replies, serve_steps

RATE, WARMUP, STEPS = 1e-5, 1256, 20935  # SST-2 in the paper's Table 14
SEED = 0


@dataclass(frozen=True)
class Examples:
    """The examples on which all libraries train; passed between processes as a file of arrays.

    Attributes:
      input_ids: the ids of all examples, concatenated, int32.
      lengths: each example's number of tokens, int32.
      labels: each example's label, int32.
      per_turn: the number of examples in a turn; turn i starts at example i * per_turn.
    """

    input_ids: np.ndarray
    lengths: np.ndarray
    labels: np.ndarray
    per_turn: int

    def save(self, file: Path) -> None:
        np.savez(file, **vars(self))

    @classmethod
    def load(cls, file: Path) -> "Examples":
        with np.load(file) as arrays:
            ids, lengths, labels = (arrays[name] for name in ("input_ids", "lengths", "labels"))
            return cls(ids, lengths, labels, int(arrays["per_turn"]))

    def turn(self, number: int) -> list[dict[str, np.ndarray]]:
        """A turn's examples, in the form that `albert_tf.tasks.features` returns."""
        ends, first = np.cumsum(self.lengths), number * self.per_turn
        return [
            {
                "input_ids": self.input_ids[ends[i] - self.lengths[i] : ends[i]],
                "token_type_ids": np.zeros(self.lengths[i], np.int32),
                "label": np.array(self.labels[i], np.int32),
            }
            for i in range(first, first + self.per_turn)
        ]


@dataclass(frozen=True)
class Setup:
    """One measurement.

    Attributes:
      examples: the training data.
      config: the model's configuration.
      batch_size: B.
      length: T of batches of a fixed length.
      dtype: "float32" or "bfloat16".
    """

    examples: Examples
    config: AlbertConfig
    batch_size: int
    length: int
    dtype: str


# (turn, batches) -> the mean loss and the shapes (B, T) of the batches.
Train = Callable[[int, int], tuple[float, list[tuple[int, int]]]]


def albert_tf(setup: Setup, pad: bool = False) -> Train:
    """This library: the model, optimizer, batches and training step of `albert finetune`."""
    import tensorflow as tf

    from albert_tf.tasks.objective import TaskObjective
    from albert_tf.training.steps import OptimizerStep
    from albert_tf.training.strategy import divide_batches

    model, optimizer = _classifier(setup)
    strategy = tf.distribute.get_strategy()
    step = OptimizerStep(TaskObjective(model), optimizer, strategy)

    def train(turn: int, count: int):
        batches, shapes = _batches(setup, turn, count, pad)
        divided = iter(divide_batches(strategy, lambda: batches, setup.batch_size))
        sums = step(divided, tf.constant(count), step.zero_sums())
        return float(sums["loss"] / sums["loss_weight"]), shapes

    return train


def albert_tf_padded(setup: Setup) -> Train:
    """The same with `--pad_to_max_length`, as google-research/albert trains."""
    return albert_tf(setup, pad=True)


def albert_tf_fit(setup: Setup) -> Train:
    """The same model, optimizer and batches through Keras' `fit`."""
    model, optimizer = _classifier(setup, clip_norm=1.0)
    model.compile(optimizer=optimizer, jit_compile=False)

    def train(turn: int, count: int):
        batches, shapes = _batches(setup, turn, count)
        return model.fit(batches, shuffle=False, verbose=0).history["loss"][0], shapes

    return train


def _classifier(setup: Setup, clip_norm: float | None = None):
    import keras

    from albert_tf import AdamW, AlbertEncoder, TextClassifier, WarmupPolynomialDecay

    policy = keras.DTypePolicy("mixed_bfloat16" if setup.dtype == "bfloat16" else "float32")
    model = TextClassifier(AlbertEncoder(setup.config, seed=SEED, dtype=policy), ("0", "1"), seed=SEED)
    optimizer = AdamW(WarmupPolynomialDecay(RATE, STEPS, WARMUP), global_clipnorm=clip_norm)
    optimizer.build(model.trainable_variables)
    return model, optimizer


def _batches(setup: Setup, turn: int, count: int, pad: bool = False):
    """A turn's batches, as `albert finetune` makes them, and their shapes."""
    from albert_tf.finetuning.task_data import split_batches
    from albert_tf.tasks.splits import EncodedSplit

    split, length = EncodedSplit("train", (), setup.examples.turn(turn)), setup.length if pad else None
    batches = split_batches(split, setup.batch_size, length, seed=SEED, num_epochs=None).take(count)
    return batches, [batch["input_ids"].shape for batch in batches.as_numpy_iterator()]


def keras_hub(setup: Setup) -> Train:
    """AlbertTextClassifier through `fit`; its preprocessor pads everything to one length."""
    import keras
    import keras_hub
    import tensorflow as tf

    keras.utils.set_random_seed(SEED)
    keras.config.set_dtype_policy("mixed_bfloat16" if setup.dtype == "bfloat16" else "float32")
    config = setup.config
    backbone = keras_hub.models.AlbertBackbone(
        vocabulary_size=config.vocab_size,
        num_layers=config.num_hidden_layers,
        num_heads=config.num_attention_heads,
        embedding_dim=config.embedding_size,
        hidden_dim=config.hidden_size,
        intermediate_dim=config.intermediate_size,
        dropout=config.hidden_dropout_prob,
    )
    model = keras_hub.models.AlbertTextClassifier(backbone, num_classes=2, preprocessor=None)
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=keras.optimizers.AdamW(RATE, global_clipnorm=1.0),
        metrics=[],
        jit_compile=False,  # faster on CPUs
    )

    def train(turn: int, count: int):
        batches = list(shuffled(setup, turn, count, setup.length))
        inputs = {
            "token_ids": np.concatenate([batch["input_ids"] for batch in batches]),
            "padding_mask": np.concatenate([batch["attention_mask"] for batch in batches]),
            "segment_ids": np.concatenate([batch["token_type_ids"] for batch in batches]),
        }
        labels = np.concatenate([batch["labels"] for batch in batches])
        data = tf.data.Dataset.from_tensor_slices((inputs, labels)).batch(setup.batch_size).prefetch(1)
        return model.fit(data, verbose=0).history["loss"][0], shapes_of(batches)

    return train


def hugging_face(setup: Setup, compiled: bool = False, grouped: bool = False) -> Train:
    """AlbertForSequenceClassification on PyTorch, each batch as long as its longest example."""
    import torch
    import transformers

    names = (
        "vocab_size",
        "embedding_size",
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "intermediate_size",
        "hidden_dropout_prob",
        "attention_probs_dropout_prob",
    )
    torch.manual_seed(SEED)
    torch.set_num_threads(os.cpu_count() or 1)
    config = transformers.AlbertConfig(**{name: getattr(setup.config, name) for name in names})
    model = transformers.AlbertForSequenceClassification(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0.01)
    forward = torch.compile(model, dynamic=True) if compiled else model

    def step(batch: dict[str, np.ndarray]) -> float:
        with torch.autocast("cpu", torch.bfloat16, enabled=setup.dtype == "bfloat16"):
            loss = forward(**{name: torch.tensor(array).long() for name, array in batch.items()}).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    def train(turn: int, count: int):
        batches = list(shuffled(setup, turn, count, grouped=grouped))
        return float(np.mean([step(batch) for batch in batches])), shapes_of(batches)

    return train


def hugging_face_compiled(setup: Setup) -> Train:
    return hugging_face(setup, compiled=True)


def hugging_face_grouped(setup: Setup) -> Train:
    """Batches of similar lengths, an option of its Trainer (`group_by_length`)."""
    return hugging_face(setup, grouped=True)


def shuffled(setup: Setup, turn: int, count: int, length: int | None = None, grouped: bool = False):
    """Yields batches of a turn's examples in random order, with Hugging Face's names.

    Args:
      setup: the measurement.
      turn: the turn's number.
      count: the number of batches.
      length: T of all batches. Default: that of each batch's longest example.
      grouped: whether each batch has examples of similar length.
    """
    examples, rng = setup.examples.turn(turn), np.random.default_rng(turn)
    order = rng.permutation(len(examples))
    if grouped:
        order = order[np.argsort([-len(examples[i]["input_ids"]) for i in order], kind="stable")]
    batches = order[: len(order) // setup.batch_size * setup.batch_size].reshape(-1, setup.batch_size)
    for rows in rng.permutation(batches)[:count]:
        ids = [examples[row]["input_ids"] for row in rows]
        T = length or max(map(len, ids))
        yield {
            "input_ids": np.stack([np.pad(row, (0, T - len(row))) for row in ids]),
            "attention_mask": np.stack([np.arange(T) < len(row) for row in ids]).astype(np.int32),
            "token_type_ids": np.zeros((len(rows), T), np.int32),
            "labels": np.array([examples[row]["label"] for row in rows]),
        }


def shapes_of(batches: list[dict[str, np.ndarray]]) -> list[tuple[int, int]]:
    return [batch["input_ids"].shape for batch in batches]


PEERS = {
    function.__name__: function
    for function in (
        albert_tf,
        albert_tf_padded,
        albert_tf_fit,
        hugging_face,
        hugging_face_compiled,
        hugging_face_grouped,
        keras_hub,
    )
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("--examples", type=Path, required=True)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), required=True)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--batch_size", type=int, required=True)
    parser.add_argument("--length", type=int, required=True)
    flags = vars(parser.parse_args())
    replies = open_replies()
    peer, file, config = (flags.pop(name) for name in ("peer", "examples", "config"))
    train = PEERS[peer](Setup(Examples.load(file), AlbertConfig.from_json_file(config), **flags))

    def facts(request: str) -> dict:
        loss, shapes = train(*map(int, request.split()))
        return {
            "loss": float(loss),
            "batches": len(shapes),
            "examples": sum(B for B, _ in shapes),
            "padded_tokens": sum(B * T for B, T in shapes),
        }

    serve_steps(replies, facts)


if __name__ == "__main__":
    main()
