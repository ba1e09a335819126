"""The model of a task, built on a pretrained encoder, and the learning rates of its parts."""

import dataclasses

import keras

from albert_tf.config import AlbertConfig, ResizePositions
from albert_tf.finetuning.plan import FinetuningPlan
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.parameters import distinct_layers
from albert_tf.tasks.adapters import load_adapters
from albert_tf.tasks.task_model import TaskModel
from albert_tf.training.weights import assign
from data_prep.errors import InputError


def initial_encoder(plan: FinetuningPlan) -> AlbertEncoder:
    """The encoder that training starts from: that of --init_checkpoint, or an untrained one."""
    if plan.initial:
        return AlbertEncoder.of_stored(plan.initial, seed=plan.seed)
    return AlbertEncoder(plan.config, seed=plan.seed)


def build_task_model(plan: FinetuningPlan, initial: AlbertEncoder) -> TaskModel:
    """A copy of the encoder with a new head, or what training continues; call it under the devices' scope.

    Raises:
      InputError: adapters do not fit the model, or have another rank.
    """
    config = dataclasses.replace(
        initial.config,
        hidden_dropout_prob=plan.dropout,
        attention_probs_dropout_prob=plan.dropout,
        max_position_embeddings=max(initial.config.max_position_embeddings, plan.max_seq_length),
    )
    policy = keras.DTypePolicy("mixed_bfloat16" if plan.mixed_precision else "float32")
    encoder = AlbertEncoder(
        config, seed=plan.seed, remat=plan.remat, scan_layers=plan.scan_layers, dtype=policy
    )
    copy_weights(initial, encoder, plan.resize_positions)
    task = plan.definition
    model = task.kind.model(
        encoder,
        preprocessor=plan.preprocessor,
        seed=plan.seed,
        freeze_encoder=plan.freeze_encoder,
        **task.kind.model_arguments(task, plan.data.labels, plan),
    )
    if plan.initial:
        model.continue_head(plan.initial)
    if plan.init_adapters:
        load_adapters(model, plan.init_adapters)  # enables LoRA, with their alpha
        if plan.lora_rank != encoder.lora_rank:
            raise InputError(
                f"--lora_rank must be the rank of --init_adapters, {encoder.lora_rank}. Received "
                f"{plan.lora_rank}."
            )
    elif plan.lora_rank:
        model.enable_lora(plan.lora_rank)
    return model


def rate_factors(config: AlbertConfig, layer_decay: float) -> dict[str, float]:
    """The factor of each part's learning rate, by the names of its variables, as `AdamW` takes them.

    The head and the pooler have factor 1. Each distinct layer below them, the last one first, has `layer_decay`
    times the factor of the one above; the embeddings come last.

    >>> rate_factors(AlbertConfig(num_hidden_groups=1), 0.5)
    {'/attention_0_': 0.5, '/ffn_0_': 0.5, '/embeddings/': 0.25}
    """
    lengths = dict(zip(("attention", "ffn"), distinct_layers(config), strict=True))
    parts = {
        f"/{name}_{number}_": layer_decay ** (length - number)
        for name, length in lengths.items()
        for number in range(length)
    }
    return {**parts, "/embeddings/": layer_decay ** (max(lengths.values()) + 1)}


def copy_weights(
    source: AlbertEncoder, target: AlbertEncoder, resize_positions: ResizePositions = False
) -> None:
    """Copies an encoder's weights; the target's position table may be longer."""
    for variable, value in zip(target.weights, source.get_weights(), strict=True):
        assign(variable, value, resize_positions)
