"""`albert prepare --runner=...`: the local runner's work as an Apache Beam pipeline, for a cluster.

    inputs --> Text --> Document --> ((shard, slice), record) --GroupByKey--> sorted slices --GroupByKey--> shards

Every draw depends on the text and the seed alone, and a shard's records are sorted by their keys, so the files
equal the local runner's byte for byte. They get their final names once all of them are complete. An error in an
input is an output of the pipeline: a cluster would retry a step that raises an exception.
"""

import contextlib
import io
import logging
import shlex
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from data_prep.errors import InputError, needs_extra
from data_prep.files import new_folder

try:
    logging.getLogger().setLevel(logging.ERROR)  # notes on missing cloud packages
    with needs_extra('A --runner other than "local"', "apache-beam", "beam"):
        import apache_beam as beam
        from apache_beam.io.filesystems import FileSystems
        from apache_beam.options.pipeline_options import PipelineOptions
finally:
    logging.getLogger().setLevel(logging.WARNING)

from data_prep.examples.manifest import MANIFEST, Manifest, SourceFile, VocabularyFacts
from data_prep.examples.prepare_flags import PrepareSettings, check_settings
from data_prep.prepare.beam_files import (
    delete_folder,
    existing_names,
    expand_names,
    local_file,
    manifests_at,
    open_file,
    size_of,
)
from data_prep.prepare.beam_steps import (
    ERRORS_FILE,
    STARTED_FILE,
    MakeExamples,
    SamplePartners,
    add_counts,
    finish,
    mark_start,
    read_input,
    write_shard,
    write_slice,
)
from data_prep.prepare.outputs import (
    RECORD_BYTES,
    check_outputs,
    check_replaced,
    final_notes,
    is_file_address,
    layout_warning,
    output_names,
    with_word_boundaries,
)
from data_prep.prepare.progress import PrepareProgress
from data_prep.text.sources import compression_of
from data_prep.tokenizers.vocabulary import Vocabulary

_SLICE_BYTES = 64 << 20  # records that a worker sorts at a time, about
_UNKNOWN_SIZE = 1 << 30  # assumed for inputs whose size is unknown before reading
_LINES_SHOWN = 8
_SECONDS_TO_START = 900  # Dataflow takes minutes to start machines


def prepare_on_cluster(settings: PrepareSettings, show_progress: bool = True) -> Manifest:
    """Runs the pipeline and waits for its end; see `local.prepare`. All machines must see inputs and outputs."""
    check_settings(settings)
    options = _options(settings)
    FileSystems.set_options(options)  # they may hold the keys of the storage
    corpora = settings.mixture.corpora(expand_names)
    inputs = [name for names in corpora for name in names]
    names = output_names(settings.output_file, settings.num_shards)
    outputs = [name if is_file_address(name) else str(Path(name).absolute()) for name in names]
    check_outputs(outputs, inputs, settings.vocabulary_file)
    vocabulary = Vocabulary.read(settings.vocabulary_file, settings.do_lower_case)
    facts = VocabularyFacts.of(vocabulary.tokenizer())  # a damaged file is an error now, not in the job
    settings = with_word_boundaries(settings, facts.sha256)
    folder, files = outputs[0].rpartition("/")[0], {PurePosixPath(name).name for name in outputs}
    manifests = manifests_at(folder)
    existing = existing_names(
        [f"{folder}/{name}" for name in files.union(*(each.files for each in manifests))]
    )
    check_replaced(settings, facts, folder, files, existing, manifests)
    scratch = f"{folder}/.{PurePosixPath(outputs[0]).name}.{uuid.uuid4().hex[:8]}.scratch"
    with (
        contextlib.nullcontext() if is_file_address(folder) else new_folder(Path(folder)),
        PrepareProgress(0, show_progress) as progress,
        _job_errors(settings.runner, scratch),
    ):
        progress.step(f"preparing on {settings.runner}")
        pipeline = _pipeline(settings, corpora, outputs, scratch, vocabulary, options)
        _wait(pipeline.run(), scratch)
        if FileSystems.exists(f"{scratch}/{ERRORS_FILE}"):
            with open_file(f"{scratch}/{ERRORS_FILE}") as file:
                raise InputError(file.read().decode())
        with local_file(f"{folder}/{MANIFEST}") as path:
            manifest = Manifest.read(path)
    warning = layout_warning(settings, inputs, manifest.counts)
    progress.done(manifest.counts, folder, warning, final_notes(settings, manifest))
    return manifest


def _wait(result: Any, scratch: str) -> None:
    """Waits for the end of a job; cancels it if no worker has begun after a while."""
    has_no_workers = threading.Event()

    def give_up() -> None:
        if not FileSystems.exists(f"{scratch}/{STARTED_FILE}"):
            has_no_workers.set()
            result.cancel()

    timer = threading.Timer(_SECONDS_TO_START, give_up)
    timer.daemon = True
    timer.start()
    try:
        result.wait_until_finish()
    except Exception:
        if not has_no_workers.is_set():
            raise
    finally:
        timer.cancel()
    if has_no_workers.is_set():
        raise InputError(
            f"A job needs workers with the packages apache-beam and albert-tf. None has begun to work within "
            f"{_SECONDS_TO_START} seconds; look at the logs of the cluster's workers."
        )


