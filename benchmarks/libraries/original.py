"""google-research/albert under compat.v1, with its own LAMB; needs tf-keras and a checkout of the repository."""

import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from benchmarks.batches import training_batch


def training(config: dict[str, Any], dtype: str, B: int, T: int, P: int, repo: str) -> Callable[[], dict]:
    """A training step; bfloat16 by automatic mixed precision."""
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    _stand_in_for_contrib(tf)
    package = ModuleType("albert")
    package.__path__ = [repo]
    sys.modules["albert"] = package
    from albert import lamb_optimizer, modeling, run_pretraining  # type: ignore[import-not-found]

    names = ("vocab_size", "embedding_size", "hidden_size", "num_hidden_layers", "num_attention_heads")
    names += ("intermediate_size", "hidden_dropout_prob", "attention_probs_dropout_prob")
    theirs = modeling.AlbertConfig(**{name: config[name] for name in names})
    data = training_batch(B, T, P, config["vocab_size"])
    ids, mask, types, positions, labels, weights, order, _ = (tf.constant(array) for array in data.values())
    model = modeling.AlbertModel(theirs, True, ids, mask, types, use_one_hot_embeddings=False)
    sequence, table = model.get_sequence_output(), model.get_embedding_table()
    loss = run_pretraining.get_masked_lm_output(theirs, sequence, table, positions, labels, weights)[0]
    loss += run_pretraining.get_sentence_order_output(theirs, model.get_pooled_output(), order)[0]
    variables = tf.trainable_variables()
    gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 1.0)
    excluded = ["LayerNorm", "layer_norm", "bias"]
    optimizer = lamb_optimizer.LAMBOptimizer(1e-4, 0.01, 0.9, 0.999, 1e-6, excluded)
    update = optimizer.apply_gradients(zip(gradients, variables, strict=True))
    settings = tf.ConfigProto()
    if dtype == "bfloat16":
        settings.graph_options.rewrite_options.auto_mixed_precision_onednn_bfloat16 = 1
    session = tf.Session(config=settings)
    session.run(tf.global_variables_initializer())
    return lambda: {"loss": float(session.run([loss, update])[0])}


def _stand_in_for_contrib(tf) -> None:
    """Replaces the parts of TensorFlow 1's contrib that the original imports; it only calls LayerNorm."""

    def layer_norm(inputs, begin_norm_axis, begin_params_axis, scope):
        with tf.variable_scope(scope, default_name="LayerNorm"):
            width = inputs.shape[-1:]
            beta = tf.get_variable("beta", width, initializer=tf.zeros_initializer())
            gamma = tf.get_variable("gamma", width, initializer=tf.ones_initializer())
        mean, variance = tf.nn.moments(inputs, [-1], keepdims=True)
        return tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, 1e-12)

    contrib = ModuleType("tensorflow.contrib")
    for name in ("layers", "tpu", "cluster_resolver", "data"):
        module = ModuleType(f"tensorflow.contrib.{name}")
        setattr(contrib, name, module)
        sys.modules[module.__name__] = module
    contrib.layers.layer_norm = layer_norm  # type: ignore[attr-defined]
    tf.estimator = ModuleType("estimator")
    sys.modules[contrib.__name__] = contrib
