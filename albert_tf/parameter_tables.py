"""The models of the paper's Tables 1, 3 and 4: their exact parameter counts beside those that it prints."""

from dataclasses import dataclass

from albert_tf.config import AlbertConfig, ParameterSharing
from albert_tf.parameters import count_parameters, counted_as_in_the_paper

# Millions of parameters as the paper prints them, in its order. Table 1: preset -> millions.
TABLE_1 = {
    "bert_base": 108,
    "bert_large": 334,
    "albert_base_v1": 12,
    "albert_large_v1": 18,
    "albert_xlarge_v1": 60,
    "albert_xxlarge_v1": 235,
}
# Tables 3 and 4: (sharing, E) of an ALBERT base -> millions.
TABLE_3: dict[tuple[ParameterSharing, int], int] = {
    **{("none", 64): 87, ("none", 128): 89, ("none", 256): 93, ("none", 768): 108},
    **{("all", 64): 10, ("all", 128): 12, ("all", 256): 16, ("all", 768): 31},
}
TABLE_4: dict[tuple[ParameterSharing, int], int] = {
    **{("all", 768): 31, ("attention", 768): 83, ("ffn", 768): 57, ("none", 768): 108},
    **{("all", 128): 12, ("attention", 128): 64, ("ffn", 128): 38, ("none", 128): 89},
}
SHARING_IN_WORDS: dict[ParameterSharing, str] = {
    "all": "all shared",
    "attention": "shared attention",
    "ffn": "shared FFN",
    "none": "not shared",
}


@dataclass(frozen=True)
class CountedModel:
    """A model of the paper.

    Attributes:
      table: the table's number.
      name: the model's name.
      config: the model.
      millions: parameters as the paper prints them.
    """

    table: int
    name: str
    config: AlbertConfig
    millions: int

    @property
    def parameters(self) -> int:
        """Parameters, counted as the paper does."""
        return counted_as_in_the_paper(self.config)

    @property
    def with_heads(self) -> int:
        """Parameters of the whole pretraining model: embeddings, layers, pooler and both heads."""
        return count_parameters(self.config).pretrainer


def counted_models() -> list[CountedModel]:
    """The models of Tables 1, 3 and 4, in the paper's order."""
    models = [
        CountedModel(1, model_name(preset), AlbertConfig.from_preset(preset), millions)
        for preset, millions in TABLE_1.items()
    ]
    for number, table in ((3, TABLE_3), (4, TABLE_4)):
        for (sharing, E), millions in table.items():
            name = f"ALBERT base E={E}, {SHARING_IN_WORDS[sharing]}"
            config = AlbertConfig.from_preset("albert_base_v1", embedding_size=E, parameter_sharing=sharing)
            models.append(CountedModel(number, name, config, millions))
    return models


def model_name(preset: str) -> str:
    """A preset's name in the paper.

    >>> model_name("albert_xlarge_v1")
    'ALBERT xlarge'
    """
    family, size, *_ = preset.split("_")
    return f"{family.upper()} {size}"
