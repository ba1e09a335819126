"""A model of an experiment: a size of the paper with changes."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from albert_tf.config import AlbertConfig, ParameterSharing
from albert_tf.lab.scales import PAPER_HIDDEN, Scale

SentenceObjective = Literal["sop", "nsp", "none"]


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
            rate = scale.dropout if self.dropout else 0.0
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
