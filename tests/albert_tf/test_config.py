import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.config import PRESETS, AlbertConfig
from data_prep.errors import InputError

# What Google released with albert_base/3, keys that mean nothing included.
RELEASED = {
    "attention_probs_dropout_prob": 0,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0,
    "embedding_size": 128,
    "hidden_size": 768,
    "initializer_range": 0.02,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "num_hidden_groups": 1,
    "net_structure_type": 0,
    "gap_size": 0,
    "num_memory_blocks": 0,
    "inner_group_num": 1,
    "down_scale_factor": 1,
    "type_vocab_size": 2,
    "vocab_size": 30000,
}


def test_released_file_is_the_base_v2_preset(tmp_path):
    path = tmp_path / "albert_config.json"
    path.write_text(json.dumps(RELEASED))
    assert AlbertConfig.from_json_file(path) == AlbertConfig.from_preset("albert_base_v2")


def test_the_default_is_base():
    assert AlbertConfig() == AlbertConfig.from_preset("albert_base_v2")


@pytest.mark.parametrize(
    ("size", "L", "H", "N", "F"),
    [
        ("base", 12, 768, 12, 3072),
        ("large", 24, 1024, 16, 4096),
        ("xlarge", 24, 2048, 16, 8192),
        ("xxlarge", 12, 4096, 64, 16384),
    ],
)
def test_presets_are_the_released_models(size, L, H, N, F):
    sizes = {"num_hidden_layers": L, "hidden_size": H, "num_attention_heads": N, "intermediate_size": F}
    dropout = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    without = AlbertConfig.from_dict({**RELEASED, **sizes})
    assert AlbertConfig.from_preset(f"albert_{size}_v2") == without
    first = without if size == "xxlarge" else AlbertConfig.from_dict({**without.to_dict(), **dropout})
    assert AlbertConfig.from_preset(f"albert_{size}_v1") == first
    if f"bert_{size}" in PRESETS:
        unshared = {**sizes, **dropout, "embedding_size": H, "parameter_sharing": "none"}
        assert AlbertConfig.from_preset(f"bert_{size}") == AlbertConfig.from_dict({**RELEASED, **unshared})


@pytest.mark.parametrize("preset", PRESETS)
def test_file_round_trip(preset, tmp_path):
    config = AlbertConfig.from_preset(preset)
    config.to_json_file(tmp_path / "albert_config.json")
    assert AlbertConfig.from_json_file(tmp_path / "albert_config.json") == config


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("GELU", "gelu"), ("Relu", "relu"), ("tanh", "tanh"), ("linear", "linear"), ("", "linear")],
)
def test_the_originals_spellings_of_activations(theirs, ours):
    assert AlbertConfig.from_dict({**RELEASED, "hidden_act": theirs}).hidden_act == ours


@pytest.mark.parametrize("key", ["vocab_size", "embedding_size", "hidden_size", "intermediate_size"])
def test_a_file_without_a_size_is_not_another_model(key, tmp_path):
    path = tmp_path / "albert_config.json"
    path.write_text(json.dumps({name: value for name, value in RELEASED.items() if name != key}))
    with pytest.raises(InputError, match=f"albert_config.json must give vocab_size.*It lacks {key}."):
        AlbertConfig.from_json_file(path)


def test_config_is_frozen(tiny_config):
    with pytest.raises(dataclasses.FrozenInstanceError):
        tiny_config.hidden_size = 32


def test_unknown_key_names_the_nearest_field():
    with pytest.raises(InputError, match="`num_hidden_layer` is not a field.*`num_hidden_layers`"):
        AlbertConfig.from_dict({"num_hidden_layer": 3})


def test_a_key_like_no_field_is_not_a_spelling_of_one():
    with pytest.raises(
        InputError, match="`banana` is not a field.*The fields are vocab_size, embed"
    ) as error:
        AlbertConfig.from_dict({"banana": 3})
    assert "Did you mean" not in str(error.value)


@pytest.mark.parametrize("theirs", [{"model_type": "albert"}, {"architectures": ["AlbertForMaskedLM"]}])
@pytest.mark.parametrize("lacking", ["net_structure_type", "embedding_size"])  # BERT's has no embedding_size
def test_a_configuration_of_hugging_face(theirs, lacking, tmp_path):
    path = tmp_path / "config.json"
    sizes = {name: value for name, value in RELEASED.items() if name != lacking}
    path.write_text(json.dumps({"_name_or_path": "a", **theirs, **sizes}))
    (key,) = theirs
    message = (
        f"config.json: .*It is a Hugging Face configuration, since it has `{key}`; load .*--init_checkpoint"
    )
    with pytest.raises(InputError, match=message):
        AlbertConfig.from_json_file(path)


def test_unknown_preset_names_the_nearest():
    with pytest.raises(InputError, match="Did you mean 'albert_base_v2'"):
        AlbertConfig.from_preset("albert_base_v3", vocab_size=100)


