"""`StoredModel`: what every reader returns and every writer takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from albert_tf.checkpoints.heads import Head
from albert_tf.checkpoints.names import OPTIONAL_PARTS
from albert_tf.checkpoints.sentence_vectors import SentenceVectors
from albert_tf.checkpoints.weights import parts_of
from albert_tf.config import AlbertConfig
from data_prep.errors import InputError
from data_prep.files import read_bytes, read_json_object
from data_prep.tokenizers.normalization import RELEASED, Normalization
from data_prep.tokenizers.vocabulary import Vocabulary, VocabularyKind, read_normalization

Format = Literal["tf1", "huggingface", "kerashub", "garden", "run", "keras", "export"]


@dataclass(frozen=True)
class StoredModel:
    """A model read from files, or about to be written.

    Attributes:
      format: the format of the files.
      path: where they are.
      config: the model's shape.
      weights: float32 arrays under our names (`names.parameters`), without those of `head`; after Keras'
        `quantize`, the file's arrays under its own names.
      vocabulary: the vocabulary, if the files include one.
      notes: sentences on what the format cannot express or the files lack.
      head: the head of a fine-tuned model, if the files hold one.
      sentence_vectors: how a text's vector is made, if the files say it.
      columns: the names of the columns that `fit` noted in a fine-tuned model of ours.
      settings: the settings.json of a fine-tuning run.
      keras_config: what Keras builds a .keras file's model from: precision, beam and whatever else is no weight.
    """

    format: Format
    path: Path
    config: AlbertConfig
    weights: dict[str, np.ndarray] = field(repr=False)
    vocabulary: Vocabulary | None = None
    notes: tuple[str, ...] = ()
    head: Head | None = None
    sentence_vectors: SentenceVectors | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    keras_config: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def is_quantized(self) -> bool:
        """Whether Keras' `quantize` changed the model."""
        return "quantized" in self.keras_config

    @property
    def all_weights(self) -> dict[str, np.ndarray]:
        """The weights with those of the head."""
        return {**self.weights, **(self.head.weights if self.head else {})}

    @property
    def parts(self) -> tuple[str, ...]:
        """Which of "pooler", "masked_lm" and "sentence_order" the files hold."""
        return parts_of(self.weights)

    @property
    def missing(self) -> tuple[str, ...]:
        """Which of "pooler", "masked_lm" and "sentence_order" the files do not hold."""
        return tuple(part for part in OPTIONAL_PARTS if part not in self.parts)


def check_vocabulary(stored: StoredModel) -> None:
    """Raises InputError if the vocabulary is damaged or has more pieces than the model has embeddings."""
    if stored.vocabulary is None:
        return
    pieces = stored.vocabulary.count_pieces()
    if pieces > stored.config.vocab_size:
        raise InputError(
            f"{stored.vocabulary.file} has {pieces} pieces, more than the model's `vocab_size`, "
            f"{stored.config.vocab_size}: it belongs to another model."
        )


def no_vocabulary(source: str | Path) -> InputError:
    """The error for a model that is given texts and whose files hold no vocabulary."""
    return InputError(
        f"Text input needs a vocabulary, which {source} does not hold. Name the SentencePiece model or the "
        "WordPiece vocab.txt with --vocab_file."
    )


def find_vocabulary(
    folder: Path,
    sentencepiece: Sequence[str] = ("*.model",),
    wordpiece: str = "vocab.txt",
    default: Normalization = RELEASED,
) -> Vocabulary | None:
    """The vocabulary in a folder.

    Args:
      folder: where to look.
      sentencepiece: glob patterns for a SentencePiece model; the first that matches is taken.
      wordpiece: glob pattern for a WordPiece vocabulary.
      default: the normalization, unless a file beside the vocabulary holds it.

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
                f"{folder} holds several vocabularies: {names}. Keep the one that belongs to it."
            )
        if files:
            normalization = read_normalization(files[0]) or default
            return Vocabulary(kind, read_bytes(files[0]), normalization, str(files[0]))
    return None


def read_optional_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; an empty one if there is no file."""
    return read_json_object(path) if path.exists() else {}
