"""The task model that turns texts into vectors, near each other for texts that belong together."""

import dataclasses
from collections.abc import Sequence

import keras
import numpy as np
from keras import ops

from albert_tf.checkpoints.heads import Head
from albert_tf.checkpoints.names import VECTOR_HEAD, HeadSize
from albert_tf.checkpoints.sentence_vectors import MEAN, Pooling
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.layers import dense
from albert_tf.model.sentence_vectors import normalized, pool
from albert_tf.tasks.objective import accumulated_step
from albert_tf.tasks.replicas import number_of_replicas
from albert_tf.tasks.sentences.features import SentencePreprocessor
from albert_tf.tasks.sentences.losses import class_losses, cosine_losses, pair_losses, text_prints
from albert_tf.tasks.sentences.rows import DROPOUT_PAIRS
from albert_tf.tasks.task_model import TaskModel
from data_prep.errors import InputError

_ONE_COLUMN = (
    "Sentence vectors are trained with a tuple of columns of texts, of which the first two belong together, or "
    "with the classes of texts, `y`. Received one column alone."
)
_INPUTS = ("input_ids", "input_mask", "token_type_ids")


@keras.saving.register_keras_serializable(package="albert_tf")
class SentenceEncoder(TaskModel):
    """Turns a text into one vector; the cosine of two vectors says how near their texts are.

    `fit` takes texts, and what says which of them belong together:

    - a tuple of two columns: each first text is trained to find the second one of its pair among all others of the
      batch. Further columns hold negatives, texts that do not belong to the first one.
    - a tuple of two columns, and scores as `y`: the cosine is trained to be the score, with squared error. Scores
      outside 0 to 1 are scaled so that the lowest is 0 and the highest 1.
    - one column, and classes as `y`: each text is trained to find the others of its class in the batch.
    - the same column twice: each text is trained to find itself under another dropout mask (SimCSE).

    Args:
      encoder: as for `TaskModel`.
      pooling: what makes one vector of those of the tokens: their "mean", that of [CLS] ("cls"), the "max" of each
        element, the "weightedmean" with the tokens' positions from 1 as weights, or the "pooled" output.
      units: D, of a dense layer after it; None for no layer.
      activation: of the dense layer, by its name in Keras.
      normalize: whether vectors have length 1.
      temperature: divides the cosines before the softmax.
      symmetric: whether second texts are also trained to find the first ones.
      preprocessor, seed: as for `TaskModel`.

    Call args:
      inputs: a dict of integers (B, T), or (B, C, T) for C texts in each example: `input_ids`, `input_mask`,
        `token_type_ids`.

    Returns:
      float32 (B, H), or (B, D) with a dense layer; (B, C, D) for C texts.

    >>> model = SentenceEncoder.from_pretrained("runs/base")
    >>> model.compile(AdamW(2e-5))
    >>> pairs = ["Who sailed?", "What stood there?"], ["The captain sailed past.", "The lighthouse stood there."]
    >>> history = model.fit(pairs, verbose=0)
    >>> vectors = model.encode(["Who sailed?", "The captain sailed past."])  # float32 (2, H)
    """

    default_name, kind = "sentence_encoder", "embedding"
    preprocessor_class, head_name, head_part = SentencePreprocessor, "dense", VECTOR_HEAD

    def __init__(
        self,
        encoder: AlbertEncoder,
        *,
        pooling: Pooling = "mean",
        units: int | None = None,
        activation: str = "tanh",
        normalize: bool = False,
        temperature: float = 0.05,
        symmetric: bool = False,
        preprocessor=None,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(encoder, preprocessor=preprocessor, seed=seed, **kwargs)
        self.pooling, self.units, self.activation, self.normalize = pooling, units, activation, normalize
        self.temperature, self.symmetric = temperature, symmetric
        self.dense = None
        if units:
            self.dense = dense(
                units, encoder.config, self.seeds, activation=activation, dtype=self.dtype_policy
            )
        if pooling != "pooled":
            encoder.pooler.trainable = False  # its output is not used
        self.build()

    def build(self, input_shape=None):
        if self.dense:
            self.dense.build((None, self.encoder.config.hidden_size))
        self.built = True

    def call(self, inputs, training=False):
        shape = ops.shape(inputs["input_ids"])
        flat = {name: ops.reshape(inputs[name], (-1, shape[-1])) for name in _INPUTS if name in inputs}
        mask = flat.get("input_mask", ops.ones_like(flat["input_ids"]))
        vectors = pool(self.encoder_outputs(flat, training), mask, self.pooling)
        if self.dense:
            vectors = ops.cast(self.dense(vectors), "float32")
        if self.normalize:
            vectors = normalized(vectors)
        return ops.reshape(vectors, (*shape[:-1], self.units or self.encoder.config.hidden_size))

    def encode(self, texts: Sequence[str], batch_size: int = 32, verbose=0) -> np.ndarray:
        """The vectors of N texts, float32 (N, D), computed in batches of similar lengths."""
        features = self._needed_preprocessor().features(texts)
        rows = [row["output"] for row in self._rows_of(features, batch_size, verbose)]
        return np.array(rows, np.float32).reshape(-1, self.units or self.encoder.config.hidden_size)

    # Losses

    def _features(self, x, y, sample_weight):
        features = super()._features(x, y, sample_weight)
        if features and features[0]["input_ids"].ndim == 1 and "group" not in features[0]:
            raise InputError(_ONE_COLUMN)
        config = self.encoder.config
        has_dropout = config.hidden_dropout_prob or config.attention_probs_dropout_prob
        if y is None and not has_dropout and all(np.array_equal(*each["input_ids"][:2]) for each in features):
            raise InputError(DROPOUT_PAIRS)
        return features

    def rows(self, x, y, vectors, sample_weight) -> dict:
        """What the loss needs of each example of a batch, arrays with a row for each."""
        scores, weights = self.labels_of(x, y, sample_weight)
        groups = x.get("group")
        if scores is not None and len(vectors.shape) == 2:
            groups, scores = scores, None
        ids = x["input_ids"]
        mask = x.get("input_mask", ops.ones_like(ids))
        weights = ops.ones((ops.shape(ids)[0],)) if weights is None else ops.cast(weights, "float32")
        weights = ops.reshape(weights, (-1,))
        is_text = ops.max(mask, axis=-1) > 0  # (B,) or (B, C)
        is_example = ops.reshape(weights > 0, (-1, *[1] * (len(is_text.shape) - 1)))
        rows = {
            "vectors": vectors,
            "texts": ops.cast(is_text & is_example, "float32"),
            "prints": text_prints(ids, mask, self.encoder.config.max_position_embeddings),
            "weights": weights,
        }
        given = {"scores": scores, "groups": groups}
        return rows | {name: ops.reshape(value, (-1,)) for name, value in given.items() if value is not None}

    def losses_of(self, rows: dict):
        """The losses of the examples of a whole batch, float32 (B,)."""
        vectors, arguments = rows["vectors"], (rows["texts"], rows["prints"])
        if "scores" in rows:
            return cosine_losses(vectors, rows["scores"])
        if "groups" in rows:
            return class_losses(vectors, *arguments, rows["groups"], self.temperature)
        if len(vectors.shape) == 2:
            raise InputError(_ONE_COLUMN)
        return pair_losses(vectors, *arguments, self.temperature, self.symmetric)

    def depends_on_batch(self, x, y):
        return len(x["input_ids"].shape) == 2 or self.labels_of(x, y, None)[0] is None

    def loss_sums(self, x, y, y_pred, sample_weight):
        rows = self.rows(x, y, y_pred, sample_weight)
        return ops.sum(self.losses_of(rows) * rows["weights"]), ops.sum(rows["weights"])

    def loss_in_parts(self, x, y, y_pred, sample_weight, all_rows, first):
        part = ops.shape(y_pred)[0]
        places = ops.arange(ops.shape(all_rows["weights"])[0]) - first  # in the part
        is_own = (places >= 0) & (places < part)
        vectors = ops.where(
            ops.reshape(is_own, (-1, *[1] * (len(y_pred.shape) - 1))),
            ops.take(y_pred, ops.clip(places, 0, part - 1), axis=0),
            ops.stop_gradient(all_rows["vectors"]),
        )
        losses = self.losses_of({**all_rows, "vectors": vectors}) * all_rows["weights"]
        is_own = ops.cast(is_own, "float32")
        return ops.sum(losses), (ops.sum(losses * is_own), ops.sum(all_rows["weights"] * is_own))

    def loss_weight(self, x, y, sample_weight):
        _, sample_weight = self.labels_of(x, y, sample_weight)
        rows = ops.cast(ops.shape(x["input_ids"])[0], "float32")
        return rows if sample_weight is None else ops.sum(ops.cast(sample_weight, "float32"))

    def task_losses(self, y, outputs):
        """Those of scores, which do not depend on the other examples of the batch."""
        return cosine_losses(outputs, y)

    def train_step(self, data):
        """Keras' step; with several replicas the loss is that of the batch of all of them."""
        return accumulated_step(self, data) if number_of_replicas() > 1 else super().train_step(data)

    # Files

    @classmethod
    def with_own_head(cls, stored):
        """A model with sentence vectors as one that has been fine-tuned for them."""
        if stored.head or not (how := stored.sentence_vectors):
            return stored
        how.check()
        lengths = {"max_seq_length": how.max_seq_length} if how.max_seq_length else {}
        head = Head(HeadSize(VECTOR_HEAD, 0), (), {}, lengths=lengths, kind=cls.kind)
        return dataclasses.replace(stored, head=head)

    @classmethod
    def from_stored(cls, stored, *args, **kwargs):
        """As `TaskModel.from_stored`; pooling, dense layer and normalization are the files' unless given."""
        how = stored.sentence_vectors or MEAN
        arguments = {"pooling": how.pooling, "normalize": how.normalize, **kwargs}
        layer = None if "units" in kwargs else how.dense
        if layer:
            arguments |= {"units": layer.bias.size, "activation": layer.activation}
        model = super().from_stored(dataclasses.replace(stored, head=None), *args, **arguments)
        if layer:
            model.set_stored_head(stored)
        return model

    def set_stored_head(self, stored):
        if self.dense and (layer := stored.sentence_vectors.dense):
            self.dense.set_weights([layer.kernel, layer.bias])

    def continue_head(self, stored):
        how = stored.sentence_vectors
        if self.dense and how and how.dense and self.units == how.dense.bias.size:
            self.activation = how.dense.activation
            self.dense.activation = keras.activations.get(self.activation)
            self.set_stored_head(stored)

    def get_config(self):
        names = ("pooling", "units", "activation", "normalize", "temperature", "symmetric")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}
