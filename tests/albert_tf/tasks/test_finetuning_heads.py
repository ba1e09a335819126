import keras
import numpy as np
import pytest

from albert_tf.tasks.features import IMPOSSIBLE
from albert_tf.tasks.heads import LinearHead
from albert_tf.tasks.spans.heads import ConditionalSpanHead, SpanHead
from tests.reference import heads as reference

B, T, K = 3, 11, 5


def built(head):
    """Builds a head with random weights: zero biases and unit gammas would hide a swapped or missing one."""
    head.build((None, None, 24))  # of tiny_config
    rng = np.random.default_rng(7)
    for weight in head.trainable_variables:
        weight.assign(weight.numpy() + rng.normal(0, 0.5, weight.shape))
    weights = {v.path.removeprefix(f"{head.name}/"): v.numpy().astype("float64") for v in head.variables}
    return head, weights


@pytest.fixture
def seeds():
    return keras.random.SeedGenerator(1)


@pytest.fixture
def tokens(tiny_config):
    """The encoder's output, and the tokens that cannot be part of an answer: the question, [SEP] and padding."""
    rng = np.random.default_rng(0)
    cannot_answer = np.zeros((B, T), "int32")
    cannot_answer[:, 1:4] = 1
    cannot_answer[1, -1] = cannot_answer[2, -3:] = 1
    return rng.normal(size=(B, T, tiny_config.hidden_size)).astype("float32"), cannot_answer


def test_linear_head(tiny_config, seeds, tokens):
    head, weights = built(LinearHead(4, tiny_config, seeds, 0.5, name="linear"))
    hidden, _ = tokens
    expected = hidden.astype("float64") @ weights["output/kernel"] + weights["output/bias"]
    np.testing.assert_allclose(head(hidden), expected, atol=1e-5)
    np.testing.assert_allclose(head(hidden[:, 0]), expected[:, 0], atol=1e-5)


def test_dropout_of_the_linear_head(tiny_config, seeds, tokens):
    """In training, half of the values are 0 and the others are doubled."""
    head, weights = built(LinearHead(tiny_config.hidden_size, tiny_config, seeds, 0.5, name="linear"))
    head.output_dense.kernel.assign(np.eye(tiny_config.hidden_size))
    hidden, _ = tokens
    kept = np.asarray(head(hidden, training=True)) - weights["output/bias"]
    is_kept = np.abs(kept) > 1e-4
    np.testing.assert_allclose(kept[is_kept], 2 * hidden[is_kept], atol=1e-4)
    assert 0.4 < is_kept.mean() < 0.6


def test_span_head(tiny_config, seeds, tokens):
    head, weights = built(SpanHead(tiny_config, seeds))
    hidden, cannot_answer = tokens
    outputs = head(hidden, cannot_answer)
    expected = hidden.astype("float64") @ weights["scores/output/kernel"] + weights["scores/output/bias"]
    for i, name in enumerate(("start_logits", "end_logits")):
        wanted = np.where(cannot_answer, IMPOSSIBLE, expected[:, :, i])
        np.testing.assert_allclose(outputs[name], wanted, atol=1e-5)


@pytest.mark.parametrize("training", [False, True])
def test_given_starts(tiny_config, seeds, tokens, training):
    head, weights = built(ConditionalSpanHead(tiny_config, seeds, dropout_rate=0.0))
    hidden, cannot_answer = tokens
    starts = np.array([5, 0, 7], "int32")
    outputs = head(hidden, cannot_answer, starts, training=training)
    assert set(outputs) == {"start_logits", "end_logits", "answerable_logits"}
    for row in range(B):
        tokens64, mask = hidden[row].astype("float64"), cannot_answer[row]
        expected = {
            "start_logits": reference.start_logits(tokens64, mask, weights),
            "end_logits": reference.end_logits(tokens64, starts[row], mask, weights),
            "answerable_logits": reference.answerable_logit(tokens64, mask, weights),
        }
        for name, array in expected.items():
            np.testing.assert_allclose(outputs[name][row], array, atol=2e-5, err_msg=name)


@pytest.mark.parametrize("ends", [None, 2])
def test_beam_equals_a_search_over_single_starts(tiny_config, seeds, tokens, ends):
    head, weights = built(ConditionalSpanHead(tiny_config, seeds, beam=K, end_beam=ends))
    J = ends or K
    hidden, cannot_answer = tokens
    outputs = {name: np.asarray(array) for name, array in head(hidden, cannot_answer, search=True).items()}
    assert "start_logits" not in outputs
    assert outputs["end_top_log_probs"].shape == outputs["end_top_index"].shape == (B, K * J)
    for row in range(B):
        found = reference.search(hidden[row].astype("float64"), cannot_answer[row], weights, K, J)
        assert outputs["start_top_index"][row].tolist() == [start for start, _, _ in found]
        np.testing.assert_allclose(outputs["start_top_log_probs"][row], [p for _, p, _ in found], atol=2e-5)
        ends = [end for _, _, ends in found for end in ends]
        assert outputs["end_top_index"][row].tolist() == [end for end, _ in ends]
        np.testing.assert_allclose(outputs["end_top_log_probs"][row], [p for _, p in ends], atol=2e-5)


def test_beam_wider_than_the_text(tiny_config, seeds, tokens):
    head, _ = built(ConditionalSpanHead(tiny_config, seeds, beam=K))
    hidden, cannot_answer = (array[:, :3] for array in tokens)
    outputs = head(hidden, 0 * cannot_answer, search=True)
    assert np.asarray(outputs["start_top_index"])[:, :3].max() == 2
    assert np.all(np.asarray(outputs["start_top_log_probs"])[:, 3:] == np.float32(IMPOSSIBLE))
    assert np.asarray(outputs["end_top_index"]).max() == 2


def test_dropout_of_the_answerability(tiny_config, seeds, tokens):
    head, _ = built(ConditionalSpanHead(tiny_config, seeds, dropout_rate=0.5))
    starts = np.zeros(B, "int32")

    def logits(training):
        return np.asarray(head(*tokens, starts, training=training)["answerable_logits"])

    np.testing.assert_array_equal(logits(False), logits(False))
    np.testing.assert_array_equal(head(*tokens, starts)["answerable_logits"], logits(False))
    assert np.abs(logits(True) - logits(True)).min() > 0
    assert ConditionalSpanHead(tiny_config, seeds).dropout_rate == 0.1
