"""The numbers that the paper prints: parameters in millions, scores in percent.

SQuAD's score is the mean of F1 and exact match, as the paper averages them.
"""

from albert_tf.config import ParameterSharing

# The tasks of the column Avg.
AVERAGED_TASKS = ("squad1.1", "squad2.0", "mnli", "sst-2", "race")


def _scores(
    squad1: tuple[float, float],
    squad2: tuple[float, float],
    mnli: float,
    sst: float,
    race: float,
    average: float,
) -> dict[str, float]:
    """One row's scores; each SQuAD is (F1, exact match)."""
    squad = [round((f1 + exact_match) / 2, 2) for f1, exact_match in (squad1, squad2)]
    return {**dict(zip(AVERAGED_TASKS, (*squad, mnli, sst, race), strict=True)), "average": average}


_BERT_BASE = _scores((90.4, 83.2), (80.4, 77.6), 84.5, 92.8, 68.2, 82.3)
_ALBERT_BASE = _scores((89.3, 82.3), (80.0, 77.1), 81.6, 90.3, 64.0, 80.1)
_ALBERT_E768 = _scores((88.6, 81.5), (79.2, 76.6), 82.0, 90.6, 63.3, 79.8)
_NOT_SHARED_E128 = _scores((89.9, 82.8), (80.3, 77.3), 83.7, 91.5, 67.9, 81.7)
_THREE_LAYERS = _scores((79.8, 69.7), (64.4, 61.7), 77.7, 86.7, 54.0, 71.2)

# `speed` is training examples a second, relative to BERT-large.
TABLE_2 = {
    "bert-base": {**_BERT_BASE, "speed": 4.7},
    "bert-large": {**_scores((92.2, 85.5), (85.0, 82.2), 86.6, 93.0, 73.9, 85.2), "speed": 1.0},
    "albert-base": {**_ALBERT_BASE, "speed": 5.6},
    "albert-large": {**_scores((90.6, 83.9), (82.3, 79.4), 83.5, 91.7, 68.5, 82.4), "speed": 1.7},
    "albert-xlarge": {**_scores((92.5, 86.1), (86.1, 83.1), 86.4, 92.4, 74.8, 85.5), "speed": 0.6},
    "albert-xxlarge": {**_scores((94.1, 88.3), (88.1, 85.1), 88.0, 95.2, 82.3, 88.7), "speed": 0.3},
}

_Scores = dict[str, float]
_Shape = tuple[ParameterSharing, int]  # sharing and E of a base-sized model

TABLE_3: dict[_Shape, _Scores] = {
    ("none", 64): _scores((89.9, 82.9), (80.1, 77.8), 82.9, 91.5, 66.7, 81.3),
    ("none", 128): _NOT_SHARED_E128,
    ("none", 256): _scores((90.2, 83.2), (80.3, 77.4), 84.1, 91.9, 67.3, 81.8),
    ("none", 768): _BERT_BASE,
    ("all", 64): _scores((88.7, 81.4), (77.5, 74.8), 80.8, 89.4, 63.5, 79.0),
    ("all", 128): _ALBERT_BASE,
    ("all", 256): _scores((88.8, 81.5), (79.1, 76.3), 81.5, 90.3, 63.4, 79.6),
    ("all", 768): _ALBERT_E768,
}

# For two models the paper prints another MNLI score than in Table 3: 82.0, not 81.6, and 83.2, not 83.7.
TABLE_4: dict[_Shape, _Scores] = {
    ("all", 768): _ALBERT_E768,
    ("attention", 768): _scores((89.9, 82.7), (80.0, 77.2), 84.0, 91.4, 67.7, 81.6),
    ("ffn", 768): _scores((89.2, 82.1), (78.2, 75.4), 81.5, 90.8, 62.6, 79.5),
    ("none", 768): _BERT_BASE,
    ("all", 128): {**_ALBERT_BASE, "mnli": 82.0},
    ("attention", 128): _scores((89.9, 82.8), (80.7, 77.9), 83.4, 91.9, 67.6, 81.7),
    ("ffn", 128): _scores((88.9, 81.6), (78.6, 75.6), 82.3, 91.7, 64.4, 80.2),
    ("none", 128): {**_NOT_SHARED_E128, "mnli": 83.2, "average": 81.6},
}

TABLE_5 = {
    "none": {
        **_scores((88.6, 81.5), (78.1, 75.3), 81.5, 89.9, 61.7, 79.0),
        "masked_lm": 54.9,
        "nsp": 52.4,
        "sop": 53.3,
    },
    "nsp": {
        **_scores((88.4, 81.5), (77.2, 74.6), 81.6, 91.1, 62.3, 79.2),
        "masked_lm": 54.5,
        "nsp": 90.5,
        "sop": 52.0,
    },
    "sop": {
        **_scores((89.3, 82.3), (80.0, 77.1), 82.0, 90.3, 64.0, 80.1),
        "masked_lm": 54.0,
        "nsp": 78.9,
        "sop": 86.5,
    },
}

