"""Questions and contexts to answers, without TensorFlow."""

import numpy as np

from albert_tf.tasks.answering import Answering, Field, TextAnswer
from albert_tf.tasks.features import IMPOSSIBLE
from albert_tf.tasks.spans.answers import Answer, predict_answers
from albert_tf.tasks.spans.features import QuestionPreprocessor


class SpanAnswering(Answering):
    """Questions and contexts to `answer`, `begin`, `score` and, if it may find none, `null_odds` (B,).

    Above the null odds that were best on the dev set of the model's run, there is no answer.
    """

    columns = ("question", "context")
    preprocessor: QuestionPreprocessor

    @property
    def fields(self):
        usual = {"answer": Field((), "", object), "begin": Field((), -1, np.int32), "score": Field()}
        return {**usual, "null_odds": Field()} if self.facts.answerable else usual

    def answers(self, columns, rows):
        examples = self.preprocessor.examples(tuple(columns))
        windows = self.preprocessor.windows(examples)
        scores = rows(self.preprocessor.inputs(windows))
        longest = int(self.facts.options["max_answer_length"])
        found = predict_answers(examples, windows, scores, n_best=1, max_answer_length=longest)
        texts = found.texts(self.facts.null_threshold)
        return [
            _best_answer(text, found.n_best[id_][0], (found.null_odds or {}).get(id_))
            for id_, text in texts.items()
        ]


def _best_answer(text: str, best: Answer, null_odds: float | None) -> TextAnswer:
    answer: TextAnswer = {
        "answer": text,
        "begin": best.answer_start if text else -1,
        "score": best.start_score + best.end_score if best.text else IMPOSSIBLE,
    }
    return answer if null_odds is None else {**answer, "null_odds": null_odds}
