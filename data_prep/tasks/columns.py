"""Which columns of the user's own files are what: named ones, else the usual names."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

from data_prep.errors import InputError

_USUAL = {
    "text_a": ("text_a", "text", "sentence1", "sentence"),
    "text_b": ("text_b", "sentence2"),
    "label": ("label", "labels", "score"),
    "id": ("id", "index", "idx"),
    "passage": ("passage", "article", "context"),
    "question": ("question",),
    "options": ("options", "choices"),
    "context": ("context", "passage"),
    "answer": ("answers", "answer"),
    "answer_start": ("answer_start", "answer_starts"),
    "words": ("words", "tokens"),
    "word_labels": ("labels", "tags", "ner_tags"),
}


@dataclass(frozen=True)
class Columns:
    """Names of columns; None finds one of the usual names, which may also be absent.

    Attributes:
      text_a: the first text; text_a, text, sentence1, sentence.
      text_b: the second one; text_b, sentence2. Without one, texts are single.
      label: a class, a number, or the right option's number from 0, letter or text; label, labels, score.
      id: id, index, idx; else the row's number from 0.
      passage: passage, article, context; multiple choice can do without.
      question: question.
      options: a list, or several columns that begin with this (option_a, option_b, ...); options, choices.
      context: where an answer stands; context, passage.
      answer: a text or a list of them; answers, answer.
      answer_start: a number or a list of them, in characters; answer_start, answer_starts. Without it an answer
        must stand in its context once.
      words: a list; words, tokens.
      word_labels: a list as long; labels, tags, ner_tags.
    """

    text_a: str | None = None
    text_b: str | None = None
    label: str | None = None
    id: str | None = None
    passage: str | None = None
    question: str | None = None
    options: str | None = None
    context: str | None = None
    answer: str | None = None
    answer_start: str | None = None
    words: str | None = None
    word_labels: str | None = None

    @classmethod
    def named(cls, column_names: str) -> "Columns":
        """Those of --column_names, "text_a=review,label=stars".

        Raises:
          InputError: it is no such list.
        """
        pairs = [pair.partition("=") for pair in column_names.split(",") if pair]
        known = [field.name for field in dataclasses.fields(cls)]
        for name, _, value in pairs:
            if name.strip() not in known or not value:
                raise InputError(
                    f"--column_names is a list of COLUMN=NAME, COLUMN one of {', '.join(known)}. Received "
                    f"{column_names!r}."
                )
        return cls(**{name.strip(): value for name, _, value in pairs})

    def find(self, what: str, names: Iterable[str], source: str) -> str | None:
        """The name of a column among those that are there; None if it is not named and none is usual.

        Raises:
          InputError: the named column is not there.
        """
        names = list(names)
        named = getattr(self, what)
        if named is None:
            return next((name for name in _USUAL[what] if name in names), None)
        if named not in names:
            raise InputError(
                f"The column for `{what}` must be in the file. {source} has no {named!r}, "
                f"only: {', '.join(map(str, names))}."
            )
        return named

    def need(self, what: str, names: Iterable[str], source: str) -> str:
        """As `find`, for what a task cannot do without.

        Raises:
          InputError: the column is not there.
        """
        names = list(names)
        found = self.find(what, names, source)
        if found is None:
            raise InputError(
                f"A column for `{what}` must be there, named {' or '.join(_USUAL[what])} or as you say. "
                f"{source} has only: {', '.join(map(str, names)) or 'none'}."
            )
        return found
