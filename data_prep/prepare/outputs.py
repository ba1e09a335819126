"""Shared by the local and the Beam runner: checks of the output's names, a shard's row, errors."""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

import google_crc32c
import numpy as np

from data_prep.errors import InputError
from data_prep.examples.manifest import ExampleCounts, Manifest, Shard, VocabularyFacts
from data_prep.examples.prepare_flags import PrepareSettings, shard_names
from data_prep.text.layout import prose_warning
from data_prep.text.rows import are_rows
from data_prep.text.sources import is_dataset
from data_prep.tokenizers.word_starts import usual_boundaries

RECORD_BYTES = 1.6  # about so many bytes of records for a character of text, in each duplicate


class ShardWriter:
    """Writes the records of a shard to an open file and adds up its row of the manifest."""

    def __init__(self, file: IO[bytes]):
        self._file = file
        self._crc = self._num_bytes = 0
        self._totals = np.zeros(5, np.int64)

    def write(self, records: bytes) -> None:
        """Appends framed records."""
        self._file.write(records)
        self._crc = google_crc32c.extend(self._crc, records)
        self._num_bytes += len(records)

    def count(self, *numbers: int) -> None:
        """Adds the numbers of what was appended, in the order of the fields of `Shard`."""
        self._totals += numbers

    def shard(self, name: str) -> Shard:
        """The row of the manifest so far."""
        examples, *others = self._totals.tolist()
        return Shard(name, examples, self._num_bytes, f"{self._crc:08x}", *others)


def with_word_boundaries(settings: PrepareSettings, vocabulary_sha256: str) -> PrepareSettings:
    """Settings in which `word_boundaries` is set: by default, to the rule that is usual for the vocabulary."""
    boundaries = settings.word_boundaries or usual_boundaries(vocabulary_sha256)
    return dataclasses.replace(settings, word_boundaries=boundaries)


def is_file_address(name: str) -> bool:
    """Whether a name is an address, as gs://bucket/text.txt, and neither a path nor a data set."""
    return "://" in name and not is_dataset(name)


def output_names(output_file: str, num_shards: int) -> list[str]:
    """Like `shard_names`, for addresses, too."""
    if not is_file_address(output_file):
        return list(map(str, shard_names(output_file, num_shards)))
    if "," in output_file:
        raise InputError(f"--output_file must be one name at an address. Received {output_file!r}.")
    scheme, path = output_file.split("://", 1)
    return [f"{scheme}://{name}" for name in shard_names(path, num_shards)]


def check_outputs(outputs: Sequence[str], inputs: Sequence[str], vocabulary_file: str) -> None:
    """Checks that the outputs, paths or URLs, can be written and overwrite nothing that is read."""
    resolved = [_resolved(name) for name in outputs]
    if len(set(resolved)) < len(resolved):
        raise InputError("The names in --output_file must differ. Received the same file twice.")
    if len({name.rpartition("/")[0] for name in resolved}) > 1:
        raise InputError(
            "All names in --output_file must lie in one folder, which also gets manifest.json. "
            f"Received {', '.join(outputs)}."
        )
    read = {_resolved(name) for name in (*inputs, vocabulary_file)}
    for name, path in zip(outputs, resolved, strict=True):
        if not is_file_address(name) and Path(name).is_dir():
            raise InputError(f"--output_file must be a file. {name} is a folder; name a file in it.")
        if path in read:
            raise InputError(f"--output_file must not overwrite an input. Received {name} for both.")
    blocker = next((parent for parent in Path(outputs[0]).parents if parent.exists()), Path())
    if not is_file_address(outputs[0]) and not blocker.is_dir():
        raise InputError(f"--output_file must lie in a folder. {blocker} is a file.")


