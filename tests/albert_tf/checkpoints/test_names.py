import numpy as np
import pytest

from albert_tf.checkpoints.names import as_groups, parameters
from albert_tf.checkpoints.weights import to_ours, to_theirs
from albert_tf.config import AlbertConfig
from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.model.weights import weights_of
from albert_tf.parameters import count_parameters
from data_prep.errors import InputError
from tests.albert_tf.checkpoints.random_models import CONFIGS, SIZES, assert_same_weights, random_weights

# Names and shapes in google/albert_base/3 on TF-Hub and in Google's archives; group 0, inner group 0.
BLOCK = "bert/encoder/transformer/group_0/inner_group_0/"
GOOGLE = {
    "bert/embeddings/LayerNorm/beta": (128,),
    "bert/embeddings/LayerNorm/gamma": (128,),
    "bert/embeddings/position_embeddings": (512, 128),
    "bert/embeddings/token_type_embeddings": (2, 128),
    "bert/embeddings/word_embeddings": (30000, 128),
    "bert/encoder/embedding_hidden_mapping_in/bias": (768,),
    "bert/encoder/embedding_hidden_mapping_in/kernel": (128, 768),
    f"{BLOCK}LayerNorm/beta": (768,),
    f"{BLOCK}LayerNorm/gamma": (768,),
    f"{BLOCK}LayerNorm_1/beta": (768,),
    f"{BLOCK}LayerNorm_1/gamma": (768,),
    f"{BLOCK}attention_1/output/dense/bias": (768,),
    f"{BLOCK}attention_1/output/dense/kernel": (768, 768),
    f"{BLOCK}attention_1/self/key/bias": (768,),
    f"{BLOCK}attention_1/self/key/kernel": (768, 768),
    f"{BLOCK}attention_1/self/query/bias": (768,),
    f"{BLOCK}attention_1/self/query/kernel": (768, 768),
    f"{BLOCK}attention_1/self/value/bias": (768,),
    f"{BLOCK}attention_1/self/value/kernel": (768, 768),
    f"{BLOCK}ffn_1/intermediate/dense/bias": (3072,),
    f"{BLOCK}ffn_1/intermediate/dense/kernel": (768, 3072),
    f"{BLOCK}ffn_1/intermediate/output/dense/bias": (768,),
    f"{BLOCK}ffn_1/intermediate/output/dense/kernel": (3072, 768),
    "bert/pooler/dense/bias": (768,),
    "bert/pooler/dense/kernel": (768, 768),
    "cls/predictions/output_bias": (30000,),
    "cls/predictions/transform/LayerNorm/beta": (128,),
    "cls/predictions/transform/LayerNorm/gamma": (128,),
    "cls/predictions/transform/dense/bias": (128,),
    "cls/predictions/transform/dense/kernel": (768, 128),
    "cls/seq_relationship/output_weights": (2, 768),
    "cls/seq_relationship/output_bias": (2,),
}


def test_tf1_names_and_shapes_are_googles():
    rows = parameters(AlbertConfig.from_preset("albert_base_v2"), "tf1")
    assert {row.theirs: row.their_shape for row in rows} == GOOGLE


@pytest.mark.parametrize("sharing", ["all", "attention", "ffn", "none"])
@pytest.mark.parametrize("embedding_size", [10, 24])
@pytest.mark.parametrize("naming", ["tf1", "huggingface"])
def test_our_names_and_shapes_are_the_models(sharing, embedding_size, naming):
    config = AlbertConfig(**{**SIZES, "embedding_size": embedding_size}, parameter_sharing=sharing)
    model = AlbertPretrainer(config)
    rows = {row.ours: row.shape for row in parameters(config, naming)}
    if embedding_size == 24:
        rows = {name: shape for name, shape in rows.items() if "projection" not in name}
    assert rows == {name: array.shape for name, array in weights_of(model).items()}
    assert sum(np.prod(shape) for shape in rows.values()) == count_parameters(config).pretrainer


@pytest.mark.parametrize("naming", ["tf1", "huggingface", "kerashub", "garden"])
@pytest.mark.parametrize("name", CONFIGS)
def test_renaming_is_reversible(naming, name):
    if naming == "garden" and name.startswith("two"):
        return  # it has one group of one block
    config = CONFIGS[name]
    without = {"kerashub": ("masked_lm", "sentence_order"), "garden": ("sentence_order",)}.get(naming, ())
    weights = random_weights(config, *without)
    arrays = to_theirs(weights, config, naming)
    assert_same_weights(to_ours(arrays, config, naming, "here"), weights)


@pytest.mark.parametrize("sharing", ["attention", "ffn", "none"])
def test_formats_with_groups_get_a_group_for_each_layer(sharing):
    config = AlbertConfig(**SIZES, parameter_sharing=sharing)
    weights = random_weights(config)
    read = to_ours(to_theirs(weights, config, "tf1"), as_groups(config), "tf1", "here")
    attention, ffn = (0 if sharing == part else 3 for part in ("attention", "ffn"))
    np.testing.assert_array_equal(
        read["attention_3_0/query/kernel"], weights[f"attention_{attention}_0/query/kernel"]
    )
    np.testing.assert_array_equal(read["ffn_3_0/output/kernel"], weights[f"ffn_{ffn}_0/output/kernel"])


