"""Exact parameter counts by arithmetic."""

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
    """Counts a model's parameters without building it.

    >>> f"{count_parameters(AlbertConfig.from_preset('albert_base_v2')).encoder:,}"
    '11,683,584'
    """
    V, E, H, F = config.vocab_size, config.embedding_size, config.hidden_size, config.intermediate_size
    norm = 2 * H
    attention = 4 * _dense_parameters(H, H) + norm
    ffn = _dense_parameters(H, F) + _dense_parameters(F, H) + norm
    attentions, ffns = distinct_layers(config)
    embeddings = (V + config.max_position_embeddings + config.type_vocab_size) * E + 2 * E
    return ParameterCount(
        embeddings=embeddings + (_dense_parameters(E, H) if E != H else 0),
        layers=config.inner_group_num * (attentions * attention + ffns * ffn),
        pooler=_dense_parameters(H, H),
        heads=_dense_parameters(H, E) + 2 * E + V + _dense_parameters(H, 2),
    )


def distinct_layers(config: AlbertConfig) -> tuple[int, int]:
    """The numbers of different attention and feed-forward parts that the layers use."""
    L, G = config.num_hidden_layers, config.num_hidden_groups
    return {"all": (G, G), "attention": (1, L), "ffn": (L, 1), "none": (L, L)}[config.parameter_sharing]


def _dense_parameters(inputs: int, outputs: int) -> int:
    return inputs * outputs + outputs


def counted_as_in_the_paper(config: AlbertConfig) -> int:
    """Parameters with the pooler if the model shares any, and without it if it shares none.

    No single rule gives all of the paper's figures: 108M and 334M for BERT need the pooler left out, 12M and 18M
    for ALBERT need it counted.
    """
    count = count_parameters(config)
    return count.encoder - (count.pooler if config.parameter_sharing == "none" else 0)
