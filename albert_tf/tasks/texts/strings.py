"""Texts and pairs of texts to classes or numbers, without TensorFlow."""

import numpy as np

from albert_tf.tasks.answering import Answering, Field


class TextAnswering(Answering):
    """Texts, or pairs of texts, to classes or `score` (B,).

    A classifier returns `label` (B,), or `has_label` (B, C) if a text may have several, `labels` and
    `probabilities` (B, C).
    """

    pair_columns = ("text", "text_pair")

    @property
    def fields(self):
        C = len(self.facts.labels)
        if not C:
            return {"score": Field()}
        is_set = bool(self.facts.thresholds)
        decision = {"has_label": Field((C,), False, bool)} if is_set else {"label": Field((), "", object)}
        return {**decision, "labels": Field((C,), "", object), "probabilities": Field((C,))}

    def answers(self, columns, rows):
        features = self.preprocessor.features(tuple(columns) if len(columns) > 1 else columns[0])
        return list(map(self._answer, rows(features)))

    def _answer(self, row):
        facts = self.facts
        if not facts.labels:
            return {"score": float(row["score"])}
        labels, probabilities = np.array(facts.labels, object), row["probabilities"]
        if facts.thresholds:
            decision = {"has_label": probabilities >= np.array(facts.thresholds, np.float32)}
        else:
            decision = {"label": labels[row["logits"].argmax()]}
        return {**decision, "labels": labels, "probabilities": probabilities}
