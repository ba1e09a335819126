"""Text to an ALBERT vocabulary: the SentencePiece trainer with the symbols and settings of the released one.

Or text and a vocabulary to a longer one.
"""

import contextlib
import dataclasses
import io
import itertools
import logging
import os
import re
import signal
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece

from data_prep.errors import InputError, check_at_least, check_at_most
from data_prep.files import as_record, encodable, new_folder, read_json_object, write_json, written_aside
from data_prep.signals import signal_handler
from data_prep.text.documents import read_documents
from data_prep.text.layout import count_layout, prose_warning
from data_prep.text.mixture import measure_corpora, whole_passes
from data_prep.text.rows import are_rows
from data_prep.text.sources import expand_files
from data_prep.tokenizers.albert_tokenizer import CONTROL_SYMBOLS
from data_prep.tokenizers.normalization import Normalization, normalize
from data_prep.tokenizers.vocabulary import Vocabulary, write_normalization
from data_prep.tokenizers.vocabulary_extension import extend_vocabulary
from data_prep.tokenizers.vocabulary_flags import VocabularySettings
from data_prep.tokenizers.vocabulary_report import VocabularyReport, measure_vocabulary

USER_SYMBOLS = ("(", ")", '"', "-", ".", "–", "£", "€")
_EVAL_FILE = "eval_file"  # the value of `measured_on` for --eval_file
_HELDOUT_SHARE = 100  # one sentence in so many
_NUM_SYMBOLS = len(("<pad>", "<unk>", *CONTROL_SYMBOLS, *USER_SYMBOLS))


def train_vocabulary(settings: VocabularySettings) -> Path:
    """Trains a unigram vocabulary and measures it; the same text and settings give the same bytes.

    Returns the path of the SentencePiece model, PREFIX.model; PREFIX.vocab and PREFIX.report.json (a
    VocabularyReport) are beside it.
    """
    _check(settings)
    normalization = Normalization(settings.do_lower_case, settings.keep_accents)
    training, evaluation, measured_on = _samples(settings)
    # After sampling, since most sentences of a large text are not in the sample.
    training = [normalize(sentence, normalization) for sentence in training]
    # Without a letter the trainer would abort the process.
    if not any(character.isalnum() for sentence in training for character in sentence):
        raise InputError(f"A vocabulary needs text. Received {settings.input_file}, which has no letters.")
    model = _train(training, settings)
    report = measure_vocabulary(model, evaluation, normalization, measured_on, len(training))
    report = dataclasses.replace(report, settings=_trained_with(settings))

    model_file = Path(f"{settings.output_prefix}.model")
    with new_folder(model_file.parent), contextlib.ExitStack() as stack:
        # Renamed in reverse order if all could be written, so that a model implies the other files.
        model_aside, vocab_aside, report_aside = (
            stack.enter_context(written_aside(path))
            for path in (model_file, Path(f"{settings.output_prefix}.vocab"), report_file(model_file))
        )
        model_aside.write_bytes(model)
        vocab_aside.write_text(_vocab_listing(model), encoding="utf-8")
        write_json(report_aside, dataclasses.asdict(report))
        write_normalization(model_file, normalization)
    return model_file


def write_extension(settings: VocabularySettings, vocabulary: Vocabulary) -> tuple[Path, str]:
    """Extends a vocabulary by pieces for the text.

    Returns:
      The path of the new file, PREFIX.model or PREFIX.txt, and what was added, in words.
    """
    _check_output(settings.output_prefix)
    suffix = "txt" if vocabulary.kind == "wordpiece" else "model"
    file = Path(f"{settings.output_prefix}.{suffix}")
    if file.exists() and not settings.overwrite:
        raise InputError(f"A vocabulary is only replaced with --overwrite. Received {file}, which exists.")
    seed = settings.random_seed % 2**64
    measured = Reservoir(settings.max_eval_sentences, np.random.default_rng([seed, 1]))

    def sentences() -> Iterator[str]:
        for sentence in _mixed_sentences(settings, np.random.default_rng([seed, 2])):
            measured.add(sentence)
            yield sentence

    longer = extend_vocabulary(vocabulary, sentences(), settings.vocab_size)
    with new_folder(file.parent), written_aside(file) as aside:
        aside.write_bytes(longer.content)
        write_normalization(file, longer.normalization)
    before, after = (
        sum(map(len, each.tokenizer().encode_batch(measured.sample))) for each in (vocabulary, longer)
    )
    new = longer.tokenizer().pieces[vocabulary.count_pieces() :]
    shown = ", ".join(new[:10]) + ", ..." * (len(new) > 10)
    sentences_are = f"{len(measured.sample):,} sentences have {after:,} pieces in place of {before:,}"
    return file, f"{len(new):,} new pieces, {shown}: {sentences_are}"


