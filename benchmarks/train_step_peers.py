"""Training steps of ALBERT-base in each library, in processes that benchmarks/train_step.py controls.

There is one process per library. A line on standard input requests a step; the reply is a line of JSON on standard
output.
"""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np

from albert_tf.config import Remat
from albert_tf.lab.peer_processes import open_replies, serve_steps
from albert_tf.lab.training_step import make_training_step, random_training_batch

V, E, H, L, N, F = 30_000, 128, 768, 12, 12, 3072
RATE = 1e-4


def batch(B: int, T: int, P: int) -> dict[str, np.ndarray]:
    """Examples of random pieces, without padding and with P predictions each."""
    return random_training_batch(B, T, P, V)


def albert_tf(
    data: dict, dtype: str, dropout: float, remat: Remat = False, accumulation_steps: int = 1
) -> Callable[[], float]:
    """This library's step, with LAMB and clipping, as in `albert pretrain`."""
    from albert_tf import AlbertConfig
    from albert_tf.pretraining.devices import split_batches_over_cores

    config = AlbertConfig(hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout)
    B, T = data["input_ids"].shape
    parts = split_batches_over_cores([(B // accumulation_steps, T)], config.hidden_size)
    return make_training_step(
        config, data, dtype, remat=remat, accumulation_steps=accumulation_steps, parallel_parts=parts
    )


def albert_tf_remat(data: dict, dtype: str, dropout: float) -> Callable[[], float]:
    return albert_tf(data, dtype, dropout, remat="layers")


def albert_tf_remat_activations(data: dict, dtype: str, dropout: float) -> Callable[[], float]:
    return albert_tf(data, dtype, dropout, remat="activations")


def albert_tf_micro_batches(data: dict, dtype: str, dropout: float) -> Callable[[], float]:
    """The step that takes least memory: --gradient_accumulation_steps=2 --remat=activations."""
    return albert_tf(data, dtype, dropout, remat="activations", accumulation_steps=2)


def keras_hub(data: dict, dtype: str, dropout: float) -> Callable[[], float]:
    """Masked LM and AdamW with Keras' own training step; KerasHub has no sentence-order head."""
    import keras
    import keras_hub
    import tensorflow as tf

    keras.config.set_dtype_policy("mixed_bfloat16" if dtype == "bfloat16" else "float32")
    backbone = keras_hub.models.AlbertBackbone(
        vocabulary_size=V,
        num_layers=L,
        num_heads=N,
        embedding_dim=E,
        hidden_dim=H,
        intermediate_dim=F,
        dropout=dropout,
    )
    model = keras_hub.models.AlbertMaskedLM(backbone, preprocessor=None)
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=keras.optimizers.AdamW(RATE, global_clipnorm=1.0),
        weighted_metrics=[],
        jit_compile=False,  # faster on CPUs
    )
    inputs = {
        "token_ids": data["input_ids"],
        "padding_mask": data["input_mask"],
        "segment_ids": data["token_type_ids"],
        "mask_positions": data["masked_lm_positions"],
    }
    element = (inputs, data["masked_lm_ids"], data["masked_lm_weights"])
    batches = tf.data.Dataset.from_tensors(element)
    return lambda: model.fit(batches, verbose=0).history["loss"][0]


def hugging_face(data: dict, dtype: str, dropout: float, compiled: bool = False) -> Callable[[], float]:
    """AlbertForPreTraining in PyTorch; it projects all T positions to the vocabulary."""
    import torch
    from transformers import AlbertConfig, AlbertForPreTraining

    config = AlbertConfig(
        vocab_size=V,
        embedding_size=E,
        hidden_size=H,
        num_hidden_layers=L,
        num_attention_heads=N,
        intermediate_size=F,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    torch.manual_seed(0)
    model = AlbertForPreTraining(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), RATE)
    labels = np.full(data["input_ids"].shape, -100)  # -100: no prediction here
    np.put_along_axis(labels, data["masked_lm_positions"], data["masked_lm_ids"], axis=1)
    inputs = {
        "input_ids": torch.tensor(data["input_ids"]).long(),
        "attention_mask": torch.tensor(data["input_mask"]).long(),
        "token_type_ids": torch.tensor(data["token_type_ids"]).long(),
        "labels": torch.tensor(labels).long(),
        "sentence_order_label": torch.tensor(data["sentence_order"]).long(),
    }
    forward = torch.compile(model) if compiled else model

    def step() -> float:
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bfloat16"):
            loss = forward(**inputs).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step


def hugging_face_compiled(data: dict, dtype: str, dropout: float) -> Callable[[], float]:
    return hugging_face(data, dtype, dropout, compiled=True)


def model_garden(data: dict, dtype: str, dropout: float) -> Callable[[], float]:
    """Model Garden's BertPretrainerV2 on its AlbertEncoder, with both heads, in Keras 2."""
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    import tensorflow as tf
    import tf_keras
    from official.nlp.modeling import layers, models, networks

    tf_keras.mixed_precision.set_global_policy("mixed_bfloat16" if dtype == "bfloat16" else "float32")
    encoder = networks.AlbertEncoder(
        vocab_size=V,
        embedding_width=E,
        hidden_size=H,
        num_layers=L,
        num_attention_heads=N,
        max_sequence_length=512,
        intermediate_size=F,
        dropout_rate=dropout,
        attention_dropout_rate=dropout,
        dict_outputs=True,
    )
    head = layers.ClassificationHead(inner_dim=H, num_classes=2, dropout_rate=dropout, name="sentence_order")
    model = models.BertPretrainerV2(
        encoder, classification_heads=[head], mlm_activation=tf_keras.activations.gelu
    )
    inputs = {
        "input_word_ids": data["input_ids"],
        "input_mask": data["input_mask"],
        "input_type_ids": data["token_type_ids"],
        "masked_lm_positions": data["masked_lm_positions"],
    }
    inputs = {name: tf.constant(array) for name, array in inputs.items()}
    optimizer = tf_keras.optimizers.AdamW(RATE, global_clipnorm=1.0)
    losses = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def train():
        with tf.GradientTape() as tape:
            outputs = model(inputs, training=True)
            loss = losses(data["masked_lm_ids"], tf.cast(outputs["mlm_logits"], tf.float32))
            loss += losses(data["sentence_order"], tf.cast(outputs["sentence_order"], tf.float32))
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
        )
        return loss

    return lambda: float(train())


def original(data: dict, dtype: str, dropout: float, folder: Path | None = None) -> Callable[[], float]:
    """google-research/albert under compat.v1 with its own LAMB; bfloat16 by automatic mixed precision."""
    assert folder is not None
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    _stand_in_for_contrib(tf)
    package = ModuleType("albert")
    package.__path__ = [str(folder)]
    sys.modules["albert"] = package
    from albert import lamb_optimizer, modeling, run_pretraining  # type: ignore[import-not-found]

    config = modeling.AlbertConfig(
        V, E, H, L, 1, N, F, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout
    )
    ids, mask, types, positions, labels, weights, order, _ = (tf.constant(array) for array in data.values())
    model = modeling.AlbertModel(config, True, ids, mask, types, use_one_hot_embeddings=False)
    sequence, table = model.get_sequence_output(), model.get_embedding_table()
    loss = run_pretraining.get_masked_lm_output(config, sequence, table, positions, labels, weights)[0]
    loss += run_pretraining.get_sentence_order_output(config, model.get_pooled_output(), order)[0]
    variables = tf.trainable_variables()
    gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 1.0)
    optimizer = lamb_optimizer.LAMBOptimizer(
        RATE, 0.01, 0.9, 0.999, 1e-6, ["LayerNorm", "layer_norm", "bias"]
    )
    update = optimizer.apply_gradients(zip(gradients, variables, strict=True))
    settings = tf.ConfigProto()
    if dtype == "bfloat16":
        settings.graph_options.rewrite_options.auto_mixed_precision_onednn_bfloat16 = 1
    session = tf.Session(config=settings)
    session.run(tf.global_variables_initializer())
    return lambda: float(session.run([loss, update])[0])


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


