"""A text's words -> windows -> a label for each word, without TensorFlow."""

import re
from typing import NamedTuple

import numpy as np

from albert_tf.tasks.answering import Answering, Field, TextAnswer
from albert_tf.tasks.features import SURROUNDING_SYMBOLS, Features, joined
from data_prep.files import encodable


class WordAnswering(Answering):
    """Texts to `words`, `labels`, `begins`, `ends` (in bytes of UTF-8) and `probabilities` (B, W).

    White space separates words. A text that is longer than the model's sequences is read in windows that overlap
    by half, and each word is labelled where it has context on both sides.
    """

    @property
    def fields(self):
        return {
            "words": Field((0,), "", object),
            "labels": Field((0,), "", object),
            "begins": Field((0,), -1, np.int32),
            "ends": Field((0,), -1, np.int32),
            "probabilities": Field((0,)),
        }

    def answers(self, columns, rows):
        (texts,), tokenizer = columns, self.preprocessor.tokenizer
        words = [_words(text) for text in texts]
        distinct = list(dict.fromkeys(word.text for of_text in words for word in of_text))
        pieces = dict(zip(distinct, tokenizer.encode_batch(distinct), strict=True))
        longest = self.preprocessor.max_seq_length
        unknown = np.array([tokenizer.unk_id], np.int32)
        features: list[Features] = []
        places: list[
            list[tuple[int, int]]
        ] = []  # for each word: the number of its window, and its place in it
        for text_words in words:
            word_ids = [pieces[word.text] if len(pieces[word.text]) else unknown for word in text_words]
            windows, labelled = _word_windows(word_ids, longest - SURROUNDING_SYMBOLS)
            places.append([(len(features) + window, 1 + place) for window, place in labelled])
            features += [joined(ids, None, tokenizer, longest) for ids in windows]
        found = rows(features)
        return [self._answer(*each, found) for each in zip(words, places, strict=True)]

    def _answer(self, words: list["_Word"], places: list[tuple[int, int]], rows) -> TextAnswer:
        probabilities = [rows[window]["probabilities"][place] for window, place in places]
        labels = self.facts.labels
        return {
            "words": np.array([word.text for word in words], object),
            "labels": np.array([labels[values.argmax()] for values in probabilities], object),
            "begins": np.array([word.begin for word in words], np.int32),
            "ends": np.array([word.end for word in words], np.int32),
            "probabilities": np.array([values.max() for values in probabilities], np.float32),
        }


class _Word(NamedTuple):
    text: str
    begin: int  # in bytes
    end: int


def _words(text: str) -> list[_Word]:
    """The words of a text, as Python's str.split has them."""
    text = encodable(text)
    words, seen, done = [], 0, 0  # characters and bytes before the word
    for match in re.finditer(r"\S+", text):
        begin = done + len(text[seen : match.start()].encode())
        done, seen = begin + len(match[0].encode()), match.end()
        words.append(_Word(match[0], begin, done))
    return words


def _word_windows(pieces: list[np.ndarray], room: int) -> tuple[list[np.ndarray], list[tuple[int, int]]]:
    """Windows of at most `room` ids, each beginning half a window after the one before it.

    Args:
      pieces: the ids of each word of a text.
      room: the longest window.

    Returns:
      The ids of each window; and for each word the number of the window that it is labelled in, and the place of
      its first piece there.
    """
    if not pieces:
        return [], []
    stride, ids = max(room // 2, 1), np.concatenate(pieces)
    count = 1 + -(-max(len(ids) - room, 0) // stride)
    firsts = np.cumsum([0, *(len(each) for each in pieces[:-1])])
    # Every word has a quarter of a window as context, except at the ends of its text.
    windows = np.minimum(np.maximum(firsts - room // 4, 0) // stride, count - 1)
    places = zip(windows.tolist(), (firsts - windows * stride).tolist(), strict=True)
    return [ids[i * stride : i * stride + room] for i in range(count)], list(places)
