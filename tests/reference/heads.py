"""The original's heads of the downstream tasks in plain NumPy, float64, one example at a time.

Weights are a dict from the variable's path (without the head's name) to an array.
"""

import numpy as np

from tests.reference.albert import dense, layer_norm, softmax


def linear(vectors, weights, name):
    return dense(vectors, weights, f"{name}/output")


def masked(logits, p_mask):
    return logits * (1 - p_mask) - 1e30 * p_mask


def log_softmax(x):
    return np.log(np.maximum(softmax(x), 1e-300))


def end_logits(hidden, start, p_mask, weights):
    """hidden (T, H), position of the start -> (T,), from one dense layer on [token, start]."""
    T = len(hidden)
    kernel = np.concatenate([weights["end_token/kernel"], weights["end_start/kernel"]])
    joined = np.concatenate([hidden, np.tile(hidden[start], (T, 1))], axis=1)  # (T, 2H)
    values = np.tanh(joined @ kernel + weights["end_token/bias"])
    return masked(linear(layer_norm(values, weights, "layer_norm"), weights, "end")[:, 0], p_mask)


def start_logits(hidden, p_mask, weights):
    return masked(linear(hidden, weights, "start")[:, 0], p_mask)


def answerable_logit(hidden, p_mask, weights):
    probabilities = softmax(start_logits(hidden, p_mask, weights))
    start = sum(p * vector for p, vector in zip(probabilities, hidden, strict=True))
    values = np.tanh(dense(np.concatenate([start, hidden[0]]), weights, "answerable"))
    return values @ weights["answerable_output/kernel"][:, 0]


def search(hidden, p_mask, weights, beam, end_beam):
    """The best starts, with the best ends of each: [(start, log probability, [(end, log probability)])]."""
    starts = log_softmax(start_logits(hidden, p_mask, weights))
    found = []
    for start in np.argsort(-starts, kind="stable")[:beam]:
        ends = log_softmax(end_logits(hidden, start, p_mask, weights))
        best = np.argsort(-ends, kind="stable")[:end_beam]
        found.append((start, starts[start], [(end, ends[end]) for end in best]))
    return found


def question_loss(hidden, p_mask, weights, start, end, is_impossible):
    """The mean of the losses of start and end, plus half the loss of answerability."""
    start_loss = -log_softmax(start_logits(hidden, p_mask, weights))[start]
    end_loss = -log_softmax(end_logits(hidden, start, p_mask, weights))[end]
    logit = answerable_logit(hidden, p_mask, weights)
    answerable = 1 / (1 + np.exp(-logit))
    return (start_loss + end_loss) / 2 - 0.5 * np.log(1 - answerable if is_impossible else answerable)
