"""Exact parameter counts by arithmetic, and the rows of the paper's Tables 1, 3 and 4."""

from dataclasses import dataclass

from albert_tf.config import AlbertConfig


@dataclass(frozen=True)
class ParameterCount:
    """Number of parameters of each part of a model."""

    embeddings: int
    layers: int
    pooler: int
    heads: int

    @property
    def encoder(self) -> int:
        """Embeddings, layers and pooler: what `AlbertEncoder` holds."""
        return self.embeddings + self.layers + self.pooler

    @property
    def pretrainer(self) -> int:
        """The encoder with the masked-LM and sentence-order heads."""
        return self.encoder + self.heads


def count_parameters(config: AlbertConfig) -> ParameterCount:
    """Counts without building the model; the tests build small ones and compare."""
    V, E, H, F = config.vocab_size, config.embedding_size, config.hidden_size, config.intermediate_size
    norm = 2 * H
    attention = 4 * _dense(H, H) + norm
    ffn = _dense(H, F) + _dense(F, H) + norm
    attentions, ffns = distinct_layers(config)
    embeddings = (V + config.max_position_embeddings + config.type_vocab_size) * E + 2 * E
    return ParameterCount(
        embeddings=embeddings + (_dense(E, H) if E != H else 0),
        layers=config.inner_group_num * (attentions * attention + ffns * ffn),
        pooler=_dense(H, H),
        heads=_dense(H, E) + 2 * E + V + _dense(H, 2),
    )


def distinct_layers(config: AlbertConfig) -> tuple[int, int]:
    """How many different (attention, feed-forward) parts the layers use."""
    L, G = config.num_hidden_layers, config.num_hidden_groups
    return {"all": (G, G), "attention": (1, L), "ffn": (L, 1), "none": (L, L)}[config.parameter_sharing]


def _dense(inputs: int, outputs: int) -> int:
    return inputs * outputs + outputs


def counted_as_in_the_paper(config: AlbertConfig) -> int:
    """Parameters with the pooler where a model shares any, without it where it shares nothing.

    No single rule gives all of the paper's figures: 108 and 334 for BERT come out only without the pooler, 12
    and 18 for ALBERT only with it.
    """
    count = count_parameters(config)
    return count.encoder - (count.pooler if config.parameter_sharing == "none" else 0)


@dataclass(frozen=True)
class PaperRow:
    """A row of one of the paper's tables.

    Attributes:
      table: number of the table.
      name: the row's name in the paper.
      config: the model.
      millions: parameters as the paper prints them.
    """

    table: int
    name: str
    config: AlbertConfig
    millions: int

    @property
    def parameters(self) -> int:
        """What the paper counts."""
        return counted_as_in_the_paper(self.config)

    @property
    def with_heads(self) -> int:
        """The whole pretraining model: embeddings, layers, pooler and both heads."""
        return count_parameters(self.config).pretrainer


def paper_rows() -> list[PaperRow]:
    """Tables 1, 3 and 4 in the paper's order."""
    return [*_table_1(), *_table_3(), *_table_4()]


def _table_1() -> list[PaperRow]:
    presets = {
        "bert_base": ("BERT base", 108),
        "bert_large": ("BERT large", 334),
        "albert_base_v1": ("ALBERT base", 12),
        "albert_large_v1": ("ALBERT large", 18),
        "albert_xlarge_v1": ("ALBERT xlarge", 60),
        "albert_xxlarge_v1": ("ALBERT xxlarge", 235),
    }
    return [
        PaperRow(1, name, AlbertConfig.from_preset(preset), millions)
        for preset, (name, millions) in presets.items()
    ]


def _table_3() -> list[PaperRow]:
    figures = {"none": ("not shared", (87, 89, 93, 108)), "all": ("all shared", (10, 12, 16, 31))}
    return [
        PaperRow(3, f"ALBERT base E={E}, {label}", _base(E, sharing), millions)
        for sharing, (label, column) in figures.items()
        for E, millions in zip((64, 128, 256, 768), column, strict=True)
    ]


def _table_4() -> list[PaperRow]:
    labels = {
        "all": "all shared",
        "attention": "shared attention",
        "ffn": "shared FFN",
        "none": "not shared",
    }
    figures = {768: (31, 83, 57, 108), 128: (12, 64, 38, 89)}
    return [
        PaperRow(4, f"ALBERT base E={E}, {label}", _base(E, sharing), millions)
        for E, column in figures.items()
        for (sharing, label), millions in zip(labels.items(), column, strict=True)
    ]


def _base(embedding_size: int, parameter_sharing: str) -> AlbertConfig:
    return AlbertConfig.from_preset(
        "albert_base_v1", embedding_size=embedding_size, parameter_sharing=parameter_sharing
    )
