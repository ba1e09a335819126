"""`albert prepare`: text files to TFRecord shards of masked examples, and their manifest.

    Text --> Document --encode--> ids --segment_pairs--> pairs --masked_example--> examples --serialize--> records

Every random draw, also of an example's place in the output, comes from a generator keyed by (seed, document,
duplicate). So the bytes depend on the text and the settings alone, neither on the order of the documents nor on
the number of processes. Any process can turn a stretch of the text into a part (`parts.py`), and a run that was
killed resumes with the parts that are complete.
"""

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from data_prep.cores import available_cores
from data_prep.errors import InputError, disk_full
from data_prep.examples.document_examples import document_examples, number_of_duplicates, serialize_batch
from data_prep.examples.manifest import (
    ExampleCounts,
    Manifest,
    Shard,
    SourceFile,
    VocabularyFacts,
    manifests_in,
    package_versions,
    remove_manifests,
)
from data_prep.examples.masking import MaskingVocabulary
from data_prep.examples.partners import PartnerPool, PartnerSample
from data_prep.examples.prepare_flags import PrepareSettings, check_settings
from data_prep.files import file_sha256, new_folder
from data_prep.prepare.output_folder import OutputFolder, output_folder
from data_prep.prepare.outputs import (
    RECORD_BYTES,
    check_outputs,
    check_replaced,
    final_notes,
    layout_warning,
    no_examples,
    output_names,
    prose_refused,
    with_word_boundaries,
)
from data_prep.prepare.parts import INDEX, Part, merge_shard
from data_prep.prepare.parts_in_store import run_through_store, uploaded
from data_prep.prepare.progress import PrepareProgress
from data_prep.prepare.unfinished import finished_work, unfinished_folder
from data_prep.prepare.workers import Workers
from data_prep.storage.paths import address, file_size, local_copy, shown
from data_prep.text.documents import (
    MAX_DOCUMENT_CHARACTERS,
    Document,
    Text,
    read_documents,
    text_stretches,
)
from data_prep.text.mixture import measure_corpora, read_corpora
from data_prep.text.sources import check_read_twice, expand_files, input_size
from data_prep.tfrecord.records import framed
from data_prep.tokenizers.vocabulary import Tokenizer, Vocabulary
from data_prep.tokenizers.vocabulary_flags import WordBoundaries

if TYPE_CHECKING:
    from data_prep.prepare.dask_workers import DaskWorkers

# About how many bytes of records a worker makes from one stretch of the text and holds in memory. A stretch is
# also no longer than the longest document, since a few stretches wait in memory for a worker.
_PART_BYTES = 32 << 20
_PASSES_TOGETHER = 100  # over a stretch of the text; more are made in several parts
_SERIALIZED_TOGETHER = 100  # examples: enough for NumPy, and they stay in the cache
# Their content, not their name, decides the output.
_NAMES_OF_FILES = ("input_file", "spm_model_file", "vocab_file")
_OTHER_TEXT = (
    "A run resumes with the text that it began with. Received an unfinished run and other text: {}; "
    "restore the first text, or delete the folder to start over."
)


def prepare(settings: PrepareSettings, show_progress: bool = True) -> Manifest:
    """Writes the shards and the manifest, which it returns; after a failure, the same call resumes.

    With `show_progress`, standard error shows a bar, if it is a terminal, and a line at the end.
    """
    check_settings(settings)
    corpora = settings.mixture.corpora(expand_files)
    names = output_names(settings.output_file, settings.num_shards)
    check_outputs(names, [shown(path) for paths in corpora for path in paths], settings.vocabulary_file)
    with output_folder(settings.output_file) as output:
        outputs = [output.local / Path(name).name for name in names]
        return _prepare_in(output, settings, corpora, outputs, show_progress)


def _prepare_in(
    output: OutputFolder,
    settings: PrepareSettings,
    corpora: list[list[Path]],
    outputs: list[Path],
    show_progress: bool,
) -> Manifest:
    tokenizer = Vocabulary.read(settings.vocabulary_file, settings.do_lower_case).tokenizer()
    facts = VocabularyFacts.of(tokenizer)
    settings = with_word_boundaries(settings, facts.sha256)
    # An unfinished run was already allowed to replace files, and may have replaced some.
    if not finished_work(output.work):
        names, manifests = {path.name for path in outputs}, manifests_in(output.final)
        listed = names.union(*(each.files for each in manifests))
        existing = {name for name in listed if file_size(output.final / name) is not None}
        check_replaced(settings, facts, output.name, names, existing, manifests)
    with new_folder(output.local):
        return _write_examples(settings, corpora, outputs, output, tokenizer, show_progress)


