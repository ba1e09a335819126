"""Training on Keras' JAX backend: `fit`, and gradients with dropout that remat and a loop do not change."""

import textwrap

import pytest

from tests.processes import run_together

PROGRAM = """
    import sys
    import jax
    import numpy as np
    from albert_tf import AlbertConfig, AlbertPretrainer, Lamb
    from albert_tf.model.pretrainer import pretraining_metrics, pretraining_sums
    from tests.albert_tf.model.test_pretrainer import pretraining_batch

    config = AlbertConfig(
        vocab_size=50, embedding_size=10, hidden_size=24, num_hidden_layers=3, num_attention_heads=3,
        intermediate_size=36, max_position_embeddings=16, hidden_dropout_prob=0.2,
        attention_probs_dropout_prob=0.3,
    )
    batch = pretraining_batch(config)

    def gradients(**flags):
        model = AlbertPretrainer(config, seed=1, **flags)

        def loss(trainable, others):
            outputs, others = model.stateless_call(trainable, others, batch, training=True)
            return pretraining_metrics(pretraining_sums(outputs, batch))["loss"], others

        step = jax.jit(jax.grad(loss, has_aux=True))
        variables = (model.trainable_variables, model.non_trainable_variables)
        trainable, others = ([variable.value for variable in kind] for kind in variables)
        for _ in range(2):
            found, others = step(trainable, others)
        return found

    kept = gradients()
    for flags in ({"remat": "activations"}, {"remat": "layers"}, {"remat": "activations", "scan_layers": True}):
        for one, other in zip(kept, gradients(**flags), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6, rtol=0)
    assert max(abs(array).max() for array in kept) > 0.01

    config = AlbertConfig(
        vocab_size=50, embedding_size=10, hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
        intermediate_size=36, max_position_embeddings=16, hidden_dropout_prob=0.1,
    )
    model = AlbertPretrainer(config, seed=1)
    model.compile(Lamb(0.02, global_clipnorm=1.0))
    losses = model.fit(pretraining_batch(config), batch_size=3, epochs=20, verbose=0).history["loss"]
    assert losses[-1] < losses[0] - 0.5, losses
    assert "jax" in sys.modules and type(model.trainable_variables[0].value).__module__.startswith("jax")
"""


@pytest.mark.slow
def test_training_on_the_jax_backend():
    pytest.importorskip("jax", reason="Keras' JAX backend needs jax")
    command = ["-c", textwrap.dedent(PROGRAM)]
    (result,) = run_together([command], [{"KERAS_BACKEND": "jax"}], timeout=400)
    assert result.returncode == 0, result.stderr[-3000:]
