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
from albert_tf.checkpoints.names import OPTIONAL_PARTS
from albert_tf.checkpoints.open_model import open_model
from albert_tf.checkpoints.stored import StoredModel
from albert_tf.config import AlbertConfig
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.pretrainer import AlbertPretrainer
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
      sentence_modules: modules of sentence-transformers beside the model, such as "Normalize", that `embed` lacks.

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
    sentence_modules: tuple[str, ...] = ()

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
        sequence_output = self._sequence_output(len(texts))

        def best_pieces(batch):
            is_mask = batch["input_ids"] == tokenizer.mask_id
            logits = model.masked_lm(sequence_output(batch)[is_mask][np.newaxis], None, table)[
                0
            ]  # (masks, V)
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
        """Turns each text into one vector: the mean of the vectors of its tokens, [CLS] and [SEP] included.

        Args:
          texts: N texts; one that is too long is cut at its end.

        Returns:
          float32 (N, H).

        Raises:
          InputError: the model has no vocabulary, or is one of sentence-transformers with other vectors.
        """
        self.check_vectors()
        texts, longest = as_texts(texts), self.config.max_position_embeddings
        sequence_output = self._sequence_output(len(texts))

        def mean(batch):
            weights = batch["input_mask"][:, :, np.newaxis].astype(np.float32)
            return {"embedding": (sequence_output(batch) * weights).sum(axis=1) / weights.sum(axis=1)}

        found = embeddings(self._tokenizer_for_text(), texts, longest, FunctionRunner(mean).rows)
        return np.array([row["embedding"] for row in found], np.float32).reshape(-1, self.config.hidden_size)

    def _sequence_output(self, count: int) -> Callable[[Arrays], np.ndarray]:
        """Runs the encoder for `count` examples; a graph pays off from the second batch on.

        Returns:
          A function of batches, which returns float32 (B, T, H).
        """
        many = count > USUAL_SIZE.rows
        run = self.encoder.predict_on_batch if many else partial(self.encoder, training=False)
        return lambda batch: ops.convert_to_numpy(ops.cast(run(batch)["sequence_output"], "float32"))

    def check_vectors(self) -> None:
        """Raises InputError if sentence-transformers makes other vectors than the mean of the tokens' vectors."""
        if self.sentence_modules:
            raise InputError(
                "The vector of a text is the mean of its tokens' vectors. modules.json beside the model also "
                f"names {', '.join(self.sentence_modules)}: use sentence-transformers, or remove modules.json "
                "for the mean."
            )

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
    if stored.missing:
        message = "%s holds no %s: using fresh weights"
        logging.getLogger(__name__).warning(message, source, ", ".join(stored.missing))
    return as_pretrained(stored, seed, dtype)


def as_pretrained(stored: StoredModel, seed: int | None = None, dtype=None) -> Pretrained:
    """A model with the weights of a `StoredModel`; see `load_pretrained`."""
    model = AlbertPretrainer.of_stored(stored, seed=seed, dtype=dtype)
    return Pretrained(model, stored.missing, stored.vocabulary, stored.head, stored.sentence_modules)
