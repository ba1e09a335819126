"""Examples as arrays of ids without padding, which batches add.

[CLS] a [SEP] b [SEP], token_type_ids 0 up to the first [SEP] and 1 after it
"""

import re
from collections.abc import Sequence

import numpy as np

from albert_tf.tasks.examples import ChoiceExample, TextExample, WordsExample
from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Tokenizer

Features = dict[str, np.ndarray]
SURROUNDING_SYMBOLS = 2  # [CLS] and [SEP] around a text
LABEL_SET = "label_set"  # the feature that has a number for each class, not for each token
PADDING = {"p_mask": 1, "word_index": -1}  # what batches pad these features with; all others with 0


def text_features(
    examples: Sequence[TextExample],
    tokenizer: Tokenizer,
    max_seq_length: int,
    labels: Sequence[str] = (),
) -> list[Features]:
    """Arrays of texts and pairs of texts.

    Args:
      examples: N examples.
      tokenizer: encodes the texts.
      max_seq_length: longer texts are truncated at the end; in a pair the longer text is (if both
        are equally long, the second).
      labels: the classes in the model's order; () for regression.

    Returns:
      For each example input_ids and token_type_ids, int32 [T], and, if the example has one, label: its index in
      `labels`, int32 [], or float32 [] in regression; in multi-label classification label_set, float32 [C], 1 for
      each of its labels and 0 for the others.

    Raises:
      InputError: max_seq_length is too small, or a label is not one of `labels`.
    """
    check_length(max_seq_length, 5)
    texts = [example.text_a for example in examples]
    pairs = [example.text_b or "" for example in examples]
    has_pairs = any(example.text_b is not None for example in examples)
    first = tokenizer.encode_batch(texts, max_seq_length)
    second = tokenizer.encode_batch(pairs, max_seq_length) if has_pairs else [None] * len(texts)
    places = {label: i for i, label in enumerate(labels)}
    features = []
    for example, a, b in zip(examples, first, second, strict=True):
        arrays = joined(a, b if example.text_b is not None else None, tokenizer, max_seq_length)
        if isinstance(example.label, tuple):
            arrays[LABEL_SET] = np.zeros(len(labels), np.float32)
            arrays[LABEL_SET][[_label(label, places) for label in example.label]] = 1
        elif example.label is not None:
            arrays["label"] = _label(example.label, places)
        features.append(arrays)
    return features


def choice_features(
    examples: Sequence[ChoiceExample],
    tokenizer: Tokenizer,
    max_seq_length: int,
    max_option_length: int = 128,
) -> list[Features]:
    """Arrays of passages with a question and C options: [CLS] passage [SEP] question with option [SEP].

    An option replaces the "_" in the question, or several in a row, else it follows it. A long sequence is
    truncated at the end of its passage; a long question at its beginning, since the option is at its end.

    Args:
      examples: N examples.
      tokenizer: encodes the texts.
      max_seq_length: the maximum length of a sequence.
      max_option_length: the maximum number of tokens of a question with its option.

    Returns:
      For each example input_ids, input_mask and token_type_ids, int32 [C, T], padded to its longest option, and
      label, int32 [], if known.
    """
    check_length(max_seq_length, 5)
    most = min(max_seq_length - 3, max_option_length)
    passages = list(dict.fromkeys(example.passage for example in examples))
    encoded = dict(zip(passages, tokenizer.encode_batch(passages, max_seq_length), strict=True))
    questions = [asked(example.question, option) for example in examples for option in example.options]
    queries = iter(tokenizer.encode_batch(questions))
    features = []
    for example in examples:
        passage = encoded[example.passage]
        rows = []
        for _ in example.options:
            query = next(queries)[-most:]
            kept = passage[: max(0, max_seq_length - 3 - len(query))]
            rows.append(joined(kept, query, tokenizer, max_seq_length))
        arrays = stacked(rows, tokenizer.pad_id)
        if example.label is not None:
            arrays["label"] = np.array(example.label, np.int32)
        features.append(arrays)
    return features


