"""Question and context in, answer out: what a fine-tuned model serves, which slides windows.

question, context --tokenize--> windows (W, T) of all B questions --model--> scores --best span of each window-->
    --best window of each question--> answer, cut from the context
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.tasks.features import IMPOSSIBLE
from albert_tf.tasks.hub_names import from_hub_names
from albert_tf.tasks.serialized import EXAMPLES, example_batch
from albert_tf.tasks.served import (
    FromIds,
    FromStrings,
    at_least_masked,
    model_function,
    random_ids,
    repeated,
)
from albert_tf.tasks.spans.answers import EVEN_ODDS
from albert_tf.tasks.spans.graph_windows import GraphWindows, Windows
from albert_tf.tasks.spans.model import QuestionAnswering
from data_prep.errors import InputError
from data_prep.in_graph import make_graph_tokenizer
from data_prep.tokenizers.vocabulary import Tokenizer

_INPUTS = [
    tf.TensorSpec([None], tf.string, name="question"),
    tf.TensorSpec([None], tf.string, name="context"),
]
_NONE = -np.inf  # the score of a span that is not an answer
_SPACE_AT_END = r"[\s\pZ\x0b\x1c-\x1f\x{85}]+$"
_QUESTION = "Who painted the lighthouse?"
_CONTEXT = "The captain sailed past. His brother painted the lighthouse."
_EXAMPLE = """
import tensorflow as tf
import tensorflow_text  # registers the tokenizer's operations

