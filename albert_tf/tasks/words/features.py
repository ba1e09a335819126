"""Sentences given as words as arrays."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from albert_tf.tasks.features import Features, check_length, class_number, joined
from albert_tf.tasks.preprocessor import (
    Preprocessor,
    as_texts,
    class_name,
    columns_of,
    each_row,
    is_list,
    label_lists,
)
from albert_tf.tasks.splits import EncodedSplit, with_common_names
from albert_tf.tasks.words.rows import WordsExample
from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Tokenizer


class WordsPreprocessor(Preprocessor):
    """Takes sentences, each a list of words; labels are a list of names or numbers for each sentence."""

    parts, label_parts = ("words",), ("word_labels",)

    def examples(self, x, y=None, classes=()):
        (sentences,) = columns_of(x, 1)
        labels: list = [None] * len(sentences)
        if y is not None:
            labels = each_row(partial(self._names, classes=classes), label_lists(y, len(sentences)))
        examples = [
            WordsExample(str(i), tuple(as_texts(words)), names)
            for i, (words, names) in enumerate(zip(sentences, labels, strict=True))
        ]
        for example in examples:
            if not example.words or len(example.words) != len(example.labels or example.words):
                raise InputError(
                    "A sentence must have words, and each word a label. Received "
                    f"{len(example.words)} words and {len(example.labels or ())} labels in number {example.id}."
                )
        return examples

    def arrays(self, examples, classes=()):
        return word_features(examples, self.tokenizer, self.max_seq_length, classes)

    def split(self, name, examples, classes=(), cache=None):
        features = with_common_names(self.arrays(examples, classes))
        beyond = sum(
            len(example.words) - 1 - int(arrays["word_index"].max())
            for example, arrays in zip(examples, features, strict=True)
        )
        return EncodedSplit(name, examples, features, words_beyond=beyond)

    def count_cut(self, split, classes=()):
        return 0  # the words beyond are counted

    def _names(self, row, classes: Sequence[str]) -> tuple[str, ...]:
        if not is_list(row):
            raise InputError(f"The labels of a sentence must be a list. Received {row!r}.")
        return tuple(class_name(label, classes) for label in row)


def word_features(
    examples: Sequence[WordsExample], tokenizer: Tokenizer, max_seq_length: int, labels: Sequence[str]
) -> list[Features]:
    """Arrays of sentences given as words: [CLS] pieces [SEP]. The first piece of a word carries its label.

    Args:
      examples: N examples.
      tokenizer: encodes the words.
      max_seq_length: longer sentences lose their last words; `word_index` shows which words are left.
      labels: the classes in the model's order.

    Returns:
      For each example with T tokens: input_ids and token_type_ids, int32 [T]; word_index, int32 [T], the word of
      which a token is the first piece, else -1; and if labels are known label, int32 [T], and label_weights,
      float32 [T], 1 at first pieces and 0 elsewhere.
    """
    check_length(max_seq_length, 3)
    words = list(dict.fromkeys(word for example in examples for word in example.words))
    encoded = dict(zip(words, tokenizer.encode_batch(words), strict=True))
    unknown = np.array([tokenizer.unk_id], np.int32)  # for a word without pieces, which still has a label
    features = []
    for example in examples:
        pieces = [encoded[word] if len(encoded[word]) else unknown for word in example.words]
        sizes = [len(ids) for ids in pieces]
        ids = np.concatenate(pieces)
        starts = 1 + np.cumsum([0, *sizes[:-1]])
        kept = starts < max_seq_length - 1
        arrays = joined(ids, None, tokenizer, max_seq_length)
        length = len(arrays["input_ids"])
        arrays["word_index"] = np.full(length, -1, np.int32)
        arrays["word_index"][starts[kept]] = np.flatnonzero(kept)
        if example.labels is not None:
            values = [class_number(label, labels) for label in example.labels]
            arrays["label"] = np.zeros(length, np.int32)
            arrays["label"][starts[kept]] = np.array(values, np.int32)[kept]
            arrays["label_weights"] = (arrays["word_index"] >= 0).astype(np.float32)
        features.append(arrays)
    return features
