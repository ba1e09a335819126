"""The files of each phase: checked before anything starts, then turned into batches."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.pretraining.flags import PretrainingFlags
from albert_tf.pretraining.phases import Phase, phases_in
from albert_tf.training.device_flags import at_most
from albert_tf.training.devices import Devices
from data_prep.errors import InputError
from data_prep.examples.manifest import check_same_vocabulary
from data_prep.reading.dataset import pretraining_dataset
from data_prep.reading.example_files import ExampleFiles
from data_prep.reading.random_draws import count_drawn_sets
from data_prep.text.mixture import Mixture
from data_prep.text.sources import expand_files


@dataclass(frozen=True)
class PhaseData:
    """Training and evaluation batches of one phase.

    Attributes:
      phase: the phase.
      train: its training files.
      heldout: its evaluation files, None without.
      old: evaluation files of text that --init_checkpoint was trained on, None without.
    """

    phase: Phase
    train: ExampleFiles
    heldout: ExampleFiles | None
    old: ExampleFiles | None = None

    def train_batches(self, devices: Devices, start_step: int, seed: int):
        """Endless batches for the training step, starting with the one for step `start_step` + 1 of the run.

        Each phase has its own order and masks, even for files that an earlier phase read. `pretraining_dataset`
        says what each of several hosts reads.
        """
        phase = self.phase
        examples_read = (start_step - phase.start_step) * phase.train_batch_size

        def per_host(context: tf.distribute.InputContext) -> tf.data.Dataset:
            batches = pretraining_dataset(
                self.train,
                batch_size=context.get_per_replica_batch_size(phase.train_batch_size),
                shuffle_seed=_wrapped(seed + phase.start_step),
                start_example=examples_read // context.num_input_pipelines,
                input_context=context,
            )
            # Otherwise each step would ask all workers whether they have data left.
            return batches.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))

        return devices.batches(per_host)

    def set_shares(self, start_step: int, steps: int, seed: int) -> dict[str, float]:
        """`input_share_N`, the share of the examples of these steps that came from set N of a mixture."""
        phase, shares = self.phase, self.train.shares
        if not shares:
            return {}
        begin = (start_step - phase.start_step) * phase.train_batch_size
        places = range(begin, begin + steps * phase.train_batch_size)
        drawn = count_drawn_sets(_wrapped(seed + phase.start_step), places, shares)
        return {f"input_share_{n}": count / len(places) for n, count in enumerate(drawn.tolist(), start=1)}

    def eval_batches(self, files: ExampleFiles, devices: Devices, batch_size: int):
        """All batches of evaluation files once, always the same on any number of hosts and replicas.

        The last batch, and every batch if `batch_size` is not a multiple of the number of replicas, is padded
        with rows that do not count.
        """
        batch_size = at_most(files.num_examples, batch_size, devices.replicas)
        return devices.divide(
            lambda: pretraining_dataset(files, batch_size=batch_size, repeat=False), batch_size
        )


def read_phases(flags: PretrainingFlags, config: AlbertConfig) -> tuple[PhaseData, ...]:
    """The data of all phases of a run, in order.

    Args:
      flags: the run's flags.
      config: the model that the examples must fit.

    Raises:
      InputError: a file is missing, cut short, or holds examples that do not fit the flags, the configuration or
        the other files.
    """
    phases: list[PhaseData] = []
    for values in phases_in(flags):
        start_step = phases[-1].phase.end_step if phases else 0
        phases.append(_read_phase(values, start_step, flags, config))
        _check_one_vocabulary("All phases", phases[0].train, phases[-1].train)
    return tuple(phases)


def _read_phase(
    values: dict[str, Any], start_step: int, flags: PretrainingFlags, config: AlbertConfig
) -> PhaseData:
    """The data of the phase that the flags describe by `values`."""
    mixture = Mixture.of(*(values[name] for name in ("input_file", "input_weights", "input_exponent")))
    corpora = mixture.corpora(expand_files)
    train_paths = [path for paths in corpora for path in paths]
    eval_paths = expand_files(values["eval_file"]) if values["eval_file"] else []
    if flags.do_train:
        _check_apart(train_paths, eval_paths)
    sizes = {"vocab_size": config.vocab_size, "type_vocab_size": config.type_vocab_size}
    train = ExampleFiles.read(
        train_paths,
        **sizes,
        max_seq_length=flags.max_seq_length,
        max_predictions_per_seq=flags.max_predictions_per_seq,
    ).mixed(mixture, corpora)
    heldout = ExampleFiles.read(eval_paths, **sizes) if eval_paths else None
    old = ExampleFiles.read(expand_files(flags.old_eval_file), **sizes) if flags.old_eval_file else None
    if old:
        _check_one_vocabulary("Training files and --old_eval_file", train, old)
    if heldout:
        _check_same_lengths(train, heldout)
        _check_one_vocabulary("Training and evaluation files", train, heldout)
    longest = max((files for files in (train, old) if files), key=lambda files: files.max_seq_length)
    if (T := longest.max_seq_length) > config.max_position_embeddings:
        raise InputError(
            f"`max_position_embeddings` must be at least the length of the examples. Received {T} tokens in "
            f"{longest.paths[0]} and {config.max_position_embeddings} in the model's configuration."
        )
    shares = flags.gradient_accumulation_steps * (flags.num_devices or 1)
    phase = Phase(
        **{**values, "train_batch_size": at_most(train.num_examples, values["train_batch_size"], shares)},
        max_seq_length=train.max_seq_length,
        max_predictions_per_seq=train.max_predictions_per_seq,
        start_step=start_step,
        num_examples=train.num_examples,
        num_bytes=train.num_bytes,
    )
    return PhaseData(phase, train, heldout, old)


def _check_apart(train_paths: list[Path], eval_paths: list[Path]) -> None:
    train = {path.resolve() for path in train_paths}
    both = [path for path in eval_paths if path.resolve() in train]
    if both:
        raise InputError(
            "Evaluation never reads the training files, but --input_file and --eval_file both name "
            f"{both[0]}. Give --eval_file examples of other documents."
        )


def _check_same_lengths(train: ExampleFiles, heldout: ExampleFiles) -> None:
    first, second = (f"{each.max_seq_length} and {each.max_predictions_per_seq}" for each in (train, heldout))
    if first != second:
        raise InputError(
            "Training and evaluation files must have the same --max_seq_length and --max_predictions_per_seq. "
            f"Received {first} in {train.paths[0]}, {second} in {heldout.paths[0]}; prepare both alike."
        )


def _check_one_vocabulary(what: str, *sets: ExampleFiles) -> None:
    """All sets of examples must have been prepared alike, as far as manifests tell; `what` they are."""
    if known := {files.paths[0]: files.manifest for files in sets if files.manifest}:
        check_same_vocabulary(what, known)


def _wrapped(seed: int) -> int:
    """A seed beyond 64 bits, wrapped into them."""
    return (seed + (1 << 63)) % (1 << 64) - (1 << 63)
