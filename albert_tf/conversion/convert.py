"""`albert convert`: from any format that can be read to any that can be written."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import get_args

from albert_tf.checkpoints.card import LIBRARIES, TITLES, Usage, write_card
from albert_tf.checkpoints.facts import FACTS_FILE, write_facts
from albert_tf.checkpoints.huggingface import write_huggingface
from albert_tf.checkpoints.keras_models import MODEL_FILE
from albert_tf.checkpoints.kerashub import write_kerashub
from albert_tf.checkpoints.names import CONDITIONAL_SPAN_HEAD, VECTOR_HEAD, FileDtype, Writable
from albert_tf.checkpoints.open_model import open_model
from albert_tf.checkpoints.output_folder import check_replaceable, replaced_folder
from albert_tf.checkpoints.run_files import RESULTS_FILE
from albert_tf.checkpoints.sentence_transformers import MODULES_FILE
from albert_tf.checkpoints.sentence_vectors import MEAN, Pooling
from albert_tf.checkpoints.sources import NO_FLAGS, SourceFlags
from albert_tf.checkpoints.stored import StoredModel, read_optional_json
from albert_tf.checkpoints.tf1 import write_tf1
from albert_tf.config import CONFIG_FILE
from albert_tf.conversion.examples import example_for
from albert_tf.conversion.verification import OutputComparison, check_equal, compare_models
from albert_tf.model.keras_model import AlbertModel
from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.tasks.kind import Kind
from albert_tf.tasks.open_task import choose_task, head_in_card, kinds_of, read_source, with_kind
from albert_tf.tasks.sentences.kind import EMBEDDING
from albert_tf.tasks.spans.answers import EVEN_ODDS, null_threshold_of
from albert_tf.tasks.task import find_task
from data_prep.errors import InputError, check_choice


def write_keras(stored: StoredModel, folder: Path) -> list[str]:
    """Writes model.keras for `keras.saving.load_model`, and the files that belong to it.

    It holds a task model if `stored` has a head, otherwise an `AlbertPretrainer`.
    """
    if stored.head:
        model: AlbertModel = kinds_of(stored.head)[0].model.from_finetuned(stored, dtype="float32")
    else:
        model = AlbertPretrainer.of_stored(stored, seed=0, dtype="float32")
    model.save(folder / MODEL_FILE)
    stored.config.to_json_file(folder / CONFIG_FILE)
    if stored.vocabulary:
        stored.vocabulary.save(folder)
    write_facts(folder, stored.parts, stored.vocabulary)
    if stored.head or not stored.missing:
        return []
    return [f"untrained in {MODEL_FILE}, according to {FACTS_FILE}: {', '.join(stored.missing)}"]


# Each writes a model into an empty folder and returns notes on what the format cannot express.
_WRITERS: dict[Writable, Callable[[StoredModel, Path], list[str]]] = {
    "tf1": write_tf1,
    "huggingface": write_huggingface,
    "keras": write_keras,
    "kerashub": write_kerashub,
}


@dataclass(frozen=True)
class Conversion:
    """The result of a conversion.

    Attributes:
      notes: sentences on what the source lacks or the result cannot hold.
      comparison: the comparison of outputs, unless `convert` was called with verify=False.
    """

    notes: tuple[str, ...]
    comparison: OutputComparison | None


def convert(
    source: str | Path,
    destination: str | Path,
    to: Writable,
    *,
    dtype: FileDtype = "float32",
    task: str | None = None,
    flags: SourceFlags = NO_FLAGS,
    verify: bool = True,
    pooling: Pooling | None = None,
    write_more: Callable[[StoredModel, Path], list[str]] | None = None,
) -> Conversion:
    """Writes a model, pretrained or fine-tuned, in another format.

    Args:
      source: anything that `load_pretrained` reads.
      destination: a new or empty folder.
      to: format to write.
      dtype: precision of the weights with "huggingface"; the other formats store float32 only.
      task: what the head of a fine-tuned model is for, if the files do not say: the name of a task.
      flags: what else the files lack: configuration, vocabulary, names of the classes.
      verify: read the result back and compare outputs on random input before the files take their place. After
        rounding, the difference is measured, and any finite one passes.
      pooling: with "huggingface", write an encoder as a folder of sentence-transformers, too, which makes vectors
        with this pooling. Default: only if the source says how vectors are made.
      write_more: writes further files into the folder, and returns notes.

    Raises:
      InputError: an argument is not one of its choices, the source cannot be read, the format cannot hold the
        model, outputs differ, or `destination` is not empty. Nothing is written then.

    >>> conversion = convert("runs/base", "albert_hf", "huggingface")
    >>> load_pretrained("albert_hf").missing
    ()
    """
    destination = Path(destination)
    _check_destination(destination)
    check_choice(_WRITERS, "to", to)
    check_choice(get_args(FileDtype), "dtype", dtype)
    write, rounded = _WRITERS[to], dtype != "float32"
    if rounded:
        if to != "huggingface":
            raise InputError(f"--dtype={dtype} needs --to=huggingface. Received --to={to}.")
        write = partial(write_huggingface, dtype=dtype)
    stored, left_out = _as_written(_read(source, to, find_task(task).kind if task else None, flags))
    if pooling:
        stored = _with_pooling(stored, pooling, to)
    with replaced_folder(destination) as aside:
        notes = [*left_out, *write(stored, aside), *_lost_threshold(stored)]
        if write_more:
            notes += write_more(stored, aside)
        kept = to == "huggingface" or (to == "keras" and stored.head)
        if stored.sentence_vectors and not kept:
            notes.append(
                f"left out: {stored.sentence_vectors}, which --to=huggingface keeps for vectors of texts"
            )
        if stored.config.parameter_sharing in ("attention", "ffn") and to != "keras":
            notes.append("the format has only groups: shared parts are stored once per group")
        comparison = _verified(stored, open_model(aside), to, rounded) if verify else None
        label = f"weights in {dtype}" if rounded else "verified"
        check = comparison.describe(label) if comparison else "not verified (--noverify)"
        library = LIBRARIES.get(to, Usage.library)
        if (aside / MODULES_FILE).exists():
            library = "sentence-transformers"
        usage = Usage(TITLES[to], "albert convert", example_for(stored, to), library=library)
        if stored.head:
            usage = dataclasses.replace(usage, **head_in_card(stored.head))
        write_card(aside, source, stored, usage, notes, check)
    missing = [part for part in stored.missing if part == "pooler" or not stored.head]
    absent = (f"not in the source: {', '.join(missing)}",) if missing else ()
    return Conversion((*absent, *stored.notes, *notes), comparison)


def _with_pooling(stored: StoredModel, pooling: Pooling, to: Writable) -> StoredModel:
    check_choice(get_args(Pooling), "pooling", pooling)
    if to != "huggingface" or stored.head:
        what = f"a model for {stored.head.what}" if stored.head else f"--to={to}"
        raise InputError(f"--pooling is for encoders, with --to=huggingface. Received {what}.")
    how = stored.sentence_vectors or MEAN
    how.check()
    return dataclasses.replace(stored, sentence_vectors=dataclasses.replace(how, pooling=pooling))


def _check_destination(destination: Path) -> None:
    is_empty_folder = destination.is_dir() and not any(destination.iterdir())
    if not is_empty_folder and (destination.exists() or destination.is_symlink()):
        raise InputError(f"The destination must be a new or empty folder. Received {destination}.")
    check_replaceable(destination)


def _read(source: str | Path, to: Writable, kind: Kind | None, flags: SourceFlags) -> StoredModel:
    stored = read_source(source, flags, kind)
    if to == "keras":
        stored = EMBEDDING.model.with_own_head(stored)
    head = stored.head
    if head is None:
        return stored
    if head.size.part == VECTOR_HEAD and to != "keras":
        return dataclasses.replace(stored, head=None)  # elsewhere it is what `sentence_vectors` says
    if to != "tf1":
        head = choose_task(head, kind)
    elif head.kind or len(head.uses) == 1:  # otherwise TF1 leaves open again what a head is for
        head = with_kind(head, kinds_of(head)[0])
    return dataclasses.replace(stored, head=head)


def _as_written(stored: StoredModel) -> tuple[StoredModel, list[str]]:
    """The model, without pretraining heads if it is fine-tuned, as no format holds both; and notes."""
    if stored.head is None:
        return stored, []
    extra = [part for part in stored.parts if part != "pooler"]
    weights = {name: array for name, array in stored.weights.items() if name.split("/")[0] not in extra}
    notes = [f"a fine-tuned model has no heads for pretraining: left out {', '.join(extra)}"] if extra else []
    return dataclasses.replace(stored, weights=weights), notes


def _lost_threshold(stored: StoredModel) -> list[str]:
    """A note on the null threshold of a run for SQuAD 2.0, which no format can hold."""
    if stored.head is None or stored.head.size.part != CONDITIONAL_SPAN_HEAD or not stored.path.is_file():
        return []
    threshold = null_threshold_of(read_optional_json(stored.path.with_name(RESULTS_FILE)))
    if threshold == EVEN_ODDS:
        return []
    return [
        f"the run finds no answer above null odds of {threshold:g}, which the files do not hold: theirs are 0"
    ]


def _verified(stored: StoredModel, result: StoredModel, to: Writable, rounded: bool) -> OutputComparison:
    assert to == "kerashub" or result.parts == stored.parts
    assert bool(result.head) == bool(stored.head)
    comparison = compare_models(stored, result)
    check_equal(comparison, rounded=rounded)
    return comparison
