"""Figure 1's measures against plain NumPy, for every way of sharing."""

import dataclasses

import numpy as np
import pytest

from albert_tf.lab.layer_changes import layer_changes
from albert_tf.model.encoder import AlbertEncoder
from tests.reference import albert
from tests.reference import layer_changes as reference

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("sharing", ["all", "attention", "ffn", "none"])
def test_as_plain_numpy(tiny_config, sharing):
    config = dataclasses.replace(tiny_config, parameter_sharing=sharing, hidden_dropout_prob=0.5)
    encoder = AlbertEncoder(config, seed=1)
    rng = np.random.default_rng(0)
    weights = {}
    for variable in encoder.weights:
        name = variable.path.removeprefix("albert_encoder/")
        if not name.startswith("seeds"):
            variable.assign(variable + 0.3 * rng.standard_normal(variable.shape))
            weights[name] = np.asarray(variable)
    input_ids = rng.integers(0, config.vocab_size, (6, 11))  # a batch and the rest of one
    states = [albert.encoder(config, weights, row, np.ones(11), np.zeros(11, int))[0] for row in input_ids]
    # The tokens of all rows joined, without the first and the last of each row.
    joined = [np.concatenate([row[layer][1:-1] for row in states]) for layer in range(5)]
    expected = reference.layer_changes(joined)
    assert expected.shape == (4, 3)
    assert np.ptp(expected[:, 2]) > 1  # layers differ, so a wrong order would show
    np.testing.assert_allclose(layer_changes(encoder, input_ids), expected, rtol=2e-5)


def test_a_small_angle_is_not_rounded_away(tiny_config):
    """Layers that change almost nothing: the cosine is 1 in float32, the angle is not 0."""
    encoder = AlbertEncoder(tiny_config, seed=0)
    encoder.ffns[0][0].layer_norm.beta.assign(np.full(24, 1e4))
    of_later_layers = layer_changes(encoder, np.arange(24).reshape(2, 12))[1:]
    assert (of_later_layers[:, 1] > 0.9999999).all()
    assert (of_later_layers[:, 2] > 0).all()
