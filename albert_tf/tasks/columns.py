"""The columns of the user's own files: as named by the user, else by their usual names."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from data_prep.errors import InputError, check_given_once

if TYPE_CHECKING:  # it imports NumPy, which the help of commands does without
    from albert_tf.checkpoints.stored import StoredModel

LABEL_SEPARATOR = ","
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
    "anchor": ("anchor", "query"),
    "positive": ("positive",),
    "negatives": ("negatives", "negative"),
}


class TextColumns(NamedTuple):
    """The names of the columns of texts and their labels; `text_b` is None for single texts."""

    text_a: str
    text_b: str | None
    label: str = "label"
    id: str = "index"


# What a test set may lack.
ANSWERS = ("label", "answer", "answer_start", "word_labels")


@dataclass(frozen=True)
class Columns:
    """The names of columns. None stands for the first of the usual names that the file has.

    Attributes:
      text_a: the first text. Usual names: text_a, text, sentence1, sentence.
      text_b: the second text, if texts come in pairs: text_b, sentence2.
      label: a class, several classes, a number, or the correct option (its number from 0, its letter or its
        text): label, labels, score.
      id: id, index, idx; else the row's number from 0.
      passage: optional in multiple choice: passage, article, context.
      question: question.
      options: a list, or several columns with this prefix (option_a, option_b, ...): options, choices.
      context: the text that contains the answer: context, passage.
      answer: a text or a list of texts: answers, answer.
      answer_start: a character position or a list of them: answer_start, answer_starts. Without it an answer must
        occur in its context exactly once.
      words: a list: words, tokens.
      word_labels: a list of the same length: labels, tags, ner_tags.
      anchor: the first text of a pair for sentence vectors: anchor, query; else that of `text_a`.
      positive: the text that belongs to it: positive; else that of `text_b`.
      negatives: texts that do not: a list, or one or several columns with this prefix: negatives, negative.
      label_separator: not a column, but what separates several classes in `label` if they are not a list.
      label_order: not columns, but ordered classes, the lowest first, if their names are no numbers.
      is_own_pair: no column, but whether a text for sentence vectors is trained to be near itself.
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
    anchor: str | None = None
    positive: str | None = None
    negatives: str | None = None
    label_separator: str = LABEL_SEPARATOR
    label_order: tuple[str, ...] = ()
    is_own_pair: bool = False

    @classmethod
    def of_stored(cls, stored: "StoredModel") -> "Columns":
        """Those of the data that a fine-tuned model of ours was trained on, by its run and by what `fit` noted."""
        return cls.noted(stored.columns).replaced_by(cls.of_run(stored.settings))

    @classmethod
    def named(
        cls, column_names: str, label_separator: str = LABEL_SEPARATOR, label_order: tuple[str, ...] = ()
    ) -> "Columns":
        """The columns of --column_names, "text_a=review,label=stars".

        A usual name of one column alone stands for it: "text=review" is the first text.

        Raises:
          InputError: it is not such a list, a column is unknown, or `label_order` has a class twice.
        """
        check_given_once("class of --label_order", label_order)
        named: dict[str, Any] = {}
        for pair in filter(None, column_names.split(",")):
            name, _, value = (part.strip() for part in pair.partition("="))
            column = _column(name)
            if column is None or not value:
                raise InputError(
                    "--column_names must be a list of COLUMN=NAME, where COLUMN is one of "
                    f"{', '.join(_USUAL)}. Received {column_names!r}."
                )
            named[column] = value
        return cls(**named, label_separator=label_separator, label_order=label_order)

    @classmethod
    def of_run(cls, settings: Mapping[str, Any]) -> "Columns":
        """The columns that a run was trained on, from its settings.json; without settings the usual ones."""
        separator = settings.get("label_separator", LABEL_SEPARATOR)
        return cls.named(str(settings.get("column_names", "")), str(separator))

    @classmethod
    def noted(cls, names: Mapping[str, str]) -> "Columns":
        """The columns that a model's file says it was trained on, without those that are unknown."""
        known: dict[str, Any] = {what: str(name) for what, name in names.items() if what in _USUAL}
        return cls(**known)

    def replaced_by(self, given: "Columns") -> "Columns":
        """The columns with what another object gives in place of their own."""
        values = {field.name: getattr(given, field.name) for field in fields(Columns)}
        return replace(
            self, **{name: value for name, value in values.items() if value != getattr(Columns, name)}
        )

    def present_in(self, names: Collection[str], which: Collection[str] = tuple(_USUAL)) -> "Columns":
        """The columns without those of `which` that a file lacks, so that the usual names count."""

        def lacks(what: str) -> bool:
            named = getattr(self, what)
            is_prefix = what in ("options", "negatives") and any(
                name.startswith(str(named)) for name in names
            )
            return named is not None and named not in names and not is_prefix

        lacking: dict[str, Any] = dict.fromkeys(filter(lacks, which))
        return replace(self, **lacking)

    def knows(self, name: str) -> bool:
        """Whether a column has this name, its own or a usual one."""
        named = {getattr(self, what) for what in _USUAL}
        return name in named or any(name in names for names in _USUAL.values())

    def find(self, what: str, names: Iterable[str], source: str) -> str | None:
        """The column for the attribute `what` among `names`; None if none is named and no usual name is there.

        Raises:
          InputError: the file lacks the column that the user names.
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
        """As `find`, for a column that the task needs.

        Raises:
          InputError: the file lacks it.
        """
        names = list(names)
        found = self.find(what, names, source)
        if found is None:
            raise InputError(
                f"A column for `{what}` is needed, named {' or '.join(_USUAL[what])}; if it has another name, "
                f"give --column_names={what}=NAME. {source} has only: {', '.join(map(str, names)) or 'none'}."
            )
        return found


def _column(name: str) -> str | None:
    """The column that a name stands for; None if there is none, or several."""
    if name in _USUAL:
        return name
    columns = [column for column, names in _USUAL.items() if name in names]
    return columns[0] if len(columns) == 1 else None
