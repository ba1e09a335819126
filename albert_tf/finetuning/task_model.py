"""What the models of all downstream tasks have in common: an encoder, a loss of their own, saving."""

import dataclasses
from pathlib import Path

import keras
from keras import ops

import albert_tf.optimizers  # noqa: F401  a saved model may have been compiled with one of them
from albert_tf.config import AlbertConfig
from albert_tf.finetuning.preprocessor import Preprocessor, TextPreprocessor
from albert_tf.finetuning.replicas import number_of_replicas, sum_over_replicas
from albert_tf.finetuning.string_batches import (
    are_strings,
    evaluate_batches,
    fit_batches,
    is_dataset_of_strings,
    map_strings,
    predict_batches,
)
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.pretrained.loading import load_pretrained
from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Vocabulary


class TaskModel(keras.Model):
    """An encoder with a head.

    It takes dicts of arrays: `input_ids`, and `input_mask` and `token_type_ids` as `AlbertEncoder` does. Labels
    are Keras' `y`, or lie in the dict under `label_key`, with `sample_weight` beside. `compile` needs no loss:
    without one it is the task's, a mean over all weights of the batch, however many replicas share it and however
    much of it is padding.

    Args:
      encoder: what the head stands on; it is trained along.
      preprocessor: from strings to the dict, so that `fit`, `evaluate` and `predict` take strings; None for none.
      seed: seeds the head's weights and dropout; those of the encoder go on if there is none.
    """

    default_name: str | None = None
    label_key = "label"
    preprocessor_class: type[Preprocessor] = TextPreprocessor
    input_rank = 2  # of the arrays in the dict
    has_token_outputs = False  # whether outputs are as long as the sequences
    labels: tuple[str, ...] = ()

    def __init__(self, encoder: AlbertEncoder, *, preprocessor=None, seed: int | None = None, **kwargs):
        super().__init__(**{"dtype": encoder.dtype_policy, "name": self.default_name, **kwargs})
        self.encoder = encoder
        self.preprocessor = preprocessor
        if preprocessor is not None:
            _check_fit(preprocessor, encoder.config)
        self.seed = seed
        self.seeds = encoder.seeds if seed is None else keras.random.SeedGenerator(seed, name="head_seeds")
        self.supports_jit = False  # XLA compiles for each length anew; compile(jit_compile=True) asks for it

    @classmethod
    def from_pretrained(
        cls,
        source: str | Path,
        *args,
        vocab_file: str | Path | None = None,
        max_seq_length: int | None = None,
        hidden_dropout: float | None = None,
        seed: int | None = None,
        **kwargs,
    ):
        """A model on a pretrained encoder, which takes strings where there is a vocabulary.

        Args:
          source: anything that `albert_tf.load_pretrained` reads.
          *args: of the class, after the encoder.
          vocab_file: a SentencePiece .model or a vocab.txt in place of what lies with the source.
          max_seq_length: longest sequence of strings; without, the preprocessor's.
          hidden_dropout: in place of the encoder's own dropout, in its layers and on attention probabilities.
          seed: of the head's weights and of dropout.
          **kwargs: of the class, too.

        Raises:
          InputError: the source or the vocabulary cannot be read, or they do not fit each other.
        """
        loaded = load_pretrained(source, seed=seed)
        vocabulary = Vocabulary.read(vocab_file) if vocab_file else loaded.vocabulary
        lengths = {} if max_seq_length is None else {"max_seq_length": max_seq_length}
        preprocessor = cls.preprocessor_class(vocabulary, **lengths) if vocabulary else None
        encoder = loaded.encoder
        if hidden_dropout is not None:
            encoder = with_dropout(encoder, hidden_dropout)
        return cls(encoder, *args, **{"preprocessor": preprocessor, "seed": seed, **kwargs})

    def fit(self, x=None, y=None, batch_size=None, epochs=1, *, validation_data=None, **kwargs):
        """Keras' `fit`, which also takes strings, as the preprocessor does, and the names of labels.

        Batches of strings are of similar length. Their order follows from the seed, so that it is the same in
        every call; `shuffle=False` keeps the given one.
        """
        if isinstance(validation_data, tuple) and are_strings(validation_data[0]):
            validation_data = self._evaluation_batches(*validation_data, batch_size=batch_size)
        if are_strings(x):
            return self._fit_strings(x, y, batch_size or 32, epochs, validation_data, **kwargs)
        validation_data = self._mapped(validation_data)
        return super().fit(self._mapped(x), y, batch_size, epochs, validation_data=validation_data, **kwargs)

    def _fit_strings(
        self,
        x,
        y,
        batch_size,
        epochs,
        validation_data,
        *,
        sample_weight=None,
        validation_split=0.0,
        shuffle=True,
        steps_per_epoch=None,
        **kwargs,
    ):
        features = self._needed_preprocessor().features(x, y, self.labels)
        held_out = int(len(features) * validation_split)
        if held_out:  # the last ones, as Keras does
            weights = None if sample_weight is None else sample_weight[-held_out:]
            validation_data = evaluate_batches(features[-held_out:], weights, batch_size)
            features = features[:-held_out]
        order = self.seeds.get_config()["seed"] if shuffle else None
        batches, steps = fit_batches(features, sample_weight, batch_size, order)
        return super().fit(
            batches,
            epochs=epochs,
            shuffle=False,  # it is done
            validation_data=self._mapped(validation_data),
            steps_per_epoch=steps_per_epoch or steps,
            **kwargs,
        )

    def evaluate(self, x=None, y=None, batch_size=None, verbose="auto", sample_weight=None, **kwargs):
        """Keras' `evaluate`, which also takes strings."""
        if are_strings(x):
            x = self._evaluation_batches(x, y, sample_weight, batch_size=batch_size)
            y = batch_size = sample_weight = None
        return super().evaluate(self._mapped(x), y, batch_size, verbose, sample_weight, **kwargs)

    def predict(self, x, batch_size=None, verbose="auto", **kwargs):
        """Keras' `predict`, which also takes strings."""
        if are_strings(x):
            features = self._needed_preprocessor().features(x)
            return self._predict_features(features, batch_size or 32, verbose, **kwargs)
        return super().predict(self._mapped(x), batch_size, verbose, **kwargs)

    def _predict_features(self, features, batch_size, verbose, **kwargs):
        """Outputs in the order of the features."""
        batches, rows = predict_batches(features, batch_size, self.has_token_outputs)
        outputs = super().predict(batches, None, verbose, **kwargs)
        return keras.tree.map_structure(lambda array: array[rows], outputs)

    def _needed_preprocessor(self):
        if self.preprocessor is None:
            raise InputError(
                "A model needs a vocabulary to take strings. This one has none: give `from_pretrained` a "
                "vocab_file, or call the model with arrays of ids."
            )
        return self.preprocessor

    def _evaluation_batches(self, x, y=None, sample_weight=None, *, batch_size=None):
        return evaluate_batches(
            self._needed_preprocessor().features(x, y, self.labels), sample_weight, batch_size or 32
        )

    def _mapped(self, x):
        """A dataset of strings as one of arrays; anything else as it is."""
        return map_strings(x, self._needed_preprocessor(), self.input_rank) if is_dataset_of_strings(x) else x

    def task_losses(self, y, outputs):
        """The loss of each thing to predict.

        Args:
          y: the labels.
          outputs: of the model.

        Returns:
          float32 (B,) or (B, T).
        """
        raise NotImplementedError

    def labels_of(self, x, y, sample_weight):
        """Labels and weights, from the batch's dict where they are not given by themselves."""
        if y is None and isinstance(x, dict):
            y = x.get(self.label_key)
            sample_weight = x.get("sample_weight") if sample_weight is None else sample_weight
        return y, sample_weight

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """The task's loss, unless `compile` was given one."""
        y, sample_weight = self.labels_of(x, y, sample_weight)
        if self.loss is not None:
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        losses = self.task_losses(y, y_pred)
        weights = ops.ones_like(losses)
        if sample_weight is not None:
            sample_weight = ops.cast(sample_weight, "float32")
            missing = len(losses.shape) - len(sample_weight.shape)  # a weight a row of several things
            weights = weights * ops.reshape(sample_weight, ops.shape(sample_weight) + (1,) * missing)
        # The replicas' gradients are added up.
        loss = ops.divide_no_nan(ops.sum(losses * weights), sum_over_replicas(ops.sum(weights)))
        return loss if number_of_replicas() == 1 else _with_value_by_rows(loss, ops.shape(losses)[0])

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """Keras' metrics, with the labels found as for the loss."""
        y, sample_weight = self.labels_of(x, y, sample_weight)
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def get_config(self):
        return {
            "encoder": self.encoder.get_config(),
            "preprocessor": keras.saving.serialize_keras_object(self.preprocessor),
            "seed": self.seed,
            "name": self.name,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
        }

    @classmethod
    def from_config(cls, config):
        # Files from before an encoder stored its own dtype have only the task model's.
        encoder = AlbertEncoder.from_config({"dtype": config["dtype"], **config["encoder"]})
        preprocessor = keras.saving.deserialize_keras_object(config["preprocessor"])
        return cls(**{**config, "encoder": encoder, "preprocessor": preprocessor})


