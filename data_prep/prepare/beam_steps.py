"""The steps of the Beam pipeline, in the order of the journey; workers import them by name.

input --read_input--> documents --MakeExamples--> ((shard, slice), record) ... --write_slice--> slice files
--write_shard--> shard files --finish--> the files' names, manifest
"""

import dataclasses
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

import apache_beam as beam

from data_prep.errors import InputError
from data_prep.examples.document_examples import document_examples, number_of_duplicates, serialize_batch
from data_prep.examples.manifest import MANIFEST, ExampleCounts, Manifest, Shard, remove_manifests
from data_prep.examples.masking import MaskingVocabulary
from data_prep.examples.partners import PartnerPool, PartnerSample
from data_prep.examples.prepare_flags import PrepareSettings
from data_prep.prepare.beam_files import (
    delete_folder,
    local_file,
    open_file,
    replace_all,
    set_manifests_aside,
)
from data_prep.prepare.outputs import ShardWriter, is_file_address, no_examples, prose_refused
from data_prep.text.documents import Document, read_texts
from data_prep.tfrecord.records import framed
from data_prep.tokenizers.vocabulary import Vocabulary

ERRORS_FILE = "errors.txt"
STARTED_FILE = "started"
_ERRORS_SHOWN = 3
_COPIED_TOGETHER = 8 << 20  # bytes


def mark_start(name: str) -> None:
    """Writes a file, which shows that a worker has begun."""
    with open_file(name, "w") as file:
        file.write(b"started")


def read_input(numbered: tuple[int, str], settings: PrepareSettings):
    """Yields the texts of an input, which comes with its corpus's number; an error goes to the output "errors"."""
    corpus, name = numbered
    try:
        with local_file(name) as path:
            for text in read_texts([path], settings.input_format, settings.language, settings.text_field):
                yield dataclasses.replace(text, corpus=corpus)
    except InputError as error:
        yield beam.pvalue.TaggedOutput("errors", str(error))


class MakeExamples(beam.DoFn):
    """Turns a document into ((shard, slice), (key, record, numbers for the manifest)).

    Its counts go to the output "counts", an error to "errors".
    """

    def __init__(self, settings: PrepareSettings, num_shards: int, num_slices: int, vocabulary: Vocabulary):
        self._settings, self._vocabulary, self._mixture = settings, vocabulary, settings.mixture
        self._num_shards, self._num_slices = num_shards, num_slices

    def setup(self):
        self._tokenizer = self._vocabulary.tokenizer()
        assert self._settings.word_boundaries
        self._masking = MaskingVocabulary.of(self._tokenizer, self._settings.word_boundaries)

    def process(self, document: Document, sizes: Mapping[int, int], partners: PartnerPool | None = None):
        settings = self._settings
        passes = self._mixture.passes(sizes, settings.passes)[document.corpus]
        duplicates = range(number_of_duplicates(document, passes, settings.random_seed))
        counts: Counter = Counter()
        try:
            for placed in document_examples(
                document, self._tokenizer, self._masking, settings, counts, duplicates, partners
            ):
                key, example, *numbers = placed
                (record,) = serialize_batch([example], settings.features)
                place = (key % self._num_shards, key * self._num_slices >> 64)
                yield place, (key, framed(record), tuple(numbers))
        except InputError as error:
            yield beam.pvalue.TaggedOutput("errors", str(error))
        yield beam.pvalue.TaggedOutput("counts", counts)


class SamplePartners(beam.CombineFn):
    """Samples the documents that next-sentence prediction draws from."""

    def __init__(self, seed: int, vocabulary: Vocabulary):
        self._seed, self._vocabulary = seed, vocabulary

    def create_accumulator(self):
        return PartnerSample(self._seed)

    def add_input(self, sample, document):
        sample.add(document)
        return sample

    def merge_accumulators(self, samples):
        merged = PartnerSample(self._seed)
        for sample in samples:
            merged.merge(sample)
        return merged

    def extract_output(self, sample):
        return sample.pool(self._vocabulary.tokenizer())


