"""The paper's Tables 9 and 10: GLUE, SQuAD and RACE; in percent."""

# Columns of Table 9, in the paper's order.
GLUE = ("mnli", "qnli", "qqp", "rte", "sst-2", "mrpc", "cola", "sts-b")
GLUE_TEST = (*GLUE, "wnli", "average")
# Single-task single models on dev; ALBERT's are medians of five runs.
GLUE_SINGLE = {
    "BERT-large": (86.6, 92.3, 91.3, 70.4, 93.2, 88.0, 60.6, 90.0),
    "XLNet-large": (89.8, 93.9, 91.8, 83.8, 95.6, 89.2, 63.6, 91.8),
    "RoBERTa-large": (90.2, 94.7, 92.2, 86.6, 96.4, 90.9, 68.0, 92.4),
    "ALBERT (1M)": (90.4, 95.2, 92.0, 88.1, 96.8, 90.2, 68.7, 92.7),
    "ALBERT (1.5M)": (90.8, 95.3, 92.2, 89.2, 96.9, 90.9, 71.4, 93.0),
}
# Ensembles on test, from the leaderboard of September 16, 2019.
GLUE_ENSEMBLES = {
    "XLNet": (90.2, 98.6, 90.3, 86.3, 96.8, 93.0, 67.8, 91.6, 90.4, 88.4),
    "RoBERTa": (90.8, 98.9, 90.2, 88.2, 96.7, 92.3, 67.8, 92.2, 89.0, 88.5),
    "ALBERT": (91.3, 99.2, 90.5, 89.2, 97.1, 93.4, 69.1, 92.5, 91.8, 89.4),
}

# Columns of Table 10: SQuAD on dev, RACE on test.
READING = ("squad1_f1", "squad1_em", "squad2_f1", "squad2_em", "race", "race_middle", "race_high")
READING_SINGLE = {
    "BERT-large": (90.9, 84.1, 81.8, 79.0, 72.0, 76.6, 70.1),
    "XLNet": (94.5, 89.0, 88.8, 86.1, 81.8, 85.5, 80.2),
    "RoBERTa": (94.6, 88.9, 89.4, 86.5, 83.2, 86.5, 81.3),
    "ALBERT (1M)": (94.8, 89.2, 89.9, 87.2, 86.0, 88.2, 85.1),
    "ALBERT (1.5M)": (94.8, 89.3, 90.2, 87.4, 86.5, 89.0, 85.5),
}
READING_ENSEMBLES = {"ALBERT": (95.5, 90.1, 91.4, 88.9, 89.4, 91.2, 88.6)}
