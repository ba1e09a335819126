"""The pretraining model and its loss."""

import functools

import keras
from keras import ops

from albert_tf.config import AlbertConfig, Remat
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.heads import MaskedLMHead, SentenceOrderHead
from albert_tf.model.keras_model import AlbertModel


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertPretrainer(AlbertModel):
    """Encoder with masked-LM and sentence-order heads (paper, section 3.1).

    Args:
      config: the model's shape.
      seed: seed of the initial weights and the dropout masks.
      remat: as in `AlbertEncoder`: less memory, more computation.
      scan_layers: as in `AlbertEncoder`: shorter compilation with XLA.
      plain: as in `AlbertEncoder`.

    Call args:
      inputs: the encoder's dict of (B, T) arrays with `masked_lm_positions` (B, P); other keys, such as the
        labels of a pretraining batch, are ignored.

    Returns:
      A dict: `masked_lm_logits` (B, P, V) and `sentence_order_logits` (B, 2), in the compute dtype.

    >>> config = AlbertConfig(vocab_size=50, embedding_size=8, hidden_size=16, num_hidden_layers=2,
    ...                       num_attention_heads=2, intermediate_size=32)
    >>> batch = {"input_ids": np.array([[2, 4, 9, 3]]), "masked_lm_positions": np.array([[1]])}
    >>> outputs = AlbertPretrainer(config)(batch)
    >>> tuple(outputs["masked_lm_logits"].shape), tuple(outputs["sentence_order_logits"].shape)
    ((1, 1, 50), (1, 2))
    """

    input_names = (*AlbertModel.input_names, "masked_lm_positions")
    required_inputs = ("input_ids", "masked_lm_positions")

    def __init__(
        self,
        config: AlbertConfig,
        *,
        seed: int | None = None,
        remat: Remat = False,
        scan_layers: bool = False,
        plain: bool = False,
        **kwargs,
    ):
        super().__init__(**{"name": "albert_pretrainer", **kwargs})
        self.config = config
        dtype = self.dtype_policy
        self.encoder = AlbertEncoder(
            config, seed=seed, remat=remat, scan_layers=scan_layers, plain=plain, dtype=dtype
        )
        self.masked_lm = MaskedLMHead(config, self.encoder.seeds, self.encoder.kernels, dtype=dtype)
        self.sentence_order = SentenceOrderHead(config, self.encoder.seeds, dtype=dtype)
        self.epoch_means = _EpochMeans()
        self.build()

    def build(self, input_shape=None):
        H = self.config.hidden_size
        self.masked_lm.build((None, None, H))
        self.sentence_order.build((None, H))
        self.built = True

    def call(self, inputs, training=False):
        outputs = self.encoder(inputs, training=training, positions=inputs["masked_lm_positions"])
        return {
            "masked_lm_logits": self.masked_lm(
                outputs["sequence_output"],
                None,
                self.encoder.embeddings.word_embeddings,
            ),
            "sentence_order_logits": self.sentence_order(outputs["pooled_output"]),
        }

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """The pretraining loss of one batch, so that Keras `fit` trains this model on any backend.

            model.compile(Lamb(schedule, global_clipnorm=1.0))
            model.fit(pretraining_dataset(files, batch_size=32, repeat=False), epochs=3)

        `compile` needs no loss: the labels are among the inputs. With `repeat=True`, the batches have no end, and
        `fit` needs `steps_per_epoch`. Besides `loss`, the history of `fit` and the results of `evaluate` have each
        task's loss and accuracy, as in `pretraining_metrics`, over all predictions or pairs of an epoch.
        """
        sums = pretraining_sums(y_pred, x)
        means = pretraining_metrics(sums)
        self.epoch_means.update(means, sums)
        # Keras adds the gradients of the replicas of a distribution strategy, and scales the reported loss back.
        strategy = getattr(self, "distribute_strategy", None)  # on TensorFlow
        return means["loss"] / (strategy.num_replicas_in_sync if strategy else 1)

    @property
    def metrics(self):
        return [*super().metrics, *self.epoch_means.metrics]

    def get_config(self):
        return {
            **super().get_config(),
            "config": self.config.to_dict(),
            **{name: getattr(self.encoder, name) for name in ("seed", "remat", "scan_layers", "plain")},
        }

    @classmethod
    def arguments_of(cls, config):
        return {**config, "config": AlbertConfig.from_dict(config["config"])}


