"""What a row of a downstream task says, whatever file it came from."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TextExample:
    """A text or a pair of texts with a class or a number.

    Attributes:
      id: as the file has it, else the row's number from 0.
      text_a: the first text.
      text_b: the second one; None for tasks on single texts.
      label: a class's name, or a number in regression; None where it is not known, as in a test set.
    """

    id: str
    text_a: str
    text_b: str | None = None
    label: str | float | None = None


@dataclass(frozen=True)
class ChoiceExample:
    """A passage, a question on it and its answers to choose from, as in RACE.

    Attributes:
      id: unique in its set.
      passage: what the question is about.
      question: the question; an answer takes the place of "_" in it.
      options: the answers.
      label: which answer is right, from 0; None where it is not known.
      group: "middle" or "high" in RACE, else "".
    """

    id: str
    passage: str
    question: str
    options: tuple[str, ...]
    label: int | None = None
    group: str = ""


@dataclass(frozen=True)
class QuestionExample:
    """A question whose answer is a span of its context, as in SQuAD.

    Attributes:
      id: the file's.
      question: the question.
      context: where the answer stands.
      answers: all accepted answers; none if there is no answer, or in a test set.
      answer_starts: where each begins in `context`, in characters (code points).
      is_impossible: the file says that `context` does not answer it (SQuAD 2.0).
    """

    id: str
    question: str
    context: str
    answers: tuple[str, ...] = ()
    answer_starts: tuple[int, ...] = ()
    is_impossible: bool = False


@dataclass(frozen=True)
class WordsExample:
    """A sentence in words with a label each, as in named-entity recognition.

    Attributes:
      id: the sentence's number from 0.
      words: at least one.
      labels: one a word; None where they are not known.
    """

    id: str
    words: tuple[str, ...]
    labels: tuple[str, ...] | None = None


Example = TextExample | ChoiceExample | QuestionExample | WordsExample
