"""Metrics of classification, regression and entities by their definitions, in plain NumPy."""

import numpy as np


def f1(predictions, labels, positive):
    """F1 of one class; 0 if it never occurs."""
    predicted = np.array([p == positive for p in predictions])
    expected = np.array([label == positive for label in labels])
    return 2 * (predicted & expected).sum() / max(1, predicted.sum() + expected.sum())


def matthews(predictions, labels):
    """Gorodkin's R_K: the correlation of the one-hot matrices, over all columns together; 0 if undefined."""
    classes = sorted(set(predictions) | set(labels))
    x = np.array([[p == c for c in classes] for p in predictions], float)
    y = np.array([[label == c for c in classes] for label in labels], float)
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    norm = np.sqrt((x * x).sum() * (y * y).sum())
    return (x * y).sum() / norm if norm else 0.0


def pearson(x, y):
    x, y = np.asarray(x, float) - np.mean(x), np.asarray(y, float) - np.mean(y)
    return (x * y).sum() / np.sqrt((x * x).sum() * (y * y).sum())


def ranks(x):
    """Ranks from 1; equal values share the mean of their ranks."""
    x = np.asarray(x, float)
    return np.array([(x < value).sum() + ((x == value).sum() + 1) / 2 for value in x])


def spearman(x, y):
    return pearson(ranks(x), ranks(y))


def entities(labels):
    """{(kind, begin, end)} of labels B-, I- and O; as in conlleval, an I- without predecessor starts an entity."""
    found, begin, kind = set(), 0, None
    for i, label in enumerate([*labels, "O"]):
        here = label[2:] if label != "O" else None
        if kind is not None and (here != kind or label.startswith("B-")):
            found.add((kind, begin, i))
            kind = None
        if kind is None and here is not None:
            begin, kind = i, here
    return found


def entity_scores(predictions, labels):
    """Precision, recall and F1 over all sentences; 0 if undefined."""
    common = sum(len(entities(p) & entities(label)) for p, label in zip(predictions, labels, strict=True))
    predicted = sum(len(entities(p)) for p in predictions)
    expected = sum(len(entities(label)) for label in labels)
    return common / max(1, predicted), common / max(1, expected), 2 * common / max(1, predicted + expected)
