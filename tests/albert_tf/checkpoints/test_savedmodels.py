"""Model Garden's TF-Hub modules, built here with the names and the structure of its AlbertEncoder's export."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints.open_model import open_model
from albert_tf.checkpoints.weights import to_theirs
from albert_tf.config import AlbertConfig
from data_prep.errors import InputError
from data_prep.tokenizers.normalization import Normalization
from tests.albert_tf.checkpoints.random_models import (
    CONFIGS,
    SIZES,
    VOCABULARY,
    assert_same_weights,
    random_weights,
)

RATES = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.25}
ACTIVATIONS = {"gelu": tf.tanh, "gelu_erf": tf.math.erf, "relu": tf.nn.relu}


class Module(tf.train.Checkpoint):
    """Variables in a list, as Keras exports them, under the names that its layers give them."""


def save_garden(
    config: AlbertConfig, folder: Path, *without: str, do_lower_case: bool | None = None
) -> dict[str, np.ndarray]:
    """A SavedModel with the nodes that the reader looks for; its outputs are meaningless."""
    weights = random_weights(config, "sentence_order", *without)
    variables = {name: tf.Variable(a, name=name) for name, a in to_theirs(weights, config, "garden").items()}

    def dropout(x, rate):
        return tf.nn.dropout(x, rate) if rate else x

    def encode(input_word_ids):
        x = tf.cast(input_word_ids, tf.float32)
        with tf.name_scope("albert_encoder"):
            x = dropout_named("dropout", x, config.hidden_dropout_prob)
            with tf.name_scope("transformer"):
                with tf.name_scope("self_attention"):
                    x = dropout_named("dropout_3", x, config.attention_probs_dropout_prob)
                x = ACTIVATIONS[config.hidden_act](x)
                x = dropout_named("dropout", x, 0.5)  # of a sublayer's output, with another rate
            with tf.name_scope("pooler_transform"):
                return tf.tanh(x)

    def dropout_named(name, x, rate):
        with tf.name_scope(name):
            return dropout(x, rate)

    @tf.function(input_signature=[{"input_word_ids": tf.TensorSpec((None, None), tf.int32)}])
    def call(inputs):
        output = encode(inputs["input_word_ids"])
        layers = [output + layer for layer in range(config.num_hidden_layers)]
        return {
            "default": output,
            "pooled_output": output,
            "sequence_output": output,
            "encoder_outputs": layers,
        }

    heads = {name for name in variables if name.startswith("bert/cls")}
    root = Module()
    root.variables = [variable for name, variable in variables.items() if name not in heads]
    root.__call__ = call
    if heads:
        root.mlm = Module()
        root.mlm.variables = [variables[name] for name in variables]
    (folder.parent / "30k-clean.model").write_bytes(VOCABULARY.content)
    root.sp_model_file = tf.saved_model.Asset(str(folder.parent / "30k-clean.model"))
    if do_lower_case is not None:
        root.do_lower_case = tf.Variable(do_lower_case, trainable=False)
    tf.saved_model.save(root, str(folder))
    return weights


@pytest.mark.slow
@pytest.mark.parametrize("name", ["one group", "E == H", "relu", "erf"])
def test_reads_sizes_layers_activation_and_dropout(name, tmp_path):
    values = {**CONFIGS[name].to_dict(), **RATES, "layer_norm_epsilon": 1e-12}
    config = AlbertConfig(**values)
    weights = save_garden(config, tmp_path / "saved")
    stored = open_model(tmp_path / "saved")
    assert stored.config == config
    assert stored.missing == ("sentence_order",)
    assert stored.vocabulary == VOCABULARY
    assert_same_weights(stored.weights, weights)


def test_without_a_head_and_without_dropout(tmp_path):
    config = CONFIGS["one group"]
    weights = save_garden(config, tmp_path / "saved", "masked_lm")
    stored = open_model(tmp_path / "saved")
    assert (stored.config, stored.missing) == (config, ("masked_lm", "sentence_order"))
    assert_same_weights(stored.weights, weights)


@pytest.mark.parametrize("do_lower_case", [True, False])
def test_the_case_of_the_tokenizer(do_lower_case, tmp_path):
    save_garden(CONFIGS["one group"], tmp_path / "saved", do_lower_case=do_lower_case)
    assert open_model(tmp_path / "saved").vocabulary.normalization == Normalization(do_lower_case)


def test_other_savedmodels_are_refused(tmp_path):
    other = tf.train.Checkpoint(v=tf.Variable(1.0, name="counter"))
    tf.saved_model.save(other, str(tmp_path / "other"))
    with pytest.raises(InputError, match="but not of an ALBERT encoder.*This one holds counter"):
        open_model(tmp_path / "other")


def test_damaged(tmp_path):
    save_garden(AlbertConfig(**SIZES), tmp_path / "saved")
    graph = tmp_path / "saved" / "saved_model.pb"
    graph.write_bytes(graph.read_bytes()[:-1000])
    with pytest.raises(InputError, match="saved_model.pb is not a complete SavedModel"):
        open_model(tmp_path / "saved")
    (tmp_path / "saved" / "variables" / "variables.index").unlink()
    with pytest.raises(InputError, match="saved is not a complete SavedModel"):
        open_model(tmp_path / "saved")
