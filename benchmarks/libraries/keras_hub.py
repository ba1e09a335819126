"""KerasHub's ALBERT on TensorFlow: training steps, fine-tuning and inference."""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.batches import encoding_turns, training_batch
from benchmarks.task_examples import RATE, Train, padded_batches, train_in_turns


def training(config: dict[str, Any], dtype: str, B: int, T: int, P: int) -> Callable[[], dict]:
    """Masked LM and AdamW with Keras' own training step; KerasHub has no sentence-order head."""
    import keras
    import keras_hub
    import tensorflow as tf

    model = keras_hub.models.AlbertMaskedLM(_backbone(config, dtype), preprocessor=None)
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=keras.optimizers.AdamW(1e-4, global_clipnorm=1.0),
        weighted_metrics=[],
        jit_compile=False,  # faster on CPUs
    )
    data = training_batch(B, T, P, config["vocab_size"])
    inputs = {
        "token_ids": data["input_ids"],
        "padding_mask": data["input_mask"],
        "segment_ids": data["token_type_ids"],
        "mask_positions": data["masked_lm_positions"],
    }
    element = (inputs, data["masked_lm_ids"], data["masked_lm_weights"])
    batches = tf.data.Dataset.from_tensors(element)
    return lambda: {"loss": model.fit(batches, verbose=0).history["loss"][0]}


def finetuning(**setup) -> Callable[..., dict]:
    """AlbertTextClassifier through `fit`; its preprocessor pads everything to one length."""

    def make(config, dtype, B, length) -> Train:
        import keras
        import keras_hub
        import tensorflow as tf

        keras.utils.set_random_seed(0)
        backbone = _backbone(config.to_dict(), dtype)
        model = keras_hub.models.AlbertTextClassifier(backbone, num_classes=2, preprocessor=None)
        model.compile(
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            optimizer=keras.optimizers.AdamW(RATE, global_clipnorm=1.0),
            metrics=[],
            jit_compile=False,  # faster on CPUs
        )

        def train(examples, count, turn):
            batches = list(padded_batches(examples, B, count, turn, length))
            arrays = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
            inputs = {
                "token_ids": arrays["input_ids"],
                "padding_mask": arrays["attention_mask"],
                "segment_ids": arrays["token_type_ids"],
            }
            data = tf.data.Dataset.from_tensor_slices((inputs, arrays["labels"])).batch(B).prefetch(1)
            shapes = [batch["input_ids"].shape for batch in batches]
            return model.fit(data, verbose=0).history["loss"][0], shapes

        return train

    return train_in_turns(make, **setup)


def inference(files: str, config: dict[str, Any], dtype: str) -> Callable[..., dict]:
    """The backbone in a tf.function; its weights are random."""
    if dtype == "int8":
        raise SystemExit("TensorFlow has no fast products of integers on CPUs")
    import tensorflow as tf

    backbone = _backbone(config, dtype)
    forward = tf.function(lambda inputs: backbone(inputs, training=False), reduce_retracing=True)

    def encode(ids, mask):
        inputs = {"token_ids": ids, "padding_mask": mask, "segment_ids": np.zeros_like(ids)}
        outputs = forward({name: tf.constant(array) for name, array in inputs.items()})
        return tf.cast(outputs["sequence_output"], tf.float32).numpy()

    return encoding_turns(encode, config["vocab_size"])


def _backbone(config: dict[str, Any], dtype: str):
    import keras
    import keras_hub

    keras.config.set_dtype_policy("mixed_bfloat16" if dtype == "bfloat16" else "float32")
    return keras_hub.models.AlbertBackbone(
        vocabulary_size=config["vocab_size"],
        num_layers=config["num_hidden_layers"],
        num_heads=config["num_attention_heads"],
        embedding_dim=config["embedding_size"],
        hidden_dim=config["hidden_size"],
        intermediate_dim=config["intermediate_size"],
        dropout=config["hidden_dropout_prob"],
    )