def _pipeline(
    settings: PrepareSettings,
    corpora: list[list[str]],
    outputs: list[str],
    scratch: str,
    vocabulary: Vocabulary,
    options: PipelineOptions,
) -> beam.Pipeline:
    pipeline = beam.Pipeline(options=options)
    _ = (
        pipeline
        | "start" >> beam.Create([f"{scratch}/{STARTED_FILE}"])
        | "mark start" >> beam.Map(mark_start)
    )
    read = (
        pipeline
        | "inputs" >> beam.Create([(number, name) for number, names in enumerate(corpora) for name in names])
        | "one worker per input" >> beam.Reshuffle()
        | "read" >> beam.FlatMap(read_input, settings).with_outputs("errors", main="texts")
    )
    # Workers share the texts, and each splits its own into sentences.
    documents = (
        read.texts
        | "share texts" >> beam.Reshuffle()
        | "sentences" >> beam.FlatMap(lambda text: text.documents())
    )
    sizes: Any = {}
    if settings.mixture.is_mixed:
        characters = read.texts | "characters" >> beam.Map(lambda text: (text.corpus, text.num_characters))
        sizes = beam.pvalue.AsDict(characters | "sizes" >> beam.CombinePerKey(sum))
    partners = {}
    if settings.sentence_objective == "nsp":
        sample = documents | beam.CombineGlobally(SamplePartners(settings.random_seed, vocabulary))
        partners = {"partners": beam.pvalue.AsSingleton(sample)}
    inputs = [SourceFile(name, size_of(name)) for names in corpora for name in names]
    slices = _number_of_slices(settings, inputs, len(outputs))
    make = MakeExamples(settings, len(outputs), slices, vocabulary)
    made = documents | "make examples" >> beam.ParDo(make, sizes, **partners).with_outputs(
        "counts", "errors", main="records"
    )
    counts = made.counts | beam.CombineGlobally(add_counts)
    # Every shard has a slice 0, which may be empty.
    empty = pipeline | "all shards" >> beam.Create([((shard, 0), None) for shard in range(len(outputs))])
    shards = (
        (made.records, empty)
        | beam.Flatten()
        | "slices" >> beam.GroupByKey()
        | "sort slices" >> beam.Map(write_slice, scratch=scratch, drop_duplicates=settings.drop_duplicates)
        | "shards" >> beam.GroupByKey()
        | "write shards" >> beam.Map(write_shard, scratch=scratch, outputs=outputs)
    )
    skeleton = Manifest.build(settings, vocabulary.tokenizer(), inputs, Counter(), [])
    _ = (
        pipeline
        | "once" >> beam.Create([skeleton])
        | "finish"
        >> beam.Map(
            finish,
            scratch=scratch,
            outputs=outputs,
            counts=beam.pvalue.AsSingleton(counts),
            sizes=sizes,
            shards=beam.pvalue.AsList(shards),
            errors=beam.pvalue.AsList((read.errors, made.errors) | "errors" >> beam.Flatten()),
            strict=settings.strict,
        )
    )
    return pipeline


def _number_of_slices(settings: PrepareSettings, inputs: list[SourceFile], num_shards: int) -> int:
    """As many as make a slice of a shard about _SLICE_BYTES long."""
    characters = sum(
        (each.bytes or _UNKNOWN_SIZE) * (4 if compression_of(Path(each.file)) else 1) for each in inputs
    )
    return 1 + int(RECORD_BYTES * characters * settings.passes / num_shards / _SLICE_BYTES)


def _options(settings: PrepareSettings) -> PipelineOptions:
    quiet = "--default_sdk_harness_log_level=WARNING"
    messages = io.StringIO()
    try:
        with contextlib.redirect_stderr(messages):  # argparse prints all of Beam's flags to it, and exits
            flags = [f"--runner={settings.runner}", quiet, *shlex.split(settings.pipeline_options)]
            options = PipelineOptions(flags)
            options.get_all_options()
    except (ValueError, SystemExit) as error:
        reason = messages.getvalue().strip().rpartition("error: ")[2] or str(error)
        raise InputError(
            f"--pipeline_options must be flags of Apache Beam. Received {settings.pipeline_options!r}: {reason}."
        ) from None
    return options


@contextlib.contextmanager
def _job_errors(runner: str, scratch: str) -> Iterator[None]:
    """Turns the failure of a job into an InputError, and deletes its files."""
    beam_log = logging.getLogger("apache_beam")
    level = beam_log.level
    beam_log.setLevel(logging.CRITICAL)  # hides every worker's traceback
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        logging.getLogger(__name__).error("The job failed.", exc_info=error)
        lines = str(error).strip().splitlines() or [type(error).__name__]
        # A traceback ends with the message.
        reason = " ".join(lines) if len(lines) <= _LINES_SHOWN else lines[-1]
        raise InputError(f"The job failed on {runner}: {reason}") from None
    finally:
        beam_log.setLevel(level)
        with contextlib.suppress(Exception):
            delete_folder(scratch)
