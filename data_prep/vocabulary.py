"""Text to an ALBERT vocabulary: the SentencePiece trainer with the symbols and settings of the released one."""

import io
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import sentencepiece

from albert_tf.errors import InputError
from albert_tf.files import write_text, written_aside
from data_prep.documents import InputFormat, expand_files, read_documents
from data_prep.tokenizer import CONTROL_SYMBOLS, normalize

USER_SYMBOLS = ("(", ")", '"', "-", ".", "–", "£", "€")
_NUM_SYMBOLS = len(("<pad>", "<unk>", *CONTROL_SYMBOLS, *USER_SYMBOLS))


@dataclass(frozen=True)
class VocabularySettings:
    """The flags of `albert vocab`.

    Attributes:
      input_file: text files, globs and commas allowed.
      output_prefix: PREFIX.model and PREFIX.vocab are written.
      vocab_size: V, number of pieces, symbols among them.
      input_format: "lines" (one sentence a line, blank lines between documents) or "prose".
      language: language of prose, for the sentence breaker.
      do_lower_case: False for a cased vocabulary.
      character_coverage: share of the text's characters that get a piece; 0.9995 suits Chinese and Japanese.
      max_sentences: train on a random sample of so many sentences.
      random_seed: seed of that sample.
    """

    input_file: str
    output_prefix: str
    vocab_size: int = 30000
    input_format: InputFormat = "lines"
    language: str = "en"
    do_lower_case: bool = True
    character_coverage: float = 0.99995
    max_sentences: int = 10_000_000
    random_seed: int = 12345


def train_vocabulary(settings: VocabularySettings) -> Path:
    """Trains a unigram vocabulary; the same text and settings give the same bytes.

    Args:
      settings: what to read, where to write.

    Returns:
      The path of the SentencePiece model, PREFIX.model; PREFIX.vocab lies beside it.

    Raises:
      InputError: a setting is out of range, the input cannot be read, or the text has too few
        different characters or words for `vocab_size`.
    """
    _check(settings)
    files = expand_files(settings.input_file)
    documents = read_documents(files, settings.input_format, settings.language)
    sentences = (
        normalize(sentence, settings.do_lower_case)
        for document in documents
        for sentence in document.sentences
    )
    sample = sample_sentences(sentences, settings.max_sentences, np.random.default_rng(settings.random_seed))
    # Without a letter the trainer would end the whole program.
    if not any(character.isalnum() for sentence in sample for character in sentence):
        raise InputError(f"A vocabulary needs text. Received no letter in {settings.input_file}.")
    model = _train(sample, settings)

    model_file = Path(f"{settings.output_prefix}.model")
    model_file.parent.mkdir(parents=True, exist_ok=True)
    with written_aside(model_file) as aside:
        aside.write_bytes(model)
    write_text(f"{settings.output_prefix}.vocab", _vocab_listing(model))
    return model_file


def sample_sentences(sentences: Iterable[str], size: int, rng: np.random.Generator) -> list[str]:
    """A uniform sample of a stream, holding no more than the sample (Vitter's algorithm R).

    Args:
      sentences: any number of them.
      size: most sentences to keep.
      rng: source of the draws.

    Returns:
      All sentences in their order where there are no more than `size`, else a random choice.
    """
    sample: list[str] = []
    for seen, sentence in enumerate(sentences):
        if seen < size:
            sample.append(sentence)
        elif (place := int(rng.integers(0, seen + 1))) < size:
            sample[place] = sentence
    return sample


def _train(sample: list[str], settings: VocabularySettings) -> bytes:
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sample),
            model_writer=model,
            model_type="unigram",
            vocab_size=settings.vocab_size,
            character_coverage=settings.character_coverage,
            pad_id=0,
            unk_id=1,
            bos_id=-1,
            eos_id=-1,
            control_symbols=list(CONTROL_SYMBOLS),
            # A list: the README's quoted string would become one piece.
            user_defined_symbols=list(USER_SYMBOLS),
            normalization_rule_name="nmt_nfkc",  # as in the released 30k-clean.model
            byte_fallback=False,
            max_sentence_length=1 << 24,  # longer lines would be dropped without a word
            shuffle_input_sentence=False,
            # Partial sums are added up by thread: another number of threads, another last digit.
            num_threads=16,
            minloglevel=2,
        )
    except RuntimeError as error:
        if explained := _explained(str(error), settings):
            raise InputError(explained) from None
        raise
    return model.getvalue()


def _vocab_listing(model: bytes) -> str:
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    rows = (
        f"{processor.id_to_piece(i)}\t{processor.get_score(i):g}\n" for i in range(processor.vocab_size())
    )
    return "".join(rows)


def _explained(message: str, settings: VocabularySettings) -> str | None:
    """The user's part of the trainer's messages; anything else is a defect."""
    if too_high := re.search(r"Vocabulary size too high .*<= (\d+)", message):
        return (
            f"`vocab_size` must not exceed what the text supports. Received {settings.vocab_size}; this text "
            f"supports at most {too_high[1]}. Lower `vocab_size` or add text."
        )
    if "required_chars" in message:
        return (
            f"`vocab_size` must have room for the text's characters. Received {settings.vocab_size}; raise "
            f"it, or lower `character_coverage` ({settings.character_coverage})."
        )
    return None


def _check(settings: VocabularySettings) -> None:
    if settings.vocab_size <= _NUM_SYMBOLS:
        raise InputError(
            f"`vocab_size` must be larger than ALBERT's {_NUM_SYMBOLS} symbols. Received {settings.vocab_size}."
        )
    if not 0.98 <= settings.character_coverage <= 1:
        raise InputError(
            f"`character_coverage` must lie between 0.98 and 1. Received {settings.character_coverage}."
        )
    if settings.max_sentences < 1:
        raise InputError(f"`max_sentences` must be at least 1. Received {settings.max_sentences}.")