def report_file(model_file: Path) -> Path:
    """The path of a vocabulary's report: vocab/30k.report.json beside vocab/30k.model."""
    return model_file.with_name(model_file.name.removesuffix(".model") + ".report.json")


def read_report(model_file: Path) -> VocabularyReport:
    """Reads the report of a vocabulary."""
    path = report_file(model_file)
    return as_record(VocabularyReport, read_json_object(path), path)


class Reservoir:
    """A uniform sample of a stream, holding no more than the sample (Vitter's algorithm R).

    A stream of no more than `size` items is kept in its order.

    Attributes:
      sample: the items kept so far.
      seen: the number of items so far.
    """

    def __init__(self, size: int, rng: np.random.Generator):
        self.sample: list[str] = []
        self.seen = 0
        self._size = size
        self._rng = rng

    def add(self, item: str) -> None:
        self.seen += 1
        if len(self.sample) < self._size:
            self.sample.append(item)
        elif (place := int(self._rng.integers(0, self.seen))) < self._size:
            self.sample[place] = item


def _samples(settings: VocabularySettings) -> tuple[list[str], list[str], str]:
    """The sentences for training and for measuring, and a description of the latter."""
    seed = settings.random_seed % 2**64
    training = Reservoir(settings.max_sentences, np.random.default_rng(seed))
    # With its own draws, so that the vocabulary does not depend on the text for measuring.
    evaluation = Reservoir(settings.max_eval_sentences, np.random.default_rng([seed, 1]))
    for sentence in _mixed_sentences(settings, np.random.default_rng([seed, 2])):
        held_out = settings.eval_file is None and _is_held_out(sentence, settings.random_seed)
        (evaluation if held_out else training).add(sentence)
    if settings.eval_file is not None:
        for sentence in _sentences(expand_files(settings.eval_file), settings):
            evaluation.add(sentence)
        return training.sample, evaluation.sample, _EVAL_FILE
    if not training.sample or not evaluation.sample:
        # The text is too short to hold anything out.
        everything = training.sample + evaluation.sample
        return everything, everything[: settings.max_eval_sentences], "training sentences"
    return training.sample, evaluation.sample, "held-out sentences"


def _mixed_sentences(settings: VocabularySettings, rng: np.random.Generator) -> Iterator[str]:
    """The sentences of --input_file, each as often as its corpus's share asks for."""
    mixture = settings.mixture
    corpora = mixture.corpora(expand_files)
    sizes = measure_corpora(mixture, corpora, settings.input_format, settings.language, settings.text_field)
    for passes, files in zip(mixture.passes(sizes, mean=1), corpora, strict=True):
        for sentence in _sentences(files, settings):
            yield from itertools.repeat(sentence, whole_passes(passes, rng.random))


def _sentences(inputs: list[Path], settings: VocabularySettings) -> Iterator[str]:
    documents = read_documents(inputs, settings.input_format, settings.language, settings.text_field)
    is_lines = settings.input_format == "lines" and not are_rows(map(str, inputs))
    counts: Counter = Counter()
    for document in documents:
        if is_lines:
            counts["documents"] += 1
            counts["sentences"] += len(document.sentences)
            count_layout(document, counts)
        yield from document.sentences
    if warning := prose_warning(counts, makes_pairs=False):
        logging.getLogger(__name__).warning("warning: %s", warning)


