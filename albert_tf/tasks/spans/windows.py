"""Questions on long contexts as sliding windows: [CLS] question [SEP] part of the context [SEP]."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from albert_tf.tasks.features import Features
from albert_tf.tasks.problems import Problems, shown
from albert_tf.tasks.spans.rows import QuestionExample, answer_span
from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Tokenizer


@dataclass(frozen=True)
class Window:
    """One window of T tokens.

    Attributes:
      example_id: the question's id.
      input_ids: int32 [T].
      context_begin: the first token of the context; those before it are [CLS] question [SEP].
      offsets: int32 [context tokens, 2], the begin and end of each of them in the context, in characters.
      is_max_context: bool [T], whether no other window has more context around the token.
      start_position: the answer's first token; 0, [CLS], if the window does not contain a complete answer.
      end_position: its last token, or 0.
      is_impossible: whether the window does not contain a complete answer.
    """

    example_id: str
    input_ids: np.ndarray
    context_begin: int
    offsets: np.ndarray
    is_max_context: np.ndarray
    start_position: int = 0
    end_position: int = 0
    is_impossible: bool = True

    @cached_property
    def token_type_ids(self) -> np.ndarray:
        """int32 [T], 1 from the context's first token on."""
        return (np.arange(len(self.input_ids)) >= self.context_begin).astype(np.int32)

    @cached_property
    def p_mask(self) -> np.ndarray:
        """int32 [T], 1 at tokens that cannot belong to an answer; [CLS], for "no answer", is 0."""
        mask = np.ones(len(self.input_ids), np.int32)
        mask[0] = 0
        mask[self.context_begin : -1] = 0
        return mask

    @cached_property
    def begins(self) -> np.ndarray:
        """int32 [T], the character of the context at which a token begins; -1 outside the context."""
        return self._characters(0)

    @cached_property
    def ends(self) -> np.ndarray:
        """int32 [T], the character after a token's last one; -1 outside the context."""
        return self._characters(1)

    def _characters(self, side: int) -> np.ndarray:
        characters = np.full(len(self.input_ids), -1, np.int32)
        characters[self.context_begin : -1] = self.offsets[:, side]
        return characters

    def text(self, context: str, start: int, end: int) -> str:
        """The part of the context from one token of this window through another."""
        return context[self.begins[start] : self.ends[end]]


def question_windows(
    examples: Iterable[QuestionExample],
    tokenizer: Tokenizer,
    max_seq_length: int = 384,
    max_query_length: int = 64,
    doc_stride: int = 128,
) -> list[Window]:
    """The windows of questions, in the order of the questions and of their contexts.

    Args:
      examples: questions whose answers are at their offsets, as from `read_examples`.
      tokenizer: encodes the texts.
      max_seq_length: the maximum length of a window.
      max_query_length: longer questions are truncated at the end.
      doc_stride: the number of tokens between the starts of two consecutive windows.

    Returns:
      At least one window for each question.

    Raises:
      InputError: the lengths leave no room for the context, or the stride skips tokens.
    """
    examples = list(examples)
    least = max_seq_length - max_query_length - 3
    if least < 1 or not 1 <= doc_stride <= least:
        raise InputError(
            "`doc_stride` must be between 1 and the room beside the longest question, `max_seq_length` - "
            f"`max_query_length` - 3 = {least}. Received {doc_stride}."
        )
    contexts = list(dict.fromkeys(example.context for example in examples))
    encodings = dict(zip(contexts, tokenizer.encode_batch_with_offsets(contexts), strict=True))
    queries = tokenizer.encode_batch([example.question for example in examples], max_query_length)
    windows: list[Window] = []
    for example, query in zip(examples, queries, strict=True):
        encoding = encodings[example.context]
        head = np.concatenate([[tokenizer.cls_id], query[:max_query_length], [tokenizer.sep_id]]).astype(
            np.int32
        )
        span = gold_tokens(example, encoding.offsets)
        places = _places(len(encoding.ids), max_seq_length - len(head) - 1, doc_stride)
        for (begin, end), is_max in zip(places, _max_context(places, len(encoding.ids)), strict=True):
            ids = np.concatenate([head, encoding.ids[begin:end], [tokenizer.sep_id]]).astype(np.int32)
            is_max_context = np.zeros(len(ids), bool)
            is_max_context[len(head) : -1] = is_max
            inside = span is not None and begin <= span[0] and span[1] < end
            start, last = (span[0], span[1]) if inside and span is not None else (0, 0)
            shift = len(head) - begin if inside else 0
            windows.append(
                Window(
                    example.id, ids, len(head), encoding.offsets[begin:end], is_max_context, start + shift,
                    last + shift, not inside,
                )
            )  # fmt: skip
    return windows


