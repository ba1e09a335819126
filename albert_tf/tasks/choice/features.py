"""Passages with a question and options as arrays."""

import re
from collections.abc import Sequence
from pathlib import Path
from string import ascii_uppercase

import numpy as np

from albert_tf.tasks.choice.rows import ChoiceExample, option_number
from albert_tf.tasks.feature_cache import cached_features, examples_hash, tokenizer_hash
from albert_tf.tasks.features import Features, check_length, joined, stacked
from albert_tf.tasks.preprocessor import Preprocessor, as_texts, columns_of, each_row, one_label_each
from albert_tf.tasks.splits import EncodedSplit, with_common_names
from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Tokenizer, Vocabulary


class ChoicePreprocessor(Preprocessor):
    """Takes a tuple of passages, questions and, for each question, a list of options.

    Labels are the numbers of the right options, from 0, their letters, from A, or their texts.

    Args:
      vocabulary: the encoder's.
      max_seq_length: longest sequence; longer ones lose the end of their passage.
      max_qa_length: longest question with an option; longer ones lose their beginning.
    """

    parts = ("passage", "question", "options")
    more_lengths = ("max_qa_length",)

    def __init__(self, vocabulary: Vocabulary, max_seq_length: int = 128, max_qa_length: int = 128):
        super().__init__(vocabulary, max_seq_length)
        self.max_qa_length = max_qa_length

    def examples(self, x, y=None, classes=()):
        passages, questions, options = columns_of(x, 3)
        passages, questions = as_texts(passages), as_texts(questions)
        options = [tuple(as_texts(given)) for given in options]
        labels: list = [None] * len(passages)
        if y is not None:
            labels = each_row(_option, one_label_each(y, len(passages)), options)
        examples = [
            ChoiceExample(str(i), *row)
            for i, row in enumerate(zip(passages, questions, options, labels, strict=True))
        ]
        if len({len(example.options) for example in examples}) > 1:
            raise InputError(
                "All questions of a call must have the same number of options. Received different numbers."
            )
        return examples

    def arrays(self, examples, classes=()):
        return choice_features(examples, self.tokenizer, self.max_seq_length, self.max_qa_length)

    def split(self, name, examples, classes=(), cache: Path | None = None):
        most = max((len(example.options) for example in examples), default=0)
        if most > len(ascii_uppercase):
            raise InputError(
                f"A question may have at most {len(ascii_uppercase)} options, whose predictions are letters. "
                f"Received one with {most}."
            )
        lengths = [self.max_seq_length, self.max_qa_length]
        key = [examples_hash(examples), tokenizer_hash(self.tokenizer), *lengths]
        features = cached_features(cache, key, lambda: with_common_names(self.arrays(examples)))
        return EncodedSplit(name, examples, features)


def _option(label, options: Sequence[str]) -> int:
    """The number of the right option: an integer is one, anything else is read as in files."""
    name = label.decode("utf-8", "replace") if isinstance(label, bytes) else label
    number = name if name is None or isinstance(name, int) else option_number(name, options)
    if number is None or number not in range(len(options)):
        raise InputError(
            f"The label of a question must be the number of one of its {len(options)} options, from 0, its "
            f"letter, from A, or its text. Received {label!r}."
        )
    return number


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
