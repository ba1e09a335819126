"""Where the answers of a question stand in its context."""

import re
from dataclasses import replace

from data_prep.tasks.examples import QuestionExample
from data_prep.tasks.problems import Problems
from data_prep.tasks.tables import shown


def answer_span(context: str, answer: str, start: int) -> tuple[int, int] | None:
    """Begin and end of an answer that stands at `start`, in characters; None if it does not.

    White space is no difference, neither around the answer nor how much of it lies between its words.

    >>> answer_span("It was  the\\nlast one.", " the last", 7)
    (8, 16)
    """
    words = answer.split()
    if not words or not 0 <= start <= len(context):
        return None
    if context.startswith(answer, start):  # nearly always; no pattern to compile
        begin = start + len(answer) - len(answer.lstrip())
        return begin, begin + len(answer.strip())
    place = re.compile(r"\s*(" + r"\s+".join(map(re.escape, words)) + ")").match(context, start)
    # A start inside the white space before an answer is the same place as one after it.
    return place.span(1) if place else None


def located(
    example: QuestionExample, source: str, problems: Problems, *, is_training: bool
) -> QuestionExample | None:
    """An example whose answers are where they are said to be, or None if training can't use it.

    An answer that stands elsewhere, but once only, is taken from there. In evaluation a question stays in,
    whatever is wrong with its answers, for its score counts.

    Args:
      example: a question with answers.
      source: where it is, for messages.
      problems: collects answers that are not at their offset.
      is_training: whether a question without a usable answer is left out.
    """
    starts = list(example.answer_starts)
    seen: set[tuple[str, int]] = set()
    usable = False
    for i, (answer, start) in enumerate(zip(example.answers, example.answer_starts, strict=True)):
        if answer_span(example.context, answer, start):
            usable = True
            continue
        places = _places(example.context, answer)
        if len(places) == 1:
            starts[i] = places[0]
            usable = True
        if (answer, start) not in seen:
            _tell(example, source, problems, answer, start, places, is_training)
        seen.add((answer, start))
    if not usable and is_training:
        return None
    if is_training:
        kept = [
            i for i, start in enumerate(starts) if answer_span(example.context, example.answers[i], start)
        ]
        return replace(
            example,
            answers=tuple(example.answers[i] for i in kept),
            answer_starts=tuple(starts[i] for i in kept),
        )
    return replace(example, answer_starts=tuple(starts))


def _places(context: str, answer: str) -> list[int]:
    words = answer.split()
    if not words:
        return []
    return [place.start() for place in re.finditer(r"\s+".join(map(re.escape, words)), context)]


def _tell(
    example: QuestionExample,
    source: str,
    problems: Problems,
    answer: str,
    start: int,
    places: list[int],
    is_training: bool,
) -> None:
    found = example.context[max(start, 0) :][: len(answer)]
    detail = f"{shown(answer)} at {start}, where the context has {shown(found)}"
    if len(places) == 1:
        outcome = "taken from the only place where it stands"
        detail += f"; it stands at {places[0]}"
    else:
        outcome = "left out" if is_training else "kept for evaluation"
        detail += f"; it stands at {len(places) or 'no'} places"
    problems.add("answer not at its offset", f"{source}, question {example.id}", detail, outcome=outcome)