def asked(question: str, option: str) -> str:
    """A question with an option inserted in each blank, which may have several "_", or added.

    >>> asked("The letter was from ___ .", "Ann"), asked("Who wrote?", "Ann")
    ('The letter was from Ann .', 'Who wrote? Ann')
    """
    return re.sub("_+", lambda _: option, question) if "_" in question else f"{question} {option}"


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
    places = {label: i for i, label in enumerate(labels)}
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
            values = [_label(label, places) for label in example.labels]
            arrays["label"] = np.zeros(length, np.int32)
            arrays["label"][starts[kept]] = np.array(values, np.int32)[kept]
            arrays["label_weights"] = (arrays["word_index"] >= 0).astype(np.float32)
        features.append(arrays)
    return features


def joined(a: np.ndarray, b: np.ndarray | None, tokenizer: Tokenizer, max_seq_length: int) -> Features:
    """[CLS] a [SEP] or [CLS] a [SEP] b [SEP], truncated to `max_seq_length` at the end of the longer text."""
    cls_id, sep_id = tokenizer.cls_id, tokenizer.sep_id
    if b is None:
        a = a[: max_seq_length - 2]
        ids = np.empty(len(a) + 2, np.int32)
        ids[0], ids[1:-1], ids[-1] = cls_id, a, sep_id
        return {"input_ids": ids, "token_type_ids": np.zeros(len(ids), np.int32)}
    length_a, length_b = pair_lengths(len(a), len(b), max_seq_length - 3)
    ids = np.empty(length_a + length_b + 3, np.int32)
    ids[0], ids[length_a + 1], ids[-1] = cls_id, sep_id, sep_id
    ids[1 : length_a + 1] = a[:length_a]
    ids[length_a + 2 : -1] = b[:length_b]
    types = np.zeros(len(ids), np.int32)
    types[length_a + 2 :] = 1
    return {"input_ids": ids, "token_type_ids": types}


def pair_lengths(length_a: int, length_b: int, room: int) -> tuple[int, int]:
    """The lengths of two texts after dropping tokens one by one from the longer (if equal, the second) text.

    >>> pair_lengths(10, 4, 9), pair_lengths(10, 9, 9), pair_lengths(3, 4, 9)
    ((5, 4), (5, 4), (3, 4))
    """
    if length_a + length_b <= room:
        return length_a, length_b
    if min(length_a, length_b) <= room // 2:
        return (room - length_b, length_b) if length_a > length_b else (length_a, room - length_a)
    return room - room // 2, room // 2


def is_per_token(name: str, values: np.ndarray) -> bool:
    """Whether a feature's last axis is that of the tokens, which batches pad."""
    return values.ndim > 0 and name != LABEL_SET


def _label(label: str | float, places: dict[str, int]) -> np.ndarray:
    if not places:
        return np.array(label, np.float32)
    if label not in places:
        raise InputError(f"A label must be one of {', '.join(places)}. Received {label!r}.")
    return np.array(places[str(label)], np.int32)


def stacked(rows: list[Features], pad_id: int) -> Features:
    """Sequences as one example: input_ids, input_mask and token_type_ids, int32 (N, T), padded to the longest."""
    length = max((len(row["input_ids"]) for row in rows), default=0)
    shape = (len(rows), length)
    stacked = {
        "input_ids": np.full(shape, pad_id, np.int32),
        "input_mask": np.zeros(shape, np.int32),
        "token_type_ids": np.zeros(shape, np.int32),
    }
    for i, row in enumerate(rows):
        size = len(row["input_ids"])
        stacked["input_mask"][i, :size] = 1
        for name, values in row.items():
            stacked[name][i, :size] = values
    return stacked


def check_length(max_seq_length: int, least: int) -> None:
    """Raises InputError if sequences have no room for a token beside the symbols."""
    if max_seq_length < least:
        raise InputError(f"`max_seq_length` must be at least {least}. Received {max_seq_length}.")
