"""Portable models, each with the answers of the SavedModel of its kind: text in, arrays out, without TensorFlow.

texts --NumPy, SentencePiece--> features --batches of similar lengths--> engine --> rows --> answers
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from albert_tf.evaluation.squad_predictions import IMPOSSIBLE, predict_answers
from albert_tf.portable.engines import Arrays, Engine
from albert_tf.portable.folder import PortableFolder
from albert_tf.portable.inputs import POSITIONS, checked_ids, to_hub_names
from albert_tf.prediction.preprocessor import (
    PREPROCESSORS,
    ChoicePreprocessor,
    QuestionPreprocessor,
    TextPreprocessor,
    as_texts,
)
from albert_tf.prediction.splits import USUAL_SIZE, BatchSize, Split, by_row, numpy_batches
from data_prep.errors import InputError
from data_prep.tasks.features import Features, joined
from data_prep.tokenizers.masked_texts import MaskedTexts, cut_around_masks
from data_prep.tokenizers.normalization import encodable
from data_prep.tokenizers.vocabulary import Tokenizer

Answer = dict[str, Any]
SYMBOLS = 2  # [CLS] and [SEP], around every text
_CHUNK = 1024  # items of a stream that are sorted by length and answered together


class Field(NamedTuple):
    """An array of answers.

    Attributes:
      least: the smallest sizes of the axes after the first, and those of an empty batch.
      fill: pads answers with smaller axes.
      dtype: of the array.
    """

    least: tuple[int, ...] = ()
    fill: Any = 0
    dtype: Any = np.float32


class PortableModel:
    """A model in a folder, on an engine.

    Args:
      folder: the files.
      engine: runs the model.
      size: of the engine's batches.

    Attributes:
      folder, engine: the same.
    """

    def __init__(self, folder: PortableFolder, engine: Engine, size: BatchSize = USUAL_SIZE):
        self.folder, self.engine, self._size = folder, engine, size

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of its vocabulary; raises InputError if it has none."""
        return self.folder.vocabulary.tokenizer()

    def outputs(self, batches: Iterable[Arrays]) -> Iterator[Arrays]:
        """The engine's outputs for batches of `numpy_batches`, with their `index`."""
        indices: list[np.ndarray] = []

        def inputs() -> Iterator[Arrays]:
            for batch in batches:
                indices.append(batch["index"])
                yield self.engine_inputs(batch)

        for found in self.engine.outputs(inputs()):
            yield {**found, "index": indices.pop(0)}

    def engine_inputs(self, batch: Arrays) -> Arrays:
        """The inputs of the model for a batch."""
        return to_hub_names(batch)

    def rows(self, features: Sequence[Features]) -> list[Arrays]:
        """The model's outputs for each example."""
        return by_row(self.outputs(numpy_batches(Split("call", (), features), self._size)), len(features))


class PortableEncoder(PortableModel):
    """Ids to vectors and logits, as the SavedModel of the encoder."""

    def __call__(self, inputs: Mapping) -> Arrays:
        """The encoder's outputs.

        Args:
          inputs: `input_word_ids`, `input_mask` and `input_type_ids`, integers (B, T), and for `mlm_logits`
            `masked_lm_positions` (B, P).

        Raises:
          InputError: the inputs do not fit each other or the model.
        """
        arrays = checked_ids(inputs, self.folder.config)
        has_positions = POSITIONS in arrays
        if has_positions and POSITIONS not in self.engine.inputs:
            raise InputError(f"{POSITIONS} needs a masked-LM head, which {self.folder.path} does not hold.")
        if not has_positions:
            arrays[POSITIONS] = np.zeros((len(arrays["input_mask"]), 0), np.int32)
        outputs = self.engine(arrays)
        if not has_positions:
            outputs.pop("mlm_logits", None)
        return outputs


