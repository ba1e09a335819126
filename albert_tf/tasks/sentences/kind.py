"""The kind of task that turns texts into vectors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from albert_tf.tasks.kind import Kind
from albert_tf.tasks.prediction_files import read_numbers
from albert_tf.tasks.probabilities import Probabilities
from albert_tf.tasks.sentences.features import SentencePreprocessor
from albert_tf.tasks.sentences.metrics import SELECTION, cosines, score_metrics, sentence_metrics, unit
from albert_tf.tasks.sentences.rows import SentenceExample, read_beir, sentence_examples

_FEWEST, _SAME = 5, 0.999  # examples, and the mean cosine, of a model that tells no texts apart


@dataclass(frozen=True)
class Vectors:
    """The vectors of the texts of N examples.

    Attributes:
      examples: N examples.
      values: N float32 arrays, (D,), or (C, D) for several texts.
    """

    examples: Sequence[SentenceExample]
    values: Sequence[np.ndarray]


class Embedding(Kind):
    """Texts have vectors, which are near each other for texts that belong together."""

    name = "embedding"
    export = "embedding"  # as a pretrained model that knows how to make a vector of a text
    metrics = (SELECTION,)
    preprocessor = SentencePreprocessor

    @property
    def model(self):
        from albert_tf.tasks.sentences.model import SentenceEncoder

        return SentenceEncoder

    @property
    def pipeline(self):
        return "sentence-similarity"

    def examples(self, rows, first, split):
        return sentence_examples(rows, first, split)

    def read_folder(self, folder, split):
        return read_beir(folder, split)

    def has_dropout(self, task):
        return False

    def has_answers(self, task, splits):
        return any(
            example.relevant or len(example.texts) > 1 or example.label for example in _examples(splits)
        )

    def model_arguments(self, task, labels, settings):
        given = {
            "pooling": settings.pooling,
            "units": settings.vector_size,
            "normalize": settings.normalize,
            "temperature": settings.temperature,
            "symmetric": settings.symmetric,
        }
        return {name: value for name, value in given.items() if value is not None}

    def predictions(self, split, rows, model, max_answer_length=30, n_best=20):
        return Vectors(split.examples, [np.asarray(row["output"], np.float32) for row in rows])

    def measure(self, task, splits, predictions):
        examples = [example for part in predictions for example in part.examples]
        return sentence_metrics(examples, [vectors for part in predictions for vectors in part.values])

    def collapse(self, splits, parts):
        rows = [
            np.atleast_2d(vectors)[: len(example.texts)]
            for part in parts
            for example, vectors in zip(part.examples, part.values, strict=True)
        ]
        mean = unit(np.concatenate(rows)).mean(axis=0)
        if len(rows) < _FEWEST or mean @ mean < _SAME:
            return ""
        return f"all texts have about the same vector: their mean cosine is {mean @ mean:.4f}"

    def lines(self, examples, predictions, null_threshold):
        for example, vectors in zip(predictions.examples, predictions.values, strict=True):
            is_pair = len(example.texts) > 1
            yield (
                {"score": cosines([vectors])[0]}
                if is_pair
                else {"vector": np.atleast_2d(vectors)[0].tolist()}
            )

    def keep(self, run, split, predictions, threshold):
        """Writes the cosines of pairs; of other texts nothing."""
        examples = predictions.examples
        if all(len(example.texts) > 1 for example in examples):
            values = tuple(map(np.asarray, cosines(predictions.values)))
            labels = tuple(example.label for example in examples)
            ids = tuple(example.id for example in examples)
            super().keep(
                run, split, Probabilities(ids, (), values, None if None in labels else labels), threshold
            )

    def score(self, task, predictions, labels, groups=(), classes=()):
        return score_metrics(predictions, labels)

    def read_predictions(self, task, path):
        return dict(read_numbers(path))


def _examples(splits) -> list[Any]:
    return [example for split in splits for example in split.examples]


EMBEDDING = Embedding()
