"""From strings to the arrays that task models take; .keras files include the preprocessor and its vocabulary."""

import base64
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from albert_tf.tasks.benchmarks.squad import answer_places, answer_span
from albert_tf.tasks.examples import ChoiceExample, QuestionExample, TextExample, WordsExample, shown
from albert_tf.tasks.features import Features, choice_features, text_features, word_features
from albert_tf.tasks.spans.windows import Window, question_windows, window_features
from albert_tf.tasks.texts.rows import as_label, as_number, known_label, option_number
from data_prep.errors import InputError
from data_prep.tokenizers.normalization import Normalization
from data_prep.tokenizers.vocabulary import Vocabulary


class VocabularyContent(str):
    """A vocabulary's file as base64. Printed configurations, such as in Keras' messages, show its size alone."""

    def __repr__(self) -> str:
        return f"<{len(self):,} characters>"


class Preprocessor:
    """A tokenizer, and how a task combines texts into sequences.

    Args:
      vocabulary: the encoder's.
      max_seq_length: longest sequence, including [CLS] and [SEP].

    Attributes:
      columns: the names of the columns that `fit` was given, by what they hold, as in `Columns`.
    """

    parts: tuple[str, ...] = ("text_a", "text_b")  # what the columns hold
    label_parts: tuple[str, ...] = ("label",)

    def __init__(self, vocabulary: Vocabulary, max_seq_length: int = 128):
        self.vocabulary, self.max_seq_length = vocabulary, max_seq_length
        self.columns: dict[str, str] = {}
        self.tokenizer = vocabulary.tokenizer()

    def features(self, x, y=None, classes: Sequence[str] = ()) -> list[Features]:
        """The arrays of each example, as `albert_tf.tasks.features` makes them.

        Args:
          x: the examples' strings.
          y: their labels; None if they are unknown.
          classes: names of the labels.

        Raises:
          InputError: strings or labels do not have the task's form.
        """
        raise NotImplementedError

    def note_columns(self, x, y) -> None:
        """Keeps the names of columns that have some, as those of pandas do, for tables to predict later."""
        for parts, columns in ((self.parts, x), (self.label_parts, y)):
            together = columns if isinstance(columns, tuple) else (columns,)
            names = {
                what: getattr(column, "name", None) for what, column in zip(parts, together, strict=False)
            }
            self.columns |= {what: name for what, name in names.items() if name and isinstance(name, str)}

    def shorten(self, longest: int) -> None:
        """Lowers the lengths to what a model with `longest` positions can take."""
        self.max_seq_length = min(self.max_seq_length, longest)

    def get_config(self) -> dict[str, Any]:
        return {
            "kind": self.vocabulary.kind,
            "content": VocabularyContent(base64.b64encode(self.vocabulary.content).decode("ascii")),
            **dataclasses.asdict(self.vocabulary.normalization),
            **self.lengths,
            **({"columns": self.columns} if self.columns else {}),
        }

    @property
    def lengths(self) -> dict[str, int]:
        """The arguments of the constructor after the vocabulary, in tokens."""
        return {"max_seq_length": self.max_seq_length}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Preprocessor":
        content = base64.b64decode(config["content"])
        vocabulary = Vocabulary(
            config["kind"], content, Normalization.from_dict(config, "The preprocessor's configuration")
        )
        used = {"kind", "content", "columns", *dataclasses.asdict(vocabulary.normalization)}
        found = cls(vocabulary, **{name: value for name, value in config.items() if name not in used})
        found.columns = dict(config.get("columns", {}))
        return found


class TextPreprocessor(Preprocessor):
    """Takes texts, or a tuple of first and second texts: [CLS] a [SEP] b [SEP]."""

    def features(self, x, y=None, classes=()):
        columns = [as_texts(part) for part in _parts(x, 1, 2)]
        labels = self.labels(y, len(columns[0]), classes)
        rows = zip(*columns, strict=True)
        examples = [
            TextExample(str(i), row[0], row[1] if len(row) > 1 else None, label)
            for i, (row, label) in enumerate(zip(rows, labels, strict=True))
        ]
        return text_features(examples, self.tokenizer, self.max_seq_length, classes)

    def labels(self, y, number: int, classes: Sequence[str]) -> list:
        """The label of each of `number` examples, as in `TextExample`."""
        if y is None:
            return [None] * number
        convert = partial(class_name, classes=classes) if classes else _number
        return each_row(convert, _labels(y, number))


class LabelSetPreprocessor(TextPreprocessor):
    """Takes texts or pairs; labels are a list of names for each, or an array (N, C) of 0 and 1."""

    def labels(self, y, number, classes):
        if y is None:
            return [None] * number
        labels = _label_lists(in_order_of(classes, y), number)
        return each_row(partial(self._names, classes=classes), labels)

    def _names(self, row, classes: Sequence[str]) -> tuple[str, ...]:
        if _is_list(row) and all(isinstance(name, str) for name in row):
            return tuple(row)
        values = np.asarray(row)
        if values.shape != (len(classes),) or not np.isin(values, (0, 1)).all():
            raise InputError(
                f"The labels of a text must be a list of names, or 0 or 1 for each of {', '.join(classes)}. "
                f"Received {row!r}."
            )
        return tuple(name for name, value in zip(classes, values, strict=True) if value)


