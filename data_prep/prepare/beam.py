"""`albert prepare --runner=...`: the local runner's work as an Apache Beam pipeline, for a cluster.

    inputs --> Document --> ((shard, slice), record) --GroupByKey--> sorted slices --GroupByKey--> shards, manifest

The examples come from the local runner's functions, and all their draws from the text and the seed. A shard's
records are in the order of their keys here as there, so the files are the same, byte for byte. Nothing appears
under a final name before all of it is there. What is wrong with an input is an output of the pipeline, since a
cluster would try again for hours what fails with an exception.
"""

import contextlib
import dataclasses
import io
import logging
import shlex
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from data_prep.errors import InputError
from data_prep.files import new_folder

try:
    logging.getLogger().setLevel(logging.ERROR)  # notes on cloud packages that are not there
    import apache_beam as beam
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.options.pipeline_options import PipelineOptions
except ImportError:
    raise InputError(
        'Runners other than "local" need the package apache-beam. '
        "Install it with `pip install 'albert-tf[beam]'`."
    ) from None
finally:
    logging.getLogger().setLevel(logging.WARNING)

from data_prep.examples.document_examples import document_examples, serialize
from data_prep.examples.manifest import MANIFEST, ExampleCounts, InputFile, Manifest, Shard, remove_manifests
from data_prep.examples.partners import PartnerPool, PartnerSample
from data_prep.examples.settings import PrepareSettings, check_settings
from data_prep.prepare.beam_files import (
    expand_names,
    is_remote,
    local_file,
    open_file,
    output_names,
    replace_all,
    size_of,
)
from data_prep.prepare.beam_shards import write_shard, write_slice
from data_prep.prepare.progress import PrepareProgress
from data_prep.text.documents import Document, cut_documents, read_documents
from data_prep.text.sources import COMPRESSIONS
from data_prep.tfrecord.records import framed
from data_prep.tokenizers.vocabulary import Vocabulary

_SLICE_BYTES = 64 << 20  # of records that a worker sorts at a time, about
_UNKNOWN_SIZE = 1 << 30  # taken for inputs whose size nobody knows before reading
_LINES_TOLD = 8
_ERRORS_TOLD = 3
_ERRORS = "errors.txt"


def prepare_on_cluster(settings: PrepareSettings, show_progress: bool = True) -> Manifest:
    """Runs the pipeline and waits for its end; see `writer.prepare`.

    Args:
      settings: `runner` and `pipeline_options` say where. Inputs and outputs must be seen by all machines.
      show_progress: a line on standard error at the end, and before it a bar that says that it goes on.

    Returns:
      The manifest.

    Raises:
      InputError: as in `writer.prepare`; there is no such runner, or the job has failed.
    """
    check_settings(settings)
    inputs = expand_names(settings.input_file)
    outputs = output_names(settings.output_file, settings.num_shards)
    _check_outputs(outputs, inputs, settings.vocabulary_file)
    vocabulary = Vocabulary.read(settings.vocabulary_file, settings.do_lower_case)
    vocabulary.tokenizer()  # or InputError, before the job starts
    folder = outputs[0].rpartition("/")[0]
    scratch = f"{folder}/.{PurePosixPath(outputs[0]).name}.{uuid.uuid4().hex[:8]}.scratch"
    options = _options(settings)
    with (
        contextlib.nullcontext() if is_remote(folder) else new_folder(Path(folder)),
        PrepareProgress(0, show_progress) as progress,
        _job_errors(settings.runner, scratch),
    ):
        progress.step(f"preparing on {settings.runner}")
        pipeline = _pipeline(settings, options, inputs, outputs, scratch, vocabulary)
        pipeline.run().wait_until_finish()
        if FileSystems.exists(f"{scratch}/{_ERRORS}"):
            with open_file(f"{scratch}/{_ERRORS}") as file:
                raise InputError(file.read().decode())
        with local_file(f"{folder}/{MANIFEST}") as path:
            manifest = Manifest.read(path)
    counts = manifest.counts
    progress.done(f"Wrote {counts.examples:,} examples from {counts.documents:,} documents to {folder}")
    return manifest


