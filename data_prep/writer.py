"""`albert prepare`: text files to TFRecord shards of masked examples, and a manifest of what was made.

    Document --encode--> ids --segment_pairs--> pairs --masked_example--> examples --serialize--> records

Every random draw comes from a generator keyed by (seed, document, duplicate), the place of an example in
the output among them. So the bytes depend on the text and the settings alone: not on the order of
the documents, and not on who works on which.
"""

import contextlib
import dataclasses
import hashlib
import os
import shutil
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from albert_tf.errors import InputError
from albert_tf.files import written_aside
from data_prep.documents import Document, InputFormat, expand_files, read_documents
from data_prep.manifest import build_manifest, write_manifest
from data_prep.masking import MaskedExample, MaskingSettings, masked_example, unmasked_example
from data_prep.partners import PartnerPool, partner_pool
from data_prep.progress import PrepareProgress
from data_prep.schema import pretraining_features
from data_prep.segments import SegmentPair, next_sentence_pairs, segment_pairs, single_segments
from data_prep.tokenizer import AlbertTokenizer

_KEY_AND_LENGTH = struct.Struct("<QI")


@dataclass(frozen=True)
class PrepareSettings:
    """The flags of `albert prepare`; the original's names mean what they mean there.

    Attributes:
      input_file: text files; globs and commas allowed.
      output_file: the TFRecord file to write, or several, separated by commas. One name with
        `num_shards` N > 1 gives NAME-00000-of-0000N and so on. A manifest.json is written beside it.
      spm_model_file: the SentencePiece model, from `albert vocab`.
      input_format: "lines" (one sentence a line, blank lines between documents) or "prose" (one document
        a file, blank lines between paragraphs).
      language: language of prose, for the sentence breaker.
      num_shards: how many files to write.
      max_seq_length: T, tokens in an example, [CLS] and [SEP] among them.
      max_predictions_per_seq: P, most masked tokens in an example. Without it masked_lm_prob * T, rounded
        up: 77 for 512 tokens. (The original's 20 masks at most 3.9% of 512.)
      masked_lm_prob: share of the tokens that are masked.
      dupe_factor: how many times the text is gone through, with other pairs and masks each time.
      short_seq_prob: share of examples that aim at a random shorter length.
      ngram: most words in one masked span.
      favor_shorter_ngram: p(n) proportional to 1/n for n words; without it, longer ones are as much likelier.
      do_whole_word_mask: the pieces of a word are masked together.
      masking: "static" masks here; "dynamic" leaves it to training, which masks anew in every epoch, so
        that dupe_factor=1 will do.
      sentence_objective: "sop" predicts whether two segments are swapped, "nsp" whether the second comes from
        another document (BERT), "none" has single segments.
      random_seed: seed of all draws.
      do_lower_case: False for a cased vocabulary.
    """

    input_file: str
    output_file: str
    spm_model_file: str
    input_format: InputFormat = "lines"
    language: str = "en"
    num_shards: int = 1
    max_seq_length: int = 512
    max_predictions_per_seq: int | None = None
    masked_lm_prob: float = 0.15
    dupe_factor: int = 40
    short_seq_prob: float = 0.1
    ngram: int = 3
    favor_shorter_ngram: bool = True
    do_whole_word_mask: bool = True
    masking: Literal["static", "dynamic"] = "static"
    sentence_objective: Literal["sop", "nsp", "none"] = "sop"
    random_seed: int = 12345
    do_lower_case: bool = True


def prepare(settings: PrepareSettings, show_progress: bool = True) -> dict:
    """Writes the shards and the manifest; either all of them or none.

    Args:
      settings: what to read, what to write, how.
      show_progress: a progress bar on standard error if that is a terminal, and one line at the end.

    Returns:
      The manifest, as in manifest.json.

    Raises:
      InputError: a setting is out of range, the input cannot be read, or holds no document with two
        sentences.
    """
    predictions = check_settings(settings)
    inputs = expand_files(settings.input_file)
    outputs = shard_names(settings.output_file, settings.num_shards)
    _check_outputs(outputs, inputs, Path(settings.spm_model_file))
    tokenizer = AlbertTokenizer(settings.spm_model_file, settings.do_lower_case)
    folder = outputs[0].parent
    folder.mkdir(parents=True, exist_ok=True)
    partners = None
    if settings.sentence_objective == "nsp":
        documents = read_documents(inputs, settings.input_format, settings.language)
        partners = partner_pool(documents, tokenizer, settings.random_seed)

    counts: Counter = Counter()
    total = settings.dupe_factor * sum(path.stat().st_size for path in inputs)
    with (
        PrepareProgress(total, show_progress) as progress,
        _scratch_folder(outputs[0]) as scratch,
        contextlib.ExitStack() as asides,
    ):
        spills = [scratch / str(i) for i in range(len(outputs))]
        documents = read_documents(inputs, settings.input_format, settings.language)
        examples = (
            keyed
            for document in documents
            for keyed in document_examples(document, tokenizer, predictions, settings, counts, partners)
        )
        stored = predictions if settings.masking == "static" else 0
        _spill(progress.watch(examples, counts), spills, settings.max_seq_length, stored)
        if not counts["examples"]:
            raise InputError(
                f"An example needs a document with at least two sentences. Received none in "
                f"{settings.input_file}; {_advice(settings, counts)}"
            )
        progress.step("shuffling")
        shards = []
        for spill, output in zip(spills, outputs, strict=True):
            aside = asides.enter_context(written_aside(output))
            num_examples = _write_shard(spill, aside)
            shards.append({"file": output.name, "examples": num_examples, "bytes": aside.stat().st_size})
        used = {**dataclasses.asdict(settings), "max_predictions_per_seq": predictions}
        manifest = build_manifest(used, tokenizer, inputs, counts, shards)
    write_manifest(folder, manifest)
    progress.done(f"Wrote {counts['examples']:,} examples from {counts['documents']:,} documents to {folder}")
    return manifest


