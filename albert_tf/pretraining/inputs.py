"""The files that a run reads: checked before anything starts, then turned into batches."""

from pathlib import Path

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.pretraining.settings import PretrainingSettings, with_defaults
from data_prep.errors import InputError
from data_prep.reading.dataset import pretraining_dataset
from data_prep.reading.example_files import ExampleFiles
from data_prep.text.sources import expand_files


class PretrainingInputs:
    """Training and evaluation batches of one run.

    Args:
      settings: the run's flags.
      config: the model that the examples must fit.

    Attributes:
      settings: the flags with their defaults filled in.
      examples: the number of training examples.
      manifest: the manifest of the training files, None if there is none.
      vocabulary: the vocabulary that the files were made with, None if it is unknown or no longer there.

    Raises:
      InputError: a file is missing, cut short, or holds examples that do not fit the flags or the configuration.
    """

    def __init__(self, settings: PretrainingSettings, config: AlbertConfig):
        train_paths = expand_files(settings.input_file)
        eval_paths = expand_files(settings.eval_file) if settings.eval_file else []
        _check_apart(train_paths, eval_paths)
        self._train = ExampleFiles.read(
            train_paths,
            vocab_size=config.vocab_size,
            max_seq_length=settings.max_seq_length,
            max_predictions_per_seq=settings.max_predictions_per_seq,
        )
        T, P = self._train.max_seq_length, self._train.max_predictions_per_seq
        self._eval = None
        if eval_paths:
            self._eval = ExampleFiles.read(
                eval_paths, vocab_size=config.vocab_size, max_seq_length=T, max_predictions_per_seq=P
            )
        self.settings = with_defaults(settings, T, P)
        self.examples = self._train.num_examples
        if T > config.max_position_embeddings:
            raise InputError(
                f"`max_position_embeddings` must be at least the length of the examples. Received {T} tokens in "
                f"{train_paths[0]} and {config.max_position_embeddings} in {settings.albert_config_file}."
            )
        self.manifest = self._train.manifest
        self.vocabulary = self._find_vocabulary()

    def train_batches(self, strategy: tf.distribute.Strategy, start_step: int):
        """Endless batches for `strategy.run`, starting with the batch of the step after `start_step`.

        Each host reads its own files. If there are fewer files than hosts, each host reads its share of every
        global batch instead; the n-th global batch then has the same examples on any number of hosts.
        """

        def per_host(context: tf.distribute.InputContext) -> tf.data.Dataset:
            batches = pretraining_dataset(
                self._train,
                batch_size=context.get_per_replica_batch_size(self.settings.train_batch_size),
                shuffle_seed=self.settings.seed,
                start_example=start_step * self.settings.train_batch_size // context.num_input_pipelines,
                input_context=context,
            )
            # Otherwise each step would ask all workers whether they have data left.
            return batches.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))

        return strategy.distribute_datasets_from_function(per_host)

    def eval_batches(self, strategy: tf.distribute.Strategy):
        """All evaluation batches once, always the same on any number of hosts and replicas.

        Replicas have equal parts of a batch, so the last batch, and every batch if `eval_batch_size` is not a
        multiple of their number, is padded with rows that do not count.
        """
        assert self._eval, "there is no --eval_file"
        files = self._eval
        replicas = strategy.num_replicas_in_sync
        each = -(-self.settings.eval_batch_size // replicas)

        def per_host(context: tf.distribute.InputContext) -> tf.data.Dataset:
            batches = pretraining_dataset(files, batch_size=self.settings.eval_batch_size, repeat=False)
            local = replicas // context.num_input_pipelines
            first = context.input_pipeline_id * local

            def parts(batch):
                cut = {name: _parts(values, replicas, each) for name, values in batch.items()}
                return tf.data.Dataset.from_tensor_slices(
                    {name: values[first : first + local] for name, values in cut.items()}
                )

            return batches.flat_map(parts)

        return strategy.distribute_datasets_from_function(per_host)

    def _find_vocabulary(self) -> Path | None:
        if self.settings.spm_model_file:
            path = Path(self.settings.spm_model_file)
            if not path.is_file():
                raise InputError(
                    f"--spm_model_file must name a SentencePiece model or a vocab.txt. There is no file {path}."
                )
            return path
        if self.manifest:
            path = Path(self.manifest.vocabulary.file)
            return path if path.is_file() else None
        return None


def _check_apart(train_paths: list[Path], eval_paths: list[Path]) -> None:
    train = {path.resolve() for path in train_paths}
    both = [path for path in eval_paths if path.resolve() in train]
    if both:
        raise InputError(
            "Evaluation never reads the training files, but --input_file and --eval_file both name "
            f"{both[0]}. Give --eval_file examples of other documents."
        )


def _parts(values: tf.Tensor, number: int, each: int) -> tf.Tensor:
    """A batch (B, ...) padded with zeros and cut into parts: (number, each, ...)."""
    padding = [[0, number * each - tf.shape(values)[0]], *([0, 0] for _ in values.shape[1:])]
    return tf.reshape(tf.pad(values, padding), (number, each, *values.shape[1:]))
