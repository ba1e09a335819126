"""The flags of `albert vocab`, and those for a vocabulary of other commands. Imports nothing slow."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from data_prep.errors import InputError
from data_prep.text.mixture import Mixture
from data_prep.text.sources import InputFormat

WordBoundaries = Literal["unicode", "original"]


@dataclass(frozen=True)
class VocabularySettings:
    """The flags of `albert vocab`.

    Attributes:
      input_file: text to read: text files, .jsonl, .json, .tfrecord or .parquet, all but the last also compressed
        (.gz, .bz2, .xz, .zst). Globs are allowed, and commas separate several inputs. tfds:NAME/CONFIG:SPLIT reads
        a TensorFlow dataset, hf://datasets/OWNER/NAME/CONFIG:SPLIT one of the Hugging Face Hub, and - reads
        standard input.
      output_prefix: path or address of the vocabulary without its suffix; writes PREFIX.model, PREFIX.vocab and
        PREFIX.report.json.
      vocab_size: number of pieces, including the symbols and, with --extend, those of MODEL.
      extend: model or vocabulary file to which the most useful pieces for the text are appended, in place of
        training a vocabulary: PREFIX.model, or PREFIX.txt of a vocab.txt, keeps all ids. Of the flags below, only
        those on reading --input_file and --overwrite matter.
      input_format: layout of text files: "lines" has one sentence per line and a blank line between documents;
        "prose" has one document per file and a blank line between paragraphs.
      language: language of prose, as an ISO 639 code; it decides how text is split into sentences.
      text_field: field that holds the text in JSON lines, TFRecords, Parquet tables and datasets.
      input_weights: weights of the patterns of --input_file, separated by commas. With 3,1, files of the first
        pattern make three quarters of the text to train on. The text is read twice.
      input_exponent: weights in place of --input_weights: each pattern's size in characters to this power, from 1
        (the share that it has in the text) to 0 (equal shares); 0.3 is usual for many languages.
      do_lower_case: lower-case the text; --nodo_lower_case trains a cased vocabulary.
      keep_accents: keep accents and other marks, for languages in which ö and o, or が and か, are different
        letters. A vocabulary that is cased or keeps accents comes with PREFIX.normalization.json, which the
        other commands read.
      character_coverage: share of the text's characters that get a piece; use 0.9995 for Chinese, Japanese and
        Korean.
      max_sentences: number of randomly sampled sentences to train on; they are held in memory.
      eval_file: text to measure the vocabulary on. Default: one in a hundred sentences of --input_file, which
        are held out.
      max_eval_sentences: number of randomly sampled sentences to measure on.
      random_seed: seed of all random choices.
      overwrite: replace a vocabulary that was trained with other settings.
    """

    input_file: str
    output_prefix: str
    vocab_size: int = 30000
    extend: str | None = None
    input_format: InputFormat = "lines"
    language: str = "en"
    text_field: str = "text"
    input_weights: str | None = None
    input_exponent: float | None = None
    do_lower_case: bool = True
    keep_accents: bool = False
    character_coverage: float = 0.99995
    max_sentences: int = 10_000_000
    eval_file: str | None = None
    max_eval_sentences: int = 10_000
    random_seed: int = 12345
    overwrite: bool = False

    @property
    def mixture(self) -> Mixture:
        """The corpora of `input_file` and their weights."""
        return Mixture.of(self.input_file, self.input_weights, self.input_exponent)


def vocabulary_from_flags(spm_model_file: str | None, vocab_file: str | None) -> str:
    """The vocabulary file that one of two flags names.

    As in the original, the list of a SentencePiece model's pieces, NAME.vocab, may be given beside NAME.model.

    >>> vocabulary_from_flags("30k-clean.model", "30k-clean.vocab")
    '30k-clean.model'
    """
    if spm_model_file and vocab_file and Path(vocab_file).name == f"{Path(spm_model_file).stem}.vocab":
        vocab_file = None
    if (spm_model_file is None) == (vocab_file is None):
        both = "both; leave out `vocab_file`, which the original does not read beside a model"
        raise InputError(
            "A tokenizer needs one vocabulary: `spm_model_file` (SentencePiece) or `vocab_file` (WordPiece). "
            f"Received {both if vocab_file else 'neither'}."
        )
    for name, path, expected in (("spm_model_file", spm_model_file, False), ("vocab_file", vocab_file, True)):
        if path is not None and is_wordpiece(path) != expected:
            raise InputError(
                "A WordPiece vocabulary must end in .txt, and a SentencePiece model must not. "
                f"Received {name}={path}."
            )
    return str(spm_model_file or vocab_file)


def is_wordpiece(path: str | os.PathLike) -> bool:
    """Whether a vocabulary is a WordPiece vocab.txt, by its name."""
    return Path(path).suffix == ".txt"