answer = tf.saved_model.load(".")
context = "The captain sailed past. His brother painted the lighthouse."
outputs = answer(tf.constant(["Who painted the lighthouse?"]), tf.constant([context]))
print({name: array.numpy() for name, array in outputs.items()})
"""


class _Spans(NamedTuple):
    """M candidates of each of W windows: tokens and scores, (W, M)."""

    starts: tf.Tensor
    ends: tf.Tensor
    scores: tf.Tensor


def spans_from_strings(
    model: QuestionAnswering,
    tokenizer: Tokenizer,
    max_answer_length: int = 30,
    null_threshold: float = EVEN_ODDS,
) -> FromStrings:
    """The model with its tokenizer, from a question and a context of any length to the answer.

    The object is called with questions and contexts, string (B,). It returns `answer`, string (B,), a substring of
    the context; `begin`, int32 (B,), the character (code point) of the context at which it begins; and `score`,
    float32 (B,), by which the answer was chosen: the sum of the two logits, or log probabilities. Windows slide
    over the context as in fine-tuning. A model that was trained with unanswerable questions also returns
    `null_odds`, float32 (B,), the log odds that there is no answer; above `null_threshold` the answer is "" and
    `begin` -1, as for a context without words. `.examples` takes the ids of windows, [CLS] question [SEP] context
    [SEP], as serialized tf.train.Example messages, string (W,), and returns the model's scores as `window_outputs`
    does. The signature `serving_default` has the inputs `question` and `context`; `examples` has `examples`.

    Args:
      model: the fine-tuned model.
      tokenizer: the tokenizer of its vocabulary.
      max_answer_length: in tokens.
      null_threshold: the null odds above which there is no answer.

    Raises:
      InputError: `max_answer_length` is less than 1.
    """
    check_answer_length(max_answer_length)
    windows_of = GraphWindows(make_graph_tokenizer(tokenizer), tokenizer, model.preprocessor)
    scores_of = model_function(model)

    def answer(questions, contexts):
        windows = windows_of(questions, contexts)
        outputs = scores_of(windows.batch)
        spans = _beam_spans(outputs) if model.answerable else _all_spans(outputs, max_answer_length)
        begins, ends, scores = _best_of_windows(spans, windows, max_answer_length)
        row, scores = _best_of_questions(scores, windows.rows, tf.shape(contexts)[0])
        begins, ends = tf.gather(begins, row), tf.gather(ends, row)
        has_answer = scores > _NONE
        results = {"score": tf.maximum(scores, IMPOSSIBLE)}  # JSON has no infinity
        if model.answerable:
            answerable = tf.math.segment_max(outputs["answerable_logits"], windows.rows)
            results["null_odds"] = -answerable
            has_answer &= -answerable <= null_threshold
        begins = tf.where(has_answer, begins, 0)
        texts = tf.strings.substr(contexts, begins, tf.where(has_answer, ends - begins, 0))
        texts = tf.strings.regex_replace(texts, _SPACE_AT_END, "")  # a final "▁" stands for it
        before = tf.strings.substr(contexts, tf.zeros_like(begins), begins)
        before = tf.strings.length(before, unit="UTF8_CHAR")
        return {"answer": texts, "begin": tf.where(has_answer, before, -1), **results}

    def answer_examples(examples):
        return window_outputs(scores_of, example_batch(examples, model.encoder.config))

    def check(loaded):
        questions, contexts = [_QUESTION] * 2, [_CONTEXT, " ".join([_CONTEXT] * 50)]
        outputs = loaded(tf.constant(questions), tf.constant(contexts))
        found = model.best_answers(questions, contexts, max_answer_length=max_answer_length)
        ours = [answers[0].start_score + answers[0].end_score for answers in found.n_best.values()]
        # If no span can be an answer, our score is 0.
        theirs = tf.where(outputs["score"] > IMPOSSIBLE, outputs["score"], 0.0)
        checked = {"score": (theirs, np.array(ours))}
        if found.null_odds:
            checked["null_odds"] = (outputs["null_odds"], np.array(list(found.null_odds.values())))
        return checked

    warmup = [{"question": [_QUESTION], "context": [context]} for context in (_CONTEXT, repeated(_CONTEXT))]
    return FromStrings(
        {"serving_default": (answer, _INPUTS), "examples": (answer_examples, [EXAMPLES])},
        {"windows": windows_of},
        check,
        _EXAMPLE,
        warmup,
    )


def spans_from_ids(model: QuestionAnswering, max_answer_length: int = 30) -> FromIds:
    """What `window_outputs` returns of [CLS] question [SEP] context [SEP]."""
    check_answer_length(max_answer_length)

    def answer(inputs):
        return window_outputs(partial(model, training=False), from_hub_names(inputs))

    sample = random_ids(model)
    places = np.arange(sample["input_mask"].shape[1])
    sample["input_type_ids"] = ((places >= 3) & (sample["input_mask"] > 0)).astype("int32")
    ids, types = "[[2, 13, 3, 7, 9, 1, 3]]", 'np.array([[0, 0, 0, 1, 1, 1, 1]], "int32")'
    options = {"max_answer_length": max_answer_length}
    return FromIds(answer, sample, options, example_ids=ids, example_types=types)


def window_outputs(scores_of: Callable[[dict], dict], batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """The model's outputs for windows [CLS] question [SEP] context [SEP].

    An answer consists of tokens of type 1 without the last; [CLS] stands for no answer. No logit or log
    probability is below MASKED_LOGIT, which all other tokens have.

    Args:
      scores_of: the fine-tuned model, without dropout.
      batch: `input_ids`, `input_mask` and `token_type_ids`, int32 (W, T).

    Returns:
      `start_logits` and `end_logits`, float32 (W, T); for a model with unanswerable questions the outputs of
      `ConditionalSpanHead`, with the K best starts and the K best ends of each.
    """
    outputs = scores_of({**batch, "p_mask": _cannot_answer(batch)})
    # Log probabilities of masked tokens are lower still, and -inf in float16.
    return {
        name: at_least_masked(array) if array.dtype.is_floating else array for name, array in outputs.items()
    }


def _cannot_answer(inputs: dict[str, tf.Tensor]) -> tf.Tensor:
    """1 for tokens that are neither in the context nor [CLS], int32 (W, T)."""
    is_second = inputs["token_type_ids"] * inputs["input_mask"]
    is_context = is_second * tf.pad(is_second, [[0, 0], [0, 1]])[:, 1:]  # without the last, which is [SEP]
    is_first = tf.cast(tf.cumsum(tf.ones_like(is_context), axis=1) == 1, tf.int32)
    return 1 - tf.maximum(is_context, is_first)


def check_answer_length(max_answer_length: int) -> None:
    """Raises InputError if no answer is short enough."""
    if max_answer_length < 1:
        raise InputError(f"--max_answer_length must be at least 1. Received {max_answer_length}.")


def _all_spans(outputs: dict, max_answer_length: int) -> _Spans:
    """Every start with every end up to `max_answer_length` tokens: M = T * max_answer_length."""
    W, T = tf.unstack(tf.shape(outputs["start_logits"]))
    starts = tf.repeat(tf.range(T), max_answer_length)
    ends = starts + tf.tile(tf.range(max_answer_length), [T])
    inside = ends < T
    ends = tf.minimum(ends, T - 1)
    scores = tf.gather(outputs["start_logits"], starts, axis=1) + tf.gather(
        outputs["end_logits"], ends, axis=1
    )
    scores = tf.where(inside, scores, _NONE)
    return _Spans(tf.repeat(starts[tf.newaxis], W, 0), tf.repeat(ends[tf.newaxis], W, 0), scores)


def _beam_spans(outputs: dict) -> _Spans:
    """Every start of the beam with its own ends: M = K * J."""
    ends = outputs["end_top_index"]
    J = tf.shape(ends)[1] // tf.shape(outputs["start_top_index"])[1]
    starts = tf.repeat(outputs["start_top_index"], J, axis=1)
    scores = tf.repeat(outputs["start_top_log_probs"], J, axis=1) + outputs["end_top_log_probs"]
    return _Spans(starts, ends, scores)


def _best_of_windows(
    spans: _Spans, windows: Windows, max_answer_length: int
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Where each window's best span begins and ends, in bytes of the context, and its score, each (W,)."""

    def at(values, tokens):
        return tf.gather(values, tokens, batch_dims=1)

    begins, ends = at(windows.begins, spans.starts), at(windows.ends, spans.ends)
    is_answer = (
        at(windows.is_max_context, spans.starts)
        & (spans.starts <= spans.ends)
        & (spans.ends < spans.starts + max_answer_length)
        & (begins >= 0)
        & (ends > begins)  # a "▁" alone stands for no text
    )
    scores = tf.where(is_answer, spans.scores, _NONE)
    best = tf.argmax(scores, axis=1)[:, tf.newaxis]
    return at(begins, best)[:, 0], at(ends, best)[:, 0], at(scores, best)[:, 0]


def _best_of_questions(scores: tf.Tensor, rows: tf.Tensor, B: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The best window of each question, the first of equal ones, and its score, each (B,)."""
    best = tf.math.segment_max(scores, rows)
    is_best = scores == tf.gather(best, rows)
    windows = tf.where(is_best, tf.range(tf.size(rows)), tf.size(rows))
    return tf.reshape(tf.math.segment_min(windows, rows), [B]), tf.reshape(best, [B])
