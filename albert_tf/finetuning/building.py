"""From a pretrained checkpoint to the Keras model of a task."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import keras

from albert_tf.config import AlbertConfig
from albert_tf.finetuning.preprocessor import Preprocessor, QuestionPreprocessor
from albert_tf.finetuning.settings import FinetuningSettings
from albert_tf.finetuning.task_model import TaskModel
from albert_tf.finetuning.task_models import TASK_MODELS
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.pretrained.loading import Pretrained
from albert_tf.training.weights import assign
from data_prep.errors import InputError
from data_prep.tasks.task import Task
from data_prep.tokenizers.vocabulary import Vocabulary


def choose_vocabulary(loaded: Pretrained, settings: FinetuningSettings) -> Vocabulary:
    """The vocabulary given by --vocab_file, or else the checkpoint's.

    Raises:
      InputError: there is neither.
    """
    if settings.vocab_file:
        return Vocabulary.read(settings.vocab_file, settings.do_lower_case)
    if loaded.vocabulary is None:
        raise InputError(
            f"A tokenizer needs the checkpoint's vocabulary, and {settings.init_checkpoint} comes without it. "
            "Name the SentencePiece model or the WordPiece vocab.txt with --vocab_file."
        )
    return loaded.vocabulary


def make_preprocessor(
    task: Task, vocabulary: Vocabulary, settings: FinetuningSettings, config: AlbertConfig
) -> Preprocessor:
    """What makes the model's arrays of strings; it is saved with the model.

    Raises:
      InputError: the vocabulary is another model's, or the lengths do not fit.
    """
    assert settings.max_seq_length
    kind = TASK_MODELS[task.kind].preprocessor_class
    preprocessor = (
        kind(vocabulary, settings.max_seq_length, settings.max_query_length, settings.doc_stride)
        if issubclass(kind, QuestionPreprocessor)
        else kind(vocabulary, settings.max_seq_length)
    )
    pieces = len(preprocessor.tokenizer.pieces)
    if pieces > config.vocab_size:
        raise InputError(
            f"The vocabulary must be the checkpoint's own. Received one of {pieces:,} pieces, where the "
            f"checkpoint has {config.vocab_size:,} embeddings; name another one with --vocab_file."
        )
    return preprocessor


def build_model(
    task: Task,
    loaded: Pretrained,
    labels: Sequence[str],
    preprocessor: Preprocessor,
    settings: FinetuningSettings,
    seed: int,
) -> TaskModel:
    """The model of a task with the checkpoint's encoder and a fresh head; call it under the strategy's scope.

    Args:
      task: says which head.
      loaded: the checkpoint; stays as it is.
      labels: the classes in the model's order.
      preprocessor: is saved with it.
      settings: resolved; for dropout and precision.
      seed: of the head's weights and of all dropout.
    """
    assert settings.dropout is not None and settings.classifier_dropout is not None
    assert settings.max_seq_length is not None
    config = dataclasses.replace(
        loaded.config,
        hidden_dropout_prob=settings.dropout,
        attention_probs_dropout_prob=settings.dropout,
        max_position_embeddings=max(loaded.config.max_position_embeddings, settings.max_seq_length),
    )
    policy = keras.DTypePolicy("mixed_bfloat16" if settings.mixed_precision == "bfloat16" else "float32")
    encoder = AlbertEncoder(config, seed=seed, dtype=policy)
    take_weights(encoder, loaded.encoder)
    options: dict[str, Any] = {"classifier_dropout": settings.classifier_dropout, "seed": seed}
    if task.kind in ("classification", "token_classification"):
        options["labels"] = labels
    if task.kind == "question_answering":
        options["answerable"] = task.answerable
    return TASK_MODELS[task.kind](encoder, preprocessor=preprocessor, **options)


def take_weights(encoder: AlbertEncoder, other: AlbertEncoder) -> None:
    """Sets an encoder's weights to another's; rows of the position table that only the first has stay."""
    for variable, value in zip(encoder.weights, other.get_weights(), strict=True):
        assign(variable, value, None if variable.shape == value.shape else len(value))
