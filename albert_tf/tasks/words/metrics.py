"""The metrics of labelled words, by scikit-learn and as conlleval counts entities."""

from collections.abc import Sequence

from albert_tf.tasks.texts.metrics import accuracy, macro_f1
from data_prep.errors import needs_extra

with needs_extra("Computing metrics", "scikit-learn", "metrics"):
    from sklearn import metrics


def words_metrics(predictions: Sequence[Sequence[str]], labels: Sequence[Sequence[str]]) -> dict[str, float]:
    """Accuracy of words' labels; precision, recall and F1 of whole entities, counted as conlleval does.

    Labels without B- and I- (such as parts of speech) mark no entities. Precision, recall and F1 are then
    scikit-learn's macro averages over labels.
    """
    expected = [label for sentence in labels for label in sentence]
    predicted = [label for sentence in predictions for label in sentence]
    result = {"accuracy": accuracy(predicted, expected)}
    if not _has_entities(expected):
        precision, recall, _, _ = metrics.precision_recall_fscore_support(
            expected, predicted, average="macro", zero_division=0
        )
        scores = {"precision": precision, "recall": recall, "f1": macro_f1(predicted, expected)}
        return result | {name: float(score) for name, score in scores.items()}
    pairs = [(_entities(p), _entities(e)) for p, e in zip(predictions, labels, strict=True)]
    common = sum(len(ours & gold) for ours, gold in pairs)
    ours, gold = (sum(map(len, side)) for side in zip(*pairs, strict=True))
    return result | {
        "precision": common / max(1, ours),
        "recall": common / max(1, gold),
        "f1": 2 * common / max(1, ours + gold),
    }


def _has_entities(labels: Sequence[str]) -> bool:
    """Whether labels have the form B-PER, I-PER (or E-, S-, L-, U-) and O."""
    return any(label[:2] in ("B-", "I-", "E-", "S-", "L-", "U-") for label in labels)


def _entities(labels: Sequence[str]) -> set[tuple[str, int, int]]:
    """The entities of a sentence as (kind, begin, end), by conlleval's rules for IOB1, IOB2, IOBES and BILOU.

    A word continues the entity of the word before it if both have the same kind, the word before may be continued
    (B-, I-) and this one may continue (I-, E-, L-). Any other word with a kind begins an entity.

    >>> sorted(_entities(["B-PER", "I-PER", "I-LOC", "O", "I-LOC"]))
    [('LOC', 2, 3), ('LOC', 4, 5), ('PER', 0, 2)]
    """
    entities, begin, mark_before, kind_before = set(), 0, "O", ""
    for i, label in enumerate([*labels, "O"]):
        mark, kind = (label[0], label.partition("-")[2]) if label[1:2] == "-" else ("I", label)
        kind = "" if label == "O" else kind
        if kind == kind_before and mark_before in "BI" and mark in "IEL":
            mark_before = mark
            continue
        if kind_before:
            entities.add((kind_before, begin, i))
        begin, mark_before, kind_before = i, mark, kind
    return entities