def _pipeline(
    settings: PrepareSettings,
    options: PipelineOptions,
    inputs: list[str],
    outputs: list[str],
    scratch: str,
    vocabulary: Vocabulary,
) -> beam.Pipeline:
    pipeline = beam.Pipeline(options=options)
    read = (
        pipeline
        | "inputs" >> beam.Create(inputs)
        | "one worker an input" >> beam.Reshuffle()
        | "read" >> beam.FlatMap(_read, settings).with_outputs("errors", main="documents")
    )
    documents = read.documents | "share documents" >> beam.Reshuffle()
    partners = {}
    if settings.sentence_objective == "nsp":
        sample = documents | beam.CombineGlobally(_SamplePartners(settings.random_seed, vocabulary))
        partners = {"partners": beam.pvalue.AsSingleton(sample)}
    slices = _number_of_slices(settings, inputs, len(outputs))
    make = _MakeExamples(settings, len(outputs), slices, vocabulary)
    made = documents | "make examples" >> beam.ParDo(make, **partners).with_outputs(
        "counts", "errors", main="records"
    )
    counts = made.counts | beam.CombineGlobally(_add_counts)
    # Every shard has a slice 0, be it an empty one.
    empty = pipeline | "all shards" >> beam.Create([((shard, 0), None) for shard in range(len(outputs))])
    shards = (
        (made.records, empty)
        | beam.Flatten()
        | "slices" >> beam.GroupByKey()
        | "sort slices" >> beam.Map(write_slice, scratch=scratch)
        | "shards" >> beam.GroupByKey()
        | "write shards" >> beam.Map(write_shard, scratch=scratch, outputs=outputs)
    )
    skeleton = _manifest_skeleton(settings, inputs, vocabulary)
    _ = (
        pipeline
        | "once" >> beam.Create([skeleton])
        | "finish"
        >> beam.Map(
            _finish,
            scratch=scratch,
            outputs=outputs,
            counts=beam.pvalue.AsSingleton(counts),
            shards=beam.pvalue.AsList(shards),
            errors=beam.pvalue.AsList((read.errors, made.errors) | "errors" >> beam.Flatten()),
        )
    )
    return pipeline


def _read(name: str, settings: PrepareSettings):
    """An input to its documents, and what is wrong with it to "errors"."""
    try:
        with local_file(name) as path:
            yield from cut_documents(
                read_documents([path], settings.input_format, settings.language, settings.text_field)
            )
    except InputError as error:
        yield beam.pvalue.TaggedOutput("errors", str(error))


class _MakeExamples(beam.DoFn):
    """A document to ((shard, slice), (key, record, its numbers for the manifest)), its counts to "counts"."""

    def __init__(
        self,
        settings: PrepareSettings,
        num_shards: int,
        num_slices: int,
        vocabulary: Vocabulary,
    ):
        self._settings, self._vocabulary = settings, vocabulary
        self._num_shards, self._num_slices = num_shards, num_slices

    def setup(self):
        self._tokenizer = self._vocabulary.tokenizer()

    def process(self, document: Document, partners: PartnerPool | None = None):
        settings = self._settings
        counts: Counter = Counter()
        try:
            for key, example in document_examples(document, self._tokenizer, settings, counts, partners):
                record = serialize(example, settings.max_seq_length, settings.stored_predictions)
                place = (key % self._num_shards, key * self._num_slices >> 64)
                numbers = (len(example.input_ids), len(example.masked_lm_positions), bool(example.swapped))
                yield place, (key, framed(record), numbers)
        except InputError as error:
            yield beam.pvalue.TaggedOutput("errors", str(error))
        yield beam.pvalue.TaggedOutput("counts", counts)


class _SamplePartners(beam.CombineFn):
    """Documents to the pool that next-sentence prediction draws from."""

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


def _add_counts(counts: Iterable[Counter]) -> Counter:
    total: Counter = Counter()
    for one in counts:
        total.update(one)
    return total


