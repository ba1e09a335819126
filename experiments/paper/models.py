"""Models in the paper's words, such as "large, E=128", and the scales that say what these words mean."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from albert_tf.config import PRESETS, AlbertConfig, ParameterSharing

SentenceObjective = Literal["sop", "nsp", "none"]

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
    dupe_factor: int = 5
    max_eval_steps: int = 200
    probe_examples: int = 20_000
    finetuning: Mapping[str, tuple[float, float]] | None = None
    speed_batch: tuple[int, int] = (4, 128)


def shape(hidden_size: int, num_hidden_layers: int, head_size: int, **fields: Any) -> dict[str, Any]:
    """The fields of a model with heads of `head_size` and F = 4 H, without dropout."""
    return {
        "hidden_size": hidden_size,
        "num_hidden_layers": num_hidden_layers,
        "num_attention_heads": hidden_size // head_size,
        "intermediate_size": 4 * hidden_size,
        **fields,
    }


def _tiny(hidden_size: int, num_hidden_layers: int) -> dict[str, Any]:
    """A shape whose initial weights suit its width: BERT's 0.02 suits 768 and delays learning in narrow models."""
    return shape(hidden_size, num_hidden_layers, 32, initializer_range=round(0.57 * hidden_size**-0.5, 3))


_SMALL_ENCODER_TASKS = {
    "squad1.1": (2.0, 5e-4),
    "squad2.0": (2.0, 5e-4),
    "mnli": (1.0, 2e-4),
    "sst-2": (1.0, 2e-4),
    "race": (2.0, 3e-4),
}
# Many small steps, on short sequences first: a model needs thousands of steps to discover that the neighbors of a
# masked word predict it, and fewer with a shorter T, with a wider E, which also encodes positions, and with a
# smaller V. The base model is the demo's with one more layer: two seeds were equally good at step 3,000 (masked-LM
# accuracies of .267 and .264). With H = 96, E = 64 and V = 8,000, two seeds left the plateau 2,000 steps apart.
TINY = Scale(
    sizes={
        "base": _tiny(128, 4),
        "large": _tiny(160, 6),
        "xlarge": _tiny(192, 6),
        "xxlarge": _tiny(320, 4),
    },
    embeddings={64: 64, 128: 96, 256: 112},
    widths={1024: _tiny(96, 4), 2048: _tiny(128, 4), 4096: _tiny(192, 4), 6144: _tiny(256, 4)},
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
        width: shape(hidden, 12, 64)
        for width, hidden in {1024: 256, 2048: 512, 4096: 1024, 6144: 1536}.items()
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
        hidden: shape(hidden, 24, 64, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)
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


@dataclass(frozen=True)
class Variant:
    """A model and its training, in the paper's words; a `Scale` provides the numbers.

    Attributes:
      size: base, large, xlarge or xxlarge.
      embedding: the paper's E; the paper's H for E = H.
      sharing: as `AlbertConfig.parameter_sharing`.
      objective: the sentence objective.
      width: the paper's H, if it differs from the size's.
      layers: L, if it differs from the size's.
      dropout: True and False set it; None leaves it to the scale.
      text: "all" training files, or "part": a quarter of them.
      start: the model whose weights to start from.
      fork: start in the middle of `start`'s run and continue to its end with its optimizer state and schedule.
      equal_time_with: train for the time that this model takes, instead of for the same number of steps.
    """

    size: str = "base"
    embedding: int = 128
    sharing: ParameterSharing = "all"
    objective: SentenceObjective = "sop"
    width: int | None = None
    layers: int | None = None
    dropout: bool | None = None
    text: Literal["all", "part"] = "all"
    start: "Variant | None" = None
    fork: bool = False
    equal_time_with: "Variant | None" = None

    @property
    def name(self) -> str:
        """The name of the run's folder; experiments with the same model share the run."""
        width = f"-H{self.width}" if self.width else ""
        layers = f"-L{self.layers}" if self.layers else ""
        dropout = {None: "", True: "-dropout", False: "-without-dropout"}[self.dropout]
        text = "-part-of-text" if self.text == "part" else ""
        how = "-forked" if self.fork else "-grown" if self.start else ""
        time = f"-as-long-as-{self.equal_time_with.size}" if self.equal_time_with else ""
        sharing = f"share-{self.sharing}"
        return f"{self.size}{width}{layers}-E{self.embedding}-{sharing}-{self.objective}{dropout}{text}{how}{time}"

    @property
    def in_equal_steps(self) -> "Variant":
        """The same model, trained for the same number of steps as the others."""
        return dataclasses.replace(self, equal_time_with=None)

    def config(self, scale: Scale, vocab_size: int, max_seq_length: int) -> AlbertConfig:
        """The configuration at a scale."""
        fields: dict[str, Any] = dict(scale.widths[self.width] if self.width else scale.sizes[self.size])
        if self.layers:
            fields["num_hidden_layers"] = self.layers
        if self.dropout is not None:
            rate = 0.1 if self.dropout else 0.0
            fields |= {"hidden_dropout_prob": rate, "attention_probs_dropout_prob": rate}
        square = self.embedding == (self.width or PAPER_HIDDEN[self.size])
        return AlbertConfig(
            **{
                **fields,
                "vocab_size": vocab_size,
                "max_position_embeddings": max_seq_length,
                "embedding_size": fields["hidden_size"] if square else scale.embeddings[self.embedding],
                "parameter_sharing": self.sharing,
            }
        )


def with_starts(variants: list[Variant]) -> list[Variant]:
    """Each variant once, after those that it starts from or whose time it needs."""
    ordered: dict[str, Variant] = {}

    def add(variant: Variant) -> None:
        if variant.start:
            add(variant.start)
        if variant.equal_time_with:
            add(variant.equal_time_with)
            add(variant.in_equal_steps)
        ordered.setdefault(variant.name, variant)

    for variant in variants:
        add(variant)
    return list(ordered.values())
