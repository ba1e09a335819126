"""Portable models that take texts: fill-mask, embedding, and every kind of task."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby, islice
from typing import Any

import numpy as np

from albert_tf.runtime.engines import Engine
from albert_tf.runtime.portable_folder import PortableFolder
from albert_tf.runtime.portable_model import PortableModel
from albert_tf.runtime.text_answers import embeddings, filled_masks
from albert_tf.tasks.answering import Answering, Field, TextAnswer
from albert_tf.tasks.hub_names import MASKED_POSITIONS, to_hub_names
from albert_tf.tasks.kinds import find_kind
from albert_tf.tasks.preprocessor import as_rows, as_texts
from albert_tf.tasks.runner import Arrays
from albert_tf.tasks.splits import USUAL_SIZE, BatchSize
from data_prep.errors import InputError
from data_prep.tokenizers.masked_texts import MaskedTexts, mask_positions

_CHUNK = 1024  # items of a stream that are sorted by length and answered together


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

    def stream(self, items: Iterable) -> Iterator[TextAnswer]:
        """Yields the answer to each item, which are read in chunks.

        Args:
          items: a text each, or a tuple of the texts of the columns.

        Raises:
          InputError: an item is something else.
        """
        if isinstance(items, str | bytes):  # would be iterated by character
            raise InputError(f"`stream` takes a list or another iterable of texts. Received {items!r}.")
        items = iter(items)
        while chunk := list(islice(items, _CHUNK)):
            columns = [chunk] if len(self.columns) == 1 else self._by_column(chunk)
            yield from self.answers(self._checked(columns))

    def answers(self, columns: list[list]) -> Sequence[TextAnswer]:
        """The answer to each example, without padding."""
        raise NotImplementedError

    def _by_column(self, items: list) -> list[list]:
        for item in items:  # a string would be iterated by character
            if not isinstance(item, tuple | list) or len(item) != len(self.columns):
                raise InputError(
                    f"An item must be a tuple of {' and '.join(self.columns)}. Received {item!r}."
                )
        return list(map(list, zip(*items, strict=True)))

    def _checked(self, columns: Sequence) -> list[list]:
        if len(columns) != len(self.columns):
            raise InputError(
                f"This model takes {' and '.join(self.columns)}. Received {len(columns)} columns."
            )
        received, columns = columns, [as_rows(column) for column in columns]
        for name, column, given in zip(self.columns, columns, received, strict=True):
            if not _is_list(column):
                raise InputError(f"`{name}` must be a list of texts. Received {given!r}.")
            for number, row in enumerate(column if name == "options" else ()):
                if not _is_list(row):
                    raise InputError(
                        f"`options` must hold a list of texts for each question. Received {row!r}."
                    )
                if not len(row):
                    raise InputError(
                        f"Each question must have at least one option. Received none in row {number} of `options`."
                    )
        if len({len(column) for column in columns}) > 1:
            names = " and ".join(f"`{name}`" for name in self.columns)
            lengths = ", ".join(str(len(column)) for column in columns)
            raise InputError(f"{names} must have the same number of rows. Received {lengths}.")
        return [
            [as_texts(row) for row in column] if name == "options" else as_texts(column)
            for name, column in zip(self.columns, columns, strict=True)
        ]


def _is_list(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 0  # a single string has no axis
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def stacked(answers: Sequence[TextAnswer], fields: Mapping[str, Field]) -> Arrays:
    """The answers as arrays with a row for each, padded to the largest."""
    arrays = {}
    for name, field in fields.items():
        if not field.min_sizes:
            arrays[name] = np.array([answer[name] for answer in answers], field.dtype)
            continue
        values = [np.asarray(answer[name], field.dtype) for answer in answers]
        shape = tuple(
            max(sizes) for sizes in zip(field.min_sizes, *(value.shape for value in values), strict=True)
        )
        arrays[name] = np.full((len(answers), *shape), field.fill, field.dtype)
        for row, value in zip(arrays[name], values, strict=True):
            row[tuple(map(slice, value.shape))] = value
    return arrays


class PortableEmbedding(TextModel):
    """Texts to `embedding` (B, D)."""

    @cached_property
    def fields(self):
        return {"embedding": Field((int(self.folder.facts.options["vector_size"]),))}

    def answers(self, columns):
        longest = int(self.folder.facts.options["max_seq_length"])
        return embeddings(self.tokenizer, columns[0], longest, self.rows)


class PortableFillMask(TextModel):
    """Texts with [MASK] to `pieces` and `probabilities` (B, M, K)."""

    @cached_property
    def fields(self):
        min_sizes = (1, int(self.folder.facts.options["top_k"]))
        return {"pieces": Field(min_sizes, "", object), "probabilities": Field(min_sizes)}

    @cached_property
    def _masked(self) -> MaskedTexts:
        return MaskedTexts(self.tokenizer)

    def engine_inputs(self, batch):
        positions = mask_positions(batch["input_ids"], self.tokenizer.mask_id)
        return to_hub_names({**batch, MASKED_POSITIONS: positions})

    def answers(self, columns):
        longest = self.folder.config.max_position_embeddings
        return filled_masks(self.tokenizer, self._masked, columns[0], longest, self.rows)

    def rows(self, features):
        """Groups the texts, since every text of a batch computes as many masks as the text with the most."""
        counts = [int(np.sum(row["input_ids"] == self.tokenizer.mask_id)) for row in features]
        found: dict[int, Arrays] = {}
        order = sorted(range(len(counts)), key=counts.__getitem__)
        for _, group in groupby(order, key=lambda i: counts[i].bit_length()):
            members = list(group)
            found.update(zip(members, super().rows([features[i] for i in members]), strict=True))
        return [found[i] for i in range(len(counts))]


class PortableTask(TextModel):
    """A fine-tuned model; `Kind.answering` of its kind describes its answers.

    Args:
      folder, engine, size: as for `PortableModel`.
      columns: of the strings. Default: those of the kind.
    """

    def __init__(
        self,
        folder: PortableFolder,
        engine: Engine,
        size: BatchSize = USUAL_SIZE,
        columns: Sequence[str] = (),
    ):
        super().__init__(folder, engine, size)
        self._class = find_kind(folder.facts.task_kind).answering
        self.columns = tuple(columns) or self._class.columns

    @cached_property
    def _answering(self) -> Answering:
        return self._class(self.folder.facts, self.folder.preprocessor())

    @property
    def fields(self):
        return self._answering.fields

    @cached_property
    def pair(self) -> "PortableTask":
        """The same model for pairs: `.pair(texts, seconds)` and `.pair.stream(tuples)`."""
        if not self._class.pair_columns:
            raise AttributeError(f"A model for {self.folder.facts.kind} takes no pairs.")
        return PortableTask(self.folder, self.engine, self.size, self._class.pair_columns)

    def answers(self, columns):
        return self._answering.answers(columns, self.rows)