def _is_held_out(sentence: str, seed: int) -> bool:
    """Depends on the text alone, so that a repeated sentence is not in both samples."""
    return zlib.crc32(sentence.encode(), seed & 0xFFFFFFFF) % _HELDOUT_SHARE == 0


def _train(sample: list[str], settings: VocabularySettings) -> bytes:
    model = io.BytesIO()
    try:
        # Python's handlers would wait for minutes, until the trainer returns. Nothing has been written yet.
        with signal_handler(signal.SIG_DFL, signal.SIGINT, signal.SIGTERM):
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
                # A list: the quoted string of the original's README would become one piece.
                user_defined_symbols=list(USER_SYMBOLS),
                normalization_rule_name="nmt_nfkc",  # as in the released 30k-clean.model
                byte_fallback=False,
                max_sentence_length=1 << 24,  # longer lines would be dropped silently
                shuffle_input_sentence=False,
                # Fixed, since it determines the order of summation and so the last digits.
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
    """Explains the trainer's errors that the user can mend; None for all others."""
    if too_high := re.search(r"Vocabulary size too high .*<= (\d+)", message):
        return (
            f"`vocab_size` must not exceed what the text supports. Received {settings.vocab_size}; this text "
            f"supports at most {too_high[1]}. Lower `vocab_size` or add text."
        )
    if "required_chars" in message:
        return (
            f"`vocab_size` must have room for the text's characters. Received {settings.vocab_size}; raise "
            f"it, or lower `character_coverage` from {settings.character_coverage} (Chinese, Japanese and Korean: "
            "0.9995)."
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
    _ = settings.mixture
    check_at_least(1, settings, "max_sentences", "max_eval_sentences")
    check_at_most(10_000_000, settings, "vocab_size")
    _check_output(settings.output_prefix)
    _check_replaced(settings)


def _trained_with(settings: VocabularySettings) -> dict[str, Any]:
    """The flags that decide the vocabulary."""
    others = ("output_prefix", "extend", "eval_file", "max_eval_sentences", "overwrite")
    values = {name: value for name, value in dataclasses.asdict(settings).items() if name not in others}
    return {**values, "input_file": encodable(settings.input_file)}  # names of files may be any bytes


def _check_replaced(settings: VocabularySettings) -> None:
    """Raises InputError if a vocabulary with other settings would be replaced without --overwrite."""
    model_file = Path(f"{settings.output_prefix}.model")
    if settings.overwrite or not model_file.exists():
        return
    if not report_file(model_file).exists():
        raise InputError(
            "A vocabulary without a report, which holds its settings, is only replaced with --overwrite. "
            f"Received {model_file}. Add --overwrite, or another --output_prefix."
        )
    old = read_report(model_file)
    changed = [
        f"--{name}={old.settings.get(name)}, not {value}"
        for name, value in _trained_with(settings).items()
        if old.settings.get(name) != value
    ]
    had_eval_file = old.measured_on == _EVAL_FILE
    if had_eval_file != (settings.eval_file is not None):  # without one, training holds some sentences out
        changed.append("--eval_file, not without" if had_eval_file else "no --eval_file, which is given now")
    if changed:
        raise InputError(
            "A vocabulary with other settings is only replaced with --overwrite. Received "
            f"{model_file}, trained with {'; '.join(changed)}. Add --overwrite, or another --output_prefix."
        )


def _check_output(prefix: str) -> None:
    """Checks the output before reading and training for hours."""
    if not prefix or prefix.endswith("/"):
        raise InputError(f'`output_prefix` must end with a name, such as "vocab/30k". Received {prefix!r}.')
    folder = next(parent for parent in Path(prefix).absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        problem = "cannot be written to" if folder.is_dir() else "is a file"
        raise InputError(f"`output_prefix` must lie in a folder that can be written to. {folder} {problem}.")
