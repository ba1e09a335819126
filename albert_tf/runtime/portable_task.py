"""A portable fine-tuned model that takes texts: its kind turns them into arrays, and outputs into answers."""

from collections.abc import Sequence
from functools import cached_property

from albert_tf.runtime.engines import Engine
from albert_tf.runtime.portable_folder import PortableFolder
from albert_tf.runtime.portable_text_model import TextModel
from albert_tf.tasks.answering import Answering
from albert_tf.tasks.kinds import find_kind
from albert_tf.tasks.preprocessor import Preprocessor
from albert_tf.tasks.splits import USUAL_SIZE, BatchSize


def task_preprocessor(folder: PortableFolder) -> Preprocessor:
    """The preprocessor of a fine-tuned model; raises InputError if there is no vocabulary."""
    return find_kind(folder.facts.task_kind).preprocessor(folder.vocabulary, **folder.facts.lengths)


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
        return self._class(self.folder.facts, task_preprocessor(self.folder))

    @property
    def fields(self):
        return self._answering.fields

    @cached_property
    def pair(self) -> "PortableTask":
        """The same model for pairs: `.pair(texts, seconds)` and `.pair.stream(tuples)`."""
        if not self._class.pair_columns:
            raise AttributeError(f"A model for {self.folder.facts.kind} takes no pairs.")
        return PortableTask(self.folder, self.engine, self._size, self._class.pair_columns)

    def answers(self, columns):
        return self._answering.answers(columns, self.rows)