def test_inert_key_with_a_meaning_is_refused():
    with pytest.raises(InputError, match="`down_scale_factor` can only be 1. Received 2"):
        AlbertConfig.from_dict({"down_scale_factor": 2})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"hidden_size": 770},
            "`hidden_size` must be divisible by `num_attention_heads`. Received 770 and 12.",
        ),
        ({"vocab_size": 0}, "`vocab_size` must be a whole number from 1 to 10,000,000. Received 0."),
        (
            {"num_hidden_layers": 2.5},
            "`num_hidden_layers` must be a whole number from 1 to 1,000. Received 2.5.",
        ),
        ({"num_hidden_layers": 10**9}, "from 1 to 1,000. Received 1000000000."),
        ({"hidden_size": "768"}, "`hidden_size` must be a whole number from 1 to 65,536. Received '768'."),
        ({"max_position_embeddings": 1 << 20_000}, "Received an integer of 20,001 bits."),
        ({"initializer_range": float("inf")}, "`initializer_range` must be a number above 0. Received inf."),
        (
            {"layer_norm_epsilon": float("nan")},
            "`layer_norm_epsilon` must be a number above 0. Received nan.",
        ),
        (
            {"hidden_act": "swish"},
            "`hidden_act` must be one of gelu, gelu_erf, relu, tanh, linear. Received 'swish'.",
        ),
        ({"hidden_dropout_prob": 1.0}, "`hidden_dropout_prob` must be at least 0 and below 1. Received 1.0."),
        ({"hidden_dropout_prob": 10**5000}, "below 1. Received an integer of 16,610 bits."),
        (
            {"hidden_dropout_prob": None},
            "`hidden_dropout_prob` must be at least 0 and below 1. Received None.",
        ),
        ({"num_hidden_groups": 13}, "`num_hidden_groups` must not exceed `num_hidden_layers`"),
        ({"num_hidden_groups": 2, "parameter_sharing": "ffn"}, "`num_hidden_groups` divides layers"),
    ],
)
def test_bad_values_state_the_rule(changes, message):
    with pytest.raises(InputError) as error:
        AlbertConfig(**changes)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("name", "largest"),
    [
        ("vocab_size", 10_000_000),
        ("embedding_size", 65_536),
        ("hidden_size", 65_536),
        ("num_hidden_layers", 1000),
        ("inner_group_num", 100),
        ("intermediate_size", 524_288),
        ("max_position_embeddings", 1_048_576),
        ("type_vocab_size", 1000),
    ],
)
def test_the_largest_values(name, largest):
    shape = {"num_attention_heads": 1, name: largest}
    assert getattr(AlbertConfig(**shape), name) == largest
    with pytest.raises(InputError, match=f"`{name}` must be a whole number from 1 to {largest:,}."):
        AlbertConfig(**{**shape, name: largest + 1})


def test_the_largest_numbers_of_heads_and_groups():
    assert AlbertConfig(hidden_size=4096, num_attention_heads=4096).num_attention_heads == 4096
    assert AlbertConfig(num_hidden_layers=1000, num_hidden_groups=1000).num_hidden_groups == 1000
    with pytest.raises(InputError, match="`num_attention_heads` must be a whole number from 1 to 4,096."):
        AlbertConfig(num_attention_heads=4097)
    with pytest.raises(InputError, match="`num_hidden_groups` must be a whole number from 1 to 1,000."):
        AlbertConfig(num_hidden_groups=1001)


@pytest.mark.parametrize("value", [0.0, -1e-3, -float("inf"), True])
def test_numbers_above_zero(value):
    with pytest.raises(InputError, match="`initializer_range` must be a number above 0"):
        AlbertConfig(initializer_range=value)
    with pytest.raises(InputError, match="`layer_norm_epsilon` must be a number above 0"):
        AlbertConfig(layer_norm_epsilon=value)


def test_long_integers_are_counted():
    with pytest.raises(InputError, match=f"Received {2**64 - 1}."):
        AlbertConfig(vocab_size=2**64 - 1)
    with pytest.raises(InputError, match="Received an integer of 65 bits."):
        AlbertConfig(vocab_size=2**64)


@pytest.mark.parametrize("text", ["{", "[]", "\xff"])
def test_bad_files(text, tmp_path):
    path = tmp_path / "albert_config.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=r"albert_config\.json"):
        AlbertConfig.from_json_file(path)
    with pytest.raises(InputError, match="must exist and be readable"):
        AlbertConfig.from_json_file(tmp_path / "missing.json")


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=12), st.none() | st.integers() | st.text(max_size=5), max_size=4))
def test_any_json_object_is_a_config_or_an_input_error(values):
    try:
        AlbertConfig.from_dict(values)
    except InputError as error:
        assert "\n" not in str(error) or any("\n" in key for key in values)
