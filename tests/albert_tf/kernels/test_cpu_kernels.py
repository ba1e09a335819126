"""Which kernels TensorFlow for CPUs chooses for the encoder, as oneDNN's log has them."""

import pytest

from tests.onednn import onednn_kernels

pytestmark = pytest.mark.slow

LAYERS = 3
PROGRAM = f"""
import tensorflow as tf
from albert_tf.config import AlbertConfig
from albert_tf.model.encoder import AlbertEncoder

config = AlbertConfig(hidden_size=64, intermediate_size=256, num_attention_heads=2, num_hidden_layers={LAYERS})
encoder = AlbertEncoder(config, unpad=True, dtype="DTYPE")
specs = {{name: tf.TensorSpec((None, None), tf.int32) for name in ("input_ids", "input_mask")}}
encode = tf.function(lambda inputs: encoder(inputs)["sequence_output"], input_signature=[specs])
encode({{name: tf.ones((2, 8), tf.int32) for name in specs}})
"""


@pytest.mark.very_slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gelu_is_part_of_the_product_before_it(dtype):
    kernels = onednn_kernels(PROGRAM.replace("DTYPE", dtype))
    assert sum("eltwise_gelu_tanh" in kernel for kernel in kernels) == LAYERS
