"""How SQuAD compares an answer with the accepted ones."""

import re
import string
from collections import Counter

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize_answer(text: str) -> str:
    """Lower case, without ASCII punctuation, English articles and extra white space.

    >>> normalize_answer("The  U.S. Army's")
    'us armys'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split())


def exact(prediction: str, answer: str) -> float:
    """1.0 if both normalize to the same text, else 0.0."""
    return float(normalize_answer(prediction) == normalize_answer(answer))


def f1(prediction: str, answer: str) -> float:
    """Harmonic mean of precision and recall of normalized words, counted as often as they occur."""
    predicted, accepted = normalize_answer(prediction).split(), normalize_answer(answer).split()
    common = (Counter(predicted) & Counter(accepted)).total()
    if not common:
        return 0.0
    precision, recall = common / len(predicted), common / len(accepted)
    return 2 * precision * recall / (precision + recall)
