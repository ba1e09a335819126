import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.flops import training_flops
from albert_tf.lab.peer_processes import Peer
from albert_tf.lab.training_step import MASK
from benchmarks.train_step import compare_with_best, step_table
from benchmarks.train_step_peers import batch
from tests.benchmarks.finished_peers import finished_peer


def finished(name: str, steps: list[tuple[float, float]], loss: float = 1.0) -> Peer:
    """A peer whose steps took (seconds, user seconds)."""
    return finished_peer(
        name,
        [
            {"seconds": seconds, "user_seconds": user, "peak_megabytes": 10.0 + seconds, "loss": loss}
            for seconds, user in steps
        ],
    )


def test_each_library_is_compared_with_the_best_peer_turn_by_turn():
    product = finished("matrix_product", [(1.0, 2.0)] * 3, loss=4e9)
    ours = finished("albert_tf", [(2.0, 3.0), (4.0, 3.0), (2.0, 3.0)])
    slow = finished("keras_hub", [(9.0, 9.0)] * 3)
    best = finished("hugging_face", [(3.0, 6.0), (6.0, 6.0), (3.0, 6.0)])  # a busy second turn for both
    rows = compare_with_best([ours, slow, best, product], [8, 128, 20])
    assert rows["matrix_product"] == {"gflops": 4.0, "gflops_per_core": 2.0}
    assert rows["albert_tf"]["tokens_per_second"] == 8 * 128 / 2
    assert rows["albert_tf"]["times_best_peer_by_seconds"] == 1.5
    assert rows["albert_tf"]["times_best_peer_by_user_seconds"] == 2.0
    assert rows["hugging_face"]["times_best_peer_by_seconds"] == 1.0
    flops = 8 * training_flops(AlbertConfig(), 128, 20, whole_last_layer=True)
    assert rows["albert_tf"]["share_of_peak"] == pytest.approx(flops / 2 / 4e9)
    assert rows["albert_tf"]["peak_megabytes"] == 14.0
    run = {"dtype": "float32", "shape": {"B": 8, "T": 128, "P": 20}, "peers": rows}
    assert "| albert_tf | 512 | 341 | 1.50 | 2.00 |" in step_table(run)


def test_batch_predicts_each_position_once():
    data = batch(2, 32, 5)
    assert all(len(set(row)) == 5 and row.max() < 32 for row in data["masked_lm_positions"])
    is_mask = data["input_ids"] == MASK
    assert 0 < is_mask.sum() <= 10
    assert np.isin(np.nonzero(is_mask[0])[0], data["masked_lm_positions"][0]).all()
    assert data["input_ids"].min() >= MASK
    np.testing.assert_array_equal(data["masked_lm_weights"], 1)