def document_examples(
    document: Document,
    tokenizer: AlbertTokenizer,
    predictions: int,
    settings: PrepareSettings,
    counts: Counter,
    partners: PartnerPool | None = None,
) -> Iterator[tuple[int, MaskedExample]]:
    """All examples of one document, one duplicate after the other.

    Args:
      document: its sentences.
      tokenizer: the vocabulary.
      predictions: P.
      settings: lengths, probabilities, seed.
      counts: documents, sentences, tokens, examples, ... are added to it.
      partners: other documents, for `sentence_objective="nsp"`.

    Yields:
      (key, example): a random 64-bit key that decides the example's shard and its place there.
    """
    sentences = [ids for ids in tokenizer.encode_batch(list(document.sentences)) if len(ids)]
    vocabulary = tokenizer.masking_vocabulary
    masking = MaskingSettings(
        predictions,
        settings.masked_lm_prob,
        settings.ngram,
        settings.favor_shorter_ngram,
        settings.do_whole_word_mask,
    )
    counts["documents"] += 1
    counts["sentences"] += len(sentences)
    counts["tokens"] += sum(map(len, sentences))
    for duplicate in range(settings.dupe_factor):
        rng = document_generator(document, settings.random_seed, duplicate)
        paired = 0
        for pair in _pairs(document, sentences, settings, rng, partners):
            if settings.masking == "dynamic":
                example = unmasked_example(pair, vocabulary)
            else:
                example = masked_example(pair, vocabulary, masking, rng)
            yield int(rng.integers(1 << 64, dtype=np.uint64)), example
            paired += pair.num_sentences
            counts["examples"] += 1
            counts["example_tokens"] += len(example.input_ids)
            counts["masked_tokens"] += len(example.masked_lm_positions)
            counts["swapped_examples"] += pair.swapped
        counts["dropped_sentences"] += len(sentences) - paired
        counts["duplicate_bytes"] += document.num_bytes


def _pairs(
    document: Document,
    sentences: list[np.ndarray],
    settings: PrepareSettings,
    rng: np.random.Generator,
    partners: PartnerPool | None,
) -> Iterator[SegmentPair]:
    T, short = settings.max_seq_length, settings.short_seq_prob
    if settings.sentence_objective == "none":
        return single_segments(sentences, T - 2, short, rng)
    if settings.sentence_objective == "nsp":
        assert partners is not None
        return next_sentence_pairs(sentences, T - 3, short, rng, partners.chooser(document))
    return segment_pairs(sentences, T - 3, short, rng)


def document_generator(document: Document, seed: int, duplicate: int) -> np.random.Generator:
    """The source of every draw for one duplicate of a document, from its text alone."""
    key = hashlib.blake2b(f"{seed} {duplicate}\n".encode(), digest_size=16)
    key.update("\n".join(document.sentences).encode("utf-8", "surrogatepass"))
    return np.random.Generator(np.random.Philox(key=int.from_bytes(key.digest(), "little")))


def serialize(example: MaskedExample, max_seq_length: int, max_predictions_per_seq: int) -> bytes:
    """Pads an example and writes it as a tf.train.Example with the features of `schema.py`.

    Args:
      example: n <= max_seq_length tokens, m <= max_predictions_per_seq predictions.
      max_seq_length: T.
      max_predictions_per_seq: P.

    Returns:
      The record; the same bytes for the same example.
    """
    import tensorflow as tf

    predictions = len(example.masked_lm_ids)
    values = {
        "input_ids": example.input_ids,
        "input_mask": np.ones(len(example.input_ids), np.int32),
        "segment_ids": example.segment_ids,
        "token_boundary": example.token_boundary,
        "masked_lm_positions": example.masked_lm_positions,
        "masked_lm_ids": example.masked_lm_ids,
        "masked_lm_weights": np.ones(predictions, np.float32),
        "next_sentence_labels": np.array([example.swapped], np.int32),
    }
    record = tf.train.Example()
    for name, feature in pretraining_features(max_seq_length, max_predictions_per_seq).items():
        padded = values[name].tolist() + [0] * (feature.length - len(values[name]))
        target = record.features.feature[name]
        (target.int64_list if feature.dtype == "int64" else target.float_list).value.extend(padded)
    return record.SerializeToString(deterministic=True)