def _write_examples(
    settings: PrepareSettings,
    corpora: list[list[Path]],
    outputs: list[Path],
    output: OutputFolder,
    tokenizer: Tokenizer,
    show_progress: bool,
) -> Manifest:
    inputs = [path for paths in corpora for path in paths]
    layout = (settings.input_format, settings.language, settings.text_field)
    mixture = settings.mixture
    read = [SourceFile(shown(path), input_size(path)) for path in inputs]
    total = settings.passes * sum(each.bytes for each in read)
    store = output.parts if settings.cluster else None  # where the parts are on their way
    with (
        _full_disk_as_input_error(output.local),
        unfinished_folder(output.work, _plan(settings, tokenizer)) as work,
        Workers(available_cores()) as here,
        _workers(settings, None if store else work) as workers,
        PrepareProgress(total, show_progress) as progress,
    ):
        if mixture.is_mixed:
            progress.step("measuring")
        sizes = measure_corpora(mixture, corpora, *layout)
        partners = _sample_partners(work, inputs, tokenizer, settings)
        if partners and store:
            partners = uploaded(partners, store)
        progress.step("preparing")
        passes = mixture.passes(sizes, settings.passes)
        jobs = _part_jobs(read_corpora(corpora, *layout), work, settings, passes, len(outputs), partners)
        counts: Counter = Counter()
        num_parts = 0
        made = run_through_store(workers, _make_part, jobs, store) if store else workers.run(_make_part, jobs)
        for part_counts in made:
            counts += part_counts
            num_parts += 1
            progress.show(counts)
        if Part(work, num_parts).summary():
            raise InputError(_OTHER_TEXT.format("the text is shorter now"))
        names = [str(path) for path in inputs]
        refusal = prose_refused(settings, names, ExampleCounts.of(counts))
        if counts["examples"] and not refusal:
            progress.step("shuffling")
            remove_manifests(output.local, (path.name for path in outputs))
            parts = tuple(Part(work, number) for number in range(num_parts))
            shards = _write_shards(parts, outputs, settings.drop_duplicates, here if store else workers)
            contributed = mixture.report(sizes, settings.passes, counts)
            manifest = Manifest.build(settings, tokenizer, read, counts, shards, contributed)
            manifest.write(output.local)
            output.publish(outputs)
    if refusal:
        raise refusal
    if not counts["examples"]:
        raise no_examples(settings, names, counts)
    warning = layout_warning(settings, names, manifest.counts)
    progress.done(manifest.counts, output.name, warning, final_notes(settings, manifest))
    return manifest


def _workers(settings: PrepareSettings, work: Path | None) -> "Workers | DaskWorkers":
    if not settings.cluster:
        return Workers(settings.workers or available_cores())
    from data_prep.prepare.dask_workers import DaskWorkers

    return DaskWorkers(settings.cluster, work)


@dataclass(frozen=True)
class _PartJob:
    """A stretch of the text that becomes a part, with some of the passes over it."""

    part: Part
    texts: tuple[Text, ...]
    settings: PrepareSettings
    passes: tuple[float, ...]  # over each corpus
    first_pass: int
    num_shards: int
    vocabulary_file: Path
    vocabulary_sha256: str
    partners: Path | None  # file of the PartnerPool, perhaps at an address


def _plan(settings: PrepareSettings, tokenizer: Tokenizer) -> dict:
    """Everything that decides the bytes but the text, which is compared part by part."""
    plan = {name: value for name, value in settings.output_settings.items() if name not in _NAMES_OF_FILES}
    vocabulary = {
        "vocabulary": file_sha256(local_copy(tokenizer.file)),
        **dataclasses.asdict(tokenizer.normalization),
    }
    return {**plan, **vocabulary, "versions": package_versions()}


def _sample_partners(
    work: Path, inputs: list[Path], tokenizer: Tokenizer, settings: PrepareSettings
) -> Path | None:
    """Reads the text once for next-sentence prediction; returns the file of the sample."""
    if settings.sentence_objective != "nsp":
        return None
    check_read_twice("--sentence_objective=nsp", inputs)
    path = work / "partners.npz"
    sample = PartnerSample(settings.random_seed)
    for document in read_documents(inputs, settings.input_format, settings.language, settings.text_field):
        sample.add(document)
    sample.pool(tokenizer).save(path)
    return path


def _part_jobs(
    texts: Iterable[Text],
    work: Path,
    settings: PrepareSettings,
    passes: tuple[float, ...],
    num_shards: int,
    partners: Path | None,
) -> Iterator[_PartJob]:
    file = Path(settings.vocabulary_file)
    sha256 = file_sha256(local_copy(file))
    if address(file) is None:
        file = file.absolute()
    numbers = itertools.count()
    for stretch in text_stretches(
        texts, 1, lambda text: _share_of_part(text, settings, min(passes[text.corpus], _PASSES_TOGETHER))
    ):
        most = math.ceil(max(passes[text.corpus] for text in stretch))
        for first in range(0, most, _PASSES_TOGETHER):
            left = tuple(text for text in stretch if passes[text.corpus] > first)
            part = Part(work, next(numbers))
            yield _PartJob(part, left, settings, passes, first, num_shards, file, sha256, partners)


