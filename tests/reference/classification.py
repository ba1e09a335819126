"""Metrics of classification and regression by their definitions, in plain NumPy."""

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
