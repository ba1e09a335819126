"""Gradients with dropout on Keras' JAX and PyTorch backends, which remat, a loop and fused attention do not alter.

tests/conformance has all models on JAX, tests/albert_tf/tasks/test_jax_fit.py has `fit`.
"""

import textwrap

import pytest

from tests.processes import run_together

JAX = """
    import dataclasses
    import sys
    import jax
    import numpy as np
    from albert_tf import AlbertConfig, AlbertEncoder, AlbertPretrainer
    from albert_tf.kernels import layers
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

    assert not layers.has_fused_attention(16, "bfloat16")  # no GPU
    has_fused_attention = lambda T, dtype: True  # on CPUs the kernel is a formula of JAX' own
    layers.has_fused_attention, original = has_fused_attention, layers.has_fused_attention
    for one, other in zip(kept, gradients(), strict=True):
        np.testing.assert_array_equal(one, other)  # not used, as it has no dropout
    config = dataclasses.replace(config, attention_probs_dropout_prob=0.0)
    fused = [gradients(), gradients(remat="layers")]
    layers.has_fused_attention = original
    formula = gradients()
    for found in fused:
        for one, other in zip(found, formula, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6, rtol=0)

    def gradient_of_equal_pieces(dtype):
        encoder = AlbertEncoder(config, seed=1, dtype=dtype)
        trainable, others = (
            [variable.value for variable in kind]
            for kind in (encoder.trainable_variables, encoder.non_trainable_variables)
        )
        direction = np.random.default_rng(0).normal(size=(16, 24))

        def along(trainable):
            outputs, _ = encoder.stateless_call(trainable, others, {"input_ids": np.full((256, 16), 4)})
            return (outputs["sequence_output"] * direction).sum(dtype="float32")

        return np.asarray(jax.jit(jax.grad(along))(trainable)[0][4])

    # In bfloat16, a sum of thousands stops growing.
    expected, found = map(gradient_of_equal_pieces, ("float32", "mixed_bfloat16"))
    assert np.linalg.norm(found - expected) < 0.05 * np.linalg.norm(expected)

    assert "jax" in sys.modules and type(fused[0][0]).__module__.startswith("jax")
"""


TORCH = """
    import numpy as np
    from albert_tf import AlbertConfig, AlbertPretrainer
    from albert_tf.kernels import layers
    from albert_tf.model.pretrainer import pretraining_metrics, pretraining_sums
    from keras import ops
    from tests.albert_tf.model.test_pretrainer import pretraining_batch

    config = AlbertConfig(
        vocab_size=50, embedding_size=10, hidden_size=24, num_hidden_layers=3, num_attention_heads=3,
        intermediate_size=36, max_position_embeddings=16, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    batch = {name: ops.convert_to_tensor(array) for name, array in pretraining_batch(config).items()}
    batch["input_mask"][1] = 0  # attention to all tokens of a row without any

    def results(**flags):
        model = AlbertPretrainer(config, seed=1, **flags)
        outputs = model(batch, training=True)
        pretraining_metrics(pretraining_sums(outputs, batch))["loss"].backward()
        found = [*outputs.values(), *(variable.value.grad for variable in model.trainable_variables)]
        return [array.detach().numpy() for array in found]

    assert layers.has_fused_attention(16, "float32")
    fused = [results(remat=remat) for remat in (False, "activations", "layers")]
    layers.has_fused_attention = lambda T, dtype: False
    expected = results()
    for found in fused:
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5, rtol=0)
    assert max(abs(array).max() for array in expected) > 0.01
"""


@pytest.mark.very_slow
@pytest.mark.parametrize(("backend", "program"), [("jax", JAX), ("torch", TORCH)])
def test_a_backend(backend, program):
    pytest.importorskip(backend, reason=f"Keras' {backend} backend needs {backend}")
    command = ["-c", textwrap.dedent(program)]
    environment = {
        "KERAS_BACKEND": backend,
        "XLA_FLAGS": "--xla_backend_optimization_level=0",
    }  # compiles sooner
    (result,) = run_together([command], [environment], timeout=400)
    assert result.returncode == 0, result.stderr[-3000:]
