"""How large the experiments are: the paper's own sizes, or ones that keep their proportions.

The paper's sizes are names here: a variant says "large, E=128", and a scale says what that is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from albert_tf.config import PRESETS

PAPER_HIDDEN = {"base": 768, "large": 1024, "xlarge": 2048, "xxlarge": 4096}


@dataclass(frozen=True)
class Scale:
    """What a name of the paper means, and how long a run is.

    Attributes:
      sizes: base, large, xlarge and xxlarge -> fields of `AlbertConfig`; what is not said is its default.
      embeddings: the paper's E -> E here. Where the paper has E = H, so does every scale.
      widths: the paper's H in Table 12 -> fields of `AlbertConfig`.
      vocab_size: V.
      max_seq_length: T.
      train_batch_size: examples a step.
      num_train_steps: of a run.
      num_warmup_steps: of these.
      learning_rate: the peak.
      optimizer: lamb, the paper's, or adamw.
      dropout: what "with dropout" means.
      dupe_factor: passes over the text with other pairs; masks are new in every epoch.
      max_eval_steps: batches of 64 held-out examples an evaluation.
      probe_examples: to train fresh heads on.
      finetuning: task -> (epochs, learning rate); empty for the paper's Table 14.
      speed_batch: (examples, tokens) of a step whose time is taken.
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
    optimizer: Literal["lamb", "adamw"] = "lamb"
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
    """A shape with weights spread for its width; BERT's 0.02 is for 768, and narrow models start later from it."""
    return {
        **shape(hidden_size, num_hidden_layers, 32),
        "initializer_range": round(0.8 * hidden_size**-0.5, 3),
    }


# Many small steps: the first thousands find that neighbors tell a masked word; the sooner, the shorter T is and
# the wider E, which has to tell the positions apart.
TINY = Scale(
    sizes={
        "base": tiny_shape(96, 2),
        "large": tiny_shape(128, 4),
        "xlarge": tiny_shape(192, 4),
        "xxlarge": tiny_shape(320, 2),
    },
    embeddings={64: 48, 128: 64, 256: 80},
    widths={
        1024: tiny_shape(64, 4),
        2048: tiny_shape(96, 4),
        4096: tiny_shape(128, 4),
        6144: tiny_shape(192, 4),
    },
    vocab_size=8000,
    max_seq_length=32,
    train_batch_size=32,
    num_train_steps=8000,
    num_warmup_steps=400,
    learning_rate=0.002,
    optimizer="adamw",
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
# Section 4.1 and Table 1. The widths of Table 12 have heads of 64, as BERT-large and ALBERT-xxlarge.
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
