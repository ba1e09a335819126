"""The metrics of sentence vectors against ir-measures, and what is searched for in what."""

import numpy as np
import pytest

from albert_tf.tasks.sentences.kind import EMBEDDING, Vectors
from albert_tf.tasks.sentences.metrics import retrieval_metrics, sentence_metrics, unit
from albert_tf.tasks.sentences.rows import SentenceExample


def test_retrieval_is_measured_as_trec_eval_does():
    ir_measures = pytest.importorskip("ir_measures")
    rng = np.random.default_rng(0)
    queries, documents = rng.normal(size=(12, 6)), rng.normal(size=(150, 6))
    relevant = [
        {int(place): float(rng.integers(1, 4)) for place in rng.choice(150, size, replace=False)}
        for size in rng.integers(1, 25, 12)
    ]
    found = retrieval_metrics(queries, documents, relevant)
    cosines = unit(queries) @ unit(documents).T
    run = [ir_measures.ScoredDoc(str(q), str(d), float(cosines[q, d])) for q in range(12) for d in range(150)]
    judged = [
        ir_measures.Qrel(str(q), str(d), int(gain))
        for q, gains in enumerate(relevant)
        for d, gain in gains.items()
    ]
    measures = {
        "ndcg_at_10": ir_measures.nDCG @ 10,
        "mrr_at_10": ir_measures.RR @ 10,
        **{f"recall_at_{k}": ir_measures.R @ k for k in (1, 10, 100)},
    }
    expected = ir_measures.calc_aggregate(measures.values(), judged, run)
    assert found == pytest.approx({name: expected[measure] for name, measure in measures.items()})


def test_a_collapsed_encoder_finds_nothing():
    """All documents are equally near; being asked for is no reason to be first."""
    same = np.ones((200, 4))
    found = retrieval_metrics(same, same, [{i: 1.0} for i in range(200)])
    assert found["recall_at_10"] == pytest.approx(10 / 200)
    assert found["mrr_at_10"] < 0.02


def test_equal_vectors_are_seen():
    examples = [SentenceExample(str(i), ("a", "b")) for i in range(6)]
    same, different = np.ones((6, 3, 4)), np.random.default_rng(0).normal(size=(6, 3, 4))
    assert "mean cosine is 1.0000" in EMBEDDING.collapse([], [Vectors(examples, list(same))])
    assert EMBEDDING.collapse([], [Vectors(examples, list(different))]) == ""


def vector(angle: float) -> np.ndarray:
    return np.array([np.cos(angle), np.sin(angle)], "float32")


def test_pairs_are_searched_in_all_other_texts():
    """The second text of one pair is a negative of another, and a first text that occurs twice finds both."""
    examples = [
        SentenceExample("0", ("q", "a", "near")),
        SentenceExample("1", ("q", "b")),
        SentenceExample("2", ("r", "near")),
    ]
    places = {"q": 0.0, "a": 0.1, "near": 0.2, "b": 0.3, "r": 0.19}
    vectors = [np.stack([vector(places[text]) for text in example.texts]) for example in examples]
    found = sentence_metrics(examples, vectors)
    assert (found["recall_at_1"], found["mrr_at_10"]) == (pytest.approx((0.5 + 1) / 2), 1.0)
    ndcg = (1 + 1 / np.log2(4)) / (1 + 1 / np.log2(3))
    assert found["score"] == found["ndcg_at_10"] == pytest.approx((ndcg + 1) / 2)


def test_texts_with_classes_find_the_others_of_their_class():
    labels = ["x", "x", "y", "y", "alone"]
    examples = [SentenceExample(str(i), (str(i),), label) for i, label in enumerate(labels)]
    found = sentence_metrics(examples, [vector(angle) for angle in (0, 0.1, 1, 1.1, 2)])
    assert found["score"] == found["recall_at_1"] == 1


def test_scored_pairs_have_correlations():
    examples = [SentenceExample(str(i), ("a", "b"), float(i)) for i in range(4)]
    vectors = [np.stack([vector(0), vector(angle)]) for angle in (1, 0.8, 0.9, 0.1)]
    found = sentence_metrics(examples, vectors)
    assert found["score"] == found["spearman"] == pytest.approx(0.8)


def test_queries_find_their_documents():
    examples = [SentenceExample(name, (name,)) for name in ("1", "2", "3")]
    examples += [SentenceExample("1", ("q",), None, {"3": 2.0, "1": 1.0})]
    found = sentence_metrics(examples, [vector(angle) for angle in (0.3, 1, 0.1, 0)])
    assert (found["ndcg_at_10"], found["recall_at_1"], found["recall_at_10"]) == (1.0, 0.5, 1.0)


def test_texts_alone_have_no_metrics():
    assert sentence_metrics([SentenceExample("0", ("a",))], [vector(0)]) == {}
