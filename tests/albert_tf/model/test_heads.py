import numpy as np

from albert_tf.model.pretrainer import AlbertPretrainer
from tests.albert_tf.model.test_encoder import EITHER_WAY, random_inputs
from tests.reference import albert as reference


@EITHER_WAY
def test_masked_lm_equals_the_numpy_oracle(tiny_config, plain):
    model = AlbertPretrainer(tiny_config, seed=0, plain=plain)
    rng = np.random.default_rng(1)
    for weight in model.trainable_variables:
        weight.assign(weight.numpy() + rng.normal(0, 0.3, weight.shape))
    inputs = random_inputs(tiny_config)
    positions = rng.integers(0, 9, (3, 4)).astype("int32")
    logits = model({**inputs, "masked_lm_positions": positions})["masked_lm_logits"]
    sequence_output = np.asarray(model.encoder(inputs)["sequence_output"], "float64")
    weights = {
        v.path.removeprefix("albert_pretrainer/masked_lm/"): v.numpy() for v in model.masked_lm.variables
    }
    weights["word_embeddings"] = model.encoder.embeddings.word_embeddings.numpy()
    for row in range(3):
        expected = reference.masked_lm_logits(tiny_config, weights, sequence_output[row], positions[row])
        # Relative to the largest logit: the model computes only what the head reads, so rounding differs.
        np.testing.assert_allclose(logits[row], expected, atol=1e-5 * np.abs(expected).max(), rtol=0)


def test_word_embeddings_are_tied(tiny_config):
    model = AlbertPretrainer(tiny_config)
    shapes = [tuple(weight.shape) for weight in model.trainable_variables]
    assert shapes.count((tiny_config.vocab_size, tiny_config.embedding_size)) == 1


def test_sentence_order_reads_the_pooled_output(tiny_config):
    model = AlbertPretrainer(tiny_config, seed=0)
    inputs = {**random_inputs(tiny_config), "masked_lm_positions": np.zeros((3, 1), "int32")}
    pooled = np.asarray(model.encoder(inputs)["pooled_output"])
    kernel, bias = (weight.numpy() for weight in model.sentence_order.classifier.weights)
    np.testing.assert_allclose(model(inputs)["sentence_order_logits"], pooled @ kernel + bias, atol=1e-6)
