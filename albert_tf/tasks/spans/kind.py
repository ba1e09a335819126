"""The kind of task that finds the answer to a question in a text."""

from types import MappingProxyType
from typing import Any

from albert_tf.tasks.collapse import one_answer
from albert_tf.tasks.kind import Kind, check_no_odds
from albert_tf.tasks.spans.answer_files import (
    n_best_file,
    read_answers,
    read_n_best,
    read_odds,
    write_answers,
)
from albert_tf.tasks.spans.answers import EVEN_ODDS, average_answers, predict_answers
from albert_tf.tasks.spans.features import QuestionPreprocessor
from albert_tf.tasks.spans.metrics import (
    choose_threshold,
    evaluate_squad1,
    evaluate_squad2,
    may_lack_answers,
)
from albert_tf.tasks.spans.rows import question_examples
from albert_tf.tasks.spans.squad_json import read_squad_file
from albert_tf.tasks.spans.strings import SpanAnswering
from albert_tf.tasks.spans.windows import report_unreachable
from data_prep.text.sources import is_json_array

_BEAM = MappingProxyType(
    {
        "answerable_logits": "B",
        "start_top_log_probs": "B, K",
        "start_top_index": "B, K",
        "end_top_log_probs": "B, K*K",
        "end_top_index": "B, K*K",
    }
)
_SQUAD_SUFFIX = ".json"  # an object; a table is an array


class Spans(Kind):
    """The answer to a question is a span of its context, or there is none, as in SQuAD."""

    name = "question_answering"
    export = "question-answering"
    metrics = ("f1", "exact_match")
    preprocessor = QuestionPreprocessor
    needs_gold = True
    scores_in_percent = True
    texts = needed = ("question", "context")
    is_one_text = False
    other_files = ", or SQuAD's .json"
    usual_length = 384
    predictions_suffix = ".json"
    export_options = ("max_answer_length",)
    call = 'model(["Who painted the lighthouse?"], ["His brother painted the lighthouse."])'
    answering = SpanAnswering
    outputs = MappingProxyType({"start_logits": "B, T", "end_logits": "B, T"})
    output = ""
    needs_offsets = True

    @property
    def model(self):
        from albert_tf.tasks.spans.model import QuestionAnswering

        return QuestionAnswering

    # Rows

    def examples(self, rows, first, split):
        return question_examples(rows, first, split)

    def is_table(self, file, suffix):
        return suffix != _SQUAD_SUFFIX or is_json_array(file)

    def read_file(self, file, suffix, split):
        return None if self.is_table(file, suffix) else read_squad_file(file, split)

    def label(self, example):
        return example.answers

    def without_label(self, example):
        return example

    # Training

    def check_metrics(self):
        pass  # they need no package

    def has_answers(self, task, splits):
        """Whether the answers to some questions are known; that none of them has one is known, too."""
        questions: list[Any] = [example for split in splits for example in split.examples]
        if any(question.answers for question in questions):
            return True
        return task.answerable and all(question.is_impossible for question in questions)

    def report_training(self, split, problems):
        report_unreachable(split.examples, split.windows, problems)

    def has_dropout(self, task):
        return task.answerable

    def model_arguments(self, task, labels, settings):
        return {
            **super().model_arguments(task, labels, settings),
            "answerable": task.answerable,
            "beam": settings.start_n_top,
            "end_beam": settings.end_n_top,
        }

    # Predictions and metrics

    def predictions(self, split, rows, model, max_answer_length=30, n_best=20):
        return predict_answers(
            split.examples, split.windows, rows, n_best=n_best, max_answer_length=max_answer_length
        )

    def measure(self, task, splits, predictions):
        if not self.has_answers(task, splits):
            return {}
        # The answers alone decide, as in the official script, also if `is_impossible` differs.
        answers = {example.id: example.answers for split in splits for example in split.examples}
        texts = {id_: text for one in predictions for id_, text in one.texts().items()}
        if task.answerable:
            null_odds = {id_: odds for one in predictions for id_, odds in (one.null_odds or {}).items()}
            metrics = evaluate_squad2(answers, texts, null_odds, na_prob_thresh=EVEN_ODDS)
            return {**_without_totals(metrics), "threshold": choose_threshold(answers, texts, null_odds)}
        if may_lack_answers(task, answers):
            return _without_totals(evaluate_squad2(answers, texts))
        answers = {id_: accepted for id_, accepted in answers.items() if accepted}
        return evaluate_squad1(answers, {id_: texts[id_] for id_ in answers})

    def collapse(self, splits, parts):
        """No question has an answer, or nearly all answers begin at the same character."""
        pairs = []
        for split, found in zip(splits, parts, strict=True):
            texts = found.texts(self.threshold(found, {one.id: one.answers for one in split.examples}, None))
            for one in split.examples:
                start = found.n_best[one.id][0].answer_start if texts[one.id] else None
                pairs.append((start, next(iter(one.answer_starts), None)))
        return one_answer(
            pairs, shown=lambda start: "no answer" if start is None else f"answers from character {start}"
        )

    def measure_kept(self, task, parts, answers=None, threshold=None):
        if answers is None:
            return {}
        (predictions,) = parts
        if not may_lack_answers(task, answers):
            return evaluate_squad1(answers, predictions.texts())
        chosen = self.threshold(predictions, answers, threshold)
        if predictions.null_odds is None or chosen is None:
            return evaluate_squad2(answers, predictions.texts())
        metrics = evaluate_squad2(answers, predictions.texts(), predictions.null_odds, na_prob_thresh=chosen)
        return {**metrics, "threshold": chosen}

    def measure_file(self, task, answers, predictions, null_odds, na_prob_thresh):
        texts = read_answers(predictions)
        odds = read_odds(null_odds) if null_odds else None
        if may_lack_answers(task, answers):
            return evaluate_squad2(answers, texts, odds, na_prob_thresh=na_prob_thresh)
        check_no_odds(task, null_odds)
        return evaluate_squad1(answers, texts)

    def lines(self, examples, predictions, null_threshold):
        texts = predictions.texts(null_threshold)
        for example in examples:
            best = predictions.n_best[example.id][0]
            line: dict[str, Any] = {"answer": texts[example.id]}
            if texts[example.id]:  # else these would be those of the text that was rejected
                line |= {"probability": best.probability, "answer_start": best.answer_start}
            if predictions.null_odds is not None:
                line["null_odds"] = predictions.null_odds[example.id]
            yield line

    # Exports

    def from_strings(self, model, tokenizer, null_threshold, **options):
        from albert_tf.tasks.spans.serving import spans_from_strings

        return spans_from_strings(model, tokenizer, null_threshold=null_threshold, **options)

    def from_ids(self, model, **options):
        from albert_tf.tasks.spans.serving import spans_from_ids

        return spans_from_ids(model, **options)

    def outputs_of(self, answerable):
        return _BEAM if answerable else self.outputs

    # Files of predictions

    def keep(self, run, split, predictions, threshold):
        write_answers(run, split, predictions, threshold)

    def kept_file(self, run, split):
        return n_best_file(run, split)

    def read_kept(self, run, split):
        return read_n_best(run, split)

    def average(self, members):
        return average_answers(members)

    def threshold(self, predictions, answers, given):
        if given is not None or predictions.null_odds is None:
            return given
        return choose_threshold(answers, predictions.texts(), predictions.null_odds) if answers else EVEN_ODDS


def _without_totals(metrics):
    return {name: value for name, value in metrics.items() if not name.endswith("total")}


SPANS = Spans()
