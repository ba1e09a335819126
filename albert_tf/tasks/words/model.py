"""The task model that classifies words, such as for named entities."""

from collections.abc import Sequence

import keras
from keras import ops

from albert_tf.checkpoints.names import TOKEN_HEAD, WORD_CLASSES
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.tasks.heads import LinearHead
from albert_tf.tasks.linear_task_model import LinearTaskModel
from albert_tf.tasks.preprocessor import as_rows
from albert_tf.tasks.string_batches import are_strings, has_labels, is_dataset_of_strings, is_empty
from albert_tf.tasks.words.features import WordsPreprocessor
from albert_tf.tasks.words.labels import word_probabilities
from data_prep.errors import InputError


@keras.saving.register_keras_serializable(package="albert_tf")
class TokenClassifier(LinearTaskModel):
    """Classifies each token; the first token of a word stands for the word (as BERT does for named entities).

    Args:
      encoder, labels, classifier_dropout, preprocessor, seed: as for `LinearTaskModel`.

    Call args:
      inputs: a dict of integers (B, T): `input_ids`, `input_mask`, `token_type_ids`.

    Returns:
      float32 logits (B, T, C). Labels are integers (B, T), negative for tokens that do not count; or `label` in
      the dict, with `label_weights` (B, T).

    >>> model = TokenClassifier.from_pretrained("runs/base", labels=("O", "B-PER", "I-PER"))
    >>> model.predict([["Captain", "Lee", "sailed"]], verbose=0).shape[-1]
    3
    >>> len(model.predict_labels([["Captain", "Lee", "sailed"]], verbose=0)[0])
    3
    """

    default_name, kind, use = "token_classifier", "token_classification", WORD_CLASSES
    preprocessor_class = WordsPreprocessor
    has_token_outputs = True
    head_part = TOKEN_HEAD
    classifier: LinearHead

    def __init__(self, encoder: AlbertEncoder, labels: Sequence[str] = (), **kwargs):
        super().__init__(encoder, labels, **kwargs)
        encoder.pooler.trainable = False  # its output is not used

    def call(self, inputs, training=False):
        tokens = self.encoder_outputs(inputs, training)["sequence_output"]
        return self.classifier(tokens, training=training)

    def compile(
        self,
        optimizer="rmsprop",
        loss=None,
        loss_weights=None,
        metrics=None,
        weighted_metrics=None,
        *args,
        **kwargs,
    ):
        """Keras' `compile`; metrics count words only, not [CLS], [SEP] and padding."""
        merged = [*keras.tree.flatten(metrics or ()), *keras.tree.flatten(weighted_metrics or ())]
        super().compile(optimizer, loss, loss_weights, None, merged or None, *args, **kwargs)

    def predict_labels(self, x, batch_size=None, verbose="auto"):
        """A name for each word of each sentence; words beyond the longest sequence are outside entities, "O".

        Raises:
          InputError: `x` is not a list of lists of words.
        """
        if is_empty(x):
            return []
        if not are_strings(x):
            raise InputError(
                f"`predict_labels` of words takes a list of lists of words. Received a {type(x).__name__}; "
                "`predict` takes it."
            )
        features = self._needed_preprocessor().features(x)
        rows = self._rows_of(features, batch_size or 32, verbose)
        return [
            self.labels_of_outputs(
                word_probabilities(len(words), example["word_index"], row["output"], self.labels)
            )
            for words, example, row in zip(as_rows(x), features, rows, strict=True)
        ]

    def mapped(self, x):
        """As in `StringModel`; InputError for strings with labels, which tokens need."""
        if is_dataset_of_strings(x) and has_labels(x):
            raise InputError(
                "Datasets of words have no labels for each token. Pass lists of words and labels, or a dataset of "
                "ids and labels."
            )
        return super().mapped(x)

    def labels_of(self, x, y, sample_weight):
        """Nonnegative labels (B, T), and weights (B, T) that are 0 for tokens that do not count."""
        label_weights = x.get("label_weights") if isinstance(x, dict) else None
        y, sample_weight = super().labels_of(x, y, sample_weight)
        if y is None:
            return None, sample_weight
        weights = ops.cast(ops.cast(y, "int32") >= 0, "float32")
        for given in (label_weights, sample_weight):
            if given is not None:
                given = ops.cast(given, "float32")
                weights = weights * (given if ops.ndim(given) == 2 else ops.expand_dims(given, 1))
        return ops.maximum(ops.cast(y, "int32"), 0), weights