class _EpochMeans:
    """Each task's mean loss and accuracy over the batches of an epoch.

    Not a Keras object: Keras would save the metrics with the model.
    """

    def __init__(self):
        self.metrics = [
            keras.metrics.Mean(f"{task}_{mean}")
            for task in ("masked_lm", "sentence_order")
            for mean in ("loss", "accuracy")
        ]

    def update(self, means: dict, sums: dict) -> None:
        """Adds a batch: its `pretraining_metrics`, and the `pretraining_sums` that they are computed from."""
        for metric in self.metrics:
            task = metric.name.rpartition("_")[0]
            metric.update_state(means[metric.name], sample_weight=sums[f"{task}_weight"])


# The names of `pretraining_sums`, in their order.
SUMS = (
    "masked_lm_loss",
    "masked_lm_correct",
    "masked_lm_weight",
    "sentence_order_loss",
    "sentence_order_correct",
    "sentence_order_weight",
    "examples",
)


def pretraining_sums(outputs: dict, batch: dict, kernels=None) -> dict:
    """Sums over a batch, which give the losses and accuracies once the sums of all replicas are added.

    Args:
      outputs: what `AlbertPretrainer` returns.
      batch: `masked_lm_ids` integers (B, P), `masked_lm_weights` floats (B, P), 0 for unused predictions,
        `sentence_order` integers (B,), and optionally `sentence_order_weights` floats (B,), 0 for pairs without
        a label, and `input_mask` (B, T): rows that are all padding do not count as examples.
      kernels: those of the model in a training step that has formulas compiled.

    Returns:
      A dict of float32 scalars: `masked_lm_loss`, `masked_lm_correct` and `masked_lm_weight`, summed over
      predictions; `sentence_order_loss`, `sentence_order_correct` and `sentence_order_weight`, over pairs;
      `examples`, their number.
    """
    order, weighted_sums = batch["sentence_order"], functools.partial(_weighted_sums, kernels)
    ones, mask = ops.ones_like(order, dtype="float32"), batch.get("input_mask")
    sums = (
        *weighted_sums(outputs["masked_lm_logits"], batch["masked_lm_ids"], batch["masked_lm_weights"]),
        *weighted_sums(outputs["sentence_order_logits"], order, batch.get("sentence_order_weights", ones)),
        ops.sum(ones if mask is None else ops.cast(ops.any(mask > 0, axis=1), "float32")),
    )
    return dict(zip(SUMS, sums, strict=True))


def cross_entropy(logits, labels, kernels=None):
    """The loss of each prediction in nats, and 1 where its label is the most probable, else 0: float32 (...).

    Args:
      logits: (..., classes).
      labels: integers (...), the classes. Of equal logits, the first counts as the most probable.
      kernels: as in `pretraining_sums`.
    """
    if kernels and kernels.compiles(logits):
        return kernels.cross_entropy(logits, labels)
    wide = ops.cast(logits, "float32")
    is_best = ops.equal(ops.argmax(wide, axis=-1), ops.cast(labels, "int32"))
    losses = ops.sparse_categorical_crossentropy(labels, wide, from_logits=True)
    return losses, ops.cast(is_best, "float32")


def _weighted_sums(kernels, logits, labels, weights) -> tuple:
    """The sums of a head's cross-entropy, of its correct predictions, and of the weights of both."""
    weights = ops.cast(weights, "float32")
    losses, are_best = cross_entropy(logits, labels, kernels)
    return ops.sum(weights * losses), ops.sum(weights * are_best), ops.sum(weights)


def pretraining_metrics(sums: dict) -> dict:
    """Means from `pretraining_sums`, added over any number of batches.

    The masked-LM mean divides by the weights + 1e-5, as the original does, so a batch without predictions has
    loss 0.

    Returns:
      A dict of scalars: `loss` (the sum of the two losses), `masked_lm_loss`, `masked_lm_accuracy`,
      `sentence_order_loss`, `sentence_order_accuracy`. Losses in nats.
    """
    predictions, pairs = sums["masked_lm_weight"] + 1e-5, sums["sentence_order_weight"]
    pairs = pairs + 1e-12  # changes no mean, but without pairs the means are 0
    masked_lm_loss = sums["masked_lm_loss"] / predictions
    sentence_order_loss = sums["sentence_order_loss"] / pairs
    return {
        "loss": masked_lm_loss + sentence_order_loss,
        "masked_lm_loss": masked_lm_loss,
        "masked_lm_accuracy": sums["masked_lm_correct"] / predictions,
        "sentence_order_loss": sentence_order_loss,
        "sentence_order_accuracy": sums["sentence_order_correct"] / pairs,
    }