def gold_tokens(example: QuestionExample, offsets: np.ndarray) -> tuple[int, int] | None:
    """The first and last of the context's tokens that the answer covers; None if there is no answer.

    The first answer that begins and ends at piece boundaries is preferred; if there is none ("gold" in "golden"),
    the first answer is extended to piece boundaries.

    Args:
      example: a question with its context.
      offsets: int32 [T, 2], the begin and end characters of the context's T tokens.
    """
    if example.is_impossible:
        return None
    fallback = None
    for answer, start in dict.fromkeys(zip(example.answers, example.answer_starts, strict=True)):
        span = answer_span(example.context, answer, start)
        if span is None:
            continue
        overlaps = np.flatnonzero((offsets[:, 0] < span[1]) & (offsets[:, 1] > span[0]))
        if not len(overlaps):
            continue
        first, last = int(overlaps[0]), int(overlaps[-1])
        if offsets[first, 0] >= span[0] and offsets[last, 1] <= span[1]:
            return first, last
        fallback = fallback or (first, last)
    return fallback


def report_unreachable(
    examples: Iterable[QuestionExample], windows: Iterable[Window], problems: Problems
) -> None:
    """Reports questions whose answer is longer than a window. Training treats them as having no answer."""
    reachable = {window.example_id for window in windows if not window.is_impossible}
    for example in examples:
        if example.answers and not example.is_impossible and example.id not in reachable:
            detail = f"{len(example.answers[0])} characters, {shown(example.answers[0])}"
            problems.add(
                "answer in no window", f"question {example.id}", detail, outcome='treated as "no answer"'
            )


def window_features(windows: Sequence[Window]) -> list[Features]:
    """Windows as arrays for `bucketed_batches`.

    Returns:
      For each window of T tokens: input_ids, token_type_ids and p_mask, int32 [T]; start_positions, end_positions
      and is_impossible, int32 [].
    """
    return [
        {
            "input_ids": window.input_ids,
            "token_type_ids": window.token_type_ids,
            "p_mask": window.p_mask,
            "start_positions": np.array(window.start_position, np.int32),
            "end_positions": np.array(window.end_position, np.int32),
            "is_impossible": np.array(window.is_impossible, np.int32),
        }
        for window in windows
    ]


def _places(length: int, room: int, stride: int) -> list[tuple[int, int]]:
    """The begin and end of each window over a context's tokens; the last window ends with the context."""
    places = []
    begin = 0
    while True:
        end = min(length, begin + room)
        places.append((begin, end))
        if end == length:
            return places
        begin += stride


def _max_context(places: list[tuple[int, int]], length: int) -> list[np.ndarray]:
    """For each window, which of its tokens have more context than in any other window; the earlier wins a tie.

    The score is the original's: the context on the shorter side plus a hundredth of the window's length.
    """
    if len(places) == 1:
        return [np.ones(length, bool)]
    best, best_score = np.zeros(length, np.int32), np.full(length, -1.0)
    for i, (begin, end) in enumerate(places):
        position = np.arange(begin, end)
        score = np.minimum(position - begin, end - 1 - position) + 0.01 * (end - begin)
        is_better = score > best_score[begin:end]
        best[begin:end][is_better], best_score[begin:end][is_better] = i, score[is_better]
    return [best[begin:end] == i for i, (begin, end) in enumerate(places)]
