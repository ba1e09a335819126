"""A small model of each task with strings to train on.

As a program it runs what a test needs in another process:

    python -m tests.albert_tf.tasks.task_models fit VOCABULARY OUT.npz      # on two devices
    python -m tests.albert_tf.tasks.task_models predict FOLDER              # with the models saved there
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from albert_tf import (
    MultiLabelClassifier,
    MultipleChoice,
    OrdinalClassifier,
    QuestionAnswering,
    TextClassifier,
    TextRegressor,
    TokenClassifier,
)
from albert_tf.config import AlbertConfig
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.tasks.replicas import masks_of_replica
from data_prep.tokenizers.vocabulary import Vocabulary

CONFIG = AlbertConfig(
    vocab_size=100,
    embedding_size=10,
    hidden_size=24,
    num_hidden_layers=2,
    num_attention_heads=3,
    intermediate_size=36,
    max_position_embeddings=48,
    hidden_dropout_prob=0.1,
    attention_probs_dropout_prob=0.1,
)
N = 21  # examples: the last batch is not full, and two devices cannot share it evenly

_SUBJECTS = ("the captain", "our old gardener", "a quiet neighbour, in 1987,", "the café owner")
_ENDS = (
    "sailed past the lighthouse.",
    "had forgotten 300 apples",
    "painted",
    "would never sell those clocks!",
)
TEXTS = [f"{_SUBJECTS[i % 4]} {_ENDS[i // 4 % 4]}" for i in range(N)]
WORDS = [text.split() for text in TEXTS]


@dataclass(frozen=True)
class Case:
    """A task.

    Attributes:
      model: the class.
      x, y: N strings and labels.
      arguments: of the constructor.
      max_seq_length: of the preprocessor.
    """

    model: Any
    x: Any
    y: Any
    arguments: dict[str, Any]
    max_seq_length: int = 40

    def build(self, vocabulary: Path | None, dropout: float = 0.1, seed: int = 3, **arguments):
        """A fresh model."""
        config = AlbertConfig.from_dict(
            {**CONFIG.to_dict(), "hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
        )
        if vocabulary is not None:
            lengths = {"max_seq_length": self.max_seq_length}
            if self.model is QuestionAnswering:
                lengths |= {"max_query_length": 10, "doc_stride": 5}
            arguments["preprocessor"] = self.model.preprocessor_class(Vocabulary.read(vocabulary), **lengths)
        encoder = AlbertEncoder(config, seed=seed)
        return self.model(encoder, classifier_dropout=dropout, seed=seed, **self.arguments, **arguments)


_LAST_WORDS = [text.split()[-1] for text in TEXTS]
_QUESTIONS = ["who painted?" if i % 2 else "what had the captain forgotten?" for i in range(N)]
_ANSWERED = (_LAST_WORDS, [text.rfind(word) for text, word in zip(TEXTS, _LAST_WORDS, strict=True)])
_ANSWERED_OR_NOT = ([word if i % 3 else "" for i, word in enumerate(_LAST_WORDS)], _ANSWERED[1])
_OPTIONS = [["300 apples" if option == i % 3 else "a letter" for option in range(3)] for i in range(N)]

CASES = {
    "text": Case(
        TextClassifier,
        TEXTS,
        ["big" if "apples" in text else "small" for text in TEXTS],
        {"labels": ("small", "big")},
    ),
    "stars": Case(OrdinalClassifier, TEXTS, [str(1 + i % 5) for i in range(N)], {"labels": tuple("12345")}),
    "topics": Case(
        MultiLabelClassifier,
        TEXTS,
        [[topic for topic in ("apples", "captain") if topic in text] for text in TEXTS],
        {"labels": ("apples", "captain", "clocks"), "thresholds": (0.5, 0.25, 0.75)},
    ),
    "pair": Case(TextRegressor, (TEXTS, TEXTS[::-1]), np.linspace(0, 5, N), {}),
    "choice": Case(MultipleChoice, (TEXTS, _QUESTIONS, _OPTIONS), np.arange(N) % 3, {}),
    "words": Case(
        TokenClassifier,
        WORDS,
        [["NAME" if "a" in word else "O" for word in words] for words in WORDS],
        {"labels": ("O", "NAME")},
    ),
    "span": Case(QuestionAnswering, (_QUESTIONS, TEXTS), _ANSWERED, {}, 24),
    "span or none": Case(QuestionAnswering, (_QUESTIONS, TEXTS), _ANSWERED_OR_NOT, {"answerable": True}, 24),
}


# One of each loss and each way to divide a batch.
DIFFERENT_LOSSES = ("text", "pair", "choice", "words", "span or none")


def fit(name: str, vocabulary: Path, micro_batches: int = 1) -> dict[str, np.ndarray]:
    """Trains without dropout for two epochs of three batches; returns losses and weights."""
    case = CASES[name]
    model = case.build(vocabulary, dropout=0.0)
    model.gradient_accumulation_steps = micro_batches
    model.compile(keras.optimizers.SGD(0.1))
    history = model.fit(case.x, case.y, batch_size=8, epochs=2, verbose=0).history
    results = {
        "loss": np.array(history["loss"]),
        "evaluation": np.array(model.evaluate(case.x, case.y, batch_size=8, verbose=0)),
        "evaluation at once": np.array(model.evaluate(case.x, case.y, batch_size=64, verbose=0)),
        **{f"weights {i}": weight for i, weight in enumerate(model.get_weights())},
    }
    return {f"{name}/{key}": array for key, array in results.items()}


def outputs_of_replicas(strategy: tf.distribute.Strategy) -> np.ndarray:
    """What each replica computes for the same texts in two steps of `fit`, with dropout: (2, replicas, B, C)."""
    model = CASES["text"].build(None, dropout=0.5)
    model.compile(keras.optimizers.SGD(0.0))

    @tf.function(autograph=False)
    def step():
        with masks_of_replica(model):
            return model({"input_ids": tf.fill((3, 6), 7)}, training=True)

    found = []
    for number in range(2):
        model.optimizer.iterations.assign(number)
        found.append([array.numpy() for array in strategy.experimental_local_results(strategy.run(step))])
    return np.array(found)


def main(command: str, *arguments: str) -> None:
    if command == "fit":
        from albert_tf.pretraining.flags import PretrainingFlags
        from albert_tf.training.tensorflow_devices import make_strategy

        settings = PretrainingFlags("", "", do_train=True, strategy="mirrored", num_devices=2)
        results: dict[str, np.ndarray] = {}
        strategy = make_strategy(settings)
        assert strategy.num_replicas_in_sync == 2
        with strategy.scope():
            for number, name in enumerate(DIFFERENT_LOSSES):
                results |= fit(name, Path(arguments[0]), micro_batches=1 + number % 2)
            results["outputs of replicas"] = outputs_of_replicas(strategy)
        np.savez(arguments[1], **results)
    else:
        for name, case in CASES.items():
            file = Path(arguments[0], f"{name}.keras")
            np.savez(file.with_suffix(".npz"), *outputs(keras.saving.load_model(file), case.x))


def outputs(model, x) -> list[np.ndarray]:
    """What a model predicts, as a list of arrays."""
    return keras.tree.flatten(model.predict(x, batch_size=8, verbose=0))


if __name__ == "__main__":
    main(*sys.argv[1:])
