"""Passages, questions and options to the best option, without TensorFlow."""

import numpy as np

from albert_tf.tasks.answering import Answering, Field
from albert_tf.tasks.choice.rows import ChoiceExample


class ChoiceAnswering(Answering):
    """Passages, questions and options to `answer`, `choice` (B,) and `probabilities` (B, C).

    Questions may have different numbers of options; the probabilities of a call are padded with 0.
    """

    columns = ("passage", "question", "options")

    @property
    def fields(self):
        return {
            "answer": Field((), "", object),
            "choice": Field((), 0, np.int32),
            "probabilities": Field((0,)),
        }

    def answers(self, columns, rows):
        examples = [
            ChoiceExample(str(i), passage, question, tuple(options))
            for i, (passage, question, options) in enumerate(zip(*columns, strict=True))
        ]
        found = rows(self.preprocessor.arrays(examples))
        choices = [int(row["logits"].argmax()) for row in found]
        return [
            {"answer": given[choice], "choice": choice, "probabilities": row["probabilities"]}
            for row, given, choice in zip(found, columns[2], choices, strict=True)
        ]
