"""The pretraining heads: masked LM, tied to the word embeddings, and sentence order (paper, section 3.1)."""

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.model.layers import activation, dense, gather_positions, layer_norm


class MaskedLMHead(keras.layers.Layer):
    """Logits over the vocabulary at the masked positions.

    Gathers the P positions first, since they are only about 15% of the tokens.

    Call args:
      sequence_output: (B, T, H), or (B, P, H) if it holds only the masked positions.
      masked_lm_positions: integers (B, P) in [0, T); None if `sequence_output` is (B, P, H).
      word_embeddings: the encoder's table (V, E).

    Returns:
      Logits (B, P, V) in the compute dtype.

    >>> model = load_pretrained("runs/base").model
    >>> hidden = model.encoder({"input_ids": np.array([[2, 4, 9, 3]])})["sequence_output"]
    >>> tuple(model.masked_lm(hidden, np.array([[1]]), model.encoder.embeddings.word_embeddings).shape)
    (1, 1, 100)
    """

    def __init__(self, config: AlbertConfig, seeds, kernels=None, **kwargs):
        super().__init__(**{"name": "masked_lm", **kwargs})
        self.config = config
        self.transform = dense(
            config.embedding_size,
            config,
            seeds,
            name="transform",
            dtype=self.dtype_policy,
            activation=activation(config, kernels),
        )
        self.layer_norm = layer_norm(config, kernels, dtype=self.dtype_policy)

    def build(self, input_shape=None):
        self.output_shape = (None, None, self.config.vocab_size)
        self.transform.build((None, self.config.hidden_size))
        self.layer_norm.build((None, self.config.embedding_size))
        self.output_bias = self.add_weight(
            shape=(self.config.vocab_size,), initializer="zeros", name="output_bias"
        )

    def call(self, sequence_output, masked_lm_positions, word_embeddings):
        if masked_lm_positions is None:
            P, x = ops.shape(sequence_output)[1], ops.reshape(sequence_output, (-1, self.config.hidden_size))
        else:
            P, x = ops.shape(masked_lm_positions)[1], gather_positions(sequence_output, masked_lm_positions)
        x = self.layer_norm(self.transform(x))  # (B*P, H) -> (B*P, E)
        table = ops.transpose(ops.cast(word_embeddings, self.compute_dtype))  # (E, V)
        logits = ops.matmul(x, table) + self.output_bias  # (B*P, V)
        # With the batch size, as P may be 0, from which -1 could not be inferred.
        return ops.reshape(logits, (ops.shape(sequence_output)[0], P, self.config.vocab_size))


class SentenceOrderHead(keras.layers.Layer):
    """Logits (B, 2) from `pooled_output` (B, H): 0 if the segments are in order, 1 if they are swapped.

    >>> model = load_pretrained("runs/base").model
    >>> tuple(model.sentence_order(model.encoder({"input_ids": np.array([[2, 4, 9, 3]])})["pooled_output"]).shape)
    (1, 2)
    """

    def __init__(self, config: AlbertConfig, seeds, **kwargs):
        super().__init__(**{"name": "sentence_order", **kwargs})
        self.classifier = dense(2, config, seeds, name="classifier", dtype=self.dtype_policy)
        self.hidden_size = config.hidden_size

    def build(self, input_shape=None):
        self.output_shape = (None, 2)
        self.classifier.build((None, self.hidden_size))

    def call(self, pooled_output):
        return self.classifier(pooled_output)