class ChoicePreprocessor(Preprocessor):
    """Takes a tuple of passages, questions and, for each question, a list of options.

    Labels are the numbers of the right options, from 0, their letters, from A, or their texts.

    Args:
      vocabulary: the encoder's.
      max_seq_length: longest sequence; longer ones lose the end of their passage.
      max_qa_length: longest question with an option; longer ones lose their beginning.
    """

    parts = ("passage", "question", "options")

    def __init__(self, vocabulary: Vocabulary, max_seq_length: int = 128, max_qa_length: int = 128):
        super().__init__(vocabulary, max_seq_length)
        self.max_qa_length = max_qa_length

    def features(self, x, y=None, classes=()):
        passages, questions, options = _parts(x, 3)
        passages, questions = as_texts(passages), as_texts(questions)
        options = [tuple(as_texts(given)) for given in options]
        labels: list = [None] * len(passages)
        if y is not None:
            labels = each_row(_option, _labels(y, len(passages)), options)
        examples = [
            ChoiceExample(str(i), *row)
            for i, row in enumerate(zip(passages, questions, options, labels, strict=True))
        ]
        if len({len(example.options) for example in examples}) > 1:
            raise InputError(
                "All questions of a call must have the same number of options. Received different numbers."
            )
        return choice_features(examples, self.tokenizer, self.max_seq_length, self.max_qa_length)

    @property
    def lengths(self):
        return {**super().lengths, "max_qa_length": self.max_qa_length}


class WordsPreprocessor(Preprocessor):
    """Takes sentences, each a list of words; labels are a list of names or numbers for each sentence."""

    parts, label_parts = ("words",), ("word_labels",)

    def features(self, x, y=None, classes=()):
        (sentences,) = _parts(x, 1)
        labels: list = [None] * len(sentences)
        if y is not None:
            labels = each_row(partial(self._names, classes=classes), _label_lists(y, len(sentences)))
        examples = [
            WordsExample(str(i), tuple(as_texts(words)), names)
            for i, (words, names) in enumerate(zip(sentences, labels, strict=True))
        ]
        for example in examples:
            if not example.words or len(example.words) != len(example.labels or example.words):
                raise InputError(
                    "A sentence must have words, and each word a label. Received "
                    f"{len(example.words)} words and {len(example.labels or ())} labels in number {example.id}."
                )
        return word_features(examples, self.tokenizer, self.max_seq_length, classes)

    def _names(self, row, classes: Sequence[str]) -> tuple[str, ...]:
        if not _is_list(row):
            raise InputError(f"The labels of a sentence must be a list. Received {row!r}.")
        return tuple(class_name(label, classes) for label in row)


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

    def examples(self, x, y=None) -> list[QuestionExample]:
        """The questions, numbered."""
        questions, contexts = map(as_texts, _parts(x, 2))
        answers, *starts = ([""] * len(questions),) if y is None else _parts(y, 1, 2)
        _check_lengths(questions, answers)
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

    @property
    def lengths(self):
        return {
            **super().lengths,
            "max_query_length": self.max_query_length,
            "doc_stride": self.doc_stride,
        }


def _most_in_window(max_seq_length: int) -> tuple[int, int]:
    """The most tokens that a question takes of a window, and that lie between the starts of two windows."""
    return max_seq_length // 4, max_seq_length // 3


def _parts(x, *numbers: int) -> tuple:
    """The columns of `x`: the members of a tuple of columns, otherwise `x` alone."""
    parts = x if isinstance(x, tuple) and not all(isinstance(part, str | bytes) for part in x) else (x,)
    if len(parts) not in numbers:
        expected = " or ".join(str(number) for number in numbers)
        raise InputError(
            f"This task takes {expected} columns of strings; several must be a tuple. Received {len(parts)}."
        )
    parts = tuple(map(as_rows, parts))
    if wrong := [part for part in parts if not hasattr(part, "__len__")]:
        raise InputError(f"A column must be a list. Received {wrong[0]!r}; for no text give an empty string.")
    _check_lengths(*parts)
    return parts


def _check_lengths(*columns) -> None:
    lengths = {len(column) for column in columns}
    if len(lengths) > 1:
        raise InputError(
            f"All columns must have the same length. Received {', '.join(map(str, sorted(lengths)))}."
        )


def _is_list(values) -> bool:
    """Whether the values are several, and no string, which would be one for each of its characters."""
    return isinstance(values, Iterable) and not isinstance(values, str | bytes)


