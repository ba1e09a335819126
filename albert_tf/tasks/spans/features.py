"""Questions and contexts as arrays: windows, which a cache may keep."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from albert_tf.tasks.feature_cache import cached_features, examples_hash, tokenizer_hash
from albert_tf.tasks.features import Features
from albert_tf.tasks.preprocessor import Preprocessor, as_texts, check_lengths, columns_of
from albert_tf.tasks.problems import shown
from albert_tf.tasks.spans.rows import QuestionExample, answer_places, answer_span
from albert_tf.tasks.spans.windows import Window, question_windows, window_features
from albert_tf.tasks.splits import EncodedSplit
from albert_tf.tasks.values import as_number
from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Vocabulary

_ID = "example_id"


class QuestionPreprocessor(Preprocessor):
    """Takes a tuple of questions and contexts; a long context becomes several overlapping windows.

    Labels are answers, "" for none, or a tuple of answers and the positions of their first characters. An answer
    that is not at its position, or has none, must occur exactly once in its context.

    Args:
      vocabulary: the encoder's.
      max_seq_length: longest window.
      max_query_length: longer questions are truncated. Default: 64, but at most a quarter of a window.
      doc_stride: tokens between the starts of successive windows. Default: 128, but at most a third of a window.
    """

    parts, label_parts = ("question", "context"), ("answer", "answer_start")
    more_lengths = ("max_query_length", "doc_stride")

    def __init__(
        self,
        vocabulary: Vocabulary,
        max_seq_length: int = 384,
        max_query_length: int | None = None,
        doc_stride: int | None = None,
    ):
        super().__init__(vocabulary, max_seq_length)
        query, stride = _most_in_window(max_seq_length)
        self.max_query_length = min(64, query) if max_query_length is None else max_query_length
        self.doc_stride = min(128, stride) if doc_stride is None else doc_stride

    def features(self, x, y=None, classes=()):
        windows = self.windows(self.examples(x, y))
        return self.inputs(windows) if y is None else window_features(windows)

    def inputs(self, windows: Sequence[Window]) -> list[Features]:
        """The arrays of windows, without labels."""
        return [
            {name: arrays[name] for name in ("input_ids", "token_type_ids", "p_mask")}
            for arrays in window_features(windows)
        ]

    def examples(self, x, y=None, classes=()) -> list[QuestionExample]:
        questions, contexts = map(as_texts, columns_of(x, 2))
        answers, *starts = ([""] * len(questions),) if y is None else columns_of(y, 1, 2)
        check_lengths(questions, answers)
        given = starts[0] if starts else [None] * len(answers)
        rows = zip(questions, contexts, as_texts(answers), given, strict=True)
        return [
            QuestionExample(str(i), question, context, (answer,), (_start(answer, context, start, i),))
            if answer
            else QuestionExample(str(i), question, context, is_impossible=True)
            for i, (question, context, answer, start) in enumerate(rows)
        ]

    def shorten(self, longest):
        """Lowers question and stride, too, to what a window has room for."""
        super().shorten(longest)
        query, stride = _most_in_window(self.max_seq_length)
        self.max_query_length = min(self.max_query_length, query)
        self.doc_stride = min(self.doc_stride, stride)

    def windows(self, examples: Sequence[QuestionExample]) -> list[Window]:
        """The windows of the questions, one or more for each, in order."""
        return question_windows(
            examples, self.tokenizer, self.max_seq_length, self.max_query_length, self.doc_stride
        )

    def split(self, name, examples, classes=(), cache: Path | None = None):
        if cache is None:
            windows = self.windows(examples)
        else:
            key = {
                "questions": examples_hash(examples),
                "tokenizer": tokenizer_hash(self.tokenizer),
                "lengths": [self.max_seq_length, self.max_query_length, self.doc_stride],
            }
            made = cached_features(cache, key, lambda: list(map(_arrays, self.windows(examples))))
            windows = list(map(_window, made))
        return EncodedSplit(name, examples, window_features(windows), windows)

    def count_cut(self, split, classes=()):
        return 0  # contexts have windows instead


def _most_in_window(max_seq_length: int) -> tuple[int, int]:
    """The most tokens that a question takes of a window, and that lie between the starts of two windows."""
    return max_seq_length // 4, max_seq_length // 3


def _start(answer: str, context: str, given, number: int) -> int:
    """The position of an answer's first character: the given one, or where it occurs only once."""
    start = -1 if given is None else as_number(given)
    if start is None or start != int(start):
        raise InputError(
            f"The position of an answer's first character must be a whole number. Received {given!r} in number "
            f"{number}."
        )
    if answer_span(context, answer, int(start)):
        return int(start)
    places = answer_places(context, answer)
    if len(places) != 1:
        where = "without a position" if given is None else f"at {given}"
        raise InputError(
            "An answer must be in its context at its position, or exactly once. Received, in number "
            f"{number}, {shown(answer)} {where}; it occurs {len(places) or 'no'} times."
        )
    return places[0]


def _arrays(window: Window) -> Features:
    return {
        _ID: np.array(window.example_id),
        "input_ids": window.input_ids,
        "context_begin": np.array(window.context_begin, np.int32),
        "offsets": window.offsets,
        "is_max_context": window.is_max_context,
        "gold": np.array([window.start_position, window.end_position, window.is_impossible], np.int32),
    }


def _window(arrays: Features) -> Window:
    start, end, is_impossible = arrays["gold"].tolist()
    return Window(
        str(arrays[_ID]),
        arrays["input_ids"],
        int(arrays["context_begin"]),
        arrays["offsets"],
        arrays["is_max_context"],
        start,
        end,
        bool(is_impossible),
    )
