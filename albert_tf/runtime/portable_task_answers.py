"""Portable fine-tuned models of texts: classes and scores, answers to questions, choices."""

from functools import cached_property
from typing import Any

import numpy as np

from albert_tf.runtime.engines import Arrays
from albert_tf.runtime.portable_folder import PortableFolder
from albert_tf.runtime.portable_text_model import Field, TextAnswer, TextModel
from albert_tf.tasks.choice.features import ChoicePreprocessor, choice_features
from albert_tf.tasks.choice.rows import ChoiceExample
from albert_tf.tasks.features import IMPOSSIBLE
from albert_tf.tasks.kinds import find_kind
from albert_tf.tasks.spans.answers import Answer, predict_answers
from albert_tf.tasks.spans.features import QuestionPreprocessor
from albert_tf.tasks.texts.features import TextPreprocessor


def task_preprocessor(folder: PortableFolder) -> Any:
    """The preprocessor of a fine-tuned model."""
    lengths = {str(name): length for name, length in folder.facts.lengths.items()}
    return find_kind(folder.facts.task_kind).preprocessor(folder.vocabulary, **lengths)


class PortableClassifier(TextModel):
    """Texts, or with `.pair` pairs of texts, to classes or `score` (B,).

    A classifier returns `label` (B,), or `has_label` (B, C) if a text may have several, `labels` and
    `probabilities` (B, C).
    """

    @cached_property
    def fields(self):
        facts, C = self.folder.facts, len(self.folder.facts.labels)
        if not C:
            return {"score": Field()}
        decision = (
            {"has_label": Field((C,), False, bool)} if facts.thresholds else {"label": Field((), "", object)}
        )
        return {**decision, "labels": Field((C,), "", object), "probabilities": Field((C,))}

    @cached_property
    def pair(self) -> "_Pairs":
        """The same model for pairs: `.pair(texts, seconds)` and `.pair.stream(tuples)`."""
        return _Pairs(self.folder, self.engine, self._size)

    @cached_property
    def preprocessor(self) -> TextPreprocessor:
        return task_preprocessor(self.folder)

    def answers(self, columns):
        features = self.preprocessor.features(tuple(columns) if len(columns) > 1 else columns[0])
        return [self._answer(row) for row in self.rows(features)]

    def _answer(self, row: Arrays) -> TextAnswer:
        facts = self.folder.facts
        if not facts.labels:
            return {"score": float(row["score"])}
        labels, probabilities = np.array(facts.labels, object), row["probabilities"]
        if facts.thresholds:
            decision = {"has_label": probabilities >= np.array(facts.thresholds, np.float32)}
        else:
            decision = {"label": labels[row["logits"].argmax()]}
        return {**decision, "labels": labels, "probabilities": probabilities}


class _Pairs(PortableClassifier):
    columns = ("text", "text_pair")


class PortableQuestionAnswering(TextModel):
    """Questions and contexts to `answer`, `begin`, `score` and, if it may find none, `null_odds` (B,).

    Above the null odds that were best on the dev set of the model's run, there is no answer.
    """

    columns = ("question", "context")

    @cached_property
    def fields(self):
        usual = {"answer": Field((), "", object), "begin": Field((), -1, np.int32), "score": Field()}
        return {**usual, "null_odds": Field()} if self.folder.facts.answerable else usual

    @cached_property
    def preprocessor(self) -> QuestionPreprocessor:
        return task_preprocessor(self.folder)

    def answers(self, columns):
        examples = self.preprocessor.examples(tuple(columns))
        windows = self.preprocessor.windows(examples)
        rows = self.rows(self.preprocessor.inputs(windows))
        longest = int(self.folder.facts.options["max_answer_length"])
        found = predict_answers(examples, windows, rows, n_best=1, max_answer_length=longest)
        texts = found.texts(self.folder.facts.null_threshold)
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


class PortableMultipleChoice(TextModel):
    """Passages, questions and options to `answer`, `choice` (B,) and `probabilities` (B, C).

    Questions may have different numbers of options; the probabilities of a call are padded with 0.
    """

    columns = ("passage", "question", "options")

    @cached_property
    def fields(self):
        return {
            "answer": Field((), "", object),
            "choice": Field((), 0, np.int32),
            "probabilities": Field((0,)),
        }

    @cached_property
    def preprocessor(self) -> ChoicePreprocessor:
        return task_preprocessor(self.folder)

    def answers(self, columns):
        examples = [
            ChoiceExample(str(i), passage, question, tuple(options))
            for i, (passage, question, options) in enumerate(zip(*columns, strict=True))
        ]
        of = self.preprocessor
        rows = self.rows(choice_features(examples, of.tokenizer, of.max_seq_length, of.max_qa_length))
        choices = [int(row["logits"].argmax()) for row in rows]
        return [
            {"answer": given[choice], "choice": choice, "probabilities": row["probabilities"]}
            for row, given, choice in zip(rows, columns[2], choices, strict=True)
        ]
