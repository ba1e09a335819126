"""The base of all task models: an encoder, strings as inputs, the task's own loss, saving."""

import dataclasses
import logging
from pathlib import Path

import keras
from keras import ops

import albert_tf.optimizers  # noqa: F401  registers what saved models are compiled with
from albert_tf.checkpoints.heads import Head, name_of_kind
from albert_tf.checkpoints.longer_vocabulary import with_vocabulary
from albert_tf.checkpoints.names import HEADS, SEQUENCE_HEAD, HeadPart, Use
from albert_tf.checkpoints.open_model import open_model
from albert_tf.checkpoints.stored import StoredModel
from albert_tf.config import AlbertConfig
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.weights import set_weights
from albert_tf.tasks.heads import set_head
from albert_tf.tasks.objective import accumulated_step
from albert_tf.tasks.preprocessor import Preprocessor, VocabularyContent
from albert_tf.tasks.replicas import (
    masks_of_replica,
    number_of_replicas,
    replica_states,
    sum_over_replicas,
)
from albert_tf.tasks.string_model import StringModel
from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Vocabulary

_CROSS_ENTROPIES = (
    "sparsecategoricalcrossentropy",
    "categoricalcrossentropy",
    "categoricalfocalcrossentropy",
    "binarycrossentropy",
    "binaryfocalcrossentropy",
    "bce",
)


