"""The model of a task, built on a pretrained encoder."""

import dataclasses
import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras

from albert_tf.checkpoints.open_model import open_model
from albert_tf.config import AlbertConfig, ResizePositions
from albert_tf.finetuning.flags import FinetuningFlags
from albert_tf.finetuning.recipes import FinetuningPlan
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.parameters import distinct_layers
from albert_tf.tasks.adapters import load_adapters
from albert_tf.tasks.kind import Task
from albert_tf.tasks.preprocessor import Preprocessor
from albert_tf.tasks.task_model import TaskModel
from albert_tf.training.weights import assign
from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Vocabulary


class InitialModel(NamedTuple):
    """What training starts from; `vocabulary` is that of the checkpoint, if its files include one."""

    encoder: AlbertEncoder
    vocabulary: Vocabulary | None

    @property
    def config(self) -> AlbertConfig:
        """The encoder's shape."""
        return self.encoder.config


def read_initial_model(settings: FinetuningFlags) -> InitialModel:
    """The model that training starts from: --init_checkpoint, or an untrained one of --albert_config_file."""
    if settings.init_checkpoint:
        stored = open_model(settings.init_checkpoint, settings.albert_config_file)
        if "pooler" in stored.missing:
            logging.getLogger(__name__).warning("%s holds no pooler: using fresh weights", stored.path)
        return InitialModel(AlbertEncoder.of_stored(stored, seed=settings.seed), stored.vocabulary)
    assert settings.albert_config_file, "FinetuningFlags requires one of them with do_train"
    config = AlbertConfig.from_json_file(settings.albert_config_file)
    return InitialModel(AlbertEncoder(config, seed=settings.seed), vocabulary=None)


def choose_vocabulary(pretrained: InitialModel, settings: FinetuningFlags) -> Vocabulary:
    """The vocabulary that the flags name, otherwise the checkpoint's own.

    Raises:
      InputError: there is neither.
    """
    if settings.vocab_file:
        return Vocabulary.read(settings.vocab_file, settings.do_lower_case)
    if pretrained.vocabulary is None:
        raise InputError(
            "A tokenizer needs a vocabulary, and "
            f"{settings.init_checkpoint or settings.albert_config_file} comes without one. "
            "Name the SentencePiece model or the WordPiece vocab.txt with --vocab_file."
        )
    return pretrained.vocabulary


def make_preprocessor(
    task: Task,
    vocabulary: Vocabulary,
    max_seq_length: int,
    settings: FinetuningFlags,
    config: AlbertConfig,
) -> Preprocessor:
    """The preprocessor that turns strings into the model's arrays, and is saved with the model.

    Raises:
      InputError: the vocabulary belongs to another model, or the lengths do not fit.
    """
    made = task.kind.preprocessor
    lengths = {name: getattr(settings, name) for name in made.more_lengths}
    preprocessor = made(vocabulary, max_seq_length, **lengths)
    pieces = preprocessor.tokenizer.vocab_size
    if pieces > config.vocab_size:
        raise InputError(
            f"The vocabulary must be the model's own. Received one of {pieces:,} pieces, where the model has "
            f"{config.vocab_size:,} embeddings; name another one with --vocab_file."
        )
    return preprocessor


def build_task_model(
    task: Task,
    pretrained: InitialModel,
    labels: Sequence[str],
    preprocessor: Preprocessor,
    settings: FinetuningPlan,
) -> TaskModel:
    """A copy of the checkpoint's encoder with a new head; call it under the strategy's scope.

    `settings` gives the seed (of the head's weights and of dropout), the dropout rates, the length, the precision,
    and which weights train.

    Raises:
      InputError: adapters do not fit the model, or have another rank.
    """
    config = dataclasses.replace(
        pretrained.config,
        hidden_dropout_prob=settings.dropout,
        attention_probs_dropout_prob=settings.dropout,
        max_position_embeddings=max(pretrained.config.max_position_embeddings, settings.max_seq_length),
    )
    policy = keras.DTypePolicy("mixed_bfloat16" if settings.mixed_precision == "bfloat16" else "float32")
    encoder = AlbertEncoder(
        config, seed=settings.seed, remat=settings.remat, scan_layers=settings.scan_layers, dtype=policy
    )
    copy_weights(pretrained.encoder, encoder, settings.resize_positions)
    names = ("classifier_dropout", "seed", "freeze_encoder")
    options: dict[str, Any] = {name: getattr(settings, name) for name in names}
    options |= task.kind.model_arguments(task, labels, settings)
    model = task.kind.model(encoder, preprocessor=preprocessor, **options)
    if settings.init_adapters:
        load_adapters(model, settings.init_adapters)  # enables LoRA, with their alpha
        if settings.lora_rank != encoder.lora_rank:
            raise InputError(
                f"--lora_rank must be the rank of --init_adapters, {encoder.lora_rank}. Received "
                f"{settings.lora_rank}."
            )
    elif settings.lora_rank:
        model.enable_lora(settings.lora_rank)
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
