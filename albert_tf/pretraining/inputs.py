"""The files that a run reads: checked before anything starts, then made into batches."""

import dataclasses
import json
from pathlib import Path

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.pretraining.guidance import learning_rate
from albert_tf.pretraining.settings import PretrainingSettings
from data_prep.errors import InputError
from data_prep.examples.manifest import MANIFEST
from data_prep.reading.dataset import check_features, count_examples, feature_lengths, pretraining_dataset
from data_prep.text.documents import expand_files


class PretrainingInputs:
    """Training and evaluation batches of one run.

    Args:
      settings: the run's flags.
      config: the model that the examples must fit.

    Attributes:
      settings: the flags, with the lengths that they left to the files and the learning rate that they left
        to the batch.
      tokens_per_step: positions in a training batch, padding included.
      examples: how many there are to train on.
      manifest: the training files' manifest.json, None if there is none beside them.
      vocabulary: the SentencePiece model that the files were made with, None if it is not known or gone.

    Raises:
      InputError: a file is missing, cut short, or holds examples that fit neither flags nor configuration.
    """

    def __init__(self, settings: PretrainingSettings, config: AlbertConfig):
        self._train_files = expand_files(settings.input_file)
        self._eval_files = expand_files(settings.eval_file) if settings.eval_file else []
        self._check_apart()
        # Every file is walked through once, so that a shard cut short is told now and not after days.
        self._train_counts = count_examples(self._train_files)
        self._eval_counts = count_examples(self._eval_files)
        T, P = feature_lengths(self._train_files[0])
        T, P = settings.max_seq_length or T, settings.max_predictions_per_seq or P
        self._T, self._P = T, P
        self.settings = dataclasses.replace(
            settings, max_seq_length=T, max_predictions_per_seq=P, learning_rate=learning_rate(settings)
        )
        self.examples = sum(self._train_counts)
        self.tokens_per_step = settings.train_batch_size * T
        for file in (*self._train_files, *self._eval_files):
            check_features(file, T, P, config.vocab_size)
        if T > config.max_position_embeddings:
            raise InputError(
                f"`max_position_embeddings` must be at least the length of the examples. Received {T} tokens in "
                f"{self._train_files[0]} and {config.max_position_embeddings} in {settings.albert_config_file}."
            )
        manifest = self._train_files[0].parent / MANIFEST
        self.manifest = manifest if manifest.exists() else None
        self.vocabulary = self._find_vocabulary()

    def train_batches(self, strategy: tf.distribute.Strategy, start_step: int):
        """Endless batches for `strategy.run`, from where a run that had taken `start_step` steps would be.

        Hosts read files of their own. Where there are fewer files than hosts, each takes its part of every global
        batch, and the n-th one then has the same examples on any number of hosts, as on any number of replicas.
        """

        def per_host(context: tf.distribute.InputContext) -> tf.data.Dataset:
            batches = pretraining_dataset(
                self._train_files,
                batch_size=context.get_per_replica_batch_size(self.settings.train_batch_size),
                shuffle_seed=self.settings.seed,
                start_example=start_step * self.settings.train_batch_size // context.num_input_pipelines,
                num_hosts=context.num_input_pipelines,
                host=context.input_pipeline_id,
                counts=self._train_counts,
                max_seq_length=self._T,
                max_predictions_per_seq=self._P,
            )
            # Said, for else every step of several workers would ask all of them whether they have data left.
            return batches.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))

        return strategy.distribute_datasets_from_function(per_host)

    def eval_batches(self, strategy: tf.distribute.Strategy):
        """All evaluation batches once, always the same on any number of hosts and replicas.

        Each is filled up with rows that count for nothing, so that the replicas have equal parts: the last
        batch, and all where `eval_batch_size` is not a multiple of their number.
        """
        replicas = strategy.num_replicas_in_sync
        each = -(-self.settings.eval_batch_size // replicas)

        def per_host(context: tf.distribute.InputContext) -> tf.data.Dataset:
            batches = pretraining_dataset(
                self._eval_files,
                batch_size=self.settings.eval_batch_size,
                repeat=False,
                drop_remainder=False,
                counts=self._eval_counts,
                max_seq_length=self._T,
                max_predictions_per_seq=self._P,
            )
            local = replicas // context.num_input_pipelines
            first = context.input_pipeline_id * local

            def parts(batch):
                cut = {name: _parts(values, replicas, each) for name, values in batch.items()}
                return tf.data.Dataset.from_tensor_slices(
                    {name: values[first : first + local] for name, values in cut.items()}
                )

            return batches.flat_map(parts)

        return strategy.distribute_datasets_from_function(per_host)

    def _check_apart(self) -> None:
        train = {path.resolve() for path in self._train_files}
        both = [path for path in self._eval_files if path.resolve() in train]
        if both:
            raise InputError(
                "Evaluation never reads the training files, but --input_file and --eval_file both name "
                f"{both[0]}. Give --eval_file examples of other documents."
            )

    def _find_vocabulary(self) -> Path | None:
        if self.settings.spm_model_file:
            path = Path(self.settings.spm_model_file)
            if not path.is_file():
                raise InputError(
                    f"--spm_model_file must name a SentencePiece model or a vocab.txt. There is no file {path}."
                )
            return path
        if self.manifest:
            path = Path(json.loads(self.manifest.read_text(encoding="utf-8"))["vocabulary"]["file"])
            return path if path.is_file() else None
        return None


def _parts(values: tf.Tensor, number: int, each: int) -> tf.Tensor:
    """A batch (B, ...) filled up with zeros and cut: (number, each, ...)."""
    padding = [[0, number * each - tf.shape(values)[0]], *([0, 0] for _ in values.shape[1:])]
    return tf.reshape(tf.pad(values, padding), (number, each, *values.shape[1:]))
