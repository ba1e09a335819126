"""`load_pretrained`: a pretrained model that takes texts, from any format."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import keras
import numpy as np
from keras import ops

from albert_tf.checkpoints.heads import Head
from albert_tf.checkpoints.longer_vocabulary import with_vocabulary
from albert_tf.checkpoints.names import OPTIONAL_PARTS
from albert_tf.checkpoints.open_model import open_model
from albert_tf.checkpoints.sentence_vectors import MEAN, SentenceVectors
from albert_tf.checkpoints.stored import StoredModel, check_vocabulary
from albert_tf.config import AlbertConfig
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.model.sentence_vectors import sentence_vectors
from albert_tf.runtime.text_answers import embeddings, encoder_inputs, filled_masks
from albert_tf.tasks.preprocessor import as_texts
from albert_tf.tasks.runner import Arrays, FunctionRunner
from albert_tf.tasks.splits import USUAL_SIZE
from data_prep.errors import InputError
from data_prep.tokenizers.masked_texts import MaskedTexts
from data_prep.tokenizers.vocabulary import Tokenizer, Vocabulary


@dataclass(frozen=True)
class Pretrained:
    """A model with its weights, and the vocabulary.

    Attributes:
      model: the encoder with both heads.
      missing: the parts among "pooler", "masked_lm" and "sentence_order" that the files do not hold; they have
        new, random weights.
      vocabulary: the vocabulary, if the files include one.
      head: head of a fine-tuned model, which is not part of `model`; `TextClassifier.from_pretrained` and the
        other task models load it.
      sentence_vectors: how `embed` makes a text's vector: by default the mean of the vectors of its tokens, [CLS]
        and [SEP] included; otherwise as the files of sentence-transformers say.

    >>> loaded = load_pretrained("runs/base")
    >>> loaded.missing, loaded.encoder.name, loaded.vocabulary.count_pieces()
    ((), 'albert_encoder', 100)
    >>> for piece, probability in loaded.fill_mask(["the [MASK] sailed"], top_k=2)[0][0]:
    ...     assert piece and 0 < probability < 1
    >>> vectors = loaded.embed(["the captain", "a quiet neighbour"])  # float32 (2, H)
    >>> outputs = loaded.encoder(loaded.encoder_inputs(["the captain", "a quiet neighbour"]))
    >>> outputs["sequence_output"].shape[0]
    2
    """

    model: AlbertPretrainer
    missing: tuple[str, ...]
    vocabulary: Vocabulary | None
    head: Head | None = None
    sentence_vectors: SentenceVectors = MEAN

    @property
    def parts(self) -> tuple[str, ...]:
        """Which of "pooler", "masked_lm" and "sentence_order" the files hold."""
        return tuple(part for part in OPTIONAL_PARTS if part not in self.missing)

    @cached_property
    def tokenizer(self) -> Tokenizer | None:
        """The vocabulary's tokenizer; None without a vocabulary."""
        return self.vocabulary.tokenizer() if self.vocabulary else None

    @property
    def encoder(self) -> AlbertEncoder:
        """The model without its heads."""
        return self.model.encoder

    @property
    def config(self) -> AlbertConfig:
        """The model's shape, with activation, epsilon and dropout from the files."""
        return self.model.config

    def fill_mask(self, texts: Sequence[str], top_k: int = 5) -> list[list[list[tuple[str, float]]]]:
        """Predicts the pieces behind the [MASK]s of texts.

        Args:
          texts: each with any number of [MASK].
          top_k: number of pieces for each mask.

        Returns:
          For each text, for each of its masks, (piece, probability) of the best pieces, best first. "▁" begins a
          word. A text that is too long is cut around its masks, or after the first ones if they are too far
          apart; masks that are cut off have no entry.

        Raises:
          InputError: the model has no vocabulary or no masked-LM head, or fewer pieces than `top_k`; a text has
            another model's mask, such as <mask>, and no [MASK].
        """
        if "masked_lm" in self.missing:
            raise InputError("Filling masks needs a masked-LM head, which the model's files do not hold.")
        tokenizer, model = self._tokenizer_for_text(), self.model
        if not 1 <= top_k <= tokenizer.vocab_size:
            raise InputError(
                f"`top_k` must be from 1 to the number of pieces, {tokenizer.vocab_size:,}. Received {top_k}."
            )
        texts, table = as_texts(texts), self.encoder.embeddings.word_embeddings
        outputs = self._outputs(len(texts))

        def best_pieces(batch):
            is_mask = batch["input_ids"] == tokenizer.mask_id
            hidden = ops.convert_to_numpy(ops.cast(outputs(batch)["sequence_output"], "float32"))
            logits = model.masked_lm(hidden[is_mask][np.newaxis], None, table)[0]  # (masks, V)
            # The model may have more embeddings than the vocabulary has pieces.
            probabilities = ops.softmax(ops.cast(logits, "float32"))[:, : tokenizer.vocab_size]
            best = map(ops.convert_to_numpy, ops.top_k(probabilities, top_k))
            ends = np.cumsum(is_mask.sum(axis=1))[:-1]
            by_text = (np.split(array, ends) for array in best)
            return dict(zip(("probabilities", "ids"), by_text, strict=True))

        rows, longest = FunctionRunner(best_pieces).rows, self.config.max_position_embeddings
        return [
            [
                list(zip(pieces, map(float, probabilities), strict=True))
                for pieces, probabilities in zip(text["pieces"], text["probabilities"], strict=True)
            ]
            for text in filled_masks(tokenizer, MaskedTexts(tokenizer), texts, longest, rows)
        ]

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Turns each text into one vector, as `sentence_vectors` says.

        Args:
          texts: N texts; one that is too long is cut at its end.

        Returns:
          float32 (N, D); D is the model's H, or the size of the dense layer after pooling.

        Raises:
          InputError: the model has no vocabulary, or its vectors cannot be computed here.
        """
        how = self.checked_vectors()
        texts = as_texts(texts)
        outputs = self._outputs(len(texts))

        def vectors(batch):
            return {
                "embedding": ops.convert_to_numpy(sentence_vectors(outputs(batch), batch["input_mask"], how))
            }

        rows = FunctionRunner(vectors).rows
        found = embeddings(self._tokenizer_for_text(), texts, self.longest_text, rows)
        return np.array([row["embedding"] for row in found], np.float32).reshape(-1, self.vector_size)

    @property
    def longest_text(self) -> int:
        """The longest text of which `embed` computes all, in tokens with [CLS] and [SEP]."""
        longest = self.config.max_position_embeddings
        return min(self.sentence_vectors.max_seq_length or longest, longest)

    @property
    def vector_size(self) -> int:
        """D, the size of the vectors of `embed`."""
        dense = self.sentence_vectors.dense
        return len(dense.bias) if dense else self.config.hidden_size

    def checked_vectors(self) -> SentenceVectors:
        """How vectors are made.

        Raises:
          InputError: it cannot be computed here, or needs a pooler, which the files do not hold.
        """
        self.sentence_vectors.check()
        if self.sentence_vectors.pooling == "pooled" and "pooler" in self.missing:
            raise InputError(
                "--pooling=pooled needs a pooler, which --model_dir does not hold. Use --pooling=mean."
            )
        return self.sentence_vectors

    def _outputs(self, count: int) -> Callable[[Arrays], dict]:
        """Runs the encoder for `count` examples; a graph pays off from the second batch on."""
        many = count > USUAL_SIZE.rows
        return self.encoder.predict_on_batch if many else partial(self.encoder, training=False)

    def encoder_inputs(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None, max_seq_length: int | None = None
    ) -> dict[str, np.ndarray]:
        """Turns texts, or pairs of texts, into the arrays of `encoder`: [CLS] a [SEP] or [CLS] a [SEP] b [SEP].

        Args:
          texts: N texts, in which [MASK] is the symbol.
          pairs: N second texts.
          max_seq_length: longest sequence, in tokens; the end of the longer text is cut off. Default: the model's
            number of positions.

        Returns:
          `input_ids`, `input_mask` and `token_type_ids`, int32 (N, T), padded to the longest sequence.

        Raises:
          InputError: the model has no vocabulary, or the lists differ in length.
        """
        longest = max_seq_length or self.config.max_position_embeddings
        return encoder_inputs(self._tokenizer_for_text(), texts, pairs, longest)

    def _tokenizer_for_text(self) -> Tokenizer:
        if self.tokenizer is None:
            raise InputError("Text input needs a vocabulary, which the model's files do not hold.")
        return self.tokenizer


def load_pretrained(
    source: str | Path,
    *,
    config: AlbertConfig | str | Path | None = None,
    vocab_file: str | Path | None = None,
    seed: int | None = None,
    dtype: str | keras.DTypePolicy | None = None,
) -> Pretrained:
    """Loads an ALBERT from any of the formats that it is published in; the format is detected.

    Args:
      source: a run or a checkpoint in it, what `albert convert` wrote, Google's TF1 checkpoint (folder,
        prefix or .tar.gz), a TF-Hub SavedModel by Google or Model Garden, a Hugging Face or KerasHub
        directory, a name that `albert models` lists ("albert_base_v2"), or an address: `hf://OWNER/NAME`,
        `https://` of a .tar.gz, or `kaggle://OWNER/MODEL/FRAMEWORK/VARIATION`.
      config: the configuration, or its albert_config.json, if it is not beside a TF1 checkpoint. It may also
        change the dropout of any other source.
      vocab_file: a vocabulary in place of the source's own; for a longer one that begins with its pieces
        (`albert vocab --extend`), the model gets new embeddings, each the mean of those that it replaces.
      seed: seed of the parts that the files do not hold, and of dropout.
      dtype: policy of the model, for instance "mixed_bfloat16". Default: Keras' global policy.

    Returns:
      The model, the parts that the files do not hold (also logged), and the vocabulary.

    Raises:
      InputError: `source` is none of these, or its files are damaged or do not fit each other.

    >>> loaded = load_pretrained("runs/base")  # or "albert_base_v2", or a path or an address
    >>> ids = [loaded.tokenizer.cls_id, *loaded.tokenizer.encode("the captain"), loaded.tokenizer.sep_id]
    >>> loaded.encoder({"input_ids": np.array([ids])})["pooled_output"].shape[-1] == loaded.config.hidden_size
    True
    """
    stored = open_model(source, config)
    if vocab_file:
        stored = with_vocabulary(stored, Vocabulary.read(vocab_file))
        check_vocabulary(stored)
    if stored.missing:
        message = "%s holds no %s: using fresh weights"
        logging.getLogger(__name__).warning(message, source, ", ".join(stored.missing))
    return as_pretrained(stored, seed, dtype)


def as_pretrained(stored: StoredModel, seed: int | None = None, dtype=None) -> Pretrained:
    """A model with the weights of a `StoredModel`; see `load_pretrained`."""
    model = AlbertPretrainer.of_stored(stored, seed=seed, dtype=dtype)
    how = stored.sentence_vectors or MEAN
    return Pretrained(model, stored.missing, stored.vocabulary, stored.head, how)