def check_settings(settings: PrepareSettings) -> int:
    """Checks every setting that is a number.

    Returns:
      P: `max_predictions_per_seq`, or its default.
    """
    for name, minimum in (("num_shards", 1), ("max_seq_length", 5), ("dupe_factor", 1), ("ngram", 1)):
        if getattr(settings, name) < minimum:
            raise InputError(f"`{name}` must be at least {minimum}. Received {getattr(settings, name)}.")
    if not 0 < settings.masked_lm_prob < 1:
        raise InputError(f"`masked_lm_prob` must lie between 0 and 1. Received {settings.masked_lm_prob}.")
    if not 0 <= settings.short_seq_prob <= 1:
        raise InputError(f"`short_seq_prob` must lie between 0 and 1. Received {settings.short_seq_prob}.")
    predictions = settings.max_predictions_per_seq
    if predictions is None:
        # Rounded first: .15 * 20 is 3, and not a little more.
        return int(np.ceil(round(settings.masked_lm_prob * settings.max_seq_length, 6)))
    if not 1 <= predictions < settings.max_seq_length:
        raise InputError(
            "`max_predictions_per_seq` must be at least 1 and below `max_seq_length`. "
            f"Received {predictions} and {settings.max_seq_length}."
        )
    return predictions


def shard_names(output_file: str, num_shards: int) -> list[Path]:
    """The files to write.

    >>> shard_names("data/train.tfrecord", 2)
    [PosixPath('data/train.tfrecord-00000-of-00002'), PosixPath('data/train.tfrecord-00001-of-00002')]
    """
    names = [name.strip() for name in output_file.split(",") if name.strip()]
    if not names:
        raise InputError("`output_file` must name a file. Received an empty name.")
    if len(names) == 1 and num_shards > 1:
        return [Path(f"{names[0]}-{i:05d}-of-{num_shards:05d}") for i in range(num_shards)]
    if num_shards not in (1, len(names)):
        raise InputError(
            "`num_shards` must agree with the names in `output_file`. "
            f"Received {num_shards} and {len(names)} names."
        )
    return [Path(name) for name in names]


@contextlib.contextmanager
def _scratch_folder(output: Path) -> Iterator[Path]:
    """A hidden folder beside the output, gone afterwards; one that a killed run left there is replaced."""
    folder = output.with_name(f".{output.name}.scratch")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _spill(
    examples: Iterable[tuple[int, MaskedExample]], spills: list[Path], max_seq_length: int, predictions: int
) -> None:
    """Sends each record, with its key before it, to the spill file of its shard."""
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(spill.open("wb")) for spill in spills]
        for key, example in examples:
            record = serialize(example, max_seq_length, predictions)
            files[key % len(files)].write(_KEY_AND_LENGTH.pack(key, len(record)) + record)


def _write_shard(spill: Path, shard: Path) -> int:
    """Sorts one spill file by key, which shuffles it; one shard's records are in memory at a time."""
    import tensorflow as tf

    raw = memoryview(spill.read_bytes())
    records = []
    position = 0
    while position < len(raw):
        key, length = _KEY_AND_LENGTH.unpack_from(raw, position)
        position += _KEY_AND_LENGTH.size + length
        records.append((key, bytes(raw[position - length : position])))
    records.sort()
    spill.unlink()
    with tf.io.TFRecordWriter(os.fspath(shard)) as writer:
        for _, record in records:
            writer.write(record)
    return len(records)


def _check_outputs(outputs: list[Path], inputs: list[Path], model_file: Path) -> None:
    if len({path.resolve() for path in outputs}) < len(outputs):
        raise InputError("Every name in `output_file` must be another file. Received the same one twice.")
    if len({path.resolve().parent for path in outputs}) > 1:
        raise InputError(
            "All names in `output_file` must lie in one folder, which also gets manifest.json. "
            f"Received {', '.join(map(str, outputs))}."
        )
    for path in outputs:
        if path.is_dir():
            raise InputError(f"`output_file` must be a file. {path} is a folder; name a file in it.")
        if path.resolve() in {other.resolve() for other in (*inputs, model_file)}:
            raise InputError(f"`output_file` must not overwrite an input. Received {path} for both.")
    blocker = next((parent for parent in outputs[0].parents if parent.exists()), Path())
    if not blocker.is_dir():
        raise InputError(f"`output_file` must lie in a folder. {blocker} is a file.")


def _advice(settings: PrepareSettings, counts: Counter) -> str:
    if settings.input_format == "lines":
        return (
            f"it has {counts['sentences']:,} sentences in {counts['documents']:,} documents. Write one sentence a "
            'line and blank lines only between documents, or set `input_format` to "prose".'
        )
    return 'is it one sentence a line? Then set `input_format` to "lines".'
