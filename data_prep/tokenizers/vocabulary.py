"""The content of a vocabulary file, a SentencePiece model or a WordPiece vocab.txt, and its tokenizer."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import sentencepiece

from data_prep.errors import InputError
from data_prep.files import read_bytes, written_aside
from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer
from data_prep.tokenizers.wordpiece_tokenizer import WordPieceTokenizer

Tokenizer = AlbertTokenizer | WordPieceTokenizer
VocabularyKind = Literal["sentencepiece", "wordpiece"]

_FILE_NAMES = {"sentencepiece": "spm.model", "wordpiece": "vocab.txt"}


@dataclass(frozen=True)
class Vocabulary:
    """The content of a vocabulary file.

    Attributes:
      kind: "sentencepiece", or "wordpiece" for a vocab.txt.
      content: the file's bytes.
      do_lower_case: whether the tokenizer converts text to lower case.
      file: the file's path, or a description for error messages; does not take part in comparisons.
    """

    kind: VocabularyKind
    content: bytes = field(repr=False)
    do_lower_case: bool = True
    file: str = field(default="The vocabulary", compare=False)

    @classmethod
    def read(cls, path: str | os.PathLike, do_lower_case: bool = True) -> "Vocabulary":
        """Reads a file, whose name determines the kind: a WordPiece vocabulary ends in .txt.

        Raises:
          InputError: the file cannot be read.
        """
        kind: VocabularyKind = "wordpiece" if _is_wordpiece(path) else "sentencepiece"
        return cls(kind, read_bytes(path), do_lower_case, str(path))

    def save(self, folder: str | os.PathLike) -> Path:
        """Writes FOLDER/spm.model or FOLDER/vocab.txt and returns its path."""
        path = Path(folder, _FILE_NAMES[self.kind])
        with written_aside(path) as aside:
            aside.write_bytes(self.content)
        return path

    def tokenizer(self) -> Tokenizer:
        """Makes the tokenizer.

        Raises:
          InputError: the content is damaged or lacks a symbol.
        """
        make = WordPieceTokenizer if self.kind == "wordpiece" else AlbertTokenizer
        return make(self.file, self.do_lower_case, self.content)

    def count_pieces(self) -> int:
        """The number of pieces V.

        Raises:
          InputError: the content is damaged.
        """
        if self.kind == "wordpiece":
            return len(self.content.removesuffix(b"\n").split(b"\n"))
        model = sentencepiece.SentencePieceProcessor()
        try:
            model.LoadFromSerializedProto(self.content)
        except RuntimeError:
            raise InputError(f"A vocabulary must be a SentencePiece model. {self.file} is not.") from None
        return model.GetPieceSize()


def vocabulary_from_flags(spm_model_file: str | None, vocab_file: str | None) -> str:
    """The vocabulary file given by one of two flags.

    Raises:
      InputError: neither or both are given, or the file's extension belongs to the other flag.
    """
    if (spm_model_file is None) == (vocab_file is None):
        raise InputError(
            "A tokenizer needs one vocabulary: `spm_model_file` (SentencePiece) or `vocab_file` (WordPiece). "
            f"Received {'neither' if vocab_file is None else 'both'}."
        )
    for name, path, expected in (("spm_model_file", spm_model_file, False), ("vocab_file", vocab_file, True)):
        if path is not None and _is_wordpiece(path) != expected:
            raise InputError(
                "A WordPiece vocabulary must end in .txt, and a SentencePiece model must not. "
                f"Received {name}={path}."
            )
    return str(spm_model_file or vocab_file)


def load_tokenizer(
    spm_model_file: str | None, vocab_file: str | None, do_lower_case: bool = True
) -> Tokenizer:
    """Makes the tokenizer of the vocabulary file given by one of two flags.

    Raises:
      InputError: as in `vocabulary_from_flags`, or the file is not a vocabulary.
    """
    return Vocabulary.read(vocabulary_from_flags(spm_model_file, vocab_file), do_lower_case).tokenizer()


def _is_wordpiece(path: str | os.PathLike) -> bool:
    return Path(path).suffix == ".txt"