class TaskModel(StringModel):
    """An encoder with a head.

    Inputs are dicts of arrays: `input_ids` and, as for `AlbertEncoder`, `input_mask` and `token_type_ids`. Labels
    are Keras' `y`, or in the dict under `label_key`, beside `sample_weight`. `compile` needs no loss: by default
    the model uses the task's loss, the weighted mean over the batch, independent of replicas and padding.

    Args:
      encoder: trained together with the head.
      preprocessor: turns strings into the dict, so that `fit`, `evaluate` and `predict` take strings.
      seed: determines the head's weights and dropout; by default the encoder's seeds continue.
      freeze_encoder: train only the head; the encoder's dropout is off.

    Attributes:
      default_name: the name of the Keras model.
      kind: the name of the kind of task.
      use: what other libraries have the head for; None if they do not have it.
      preprocessor_class: that of `preprocessor`.
      head_name: the attribute that holds the head.
      head_part: which head it is in files.
      label_key: where the dict holds the labels.
      thresholds: in multi-label classification, the lowest probability at which a text gets each label.
      gradient_accumulation_steps: micro-batches into which `fit` cuts a batch, or a replica's share of it, to save
        memory; the gradient is still that of the whole batch. For the model's own loss, on TensorFlow.
    """

    default_name: str | None = None
    kind: str
    use: Use | None = None
    preprocessor_class: type[Preprocessor]
    head_name = "classifier"
    head_part: HeadPart = SEQUENCE_HEAD
    label_key = "label"
    thresholds: tuple[float, ...] = ()
    gradient_accumulation_steps = 1

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if "preprocessor_class" in vars(cls):  # .keras files hold it
            keras.saving.register_keras_serializable(package="albert_tf")(cls.preprocessor_class)

    def __init__(
        self,
        encoder: AlbertEncoder,
        *,
        preprocessor=None,
        seed: int | None = None,
        freeze_encoder: bool = False,
        **kwargs,
    ):
        super().__init__(**{"dtype": encoder.dtype_policy, "name": self.default_name, **kwargs})
        self.encoder = encoder
        if freeze_encoder:
            encoder.trainable = False
        self.preprocessor = preprocessor
        if preprocessor is not None:
            _check_fit(preprocessor, encoder.config)
        self.seed = seed
        self.seeds = encoder.seeds if seed is None else keras.random.SeedGenerator(seed, name="head_seeds")
        # With TensorFlow, XLA would recompile for each length; JAX without XLA compiles every operation by itself.
        self.supports_jit = keras.backend.backend() != "tensorflow"

    def enable_lora(self, rank: int, alpha: float | None = None) -> None:
        """Trains only low-rank matrices beside the encoder's, and the head; as `AlbertEncoder.enable_lora`.

        `model.save` stores the merged matrices, `save_adapters` what is trained alone.
        """
        self.encoder.enable_lora(rank, alpha)

    def encoder_outputs(self, inputs, training: bool, **options) -> dict:
        """The encoder's outputs; a frozen encoder has no dropout."""
        return self.encoder(inputs, training=training and self.encoder.trainable, **options)

    @classmethod
    def from_pretrained(
        cls,
        source: str | Path,
        *args,
        config: AlbertConfig | str | Path | None = None,
        vocab_file: str | Path | None = None,
        max_seq_length: int | None = None,
        hidden_dropout: float | None = None,
        new_head: bool = False,
        seed: int | None = None,
        dtype: str | keras.DTypePolicy | None = None,
        **kwargs,
    ):
        """Builds a model on a pretrained encoder; it takes strings if there is a vocabulary.

        If the source is fine-tuned for this kind of task, the model has its head, with the head's labels and
        dropout unless others are given. Otherwise the head is new, which a log line reports.

        Args:
          source: anything that `albert_tf.load_pretrained` reads.
          *args: the constructor's arguments after the encoder.
          config: as for `load_pretrained`, the configuration of a TF1 checkpoint if it is not beside it.
          vocab_file: a SentencePiece .model or a vocab.txt, instead of the source's own vocabulary; for a longer
            one that begins with its pieces, the encoder gets new embeddings.
          max_seq_length: longest sequence, in tokens; default: that of the training of a fine-tuned model of ours,
            otherwise the preprocessor's, but at most what the encoder has positions for.
          hidden_dropout: the encoder's dropout, on hidden vectors and attention probabilities; default: its own.
          new_head: initialize the head even if the source holds one.
          seed: determines the head's weights and dropout.
          dtype: policy of encoder and head, for instance "mixed_bfloat16". Default: Keras' global policy.
          **kwargs: further arguments of the constructor.

        Raises:
          InputError: the source or the vocabulary cannot be read, or they or the labels do not fit each other.
        """
        stored = cls.with_own_head(open_model(source, config))
        if vocab_file:
            stored = with_vocabulary(stored, Vocabulary.read(vocab_file))
        vocabulary = stored.vocabulary
        head = None if new_head or not cls._fits(stored.head, kwargs) else stored.head
        preprocessor = (
            cls.new_preprocessor(vocabulary, max_seq_length, stored.config, head) if vocabulary else None
        )
        new = (
            *(set(stored.missing) & {"pooler"}),
            *([] if head or new_head or not HEADS[cls.head_part] else [f"head for {name_of_kind(cls.kind)}"]),
        )
        if new:
            logging.getLogger(__name__).warning("%s holds no %s: using fresh weights", source, ", ".join(new))
        return cls.from_stored(
            dataclasses.replace(stored, head=head),
            *args,
            hidden_dropout=hidden_dropout,
            seed=seed,
            dtype=dtype,
            **{"preprocessor": preprocessor, **kwargs},
        )

    from_preset = from_pretrained  # KerasHub's name

    @classmethod
    def new_preprocessor(
        cls,
        vocabulary: Vocabulary,
        length: int | None,
        config: AlbertConfig,
        head: Head | None = None,
    ) -> Preprocessor:
        """A preprocessor of `length` tokens.

        Default: the lengths with which the head was trained, or else the usual length, but at most the model's
        positions.
        """
        lengths = head.lengths if head else {}
        preprocessor = cls.preprocessor_class(vocabulary, **lengths)
        if length is None and lengths:
            return preprocessor
        if length is not None:
            preprocessor.max_seq_length = length
        preprocessor.shorten(length or config.max_position_embeddings)
        return preprocessor

    @classmethod
    def from_stored(
        cls,
        stored: StoredModel,
        *args,
        hidden_dropout: float | None = None,
        seed: int | None = None,
        dtype: str | keras.DTypePolicy | None = None,
        **kwargs,
    ):
        """Builds a model on the encoder of files that were read, with their head if they hold one.

        Args:
          stored: its head, if any, is for this kind of task.
          *args: the constructor's arguments after the encoder.
          hidden_dropout: as for `from_pretrained`.
          seed: as for `from_pretrained`.
          dtype: as for `from_pretrained`.
          **kwargs: further arguments of the constructor.

        Raises:
          InputError: the labels do not fit the head.
        """
        encoder, head = AlbertEncoder.of_stored(stored, seed=seed, dtype=dtype), stored.head
        if hidden_dropout is not None:
            encoder = with_dropout(encoder, hidden_dropout)
        if head is None:
            return cls(encoder, *args, **{"seed": seed, **kwargs})
        head, arguments = cls._head_arguments(head, *args, **kwargs)
        model = cls(encoder, **{"seed": seed, **arguments})
        model.set_stored_head(dataclasses.replace(stored, head=head))
        return model

    @classmethod
    def with_own_head(cls, stored: StoredModel) -> StoredModel:
        """A model that was read, with what its files hold for this kind of task as its head."""
        return stored

    def set_stored_head(self, stored: StoredModel) -> None:
        """Sets the weights of the head to those of a fine-tuned model that was read."""
        assert stored.head, "`stored` is a fine-tuned model"
        set_head(getattr(self, self.head_name), stored.head, self.encoder.config)

    def continue_head(self, stored: StoredModel) -> None:
        """Sets what training goes on with of the head of the model that it starts from. Most heads begin anew."""

    @classmethod
    def from_finetuned(cls, stored: StoredModel, dtype: str | keras.DTypePolicy | None = None) -> "TaskModel":
        """Builds the fine-tuned model of files that were read; with a vocabulary it takes texts of any length.

        Args:
          stored: has a head for this kind of task.
          dtype: as for `from_pretrained`.
        """
        preprocessor = cls._preprocessor_of(stored)
        return cls.from_stored(stored, preprocessor=preprocessor, seed=0, dtype=dtype)

    @classmethod
    def from_file(cls, stored: StoredModel) -> "TaskModel":
        """Builds the fine-tuned model of a .keras file as it was saved: in its precision, with all its settings.

        Args:
          stored: what was read; the classes may have got other names since.
        """
        head = stored.head
        assert head, "`stored` is a fine-tuned model"
        classes = {
            name: getattr(head, name) for name in ("labels", "thresholds") if name in stored.keras_config
        }
        model: TaskModel = cls.from_config({**stored.keras_config, **classes, "preprocessor": None})
        if stored.is_quantized:
            model.load_weights(stored.path)  # only Keras knows how it stores these
        else:
            set_weights(model.encoder, stored.weights)
            model.set_stored_head(stored)
        model.preprocessor = cls._preprocessor_of(stored)
        if model.preprocessor:
            model.preprocessor.columns = dict(stored.columns)
            _check_fit(model.preprocessor, stored.config)
        return model

    @classmethod
    def _preprocessor_of(cls, stored: StoredModel) -> Preprocessor | None:
        """The preprocessor of a fine-tuned model, if there is a vocabulary."""
        if stored.vocabulary is None:
            return None
        return cls.preprocessor_of_finetuned(stored.vocabulary, stored.config, stored.head)

    @classmethod
    def preprocessor_of_finetuned(
        cls, vocabulary: Vocabulary, config: AlbertConfig, head: Head | None = None
    ) -> Preprocessor:
        """The preprocessor of a fine-tuned model whose files have a vocabulary at most.

        Texts are cut as in training, if the head says how. Otherwise contexts of questions are divided into
        windows of the usual length; other texts may be as long as the position table, and are truncated there.
        """
        uses_default = (head and head.lengths) or cls.has_windows
        length = None if uses_default else config.max_position_embeddings
        return cls.new_preprocessor(vocabulary, length, config, head)

    @classmethod
    def _fits(cls, head: Head | None, arguments: dict) -> bool:
        """Whether files hold a head that a model with these arguments can have."""
        return head is not None and (head.kind == cls.kind if head.kind else cls.use in head.uses)

    @classmethod
    def _head_arguments(cls, head: Head, **arguments) -> tuple[Head, dict]:
        """The head as the model has it, and the constructor's arguments with what the head adds to them."""
        return head, arguments if head.dropout is None else {"classifier_dropout": head.dropout, **arguments}

    def compile(self, optimizer="rmsprop", loss=None, *args, **kwargs):
        """Keras' `compile`; without `loss` the model has its task's.

        Raises:
          ValueError: the loss is a cross-entropy of probabilities, and the model returns logits.
        """
        for given in keras.tree.flatten(loss):
            name = given if isinstance(given, str) else getattr(given, "__name__", type(given).__name__)
            is_cross_entropy = name.lower().replace("_", "") in _CROSS_ENTROPIES
            if is_cross_entropy and not getattr(given, "from_logits", False):
                raise ValueError(
                    "The model returns logits, so `loss` must be left out, or have from_logits=True. Received "
                    f"{name} of probabilities, with which a model hardly learns."
                )
        # Keras would keep the loss and metrics of an earlier `compile`.
        self.loss = self._compile_loss = self._compile_metrics = None
        super().compile(optimizer, loss, *args, **kwargs)

    def compile_from_config(self, config):
        """Compiles a loaded model as it was when it was saved; Keras' does so only for its own `compile`."""
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def task_losses(self, y, outputs):
        """The loss of each label, float32 (B,) or (B, T).

        Args:
          y: the labels.
          outputs: what the model returns.
        """
        raise NotImplementedError

    def labels_of(self, x, y, sample_weight):
        """Labels and weights; each of them from the dict if it is None."""
        if isinstance(x, dict):
            y = x.get(self.label_key) if y is None else y
            sample_weight = x.get("sample_weight") if sample_weight is None else sample_weight
        return y, sample_weight

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """The loss given to `compile`, otherwise the task's."""
        if self.loss is not None:
            y, sample_weight = self.labels_of(x, y, sample_weight)
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        total, weight = self.loss_sums(x, y, y_pred, sample_weight)
        # Each replica returns its share: gradients are summed over replicas.
        loss = ops.divide_no_nan(total, sum_over_replicas(weight))
        rows = ops.shape(keras.tree.flatten(y_pred)[0])[0]
        loss = loss if number_of_replicas() == 1 else _with_value_by_rows(loss, rows)
        return loss + self._added_losses() / number_of_replicas()

    def _added_losses(self):
        """The sum of regularizers and of what `add_loss` added, a float32 scalar."""
        return sum(ops.cast(ops.sum(each), "float32") for each in self.losses)

    def loss_sums(self, x, y, y_pred, sample_weight) -> tuple:
        """The weighted sum of the task's losses, and the sum of their weights, float32 scalars.

        Raises:
          InputError: there are no labels.
        """
        y, sample_weight = self.labels_of(x, y, sample_weight)
        if y is None:
            raise InputError(
                f"`fit` and `evaluate` need labels. Received none: pass `y`, or `{self.label_key}` in the dict."
            )
        losses = self.task_losses(y, y_pred)
        weights = ops.ones_like(losses)
        if sample_weight is not None:
            sample_weight = ops.cast(sample_weight, "float32")
            if len(sample_weight.shape) > len(losses.shape):
                sample_weight = ops.squeeze(sample_weight, -1)  # a column
            missing = len(losses.shape) - len(sample_weight.shape)  # one weight for a row of several labels
            weights = weights * ops.reshape(sample_weight, ops.shape(sample_weight) + (1,) * missing)
        return ops.sum(losses * weights), ops.sum(weights)

    def depends_on_batch(self, x, y) -> bool:
        """Whether the loss of an example depends on the others of its batch.

        Such a model has the methods `rows`, what the loss needs of each example of a batch; and `loss_in_parts`,
        the loss of a whole batch whose rows are given, of which one part, which begins with row `first`, has
        outputs that carry a gradient, and that part's `loss_sums`.
        """
        return False

    def loss_weight(self, x, y, sample_weight):
        """The sum of the weights alone, for which no outputs are needed."""
        y, sample_weight = self.labels_of(x, y, sample_weight)
        if sample_weight is None:
            return ops.cast(ops.shape(keras.tree.flatten(y)[0])[0], "float32")
        return ops.sum(ops.cast(sample_weight, "float32"))

    def train_step(self, *args):
        """Keras' step, or that of `gradient_accumulation_steps`."""
        if self.gradient_accumulation_steps > 1:
            return accumulated_step(self, *args)
        with masks_of_replica(self):
            return super().train_step(*args)

    def test_step(self, *args):
        """Keras' step, in which a batch counts for its rows; with the task's loss it counts for its weights.

        So the loss of `evaluate` is the weighted mean over all examples, whatever the batch size.
        """
        if self.loss is not None or keras.backend.backend() != "tensorflow":
            return super().test_step(*args)
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(*args)
        y_pred = self(x, training=False)
        total, weight = self.loss_sums(x, y, y_pred, sample_weight)
        loss = ops.divide_no_nan(total, weight) + self._added_losses()
        self.metrics[0].update_state(loss, sample_weight=weight)
        return self.compute_metrics(x, y, y_pred, sample_weight)

    def __call__(self, *args, **kwargs):
        with replica_states():
            return super().__call__(*args, **kwargs)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """Keras' metrics, with labels as for the loss."""
        y, sample_weight = self.labels_of(x, y, sample_weight)
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def get_config(self):
        return {
            **super().get_config(),
            "kind": self.kind,  # with `head`, for readers of the file that know no classes
            "head": self.head_part,
            "encoder": self.encoder.get_config(),
            "preprocessor": keras.saving.serialize_keras_object(self.preprocessor),
            "seed": self.seed,
            "freeze_encoder": not self.encoder.trainable,
        }

    @classmethod
    def arguments_of(cls, config):
        config = {name: value for name, value in config.items() if name not in ("kind", "head")}
        if config["preprocessor"]:  # in place: Keras prints the configuration if anything of it is refused
            stored = config["preprocessor"]["config"]
            stored["content"] = VocabularyContent(stored["content"])
        encoder = AlbertEncoder.from_config(config["encoder"])
        preprocessor = keras.saving.deserialize_keras_object(config["preprocessor"])
        return {**config, "encoder": encoder, "preprocessor": preprocessor}


def _with_value_by_rows(loss, rows):
    """A replica's share of the loss, with the gradient of the share but another value.

    Keras reports the mean of the replicas' values weighted by rows; with this value the mean is the whole loss.
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
            f"`vocab_size`, {config.vocab_size}: it belongs to another model."
        )


def with_dropout(encoder: AlbertEncoder, rate: float) -> AlbertEncoder:
    """A copy of an encoder with another dropout rate for hidden vectors and attention probabilities."""
    config = dataclasses.replace(encoder.config, hidden_dropout_prob=rate, attention_probs_dropout_prob=rate)
    changed = AlbertEncoder.from_config({**encoder.get_config(), "config": config.to_dict()})
    changed.set_weights(encoder.get_weights())
    return changed


def cross_entropy(labels, logits):
    """Cross-entropy in nats, float32 (...), of integer labels (...) and float32 logits (..., C)."""
    return ops.sparse_categorical_crossentropy(ops.cast(labels, "int32"), logits, from_logits=True)