class TextModel(PortableModel):
    """A model that takes columns of texts.

    Attributes:
      columns: their names.
      fields: the arrays of its answers.
    """

    columns: tuple[str, ...] = ("text",)

    @property
    def fields(self) -> Mapping[str, Field]:
        raise NotImplementedError

    def __call__(self, *columns) -> Arrays:
        """The answers to B examples, as arrays with a row for each.

        Args:
          *columns: lists of B strings each; see the class.

        Raises:
          InputError: the columns are not lists of strings of one length.
        """
        return stacked(self.answers(self._checked(columns)), self.fields)

    def stream(self, items: Iterable) -> Iterator[Answer]:
        """Yields the answer to each item, which are read in chunks.

        Args:
          items: a text each, or a tuple of the texts of the columns.
        """
        items = iter(items)
        while chunk := list(islice(items, _CHUNK)):
            columns = [chunk] if len(self.columns) == 1 else list(map(list, zip(*chunk, strict=True)))
            yield from self.answers(self._checked(columns))

    def answers(self, columns: list[list]) -> list[Answer]:
        """The answer to each example, without padding."""
        raise NotImplementedError

    def _checked(self, columns: Sequence) -> list[list]:
        if len(columns) != len(self.columns):
            raise InputError(
                f"This model takes {' and '.join(self.columns)}. Received {len(columns)} columns."
            )
        for name, column in zip(self.columns, columns, strict=True):
            if isinstance(column, str | bytes) or not isinstance(column, Sequence | np.ndarray):
                raise InputError(f"`{name}` must be a list of texts. Received {column!r}.")
        if len({len(column) for column in columns}) > 1:
            names = " and ".join(f"`{name}`" for name in self.columns)
            lengths = ", ".join(str(len(column)) for column in columns)
            raise InputError(f"{names} must have the same number of rows. Received {lengths}.")
        return [
            [as_texts(row) for row in column] if name == "options" else as_texts(column)
            for name, column in zip(self.columns, columns, strict=True)
        ]


def stacked(answers: Sequence[Answer], fields: Mapping[str, Field]) -> Arrays:
    """The answers as arrays with a row for each, padded to the largest."""
    arrays = {}
    for name, field in fields.items():
        values = [np.asarray(answer[name], field.dtype) for answer in answers]
        shape = tuple(
            max(sizes) for sizes in zip(field.least, *(value.shape for value in values), strict=True)
        )
        arrays[name] = np.full((len(answers), *shape), field.fill, field.dtype)
        for row, value in zip(arrays[name], values, strict=True) if shape else ():
            row[tuple(map(slice, value.shape))] = value
        if not shape:
            arrays[name][:] = values
    return arrays


class PortableEmbedding(TextModel):
    """Texts to `embedding` (B, H)."""

    @cached_property
    def fields(self):
        return {"embedding": Field((self.folder.config.hidden_size,))}

    def answers(self, columns):
        (texts,), longest = columns, self.folder.config.max_position_embeddings
        features = [joined(ids, None, self.tokenizer, longest) for ids in self.tokenizer.encode_batch(texts)]
        return self.rows(features)


class PortableFillMask(TextModel):
    """Texts with [MASK] to `pieces` and `probabilities` (B, M, K)."""

    @cached_property
    def fields(self):
        least = (1, int(self.folder.facts.options["top_k"]))
        return {"pieces": Field(least, "", object), "probabilities": Field(least)}

    @cached_property
    def _masked(self) -> MaskedTexts:
        return MaskedTexts(self.tokenizer)

    @cached_property
    def _pieces(self) -> np.ndarray:
        return np.array(self.tokenizer.pieces, object)

    def engine_inputs(self, batch):
        is_mask = batch["input_ids"] == self.tokenizer.mask_id
        first = np.argsort(~is_mask, axis=1, kind="stable")  # the places of masks, then all others
        return to_hub_names({**batch, POSITIONS: first[:, : max(1, is_mask.sum(axis=1).max())]})

    def answers(self, columns):
        (texts,) = columns
        mask_id, longest = self.tokenizer.mask_id, self.folder.config.max_position_embeddings
        rows = [cut_around_masks(ids, mask_id, longest - SYMBOLS) for ids in self._masked.encode_batch(texts)]
        found = self.rows([joined(ids, None, self.tokenizer, longest) for ids in rows])
        counts = [int(np.sum(ids == mask_id)) for ids in rows]
        return [
            {"pieces": self._pieces[row["ids"][:M]], "probabilities": row["probabilities"][:M]}
            for row, M in zip(found, counts, strict=True)
        ]