def _finish(
    skeleton: Manifest,
    scratch: str,
    outputs: list[str],
    counts: dict,
    shards: list[tuple[int, str, Shard]],
    errors: list[str],
) -> None:
    """Gives the shards their names, writes the manifest and clears up; or leaves word of what is wrong."""
    counts = Counter(counts)  # Beam's coders make a dict of it
    if not errors and not counts["examples"]:
        errors = [
            "An example needs a document with at least two sentences. Received none in "
            f"{counts['sentences']:,} sentences and {counts['documents']:,} documents; `input_format` says how "
            "text files are laid out."
        ]
    if errors:
        with open_file(f"{scratch}/{_ERRORS}", "w") as file:
            file.write(_summary(errors).encode())
        return
    shards = sorted(shards)
    manifest = dataclasses.replace(
        skeleton, counts=ExampleCounts.of(counts), shards=[shard for *_, shard in shards]
    )
    folder = outputs[0].rpartition("/")[0]
    if not is_remote(folder):
        remove_manifests(Path(folder), (PurePosixPath(name).name for name in outputs))
    replace_all((name for _, name, _ in shards), outputs)
    if is_remote(folder):
        with open_file(f"{folder}/{MANIFEST}", "w") as file:
            file.write(manifest.to_json().encode())
    else:
        manifest.write(Path(folder))
    FileSystems.delete([scratch])


def _summary(errors: list[str]) -> str:
    different = sorted(set(errors))
    more = f" And {len(different) - _ERRORS_TOLD} more." if len(different) > _ERRORS_TOLD else ""
    return " ".join(different[:_ERRORS_TOLD]) + more


def _manifest_skeleton(settings: PrepareSettings, inputs: list[str], vocabulary: Vocabulary) -> Manifest:
    read = [InputFile(name, size_of(name)) for name in inputs]
    return Manifest.build(settings, vocabulary.tokenizer(), read, Counter(), [])


def _number_of_slices(settings: PrepareSettings, inputs: list[str], num_shards: int) -> int:
    """So many that a slice of a shard has about _SLICE_BYTES."""
    characters = sum(
        (size_of(name) or _UNKNOWN_SIZE) * (4 if name.endswith(COMPRESSIONS) else 1) for name in inputs
    )
    # A character of text comes to about 1.6 bytes of records in every duplicate.
    return 1 + int(1.6 * characters * settings.dupe_factor / num_shards / _SLICE_BYTES)


def _options(settings: PrepareSettings) -> PipelineOptions:
    quiet = "--default_sdk_harness_log_level=WARNING"
    messages = io.StringIO()
    try:
        with contextlib.redirect_stderr(messages):  # argparse writes all of Beam's flags there, and exits
            flags = [f"--runner={settings.runner}", quiet, *shlex.split(settings.pipeline_options)]
            options = PipelineOptions(flags)
            options.get_all_options()
    except (ValueError, SystemExit) as error:
        reason = messages.getvalue().strip().rpartition("error: ")[2] or str(error)
        raise InputError(
            f"`pipeline_options` must be flags of Apache Beam. Received {settings.pipeline_options!r}: {reason}."
        ) from None
    return options


def _check_outputs(outputs: list[str], inputs: list[str], model_file: str) -> None:
    both = set(outputs) & {*inputs, str(Path(model_file).absolute())}
    if both:
        raise InputError(f"`output_file` must not overwrite an input. Received {both.pop()} for both.")
    if len({name.rpartition("/")[0] for name in outputs}) > 1:
        raise InputError(
            "All names in `output_file` must lie in one folder, which also gets manifest.json. "
            f"Received {', '.join(outputs)}."
        )


@contextlib.contextmanager
def _job_errors(runner: str, scratch: str) -> Iterator[None]:
    """What went wrong on another machine, in one sentence; and nothing half-done stays."""
    beam_log = logging.getLogger("apache_beam")
    level = beam_log.level
    beam_log.setLevel(logging.CRITICAL)  # else every worker's traceback, for what one sentence says
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        logging.getLogger(__name__).error("The job failed.", exc_info=error)
        lines = str(error).strip().splitlines() or [type(error).__name__]
        reason = (
            " ".join(lines) if len(lines) <= _LINES_TOLD else lines[-1]
        )  # a traceback ends with what counts
        raise InputError(f"The job failed on {runner}: {reason}") from None
    finally:
        beam_log.setLevel(level)
        with contextlib.suppress(Exception):  # gone after success; never there where the runner did not start
            if FileSystems.exists(scratch):
                FileSystems.delete([scratch])