@pytest.fixture
def arrays():
    return to_theirs(random_weights(CONFIGS["one group"]), CONFIGS["one group"], "tf1")


def refusal(arrays) -> str:
    with pytest.raises(InputError) as caught:
        to_ours(arrays, CONFIGS["one group"], "tf1", "ckpt")
    return str(caught.value)


def test_missing_and_left_over_names_are_listed(arrays):
    arrays["bert/pooler/dense/kernels"] = arrays.pop("bert/pooler/dense/kernel")
    del arrays["bert/embeddings/LayerNorm/beta"]
    assert refusal(arrays) == (
        "ckpt does not fit its configuration: 2 names missing: bert/embeddings/LayerNorm/beta, "
        "bert/pooler/dense/kernel; 1 name left over: bert/pooler/dense/kernels."
    )


@pytest.mark.parametrize(("missing", "more"), [(12, ""), (13, " and 1 more")])
def test_long_lists_of_names_are_cut(arrays, missing, more):
    lacking = sorted(arrays)[:missing]
    for name in lacking:
        del arrays[name]
    assert refusal(arrays).endswith(f"{missing} names missing: {', '.join(lacking[:12])}{more}.")


def test_wrong_shapes_are_listed(arrays):
    arrays["bert/pooler/dense/kernel"] = arrays["bert/pooler/dense/kernel"][:, 1:]
    arrays["bert/pooler/dense/bias"] = arrays["bert/pooler/dense/bias"][None]
    message = refusal(arrays)
    assert "bert/pooler/dense/kernel has the shape [24, 23] and should have [24, 24]" in message
    assert "bert/pooler/dense/bias has the shape [1, 24] and should have [24]" in message


def test_wrong_dtypes_and_values_are_listed(arrays):
    arrays["bert/pooler/dense/bias"] = arrays["bert/pooler/dense/bias"].astype("int8")
    arrays["cls/predictions/output_bias"] = arrays["cls/predictions/output_bias"] * np.float32("nan")
    message = refusal(arrays)
    assert "bert/pooler/dense/bias is int8; cls/predictions/output_bias holds NaN or infinity." in message


def test_impossible_numbers_of_blocks(arrays):
    config = AlbertConfig(**{**SIZES, "num_hidden_layers": 1000}, num_hidden_groups=1000)
    with pytest.raises(InputError, match="ckpt does not fit its configuration: 1000 blocks in 32 arrays"):
        to_ours(arrays, config, "tf1", "ckpt")


@pytest.mark.parametrize(
    ("naming", "changes", "layer"),
    [
        ("tf1", {"num_hidden_layers": 22, "parameter_sharing": "none"}, "layer 15 has group 14"),
        ("tf1", {"num_hidden_layers": 22, "num_hidden_groups": 22}, "layer 15 has group 14"),
        ("huggingface", {"num_hidden_layers": 18, "num_hidden_groups": 14}, "layer 9 has group 6"),
    ],
)
def test_a_layer_with_another_group_in_the_formats_library_is_refused(naming, changes, layer):
    """They compute the group in floating point."""
    config = AlbertConfig(**{**SIZES, **changes})
    with pytest.raises(InputError, match=f"its {layer} by rounding, .*; --to=keras can hold this model"):
        to_theirs({}, config, naming)
    with pytest.raises(InputError, match=f"its {layer} by rounding, .*; ckpt cannot be read"):
        to_ours({}, config, naming, "ckpt")


def test_an_incomplete_head_is_an_error_but_a_missing_one_is_not(arrays):
    del arrays["cls/seq_relationship/output_bias"]
    assert "1 name missing: cls/seq_relationship/output_bias" in refusal(arrays)
    del arrays["cls/seq_relationship/output_weights"]
    read = to_ours(arrays, CONFIGS["one group"], "tf1", "ckpt")
    assert not any(name.startswith("sentence_order") for name in read)


@pytest.mark.parametrize("naming", ["huggingface", "kerashub"])
@pytest.mark.parametrize("part", ["kernel", "bias"])
def test_a_projection_of_the_same_width_must_be_the_identity(naming, part):
    """Hugging Face and KerasHub always have one; the original, and so this model, only where E != H."""
    config = CONFIGS["E == H"]
    arrays = to_theirs(random_weights(config, "masked_lm", "sentence_order"), config, naming)
    assert_same_weights(
        to_ours(arrays, config, naming, "file"), random_weights(config, "masked_lm", "sentence_order")
    )
    (name,) = (
        row.theirs
        for row in parameters(config, naming)
        if row.ours == f"embeddings/embedding_projection/{part}"
    )
    np.testing.assert_array_equal(arrays[name], np.eye(24) if part == "kernel" else np.zeros(24))
    arrays[name] = arrays[name] + 0.5
    with pytest.raises(
        InputError, match="file projects embeddings that are already as wide .* only the identity"
    ):
        to_ours(arrays, config, naming, "file")
    del arrays[name]
    with pytest.raises(InputError, match="1 name missing"):
        to_ours(arrays, config, naming, "file")
