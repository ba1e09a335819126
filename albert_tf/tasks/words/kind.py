"""The kind of task that labels each word of a sentence."""

import dataclasses
from types import MappingProxyType

from albert_tf.tasks.collapse import labelled, one_answer
from albert_tf.tasks.kind import Kind
from albert_tf.tasks.prediction_files import read_label_lists
from albert_tf.tasks.problems import Problems
from albert_tf.tasks.words.conll import CONLL_SUFFIXES, read_conll
from albert_tf.tasks.words.features import WordsPreprocessor
from albert_tf.tasks.words.labels import outside_label, word_probabilities
from albert_tf.tasks.words.rows import word_examples
from albert_tf.tasks.words.strings import WordAnswering
from data_prep.errors import InputError


class Words(Kind):
    """Each word of a sentence has a label, as in named-entity recognition."""

    name = "token_classification"
    export = "token-classification"
    metrics = ("f1",)
    preprocessor = WordsPreprocessor
    has_classes = takes_class_weights = True
    texts = ()
    needed = ("words",)
    other_files = ", or CoNLL's .conll, .conllu, .bio, .iob or .txt"
    predictions_suffix = ".json"
    answering = WordAnswering
    outputs = MappingProxyType({"probabilities": "B, T, C", "logits": "B, T, C"})

    @property
    def model(self):
        from albert_tf.tasks.words.model import TokenClassifier

        return TokenClassifier

    def from_strings(self, model, tokenizer, null_threshold, **options):
        from albert_tf.tasks.words.serving import words_from_strings

        return words_from_strings(model, tokenizer)

    def from_ids(self, model, **options):
        from albert_tf.tasks.words.serving import words_from_ids

        return words_from_ids(model)

    def examples(self, rows, first, split):
        return word_examples(rows, first, split)

    def read_file(self, file, suffix, split):
        if suffix not in CONLL_SUFFIXES:
            return None
        return read_conll(file, split.problems, labels=split.labels, is_test=split.is_test)

    def values(self, fields, source):
        return {"words": " ".join(fields).split()}

    def label(self, example):
        return example.labels

    def without_label(self, example):
        return dataclasses.replace(example, labels=None)

    def value(self, example, features, output, labels):
        return word_probabilities(len(example.words), features["word_index"], output, labels)

    def collapse(self, splits, parts):
        pairs = [pair for _, *both in labelled(parts) for pair in zip(*both, strict=True)]
        return one_answer(pairs, most=0.99)  # most words are outside entities

    def score(self, task, predictions, labels, groups=(), classes=()):
        from albert_tf.tasks.words.metrics import words_metrics

        return words_metrics(predictions, labels)

    def warning(self, split, preprocessor, labels):
        if not split.words_beyond:
            return None
        return (
            f"words beyond the model's longest sequence, {preprocessor.max_seq_length} tokens: "
            f"{split.words_beyond:,}; they are not read and get the label {outside_label(labels)}: cut long "
            "lines into sentences"
        )

    def line(self, example, value, guess, predictions):
        return {"words": list(example.words), "labels": guess, "probabilities": value.max(axis=-1).tolist()}

    def read_predictions(self, task, path):
        """A JSON object of lists of labels, or the last column of CoNLL's file."""
        if path.suffix == ".json":
            return dict(read_label_lists(path))
        problems = Problems()
        sentences = read_conll(path, problems)
        if problems.counts:
            raise InputError(f"Every word needs one predicted label. Received {'; '.join(problems.lines())}.")
        return {sentence.id: list(sentence.labels or ()) for sentence in sentences}

    def comparable(self, labels, found):
        for id_, sentence_labels in labels.items():
            if len(found[id_]) != len(sentence_labels):
                raise InputError(
                    "Every word needs one predicted label. "
                    f"Received {len(found[id_])} for the {len(sentence_labels)} words of sentence {id_}."
                )
        return found


WORDS = Words()