def matrix_product(data: dict, dtype: str, dropout: float) -> Callable[[], float]:
    """Measures the machine's peak: H -> F on 2048 rows, ten times; the "loss" is the FLOPs of a step."""
    import tensorflow as tf

    x = tf.cast(tf.random.normal((2048, H)), dtype)
    w = tf.cast(tf.random.normal((H, F)), dtype)

    @tf.function
    def products():
        for _ in tf.range(10):
            y = tf.matmul(x, w)
        return y

    def step() -> float:
        products()
        return 10 * 2 * 2048 * H * F

    return step


PEERS = {
    function.__name__: function
    for function in (
        albert_tf,
        albert_tf_remat,
        albert_tf_remat_activations,
        albert_tf_micro_batches,
        keras_hub,
        hugging_face,
        hugging_face_compiled,
        model_garden,
        original,
        matrix_product,
    )
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), required=True)
    parser.add_argument("--shape", type=int, nargs=3, metavar=("B", "T", "P"), required=True)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--original_repo", type=Path)
    flags = parser.parse_args()
    replies = open_replies()
    arguments = {"folder": flags.original_repo} if flags.peer == "original" else {}
    step = PEERS[flags.peer](batch(*flags.shape), flags.dtype, flags.dropout, **arguments)
    serve_steps(replies, lambda _: {"loss": step()})


if __name__ == "__main__":
    main()
