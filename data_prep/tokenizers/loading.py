"""Which of the two tokenizers a vocabulary file is for: WordPiece's is a .txt, one piece a line."""

import os
from pathlib import Path

from data_prep.errors import InputError
from data_prep.tokenizers.albert import AlbertTokenizer
from data_prep.tokenizers.wordpiece import WordPieceTokenizer

Tokenizer = AlbertTokenizer | WordPieceTokenizer


def is_wordpiece(path: str | os.PathLike) -> bool:
    """Whether a vocabulary file is a WordPiece vocab.txt, by its name."""
    return Path(path).suffix == ".txt"


def read_tokenizer(path: str | os.PathLike, do_lower_case: bool = True) -> Tokenizer:
    """The tokenizer of a vocabulary file.

    Raises:
      InputError: the file is missing, or no vocabulary.
    """
    return (WordPieceTokenizer if is_wordpiece(path) else AlbertTokenizer)(path, do_lower_case)


def named_vocabulary(spm_model_file: str | None, vocab_file: str | None) -> str:
    """The one vocabulary that is named by two flags.

    Raises:
      InputError: not exactly one is named, or `vocab_file` is no .txt.
    """
    if (spm_model_file is None) == (vocab_file is None):
        raise InputError(
            "A tokenizer needs one vocabulary: `spm_model_file` (SentencePiece) or `vocab_file` (WordPiece). "
            f"Received {'neither' if vocab_file is None else 'both'}."
        )
    for name, path, expected in (("spm_model_file", spm_model_file, False), ("vocab_file", vocab_file, True)):
        if path is not None and is_wordpiece(path) != expected:
            raise InputError(
                "A vocabulary is known by its name: a WordPiece one ends in .txt, a SentencePiece one does not. "
                f"Received {name}={path}."
            )
    return str(spm_model_file or vocab_file)


def load_tokenizer(
    spm_model_file: str | None, vocab_file: str | None, do_lower_case: bool = True
) -> Tokenizer:
    """The tokenizer of the one vocabulary that is named.

    Raises:
      InputError: not exactly one is named, or its file cannot be read.
    """
    return read_tokenizer(named_vocabulary(spm_model_file, vocab_file), do_lower_case)