def as_rows(values):
    """A column as a sequence of rows: an array for those of pandas, polars and TensorFlow."""
    rows = np.asarray(values) if hasattr(values, "__array__") else values
    return rows.item() if isinstance(rows, np.ndarray) and not rows.ndim else rows


def as_texts(values) -> list[str]:
    """Strings, from a column of strings or of TensorFlow's bytes.

    Raises:
      InputError: it is no list, or holds something else.
    """
    values = as_rows(values)
    if not _is_list(values):
        raise InputError(f"Texts, words and options must be a list of strings. Received {values!r}.")
    texts = [
        value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        for value in (values.tolist() if isinstance(values, np.ndarray) else values)
    ]
    number = next((i for i, text in enumerate(texts) if not isinstance(text, str)), None)
    if number is not None:
        wrong = texts[number]
        are_pairs = isinstance(wrong, tuple | list) and 2 in (len(wrong), len(texts))
        advice = (
            " Pairs are given as a tuple of two columns: (first_texts, second_texts)." if are_pairs else ""
        )
        raise InputError(f"A text must be a string. Received {wrong!r} in number {number}.{advice}")
    return texts


def _labels(y, number: int) -> list:
    """One label per example."""
    array = np.asarray(y)
    labels = array.reshape(-1).tolist()
    if len(labels) != number:
        advice = "; of one-hot rows give the classes, `y.argmax(axis=1)`" if array.ndim == 2 else ""
        raise InputError(
            f"There must be one label per text. Received {len(labels)} labels and {number} texts{advice}."
        )
    return labels


def _label_lists(y, number: int):
    """A list of labels, or an array of 0 and 1, per example."""
    if len(y) != number:
        raise InputError(
            f"There must be a list of labels for each text. Received {len(y)} lists and {number} texts."
        )
    return as_rows(y)


def in_order_of(classes: Sequence[str], y):
    """A table with a column of 0 and 1 for each class as an array in the order of the classes; else `y` itself.

    Raises:
      InputError: its columns have other names. Numbers from 0, which pandas gives an array's, are none.
    """
    if not hasattr(y, "columns"):
        return y
    values, names = np.asarray(y), [str(name) for name in y.columns]
    if sorted(names) == sorted(classes):
        return values[:, [names.index(name) for name in classes]]
    if names != [str(number) for number in range(len(classes))]:
        raise InputError(
            f"A table of labels must have the columns {', '.join(classes)}. Received {', '.join(names)}."
        )
    return values


def each_row(convert: Callable, *columns: Iterable) -> list:
    """The results of `convert` for each row; its errors also say which row it is."""
    results = []
    for number, row in enumerate(zip(*columns, strict=True)):
        try:
            results.append(convert(*row))
        except InputError as error:
            raise InputError(f"{error} It is number {number}, counted from 0.") from None
    return results


def class_name(label, classes: Sequence[str]) -> str:
    """The class that a label names, or numbers from 0; numbers are names if the names of all classes are numbers.

    Raises:
      InputError: there is no such class, or the number is the name of another one.
    """
    label = label.item() if isinstance(label, np.generic) else label
    name = label.decode("utf-8", "replace") if isinstance(label, bytes) else label
    is_number = isinstance(name, int | float) and not isinstance(name, bool)
    named = known_label(as_label(name), classes) if isinstance(name, str | int | float) else None
    has_numbers = is_number and all(as_number(known) is not None for known in classes)
    if named in classes and (has_numbers or not is_number):
        return str(named)
    if isinstance(name, int | float) and name in range(len(classes)) and not has_numbers:
        found = classes[int(name)]
        if named in classes and found != named:
            raise InputError(
                f"Labels that are numbers count the classes from 0. Received {label!r}, which is the name of a "
                f"class and the number of another one, {found}; give the names as strings."
            )
        return found
    or_number = "" if has_numbers else f", or its number from 0 to {len(classes) - 1}"
    raise InputError(f"A label must be one of {', '.join(classes)}{or_number}. Received {label!r}.")


def _number(label) -> float:
    number = as_number(label)
    if number is None:
        raise InputError(f"The labels of this task must be finite numbers. Received {label!r}.")
    return number


def _option(label, options: Sequence[str]) -> int:
    """The number of the right option: an integer is one, anything else is read as in files."""
    name = label.decode("utf-8", "replace") if isinstance(label, bytes) else label
    number = name if name is None or isinstance(name, int) else option_number(name, options)
    if number is None or number not in range(len(options)):
        raise InputError(
            f"The label of a question must be the number of one of its {len(options)} options, from 0, its "
            f"letter, from A, or its text. Received {label!r}."
        )
    return number


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


PREPROCESSORS: dict[str, type[Preprocessor]] = {
    "classification": TextPreprocessor,
    "ordinal_classification": TextPreprocessor,
    "multi_label_classification": LabelSetPreprocessor,
    "regression": TextPreprocessor,
    "multiple_choice": ChoicePreprocessor,
    "question_answering": QuestionPreprocessor,
    "token_classification": WordsPreprocessor,
}
