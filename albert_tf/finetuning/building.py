"""From a pretrained checkpoint to the Keras model of a task."""

import dataclasses
import tempfile
from collections.abc import Sequence
from pathlib import Path

import keras

from albert_tf.encoder import AlbertEncoder
from albert_tf.errors import InputError
from albert_tf.finetuning.multiple_choice import MultipleChoice
from albert_tf.finetuning.question_answering import QuestionAnswering
from albert_tf.finetuning.settings import FinetuningSettings
from albert_tf.finetuning.task_model import TaskModel
from albert_tf.finetuning.text_classifier import TextClassifier
from albert_tf.finetuning.text_regressor import TextRegressor
from albert_tf.finetuning.token_classifier import TokenClassifier
from albert_tf.pretrained.loading import Pretrained
from albert_tf.pretrained.stored import Vocabulary
from data_prep.tasks.features import Tokenizer
from data_prep.tasks.task import Task
from data_prep.token_stream import load_tokenizer
from data_prep.tokenizer import AlbertTokenizer


def find_vocabulary(loaded: Pretrained, settings: FinetuningSettings) -> Vocabulary:
    """The vocabulary that came with a checkpoint, or the one that was named.

    Raises:
      InputError: there is none, or it is of another model.
    """
    vocabulary = loaded.vocabulary
    if settings.vocab_file:
        path = Path(settings.vocab_file)
        kind = "wordpiece" if path.suffix == ".txt" else "sentencepiece"
        try:
            vocabulary = Vocabulary(kind, path.read_bytes(), settings.do_lower_case)
        except OSError as error:
            raise InputError(
                f"--vocab_file must name a SentencePiece model or a WordPiece vocab.txt. Received {path}: "
                f"{error.strerror}."
            ) from None
    if vocabulary is None:
        raise InputError(
            f"A tokenizer needs the checkpoint's vocabulary, and {settings.init_checkpoint} comes without it. Name "
            "the SentencePiece model or the WordPiece vocab.txt with --vocab_file."
        )
    pieces = len(tokenizer_of(vocabulary).pieces)
    if pieces > loaded.config.vocab_size:
        raise InputError(
            f"The vocabulary must be the checkpoint's own. Received one of {pieces:,} pieces, where the checkpoint "
            f"has {loaded.config.vocab_size:,} embeddings; name another one with --vocab_file."
        )
    return vocabulary


def tokenizer_of(vocabulary: Vocabulary) -> Tokenizer:
    """The tokenizer of a vocabulary."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(vocabulary.save(folder))
        if vocabulary.kind == "wordpiece":
            return load_tokenizer(None, path, vocabulary.do_lower_case)
        return AlbertTokenizer(path, vocabulary.do_lower_case)


def build_model(
    task: Task, loaded: Pretrained, labels: Sequence[str], settings: FinetuningSettings, seed: int
) -> TaskModel:
    """The model of a task with the checkpoint's encoder and a fresh head; call it under the strategy's scope.

    Args:
      task: says which head.
      loaded: the checkpoint; stays as it is.
      labels: the classes in the model's order.
      settings: resolved; for dropout and precision.
      seed: of the head's weights and of all dropout.
    """
    assert settings.dropout is not None and settings.classifier_dropout is not None
    config = dataclasses.replace(
        loaded.config, hidden_dropout_prob=settings.dropout, attention_probs_dropout_prob=settings.dropout
    )
    policy = keras.DTypePolicy("mixed_bfloat16" if settings.mixed_precision == "bfloat16" else "float32")
    encoder = AlbertEncoder(config, seed=seed, dtype=policy)
    encoder.set_weights(loaded.encoder.get_weights())
    options = {"classifier_dropout": settings.classifier_dropout, "seed": seed}
    if task.kind == "classification":
        return TextClassifier(encoder, labels, **options)
    if task.kind == "token_classification":
        return TokenClassifier(encoder, labels, **options)
    if task.kind == "regression":
        return TextRegressor(encoder, **options)
    if task.kind == "multiple_choice":
        return MultipleChoice(encoder, **options)
    return QuestionAnswering(encoder, answerable=task.answerable, **options)