def _with_value_by_rows(loss, rows):
    """A replica's share of the loss, with that value whose mean by rows, times replicas, is the whole loss.

    That mean is what Keras reports; the gradient stays that of the share.
    """
    rows = ops.cast(rows, "float32")
    reported = loss * ops.divide_no_nan(sum_over_replicas(rows), rows * number_of_replicas())
    return loss + ops.stop_gradient(reported - loss)


def _check_fit(preprocessor: Preprocessor, config: AlbertConfig) -> None:
    if preprocessor.max_seq_length > config.max_position_embeddings:
        raise InputError(
            "`max_seq_length` must not exceed the encoder's `max_position_embeddings`. Received "
            f"{preprocessor.max_seq_length} and {config.max_position_embeddings}."
        )
    if preprocessor.tokenizer.vocab_size > config.vocab_size:
        raise InputError(
            f"The vocabulary has {preprocessor.tokenizer.vocab_size} pieces, more than the encoder's "
            f"`vocab_size`, {config.vocab_size}: it is another model's."
        )


def with_dropout(encoder: AlbertEncoder, rate: float) -> AlbertEncoder:
    """The same encoder with another dropout, on hidden values and on attention probabilities."""
    config = dataclasses.replace(encoder.config, hidden_dropout_prob=rate, attention_probs_dropout_prob=rate)
    changed = AlbertEncoder.from_config({**encoder.get_config(), "config": config.to_dict()})
    changed.set_weights(encoder.get_weights())
    return changed


def cross_entropy(labels, logits):
    """Of integers (...) and float32 logits (..., C), in nats, float32 (...)."""
    return ops.sparse_categorical_crossentropy(ops.cast(labels, "int32"), logits, from_logits=True)
