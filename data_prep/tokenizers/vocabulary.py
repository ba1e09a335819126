"""The content of a vocabulary file, a SentencePiece model or a WordPiece vocab.txt, and its tokenizer."""

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from data_prep.errors import InputError
from data_prep.files import read_bytes, read_json_object, write_json, written_aside
from data_prep.storage.paths import file_size, local_copy, shown
from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer, load_sentencepiece
from data_prep.tokenizers.normalization import RELEASED, Normalization
from data_prep.tokenizers.offsets import OffsetTables
from data_prep.tokenizers.vocabulary_flags import is_wordpiece, vocabulary_from_flags
from data_prep.tokenizers.wordpiece_tokenizer import WordPieceTokenizer

Tokenizer = AlbertTokenizer | WordPieceTokenizer
VocabularyKind = Literal["sentencepiece", "wordpiece"]

TOKENIZER_CONFIG = "tokenizer_config.json"  # in Hugging Face directories
_NAMES_IN_HUGGINGFACE = ("spiece.model", "vocab.txt")
_FILE_NAMES = {"sentencepiece": "spm.model", "wordpiece": "vocab.txt"}


@dataclass(frozen=True)
class Vocabulary:
    """The content of a vocabulary file.

    Attributes:
      kind: "sentencepiece", or "wordpiece" for a vocab.txt.
      content: the file's bytes.
      normalization: how the tokenizer normalizes text.
      file: path of the file, or a description for error messages; comparisons ignore it.
      offset_tables: stored tables of a SentencePiece vocabulary; otherwise they are computed when needed.

    >>> vocabulary = Vocabulary.read("runs/base/spm.model")
    >>> vocabulary.kind, vocabulary.tokenizer().vocab_size
    ('sentencepiece', 100)
    """

    kind: VocabularyKind
    content: bytes = field(repr=False)
    normalization: Normalization = RELEASED
    file: str = field(default="The vocabulary", compare=False)
    offset_tables: OffsetTables | None = field(default=None, repr=False, compare=False)

    @classmethod
    def read(cls, path: str | os.PathLike, do_lower_case: bool | None = None) -> "Vocabulary":
        """Reads a file, whose name determines the kind: a WordPiece vocabulary ends in .txt.

        Args:
          path: the file; the normalization is read from beside it (`read_normalization`).
          do_lower_case: for a vocabulary without a settings file beside it. Default: true.
        """
        kind: VocabularyKind = "wordpiece" if is_wordpiece(path) else "sentencepiece"
        beside = read_normalization(path)
        normalization = beside or RELEASED
        if do_lower_case is not None:
            normalization = replace(normalization, do_lower_case=do_lower_case)
        if beside and normalization != beside:
            raise InputError(
                f"A vocabulary must be used with its own normalization. {path} is for {beside}, according to the "
                f"file beside it; received do_lower_case={str(do_lower_case).lower()}."
            )
        return cls(kind, read_bytes(local_copy(Path(path))), normalization, shown(path))

    @property
    def sha256(self) -> str:
        """The SHA-256 of the file, in hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()

    def save(self, folder: str | os.PathLike) -> Path:
        """Writes FOLDER/spm.model or FOLDER/vocab.txt, with its normalization, and returns its path."""
        path = Path(folder, _FILE_NAMES[self.kind])
        write_normalization(path, self.normalization)
        with written_aside(path) as aside:
            aside.write_bytes(self.content)
        return path

    def tokenizer(self) -> Tokenizer:
        """Makes the tokenizer."""
        if self.kind == "wordpiece":
            return WordPieceTokenizer(self.file, self.normalization, self.content)
        return AlbertTokenizer(self.file, self.normalization, self.content, self.offset_tables)

    def count_pieces(self) -> int:
        """The number of pieces V."""
        if self.kind == "wordpiece":
            return len(self.content.removesuffix(b"\n").split(b"\n"))
        try:
            return load_sentencepiece(self.content).GetPieceSize()
        except RuntimeError:
            raise InputError(f"A vocabulary must be a SentencePiece model. {self.file} is not.") from None


def load_tokenizer(
    spm_model_file: str | None, vocab_file: str | None, do_lower_case: bool | None = None
) -> Tokenizer:
    """Makes the tokenizer of the vocabulary file that one of two flags names."""
    return Vocabulary.read(vocabulary_from_flags(spm_model_file, vocab_file), do_lower_case).tokenizer()


def normalization_file(vocabulary: str | os.PathLike) -> Path:
    """The path of the file that holds a vocabulary's normalization.

    >>> normalization_file("vocab/30k.model")
    PosixPath('vocab/30k.normalization.json')
    """
    return Path(vocabulary).with_suffix(".normalization.json")


def read_normalization(vocabulary: str | os.PathLike) -> Normalization | None:
    """The normalization in the file beside a vocabulary: ours, or Hugging Face's tokenizer_config.json, if any."""
    path, ours = Path(vocabulary), normalization_file(vocabulary)
    if file_size(ours) is not None:
        return Normalization.from_dict(read_json_object(local_copy(ours)), str(ours))
    theirs = path.with_name(TOKENIZER_CONFIG)
    if path.name not in _NAMES_IN_HUGGINGFACE or file_size(theirs) is None:
        return None
    values = read_json_object(local_copy(theirs))
    if is_wordpiece(path):
        if values.get("tokenize_chinese_chars", True) is not True:
            raise InputError(
                f"{theirs}: each Chinese character must be a word, as in BERT. Received tokenize_chinese_chars="
                f"{json.dumps(values['tokenize_chinese_chars'])}; the ids of Chinese text would be others."
            )
        lower, strip = values.get("do_lower_case", True), values.get("strip_accents")
        return wordpiece_normalization(lower, strip, str(theirs))
    return Normalization.from_dict(values, str(theirs))


def wordpiece_normalization(do_lower_case: Any, strip_accents: Any, source: str) -> Normalization:
    """The normalization of two settings of Hugging Face; without `strip_accents`, `do_lower_case` decides."""
    if strip_accents is True and do_lower_case is False:
        raise InputError(
            f"{source}: a cased WordPiece vocabulary keeps accents. Received strip_accents=true."
        )
    keep_accents = do_lower_case is True and strip_accents is False
    return Normalization.from_dict({"do_lower_case": do_lower_case, "keep_accents": keep_accents}, source)


def write_normalization(vocabulary: str | os.PathLike, normalization: Normalization) -> None:
    """Writes the file that `read_normalization` reads, or removes it if the normalization is the usual one."""
    path = normalization_file(vocabulary)
    if normalization == RELEASED:
        path.unlink(missing_ok=True)
    else:
        write_json(path, asdict(normalization))