class PortableClassifier(TextModel):
    """Texts, or with `.pair` pairs of texts, to classes or `score` (B,).

    A classifier returns `label` (B,), or `has_label` (B, C) if a text may have several, `labels` and
    `probabilities` (B, C).
    """

    @cached_property
    def fields(self):
        facts, C = self.folder.facts, len(self.folder.facts.labels)
        if not C:
            return {"score": Field()}
        decision = (
            {"has_label": Field((C,), False, bool)} if facts.thresholds else {"label": Field((), "", object)}
        )
        return {**decision, "labels": Field((C,), "", object), "probabilities": Field((C,))}

    def pair(self, texts, pairs) -> Arrays:
        """The answers to pairs of texts."""
        paired = _Pairs(self.folder, self.engine, self._size)
        return paired(texts, pairs)

    @cached_property
    def preprocessor(self) -> TextPreprocessor:
        return task_preprocessor(self.folder)

    def answers(self, columns):
        features = self.preprocessor.features(tuple(columns) if len(columns) > 1 else columns[0])
        return [self._answer(row) for row in self.rows(features)]

    def _answer(self, row: Arrays) -> Answer:
        facts = self.folder.facts
        if not facts.labels:
            return {"score": row["score"]}
        labels, probabilities = np.array(facts.labels, object), row["probabilities"]
        if facts.thresholds:
            decision = {"has_label": probabilities >= np.array(facts.thresholds, np.float32)}
        else:
            decision = {"label": labels[row["logits"].argmax()]}
        return {**decision, "labels": labels, "probabilities": probabilities}


class _Pairs(PortableClassifier):
    columns = ("text", "text_pair")


class PortableQuestionAnswering(TextModel):
    """Questions and contexts to `answer`, `begin`, `score` and, if it may find none, `null_odds` (B,)."""

    columns = ("question", "context")

    @cached_property
    def fields(self):
        usual = {"answer": Field((), "", object), "begin": Field((), -1, np.int32), "score": Field()}
        return {**usual, "null_odds": Field()} if self.folder.facts.answerable else usual

    @cached_property
    def preprocessor(self) -> QuestionPreprocessor:
        return task_preprocessor(self.folder)

    def answers(self, columns):
        examples = self.preprocessor.examples(tuple(columns))
        windows = self.preprocessor.windows(examples)
        rows = self.rows(self.preprocessor.inputs(windows))
        longest = int(self.folder.facts.options["max_answer_length"])
        found = predict_answers(examples, windows, rows, n_best=1, max_answer_length=longest)
        return [
            _best_answer(found.n_best[example.id][0], (found.null_odds or {}).get(example.id))
            for example in examples
        ]


def _best_answer(best, null_odds: float | None) -> Answer:
    score = best.start_score + best.end_score if best.text else IMPOSSIBLE
    is_none = not best.text or (null_odds is not None and null_odds > 0)
    answer: Answer = {
        "answer": "" if is_none else best.text,
        "begin": -1 if is_none else best.answer_start,
        "score": score,
    }
    return answer if null_odds is None else {**answer, "null_odds": null_odds}


class PortableMultipleChoice(TextModel):
    """Passages, questions and options to `answer`, `choice` (B,) and `probabilities` (B, C).

    All questions of a call have the same number of options.
    """

    columns = ("passage", "question", "options")

    @cached_property
    def fields(self):
        return {
            "answer": Field((), "", object),
            "choice": Field((), 0, np.int32),
            "probabilities": Field((0,)),
        }

    @cached_property
    def preprocessor(self) -> ChoicePreprocessor:
        return task_preprocessor(self.folder)

    def answers(self, columns):
        rows = self.rows(self.preprocessor.features(tuple(columns)))
        choices = [int(row["logits"].argmax()) for row in rows]
        return [
            {"answer": given[choice], "choice": choice, "probabilities": row["probabilities"]}
            for row, given, choice in zip(rows, columns[2], choices, strict=True)
        ]