def add_counts(counts: Iterable[Counter]) -> Counter:
    """The sum of the counts."""
    total: Counter = Counter()
    for one in counts:
        total.update(one)
    return total


def write_slice(placed, scratch: str, drop_duplicates: bool):
    """Sorts the records of a slice, a range of keys, and writes them, or all but one of those that are equal.

    ((shard, slice), (key, record, numbers) in any order; None is ignored) --> (shard, (slice, file, numbers))
    """
    (shard, number), rows = placed
    found = sorted(filter(None, rows), key=lambda row: row[0])
    first = [row for i, row in enumerate(found) if not i or found[i - 1][:2] != row[:2]]
    num_duplicates = len(found) - len(first)
    found = first if drop_duplicates else found
    # A new name each time: a cluster may repeat a step.
    name = f"{scratch}/slice-{uuid.uuid4().hex}"
    with open_file(name, "w") as file:
        file.write(b"".join(record for _, record, _ in found))
    totals = [sum(numbers) for numbers in zip(*(numbers for *_, numbers in found), strict=True)] or [0, 0, 0]
    return shard, (number, name, len(found), *totals, num_duplicates)


def write_shard(gathered, scratch: str, outputs: list[str]):
    """Concatenates the slices: (shard, (slice, file, numbers) ...) --> (shard, file, row of the manifest)."""
    shard, slices = gathered
    name = f"{scratch}/shard-{uuid.uuid4().hex}"
    with open_file(name, "w") as file:
        writer = ShardWriter(file)
        for _, slice_name, *numbers in sorted(slices):
            with open_file(slice_name) as records:
                while chunk := records.read(_COPIED_TOGETHER):
                    writer.write(chunk)
            writer.count(*numbers)
    return shard, name, writer.shard(PurePosixPath(outputs[shard]).name)


def finish(
    skeleton: Manifest,
    scratch: str,
    outputs: list[str],
    counts: dict,
    sizes: Mapping[int, int],
    shards: list[tuple[int, str, Shard]],
    errors: list[str],
    strict: bool,
) -> None:
    """Moves the shards into place, writes the manifest, deletes `scratch`; or writes errors into `scratch`."""
    counts = Counter(counts)  # Beam's coders turn it into a dict
    settings = dataclasses.replace(skeleton.settings, strict=strict)
    inputs = [each.file for each in skeleton.inputs]
    refusal = prose_refused(settings, inputs, ExampleCounts.of(counts))
    if not errors and (refusal or not counts["examples"]):
        errors = [str(refusal or no_examples(settings, inputs, counts))]
    mixture = settings.mixture
    if not errors and mixture.is_mixed:
        try:
            mixture.check_sizes(sizes)
        except InputError as error:
            errors = [str(error)]
    if errors:
        with open_file(f"{scratch}/{ERRORS_FILE}", "w") as file:
            file.write(_summary(errors).encode())
        return
    shards = sorted(shards, key=lambda row: row[0])
    rows = [shard for *_, shard in shards]
    totals = ExampleCounts.of(counts).of_shards(rows)
    contributed = mixture.report(sizes, settings.passes, counts)
    manifest = dataclasses.replace(skeleton, counts=totals, shards=rows, corpora=contributed)
    folder = outputs[0].rpartition("/")[0]
    if is_file_address(folder):
        set_manifests_aside(folder, manifest.files)
    else:
        remove_manifests(Path(folder), manifest.files)
    replace_all((name for _, name, _ in shards), outputs)
    if is_file_address(folder):
        with open_file(f"{folder}/{MANIFEST}", "w") as file:
            file.write(manifest.to_json().encode())
    else:
        manifest.write(Path(folder))
    delete_folder(scratch)


def _summary(errors: list[str]) -> str:
    different = sorted(set(errors))
    more = f" And {len(different) - _ERRORS_SHOWN} more." if len(different) > _ERRORS_SHOWN else ""
    return " ".join(different[:_ERRORS_SHOWN]) + more
