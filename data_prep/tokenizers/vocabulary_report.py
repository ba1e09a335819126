"""How well a vocabulary fits text: coverage, unknown pieces, pieces per word."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import sentencepiece
from rich.table import Table

from data_prep.tokenizers.digit_comma import SPACE
from data_prep.tokenizers.normalization import Normalization, normalize

_BATCH = 1000  # sentences
_LISTED = 20  # unknown characters


@dataclass(frozen=True)
class VocabularyReport:
    """The content of PREFIX.report.json, which `albert vocab` writes.

    Attributes:
      measured_on: "held-out sentences", "eval_file", or "training sentences" if they are too few to hold any
        out.
      vocab_size: V.
      trained_sentences: number of sentences the vocabulary was trained on.
      sentences: number of sentences measured.
      words: number of words, separated by white space; in Chinese and Japanese these are phrases or sentences.
      characters: number of characters after normalization, without spaces.
      pieces: number of pieces.
      character_coverage: share of the characters that the vocabulary has.
      unknown_rate: share of the pieces that are <unk>.
      pieces_per_word: pieces / words.
      characters_per_piece: characters / pieces; comparable between languages without spaces.
      unknown_characters: the most frequent ones and their counts.
      settings: the flags that decided the vocabulary.
    """

    measured_on: str
    vocab_size: int
    trained_sentences: int
    sentences: int
    words: int
    characters: int
    pieces: int
    character_coverage: float
    unknown_rate: float
    pieces_per_word: float
    characters_per_piece: float
    unknown_characters: dict[str, int] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)


def measure_vocabulary(
    model: bytes,
    sentences: list[str],
    normalization: Normalization,
    measured_on: str,
    trained_sentences: int,
) -> VocabularyReport:
    """Encodes sentences, normalized as in training, with a serialized model, and counts.

    Without sentences the shares are 0 and the coverage is 1.

    >>> measure_vocabulary(model, ["She lived in 日本."], RELEASED, "eval_file", 9).unknown_characters
    {'日': 1, '本': 1}
    """
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    known = {processor.id_to_piece(i) for i in range(processor.vocab_size())}
    words = pieces = unknown_pieces = 0
    characters: Counter = Counter()
    for begin in range(0, len(sentences), _BATCH):
        plain = [normalize(sentence, normalization) for sentence in sentences[begin : begin + _BATCH]]
        words += sum(len(sentence.split()) for sentence in plain)
        for sentence in plain:
            # SentencePiece's own normalization, which drops zero-width and control characters.
            characters.update(processor.normalize(sentence).replace(SPACE, ""))
        for ids in processor.encode(plain):
            pieces += len(ids)
            unknown_pieces += ids.count(processor.unk_id())
    unknown = Counter({character: n for character, n in characters.items() if character not in known})
    return VocabularyReport(
        measured_on=measured_on,
        vocab_size=processor.vocab_size(),
        trained_sentences=trained_sentences,
        sentences=len(sentences),
        words=words,
        characters=characters.total(),
        pieces=pieces,
        character_coverage=1 - _share(unknown.total(), characters.total()),
        unknown_rate=_share(unknown_pieces, pieces),
        pieces_per_word=_share(pieces, words),
        characters_per_piece=_share(characters.total(), pieces),
        unknown_characters=dict(unknown.most_common(_LISTED)),
    )


def report_table(report: VocabularyReport) -> Table:
    """The report as a table for a terminal."""
    table = Table(title=f"Vocabulary of {report.vocab_size:,} pieces on {report.measured_on}", min_width=50)
    table.add_column("measure")
    table.add_column("value", justify="right")
    for name in ("trained_sentences", "sentences", "words", "characters", "pieces"):
        table.add_row(name.replace("_", " "), f"{getattr(report, name):,}")
    table.add_row("character coverage", f"{report.character_coverage:.4%}")
    table.add_row("unknown rate (<unk> among pieces)", f"{report.unknown_rate:.4%}")
    table.add_row("pieces per word", f"{report.pieces_per_word:.3f}")
    table.add_row("characters per piece", f"{report.characters_per_piece:.3f}")
    if report.unknown_characters:
        listed = list(report.unknown_characters)[:10]
        table.add_row(
            "unknown characters", " ".join(c if c.isprintable() else f"U+{ord(c):04X}" for c in listed)
        )
    return table


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