class PortableTokenClassification(TextModel):
    """Texts to `words`, `labels`, `begins`, `ends` (in bytes of UTF-8) and `probabilities` (B, W).

    White space separates words. A text that is longer than the model's sequences is read in windows that overlap
    by half, and each word is labelled where it has context on both sides.
    """

    @cached_property
    def fields(self):
        return {
            "words": Field((0,), "", object),
            "labels": Field((0,), "", object),
            "begins": Field((0,), -1, np.int32),
            "ends": Field((0,), -1, np.int32),
            "probabilities": Field((0,)),
        }

    def answers(self, columns):
        (texts,) = columns
        longest = task_preprocessor(self.folder).max_seq_length
        words = [_words(text) for text in texts]
        distinct = list(dict.fromkeys(word.text for of_text in words for word in of_text))
        pieces = dict(zip(distinct, self.tokenizer.encode_batch(distinct), strict=True))
        unknown = np.array([self.tokenizer.unk_id], np.int32)
        features: list[Features] = []
        places: list[list[tuple[int, int]]] = []  # of each word, the number of its window and its place there
        for of_text in words:
            of_words = [pieces[word.text] if len(pieces[word.text]) else unknown for word in of_text]
            windows, labelled = _word_windows(of_words, longest - SYMBOLS)
            places.append([(len(features) + window, 1 + place) for window, place in labelled])
            features += [joined(ids, None, self.tokenizer, longest) for ids in windows]
        rows = self.rows(features)
        return [self._answer(*each, rows) for each in zip(words, places, strict=True)]

    def _answer(self, words: list["_Word"], places: list[tuple[int, int]], rows: list[Arrays]) -> Answer:
        probabilities = [rows[window]["probabilities"][place] for window, place in places]
        labels = self.folder.facts.labels
        return {
            "words": np.array([word.text for word in words], object),
            "labels": np.array([labels[values.argmax()] for values in probabilities], object),
            "begins": [word.begin for word in words],
            "ends": [word.end for word in words],
            "probabilities": [values.max() for values in probabilities],
        }


class _Word(NamedTuple):
    text: str
    begin: int  # in bytes
    end: int


def _words(text: str) -> list[_Word]:
    """The words of a text, as Python's str.split has them."""
    text = encodable(text)
    words, seen, done = [], 0, 0  # characters and bytes before the word
    for match in re.finditer(r"\S+", text):
        begin = done + len(text[seen : match.start()].encode())
        done, seen = begin + len(match[0].encode()), match.end()
        words.append(_Word(match[0], begin, done))
    return words


def _word_windows(pieces: list[np.ndarray], room: int) -> tuple[list[np.ndarray], list[tuple[int, int]]]:
    """Windows of at most `room` ids, each beginning half a window after the one before it.

    Args:
      pieces: the ids of each word of a text.
      room: the longest window.

    Returns:
      The ids of each window; and for each word the number of the window that it is labelled in, and the place of
      its first piece there.
    """
    if not pieces:
        return [], []
    stride, ids = max(room // 2, 1), np.concatenate(pieces)
    count = 1 + -(-max(len(ids) - room, 0) // stride)
    firsts = np.cumsum([0, *(len(each) for each in pieces[:-1])])
    # A quarter of a window is the least context of a word, but at the ends of its text.
    windows = np.minimum(np.maximum(firsts - room // 4, 0) // stride, count - 1)
    places = zip(windows.tolist(), (firsts - windows * stride).tolist(), strict=True)
    return [ids[i * stride : i * stride + room] for i in range(count)], list(places)


def task_preprocessor(folder: PortableFolder) -> Any:
    """The preprocessor of a fine-tuned model."""
    return PREPROCESSORS[folder.facts.task_kind](folder.vocabulary, **folder.facts.lengths)


MODELS: dict[str, type[PortableModel]] = {
    "encoder": PortableEncoder,
    "fill-mask": PortableFillMask,
    "embedding": PortableEmbedding,
    "classifier": PortableClassifier,
    "question-answering": PortableQuestionAnswering,
    "multiple-choice": PortableMultipleChoice,
    "token-classification": PortableTokenClassification,
}
