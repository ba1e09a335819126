"""Scales of the experiments: the paper's own sizes, or smaller ones that keep their order.

A variant names a model in the paper's words, such as "large, E=128"; a scale defines what these mean.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from albert_tf.config import PRESETS

PAPER_HIDDEN = {"base": 768, "large": 1024, "xlarge": 2048, "xxlarge": 4096}


@dataclass(frozen=True)
class Scale:
    """The models behind the paper's names, and the settings of a run.

    Attributes:
      sizes: base, large, xlarge and xxlarge -> fields of `AlbertConfig`; other fields have their defaults.
      embeddings: the paper's E -> E at this scale. If E = H in the paper, E = H at every scale.
      widths: the paper's H in Table 12 -> fields of `AlbertConfig`.
      vocab_size: V.
      max_seq_length: T.
      train_batch_size: examples per step.
      short_phase: (T, share of the steps) of shorter sequences that a run starts with, as many tokens per step;
        None for one length throughout. Less than half of the steps, so that runs fork after it.
      num_train_steps: steps per run.
      num_warmup_steps: steps of linear warm-up.
      learning_rate: the peak of LAMB, the paper's optimizer.
      poly_power: of the decay of the learning rate; below 1 the rate stays higher for the long sequences.
      dropout: the rate of models "with dropout".
      dupe_factor: passes over the text, each with other chunks; pairs and masks change every epoch.
      max_eval_steps: batches of 64 held-out examples per evaluation.
      probe_examples: examples to train fresh heads on.
      finetuning: task -> (epochs, learning rate); None for the paper's Table 14.
      speed_batch: (examples, tokens) of a step whose speed is measured.
    """

    sizes: Mapping[str, Mapping[str, Any]]
    embeddings: Mapping[int, int]
    widths: Mapping[int, Mapping[str, Any]]
    vocab_size: int
    max_seq_length: int
    train_batch_size: int
    num_train_steps: int
    num_warmup_steps: int
    learning_rate: float
    poly_power: float = 1.0
    short_phase: tuple[int, float] | None = None
    dropout: float = 0.1
    dupe_factor: int = 5
    max_eval_steps: int = 200
    probe_examples: int = 20_000
    finetuning: Mapping[str, tuple[float, float]] | None = None
    speed_batch: tuple[int, int] = (4, 128)


def shape(hidden_size: int, num_hidden_layers: int, head_size: int) -> dict[str, Any]:
    """The fields of a model with heads of `head_size` and F = 4 H, without dropout."""
    return {
        "hidden_size": hidden_size,
        "num_hidden_layers": num_hidden_layers,
        "num_attention_heads": hidden_size // head_size,
        "intermediate_size": 4 * hidden_size,
    }


_SMALL_ENCODER_TASKS = {
    "squad1.1": (2.0, 5e-4),
    "squad2.0": (2.0, 5e-4),
    "mnli": (1.0, 2e-4),
    "sst-2": (1.0, 2e-4),
    "race": (2.0, 3e-4),
}


def tiny_shape(hidden_size: int, num_hidden_layers: int) -> dict[str, Any]:
    """A shape whose initial weights suit its width: BERT's 0.02 suits 768 and delays learning in narrow models."""
    return {
        **shape(hidden_size, num_hidden_layers, 32),
        "initializer_range": round(0.57 * hidden_size**-0.5, 3),
    }


# Many small steps, on short sequences first: a model needs thousands of steps to discover that the neighbors of a
# masked word predict it, and fewer with a shorter T, with a wider E, which also encodes positions, and with a
# smaller V. The base model is the demo's with one more layer: two seeds were equally good at step 3,000 (masked-LM
# accuracies of .267 and .264). With H = 96, E = 64 and V = 8,000, two seeds left the plateau 2,000 steps apart.
TINY = Scale(
    sizes={
        "base": tiny_shape(128, 4),
        "large": tiny_shape(160, 6),
        "xlarge": tiny_shape(192, 6),
        "xxlarge": tiny_shape(320, 4),
    },
    embeddings={64: 64, 128: 96, 256: 112},
    widths={
        1024: tiny_shape(96, 4),
        2048: tiny_shape(128, 4),
        4096: tiny_shape(192, 4),
        6144: tiny_shape(256, 4),
    },
    vocab_size=4000,
    max_seq_length=128,
    train_batch_size=16,
    num_train_steps=6000,
    num_warmup_steps=300,
    learning_rate=0.01,
    poly_power=0.5,
    short_phase=(32, 0.4),
    finetuning=_SMALL_ENCODER_TASKS,
)
SMALL = Scale(
    sizes={
        "base": shape(256, 6, 64),
        "large": shape(320, 12, 64),
        "xlarge": shape(640, 12, 64),
        "xxlarge": shape(1280, 6, 64),
    },
    embeddings={64: 32, 128: 64, 256: 128},
    widths={
        1024: shape(256, 12, 64),
        2048: shape(512, 12, 64),
        4096: shape(1024, 12, 64),
        6144: shape(1536, 12, 64),
    },
    vocab_size=16_000,
    max_seq_length=128,
    train_batch_size=256,
    num_train_steps=20_000,
    num_warmup_steps=1000,
    learning_rate=0.003,
    finetuning=_SMALL_ENCODER_TASKS,
    speed_batch=(8, 512),
)
# Section 4.1 and Table 1. The models of Table 12 have heads of size 64, like BERT-large and ALBERT-xxlarge.
PAPER = Scale(
    sizes={size: PRESETS[f"albert_{size}_v1"] for size in PAPER_HIDDEN},
    embeddings={64: 64, 128: 128, 256: 256},
    widths={
        hidden: {
            **shape(hidden, 24, 64),
            "hidden_dropout_prob": 0.1,
            "attention_probs_dropout_prob": 0.1,
        }
        for hidden in (1024, 2048, 4096, 6144)
    },
    vocab_size=30_000,
    max_seq_length=512,
    train_batch_size=4096,
    num_train_steps=125_000,
    num_warmup_steps=3125,
    learning_rate=0.00176,
    dupe_factor=10,
    max_eval_steps=1000,
    probe_examples=100_000,
    speed_batch=(8, 512),
)
SCALES = {"tiny": TINY, "small": SMALL, "paper": PAPER}