def check_replaced(
    settings: PrepareSettings,
    vocabulary: VocabularyFacts,
    folder: str | Path,
    outputs: set[str],
    existing: set[str],
    manifests: Sequence[Manifest],
) -> None:
    """Checks that no files with another number of shards remain, and that --overwrite allows replacement.

    `settings` and `vocabulary` are those of the files to write, `outputs`; `manifests` are those in their folder,
    and `existing` those of `outputs` and of the manifests' files that exist already.
    """
    new = settings.output_settings
    for manifest in manifests:
        others = manifest.files & existing - outputs
        if manifest.settings.output_file == new["output_file"] and others:
            raise InputError(
                f"The files of --output_file={settings.output_file} must be those of one command, because "
                f"{settings.output_file}* names them all. {folder}/{min(others)} is of an earlier one, with "
                f"--num_shards={manifest.settings.num_shards}; delete its files, or name another --output_file."
            )
    if settings.overwrite:
        return
    existing = existing & outputs
    for manifest in manifests:
        old, theirs = manifest.settings.output_settings, manifest.files & existing
        changed = [f"--{name}={old[name]}, not {new[name]}" for name in new if old[name] != new[name]]
        before = manifest.vocabulary
        if before.normalization != vocabulary.normalization:
            changed.append(f"{before.normalization}, not {vocabulary.normalization}")
        elif before.sha256 != vocabulary.sha256 and not changed:
            changed.append(f"what {before.file} held before it changed")
        if theirs and changed:
            raise InputError(
                "Files with other settings are only replaced with --overwrite. Received "
                f"{folder}/{min(theirs)}, written with {'; '.join(changed)}. Add --overwrite, or name another "
                "--output_file."
            )
        existing = existing - theirs
    if existing:
        raise InputError(
            "Files that no manifest lists are only replaced with --overwrite. Received "
            f"{folder}/{min(existing)}. Add --overwrite, or name another --output_file."
        )


def no_examples(settings: PrepareSettings, inputs: Iterable[str], counts: Counter) -> InputError:
    """The error of a text, read from `inputs`, that gives no example."""
    needed, advice = "a document with at least two sentences", _advice(settings, inputs)
    if settings.sentence_objective == "none":
        needed, advice = "a sentence", "Name other text."
    received = f"{counts['sentences']:,} sentences and {counts['documents']:,} documents"
    return InputError(
        f"An example needs {needed}. Received none in {received} of {settings.input_file}. {advice}"
    )


def _advice(settings: PrepareSettings, inputs: Iterable[str]) -> str:
    """How to get documents of several sentences."""
    if are_rows(inputs):
        return (
            "A row is a document of prose: put the sentences that belong together into one row, or set "
            "--sentence_objective=none."
        )
    if settings.input_format == "lines":
        return (
            "Write one sentence per line and blank lines only between documents, or set --input_format=prose."
        )
    return "If it has one sentence per line, set --input_format=lines."


def layout_warning(settings: PrepareSettings, inputs: Iterable[str], counts: ExampleCounts) -> str | None:
    """A warning if text that is read as one sentence per line looks like prose, or rows have only one sentence."""
    makes_pairs = settings.sentence_objective != "none"
    if not are_rows(inputs):
        return prose_warning(vars(counts), makes_pairs)
    lone, advice = counts.documents_of_one_line, _advice(settings, inputs)
    few = f"{lone:,} of {counts.documents:,} rows have one sentence, which makes no pair. {advice}"
    return few if makes_pairs and lone > counts.documents / 2 else None


def final_notes(settings: PrepareSettings, manifest: Manifest) -> Iterator[str]:
    """What the user should know about the output: documents that occur more than once, and shares of a mixture."""
    number, total = manifest.counts.duplicate_examples, manifest.counts.examples
    if number and settings.drop_duplicates:
        yield f"Left out {number:,} examples of documents that occur more than once"
    elif number:
        yield (
            f"{number:,} of {total:,} examples repeat others, because their documents occur more than once; "
            "--drop_duplicates leaves them out"
        )
    for corpus in manifest.corpora:
        yield f"{corpus.share:.1%} of the tokens from {corpus.input_file}, in {corpus.passes:.3g} passes"


def prose_refused(
    settings: PrepareSettings, inputs: Iterable[str], counts: ExampleCounts
) -> InputError | None:
    """The error of text that looks like prose under --strict, if it does."""
    if settings.strict and not are_rows(inputs) and (warning := layout_warning(settings, inputs, counts)):
        return InputError(f"--strict allows no text that looks like prose. Received {warning}")
    return None


def _resolved(name: str) -> str:
    return name if is_file_address(name) else str(Path(name).resolve())