def _share_of_part(text: Text, settings: PrepareSettings, passes: float) -> float:
    """The share of a part that a text fills, by its characters or its records, whichever is larger."""
    characters = text.num_characters
    in_duplicate = max(RECORD_BYTES * characters, settings.padded_bytes)  # even two words are padded to T
    return max(characters / MAX_DOCUMENT_CHARACTERS, passes * in_duplicate / _PART_BYTES)


def _make_part(job: _PartJob) -> Counter:
    """Makes a part unless an earlier run did; returns its counts."""
    digest = hashlib.blake2b(f"{job.passes} {job.first_pass}\n".encode(), digest_size=16)
    for text in job.texts:
        digest.update("\n".join((*text.paragraphs, "\n")).encode("utf-8", "surrogatepass"))
    earlier = job.part.summary()
    if earlier and earlier["text"] != digest.hexdigest():
        raise InputError(_OTHER_TEXT.format(f"it differs from {job.texts[0].source} on"))
    if earlier:
        return Counter(earlier["counts"])
    settings = job.settings
    assert settings.word_boundaries
    tokenizer, masking = _tokenizer(
        job.vocabulary_file, settings.do_lower_case, settings.word_boundaries, job.vocabulary_sha256
    )
    pool = local_copy(job.partners) if job.partners else None
    partners = _partners(pool, pool.stat().st_mtime_ns) if pool else None
    counts: Counter = Counter()
    records: list[bytes] = []
    rows: list[tuple[int, ...]] = []
    examples = (
        one
        for text in job.texts
        for document in text.documents()
        for one in document_examples(
            document, tokenizer, masking, settings, counts, _duplicates(document, job), partners
        )
    )
    while batch := list(itertools.islice(examples, _SERIALIZED_TOGETHER)):
        serialized = serialize_batch([placed.example for placed in batch], settings.features)
        for placed, record in zip(batch, map(framed, serialized), strict=True):
            records.append(record)
            rows.append((placed.key, len(record), placed.tokens, placed.masked, placed.swapped))
    summary = {"text": digest.hexdigest(), "counts": counts}
    job.part.write(records, np.array(rows, INDEX), job.num_shards, summary)
    return counts


def _duplicates(document: Document, job: _PartJob) -> range:
    """The duplicates of a document that a job makes."""
    number = number_of_duplicates(document, job.passes[document.corpus], job.settings.random_seed)
    return range(job.first_pass, min(number, job.first_pass + _PASSES_TOGETHER))


@functools.lru_cache(maxsize=1)
def _tokenizer(
    vocabulary_file: Path, do_lower_case: bool | None, boundaries: WordBoundaries, sha256: str
) -> tuple[Tokenizer, MaskingVocabulary]:
    """Loaded once per process; `sha256` distinguishes successive files of the same name."""
    tokenizer = Vocabulary.read(vocabulary_file, do_lower_case).tokenizer()
    return tokenizer, MaskingVocabulary.of(tokenizer, boundaries)


@functools.lru_cache(maxsize=1)
def _partners(file: Path, modified: int) -> PartnerPool:
    """Loaded once per process; the time of modification distinguishes successive files of the same name."""
    return PartnerPool.load(file)


def _write_shards(
    parts: tuple[Part, ...], outputs: list[Path], drop_duplicates: bool, workers: "Workers | DaskWorkers"
) -> list[Shard]:
    write = functools.partial(_write_shard, parts, drop_duplicates)
    outputs = [output.absolute() for output in outputs]
    # A single part is merged before workers could start.
    return list((map if len(parts) == 1 else workers.run)(write, enumerate(outputs)))


def _write_shard(parts: tuple[Part, ...], drop_duplicates: bool, numbered: tuple[int, Path]) -> Shard:
    """Merges a shard and moves it into place; returns its row of the manifest."""
    number, output = numbered
    aside = parts[0].folder / f"shard-{number:05d}"
    merged = merge_shard([part.shard(number) for part in parts], aside, drop_duplicates)
    aside.replace(output)
    return dataclasses.replace(merged, file=output.name)


@contextlib.contextmanager
def _full_disk_as_input_error(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = disk_full(error)
        if reason is None:
            raise
        raise InputError(
            f"The disk needs space for twice the output. Writing to {folder} failed: {reason}. "
            "Finished work is kept; free some space and run the same command again."
        ) from None
