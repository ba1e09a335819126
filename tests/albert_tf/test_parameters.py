import pytest

from albert_tf.config import AlbertConfig
from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.parameters import count_parameters, counted_as_in_the_paper

EXACT = {  # encoder with pooler, whole pretrainer: what every implementation has
    "albert_base_v2": (11_683_584, 11_813_810),
    "albert_large_v2": (17_683_968, 17_847_474),
    "albert_xlarge_v2": (58_724_864, 59_021_490),
    "albert_xxlarge_v2": (222_595_584, 223_158_450),
}


@pytest.mark.parametrize(("preset", "expected"), EXACT.items())
def test_exact_counts(preset, expected):
    count = count_parameters(AlbertConfig.from_preset(preset))
    assert (count.encoder, count.pretrainer) == expected


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"embedding_size": 24},
        {"parameter_sharing": "attention"},
        {"parameter_sharing": "ffn", "inner_group_num": 2},
        {"parameter_sharing": "none"},
        {"num_hidden_groups": 2, "inner_group_num": 3},
    ],
)
def test_arithmetic_equals_the_built_model(tiny_config, changes):
    config = AlbertConfig.from_dict({**tiny_config.to_dict(), **changes})
    model = AlbertPretrainer(config)
    count = count_parameters(config)

    def trainable(layer):
        return sum(weight.shape.num_elements() for weight in layer.trainable_variables)

    assert trainable(model) == count.pretrainer
    assert trainable(model.encoder) == count.encoder


def test_the_paper_counts_the_pooler_of_models_that_share():
    albert, bert = (AlbertConfig.from_preset(name) for name in ("albert_base_v2", "bert_base"))
    assert counted_as_in_the_paper(albert) == EXACT["albert_base_v2"][0]
    assert counted_as_in_the_paper(bert) == count_parameters(bert).encoder - (768 * 768 + 768)