TABLE_6 = {
    "bert-large": {
        **_scores((93.5, 87.4), (86.9, 84.3), 87.8, 94.6, 77.3, 87.2),
        "steps": 400_000,
        "hours": 34,
    },
    "albert-xxlarge": {
        **_scores((94.0, 88.1), (88.3, 85.3), 87.8, 95.4, 82.5, 88.7),
        "steps": 125_000,
        "hours": 32,
    },
}

# Tables 7 and 8, the scores of the models that Figure 2 draws.
FIGURE_2 = {
    "less-data": _ALBERT_BASE,
    "data-added": _scores((88.8, 81.7), (79.1, 76.3), 82.4, 92.8, 66.0, 80.8),
    "dropout": _scores((94.7, 89.2), (89.6, 86.9), 90.0, 96.3, 85.7, 90.4),
    "dropout-removed": _scores((94.8, 89.5), (89.9, 87.2), 90.4, 96.5, 86.1, 90.7),
}

# Number of layers -> scores; all models have the same parameters.
TABLE_11_PARAMETERS = 18
TABLE_11 = {
    1: _scores((31.1, 22.9), (50.1, 50.1), 66.4, 80.8, 40.1, 52.9),
    3: _THREE_LAYERS,
    6: _scores((86.4, 78.4), (73.8, 71.1), 81.2, 88.9, 60.9, 77.2),
    12: _scores((89.8, 83.3), (80.7, 77.9), 83.3, 91.7, 66.7, 81.5),
    24: _scores((90.3, 83.3), (81.8, 79.0), 83.3, 91.5, 68.7, 82.1),
    48: _scores((90.0, 83.1), (81.8, 78.9), 83.4, 91.9, 66.9, 81.8),
}

# Hidden size of a three-layer model -> parameters and scores.
TABLE_12 = {
    1024: {"parameters": 18, **_THREE_LAYERS},
    2048: {"parameters": 60, **_scores((83.3, 74.1), (69.1, 66.6), 79.7, 88.6, 58.2, 74.6)},
    4096: {"parameters": 225, **_scores((85.0, 76.4), (71.0, 68.1), 80.3, 90.4, 60.4, 76.3)},
    6144: {"parameters": 499, **_scores((84.7, 75.8), (67.8, 65.4), 78.1, 89.1, 56.0, 74.0)},
}

# Table 9. Only ensembles have the last two columns.
GLUE = ("mnli", "qnli", "qqp", "rte", "sst-2", "mrpc", "cola", "sts-b", "wnli", "average")
# Single models, trained on one task, on the dev sets; ALBERT's scores are medians of five runs.
GLUE_SINGLE = {
    "BERT-large": (86.6, 92.3, 91.3, 70.4, 93.2, 88.0, 60.6, 90.0),
    "XLNet-large": (89.8, 93.9, 91.8, 83.8, 95.6, 89.2, 63.6, 91.8),
    "RoBERTa-large": (90.2, 94.7, 92.2, 86.6, 96.4, 90.9, 68.0, 92.4),
    "ALBERT (1M)": (90.4, 95.2, 92.0, 88.1, 96.8, 90.2, 68.7, 92.7),
    "ALBERT (1.5M)": (90.8, 95.3, 92.2, 89.2, 96.9, 90.9, 71.4, 93.0),
}
# Ensembles on the test sets, from the leaderboard of September 16, 2019.
GLUE_ENSEMBLES = {
    "XLNet": (90.2, 98.6, 90.3, 86.3, 96.8, 93.0, 67.8, 91.6, 90.4, 88.4),
    "RoBERTa": (90.8, 98.9, 90.2, 88.2, 96.7, 92.3, 67.8, 92.2, 89.0, 88.5),
    "ALBERT": (91.3, 99.2, 90.5, 89.2, 97.1, 93.4, 69.1, 92.5, 91.8, 89.4),
}

# Table 10: F1 and exact match of SQuAD 1.1 and 2.0 on the dev sets, RACE (all, middle, high) on the test set.
READING_SINGLE = {
    "BERT-large": (90.9, 84.1, 81.8, 79.0, 72.0, 76.6, 70.1),
    "XLNet": (94.5, 89.0, 88.8, 86.1, 81.8, 85.5, 80.2),
    "RoBERTa": (94.6, 88.9, 89.4, 86.5, 83.2, 86.5, 81.3),
    "ALBERT (1M)": (94.8, 89.2, 89.9, 87.2, 86.0, 88.2, 85.1),
    "ALBERT (1.5M)": (94.8, 89.3, 90.2, 87.4, 86.5, 89.0, 85.5),
}
READING_ENSEMBLES = {"ALBERT": (95.5, 90.1, 91.4, 88.9, 89.4, 91.2, 88.6)}
