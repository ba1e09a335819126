"""Text in, words and their labels out: what a fine-tuned token classifier serves.

text --white space--> words --tokenize--> pieces --windows--> (N, T) --model--> logits of each word's first piece
    --padded--> words, labels, offsets (B, W)
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.tasks.features import SURROUNDING_SYMBOLS
from albert_tf.tasks.serialized import EXAMPLES, example_batch
from albert_tf.tasks.served import (
    TEXT,
    FromIds,
    FromStrings,
    ids_to_classes,
    model_function,
    padded_batch,
    warmup_requests,
)
from albert_tf.tasks.words.model import TokenClassifier
from data_prep.in_graph import GraphTokenizer, make_graph_tokenizer
from data_prep.in_graph.character_ops import looked_up
from data_prep.tokenizers.normalization import WHITE_SPACE
from data_prep.tokenizers.vocabulary import Tokenizer

_TEXT = "The captain sailed past. His brother painted the lighthouse."
_EXAMPLE = """
import tensorflow as tf
import tensorflow_text  # registers the tokenizer's operations

label = tf.saved_model.load(".")
outputs = label(tf.constant(["The captain sailed past .", "A quiet neighbour"]))
print({name: array.numpy() for name, array in outputs.items()})
"""


def words_from_strings(model: TokenClassifier, tokenizer: Tokenizer) -> FromStrings:
    """The model with its tokenizer, from text to labelled words.

    The object is called with a batch of texts, string (B,). White space separates their words, as in `albert
    predict`. It returns arrays (B, W), padded to the longest text: `words` and `labels`, string, padded with "";
    `begins` and `ends`, int32, the word's place in the text in bytes, padded with -1; and `probabilities`,
    float32, those of the labels, padded with 0. A word has the label of its first piece. A text that is longer
    than the model's sequences is read in windows that overlap by half, and each word is labelled where it has
    context on both sides. `.examples` takes the ids of texts as serialized tf.train.Example messages, string (B,).
    It returns each token's label, `labels`, string (B, T), and the `probabilities` of all labels,
    float32 (B, T, C); padding has "" and 0. The signature `serving_default` has the input `text`; `examples` has
    `examples`.

    Args:
      model: the fine-tuned model.
      tokenizer: the tokenizer of its vocabulary.
    """
    graph, logits_of = make_graph_tokenizer(tokenizer), model_function(model)
    room = model.preprocessor.max_seq_length - SURROUNDING_SYMBOLS

    def label(texts):
        words, begins, ends = _split(texts)
        windows = _windows(_pieces(words.values, graph, tokenizer.unk_id), words.row_splits, room)
        batch = padded_batch(windows.ids, tokenizer)
        logits = logits_of({**batch, "token_type_ids": tf.zeros_like(batch["input_ids"])})  # (N, T, C)
        places = tf.stack([windows.window_of_word, 1 + windows.place_of_word], axis=1)  # [CLS] comes first
        probabilities = tf.nn.softmax(tf.gather_nd(logits, places))  # of all words, (words, C)
        names = tf.gather(tf.constant(model.labels), tf.argmax(probabilities, axis=-1))
        best = tf.reduce_max(probabilities, axis=-1)
        return {
            "words": words.to_tensor(""),
            "labels": words.with_values(names).to_tensor(""),
            "begins": tf.cast(begins.to_tensor(-1), tf.int32),
            "ends": tf.cast(ends.to_tensor(-1), tf.int32),
            "probabilities": words.with_values(best).to_tensor(0.0),
        }

    def label_examples(examples):
        batch = example_batch(examples, model.encoder.config)
        probabilities = tf.nn.softmax(logits_of(batch))
        is_token = batch["input_mask"] > 0
        names = tf.gather(tf.constant(model.labels), tf.argmax(probabilities, axis=-1))
        return {
            "labels": tf.where(is_token, names, ""),
            "probabilities": tf.where(is_token[:, :, tf.newaxis], probabilities, 0.0),
        }

    def check(loaded):
        words = _words_that_fit(model)
        (word_index,) = (features["word_index"] for features in model.preprocessor.features([words]))
        logits = model.predict([words], verbose=0)[0, word_index >= 0]
        texts = tf.constant([" ".join(words), _TEXT])
        found = loaded(texts)["probabilities"][:1, : len(words)]
        return {"probabilities": (found, tf.reduce_max(tf.nn.softmax(logits), axis=-1)[tf.newaxis])}

    return FromStrings(
        {"serving_default": (label, [TEXT]), "examples": (label_examples, [EXAMPLES])},
        {"tokenizer": graph},
        check,
        _EXAMPLE,
        warmup_requests(_TEXT),
    )


def words_from_ids(model: TokenClassifier) -> FromIds:
    """`probabilities` and `logits` (B, T, C) of the classes of tokens."""
    return FromIds(ids_to_classes(model))


def _split(texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
    """The words of texts, as Python's str.split has them, and where they begin and end in bytes, each (B, (W)).

    The functions of TensorFlow and TensorFlow Text know fewer kinds of white space, or stop at a NUL.
    """
    codes, offsets = tf.strings.unicode_decode_with_offsets(texts, "UTF-8")
    text = codes.value_rowids()
    is_word = ~looked_up(tf.constant(WHITE_SPACE), codes.values)
    # Whether a character belongs to the same word as the one before it.
    joined = is_word[1:] & is_word[:-1] & (text[1:] == text[:-1])
    begins = tf.boolean_mask(offsets.values, is_word & ~tf.concat([[False], joined], 0)[: tf.size(text)])
    nexts = tf.concat([offsets.values[1:], [0]], 0)[: tf.size(text)]
    lengths = tf.gather(tf.cast(tf.strings.length(texts), tf.int64), text)
    is_last = is_word & ~tf.concat([joined, [False]], 0)[: tf.size(text)]
    ends = tf.boolean_mask(tf.where(nexts > offsets.values, nexts, lengths), is_last)
    rows = tf.boolean_mask(text, is_last)
    words = tf.strings.substr(tf.gather(texts, rows), begins, ends - begins)
    by_text = tf.RaggedTensor.from_value_rowids(words, rows, nrows=tf.size(texts, tf.int64))
    return by_text, by_text.with_values(begins), by_text.with_values(ends)


class _Windows(NamedTuple):
    """N windows over the pieces of B texts.

    Attributes:
      ids: RaggedTensor int32 (N, (T)); each text has at least one window.
      window_of_word: int32 (words,), the window that a word is labelled in.
      place_of_word: int32 (words,), the place of its first piece in the window.
    """

    ids: tf.RaggedTensor
    window_of_word: tf.Tensor
    place_of_word: tf.Tensor


def _pieces(words: tf.Tensor, graph: GraphTokenizer, unk_id: int) -> tf.RaggedTensor:
    """The ids of words, int32 (words, (pieces)); a word without pieces has [UNK], as in fine-tuning."""
    ids = graph.tokenize(words)
    missing = tf.cast(ids.row_lengths() == 0, tf.int64)
    return tf.concat(
        [ids, tf.RaggedTensor.from_row_lengths(tf.fill([tf.reduce_sum(missing)], unk_id), missing)], 1
    )


def _windows(pieces: tf.RaggedTensor, word_splits: tf.Tensor, room: int) -> _Windows:
    """Windows of at most `room` pieces, each beginning half a window after the one before it.

    Args:
      pieces: the ids of all words, int32 (words, (pieces)).
      word_splits: the words of text i are those from splits[i] to splits[i + 1].
      room: the longest window.
    """
    stride = max(room // 2, 1)
    splits = tf.cast(tf.gather(pieces.row_splits, word_splits), tf.int32)  # of the texts, in pieces
    firsts, lengths = splits[:-1], splits[1:] - splits[:-1]
    counts = 1 + -(-tf.maximum(lengths - room, 0) // stride)
    text = tf.repeat(tf.range(tf.size(counts)), counts)  # of each window
    begins = tf.ragged.range(counts).values * stride
    ends = tf.minimum(begins + room, tf.gather(lengths, text))
    first = tf.gather(firsts, text)
    ids = tf.gather(pieces.values, tf.ragged.range(first + begins, first + ends))

    text = tf.cast(tf.RaggedTensor.from_row_splits(pieces.row_starts(), word_splits).value_rowids(), tf.int32)
    place = tf.cast(pieces.row_starts(), tf.int32) - tf.gather(firsts, text)  # of each word in its text
    # Every word has a quarter of a window as context, except at the ends of its text.
    window = tf.minimum(tf.maximum(place - room // 4, 0) // stride, tf.gather(counts, text) - 1)
    first_window = tf.gather(tf.cumsum(counts, exclusive=True), text)
    return _Windows(ids, first_window + window, place - window * stride)


def _words_that_fit(model: TokenClassifier) -> list[str]:
    """Words of the example that fit into one sequence of the model."""
    words = _TEXT.split()
    (features,) = model.preprocessor.features([words])
    return words[: max(int(np.max(features["word_index"])), 1)]
