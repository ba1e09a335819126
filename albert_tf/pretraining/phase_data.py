"""The files that a run reads: checked before anything starts, then turned into batches."""

import dataclasses
from pathlib import Path

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.pretraining.flags import PretrainingFlags, given_phases
from albert_tf.pretraining.phases import Phase
from albert_tf.training.device_flags import at_most
from albert_tf.training.strategy import divide_batches
from data_prep.errors import InputError
from data_prep.examples.manifest import check_same_vocabulary
from data_prep.reading.dataset import pretraining_dataset
from data_prep.reading.example_files import ExampleFiles
from data_prep.text.sources import expand_files
from data_prep.tokenizers.vocabulary import Vocabulary


def read_inputs(settings: PretrainingFlags, config: AlbertConfig) -> list["PretrainingInputs"]:
    """The inputs of all phases of a run, in order.

    Args:
      settings: the run's flags.
      config: the model that the examples must fit.

    Raises:
      InputError: a file is missing, cut short, or holds examples that do not fit the flags, the configuration or
        the other files.
    """
    inputs: list[PretrainingInputs] = []
    for phase in given_phases(settings):
        start_step = inputs[-1].phase.end_step if inputs else 0
        inputs.append(PretrainingInputs(phase, start_step, settings, config))
        inputs[-1].check_same_vocabulary(inputs[0])
    return inputs


class PretrainingInputs:
    """Training and evaluation batches of one phase.

    Args:
      phase: the phase as the flags give it.
      start_step: steps of the run before the phase.
      settings: the run's flags.
      config: the model that the examples must fit.

    Attributes:
      phase: the phase with the lengths and sizes of its files, and a batch that is no larger than they are.
      manifest: the manifest of the training files, None if there is none.
      vocabulary: the vocabulary that the files were made with, None if it is unknown or no longer there.
    """

    def __init__(self, phase: Phase, start_step: int, settings: PretrainingFlags, config: AlbertConfig):
        self._settings = settings
        train_paths = expand_files(phase.input_file)
        eval_paths = expand_files(phase.eval_file) if phase.eval_file else []
        if settings.do_train:
            _check_apart(train_paths, eval_paths)
        sizes = {"vocab_size": config.vocab_size, "type_vocab_size": config.type_vocab_size}
        self._train = ExampleFiles.read(
            train_paths,
            **sizes,
            max_seq_length=phase.max_seq_length,
            max_predictions_per_seq=phase.max_predictions_per_seq,
        )
        self._eval = ExampleFiles.read(eval_paths, **sizes) if eval_paths else None
        if self._eval:
            _check_same_lengths(self._train, self._eval)
            _check_one_vocabulary("Training and evaluation files", self._train, self._eval)
        T = self._train.max_seq_length
        if T > config.max_position_embeddings:
            raise InputError(
                f"`max_position_embeddings` must be at least the length of the examples. Received {T} tokens in "
                f"{self._train.paths[0]} and {config.max_position_embeddings} in the model's configuration."
            )
        self.phase = phase.resolve(
            T,
            self._train.max_predictions_per_seq,
            start_step,
            num_examples=self._train.num_examples,
            num_bytes=self._train.num_bytes,
        )
        shares = settings.gradient_accumulation_steps * (settings.num_devices or 1)
        batch_size = at_most(self._train.num_examples, phase.train_batch_size, shares)
        self.phase = dataclasses.replace(self.phase, train_batch_size=batch_size)
        self.manifest = self._train.manifest
        self.vocabulary = self._find_vocabulary()

    @property
    def lost_vocabulary(self) -> str | None:
        """The vocabulary that the manifest names, if that file is no longer there and no flag names another."""
        return self.manifest.vocabulary_here.file if self.manifest and not self.vocabulary else None

    def check_same_vocabulary(self, first: "PretrainingInputs") -> None:
        """Checks that the files were prepared like those of the `first` phase, as far as manifests tell.

        Raises:
          InputError: with another vocabulary or normalization of text.
        """
        _check_one_vocabulary("All phases", first._train, self._train)

    def train_batches(self, strategy: tf.distribute.Strategy, start_step: int):
        """Endless batches for `strategy.run`, starting with the one for step `start_step` + 1 of the run.

        Each phase has its own order and masks, even for files that an earlier phase read. `pretraining_dataset`
        says what each of several hosts reads.
        """
        phase = self.phase
        examples_read = (start_step - phase.start_step) * phase.train_batch_size

        def per_host(context: tf.distribute.InputContext) -> tf.data.Dataset:
            batches = pretraining_dataset(
                self._train,
                batch_size=context.get_per_replica_batch_size(phase.train_batch_size),
                shuffle_seed=_wrapped(self._settings.seed + phase.start_step),
                start_example=examples_read // context.num_input_pipelines,
                input_context=context,
            )
            # Otherwise each step would ask all workers whether they have data left.
            return batches.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))

        return strategy.distribute_datasets_from_function(per_host)

    def eval_batches(self, strategy: tf.distribute.Strategy):
        """All evaluation batches once, always the same on any number of hosts and replicas.

        The last batch, and every batch if `eval_batch_size` is not a multiple of the number of replicas, is padded
        with rows that do not count.
        """
        assert self._eval, "there is no --eval_file"
        files, replicas = self._eval, strategy.num_replicas_in_sync
        batch_size = at_most(files.num_examples, self._settings.eval_batch_size, replicas)
        return divide_batches(
            strategy, lambda: pretraining_dataset(files, batch_size=batch_size, repeat=False), batch_size
        )

    def _find_vocabulary(self) -> Vocabulary | None:
        if self._settings.spm_model_file:
            path = Path(self._settings.spm_model_file)
            if not path.is_file():
                raise InputError(
                    f"--spm_model_file must name a SentencePiece model or a vocab.txt. There is no file {path}."
                )
            return self.manifest.vocabulary.read(path) if self.manifest else Vocabulary.read(path)
        if self.manifest and Path(self.manifest.vocabulary_here.file).is_file():
            return self.manifest.vocabulary_here.read()
        return None


def _check_apart(train_paths: list[Path], eval_paths: list[Path]) -> None:
    train = {path.resolve() for path in train_paths}
    both = [path for path in eval_paths if path.resolve() in train]
    if both:
        raise InputError(
            "Evaluation never reads the training files, but --input_file and --eval_file both name "
            f"{both[0]}. Give --eval_file examples of other documents."
        )


def _check_same_lengths(train: ExampleFiles, evaluation: ExampleFiles) -> None:
    first, second = (
        f"{each.max_seq_length} and {each.max_predictions_per_seq}" for each in (train, evaluation)
    )
    if first != second:
        raise InputError(
            "Training and evaluation files must have the same --max_seq_length and --max_predictions_per_seq. "
            f"Received {first} in {train.paths[0]}, {second} in {evaluation.paths[0]}; prepare both alike."
        )


def _check_one_vocabulary(what: str, *sets: ExampleFiles) -> None:
    """All sets of examples must have been prepared alike, as far as manifests tell; `what` they are."""
    if known := {files.paths[0]: files.manifest for files in sets if files.manifest}:
        check_same_vocabulary(what, known)


def _wrapped(seed: int) -> int:
    """A seed beyond 64 bits, wrapped into them."""
    return (seed + (1 << 63)) % (1 << 64) - (1 << 63)
