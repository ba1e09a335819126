"""What every reader returns and every writer takes: a model as it lies in files."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.pretrained.names import OPTIONAL_PARTS
from albert_tf.pretrained.weights import parts_of
from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Vocabulary, VocabularyKind

Format = Literal["tf1", "huggingface", "kerashub", "garden", "run", "keras", "export"]


@dataclass(frozen=True)
class StoredModel:
    """A model read from files, or about to be written.

    Attributes:
      format: what the files are.
      path: where they are.
      config: the model's shape.
      weights: float32 arrays under our names (`names.parameters`).
      vocabulary: if there is one.
      notes: sentences on what the files could not say, or hold.
    """

    format: Format
    path: Path
    config: AlbertConfig
    weights: dict[str, np.ndarray] = field(repr=False)
    vocabulary: Vocabulary | None = None
    notes: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[str, ...]:
        """Which of "pooler", "masked_lm" and "sentence_order" the files hold."""
        return parts_of(self.weights)

    @property
    def missing(self) -> tuple[str, ...]:
        """Which of them they do not."""
        return tuple(part for part in OPTIONAL_PARTS if part not in self.parts)


def check_vocabulary(stored: StoredModel) -> None:
    """Raises InputError where the vocabulary is damaged or has more pieces than the model has embeddings."""
    if stored.vocabulary is None:
        return
    pieces = stored.vocabulary.count_pieces()
    if pieces > stored.config.vocab_size:
        raise InputError(
            f"The vocabulary at {stored.path} has {pieces} pieces, more than the model's `vocab_size`, "
            f"{stored.config.vocab_size}: it is another model's."
        )


def find_vocabulary(
    folder: Path, sentencepiece: Sequence[str], wordpiece: str = "*vocab*.txt", do_lower_case: bool = True
) -> Vocabulary | None:
    """The vocabulary in a folder.

    Args:
      folder: where to look.
      sentencepiece: patterns of a SentencePiece model's name; the first that matches counts.
      wordpiece: pattern of a WordPiece vocabulary's.
      do_lower_case: what is known of it.

    Raises:
      InputError: several files match one pattern.
    """
    kinds: dict[str, VocabularyKind] = {
        **dict.fromkeys(sentencepiece, "sentencepiece"),
        wordpiece: "wordpiece",
    }
    for pattern, kind in kinds.items():
        files = sorted(folder.glob(pattern))
        if len(files) > 1:
            names = ", ".join(file.name for file in files)
            raise InputError(
                f"{folder} holds several vocabularies: {names}. Leave the one that belongs to it."
            )
        if files:
            return Vocabulary(kind, files[0].read_bytes(), do_lower_case, str(files[0]))
    return None
