"""Batches of similar length: every example once per epoch, little padding, an order that can be resumed."""

import itertools

import numpy as np
import pytest

from albert_tf.tasks import task_batches
from albert_tf.tasks.task_batches import BatchOrder, batches_per_epoch, bucketed_batches, by_falling_length
from data_prep.errors import InputError
from tests.selection import all_but_very_slow


def features(count=203, longest=40, seed=0):
    """Arrays whose values encode their row and position."""
    rng = np.random.default_rng(seed)
    return [
        {
            "input_ids": (100 * row + np.arange(length)).astype(np.int32),
            "p_mask": np.zeros(length, np.int32),
            "weights": np.full(length, row, np.float32),
            "choices": np.full((2, length), row, np.int32),
            "label": np.array(row, np.int32),
            "score": np.array(row / 2, np.float32),
        }
        for row, length in enumerate(rng.integers(3, longest + 1, count))
    ]


def taken(dataset, count=None):
    return list(itertools.islice(dataset.as_numpy_iterator(), count))


def indices(batches):
    return [batch["index"].tolist() for batch in batches]


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize(
    ("pad_to", "by_length", "multiple"), [(None, None, 1), (64, None, 1), (None, True, 1), (None, True, 16)]
)
def test_a_batch_is_its_examples_padded(seed, pad_to, by_length, multiple):
    examples = features(53)
    longest = max(example["input_ids"].size for example in examples)
    order, options = BatchOrder(seed, by_length=by_length), {"pad_to": pad_to, "length_multiple": multiple}
    for batch in taken(bucketed_batches(examples, 8, order, **options)):
        rows = batch["index"]
        sizes = [examples[row]["input_ids"].size for row in rows]
        T = pad_to or min(-(-max(sizes) // multiple) * multiple, longest)
        assert {name: values.shape for name, values in batch.items()} == {
            "input_ids": (len(rows), T),
            "input_mask": (len(rows), T),
            "p_mask": (len(rows), T),
            "weights": (len(rows), T),
            "choices": (len(rows), 2, T),
            "label": (len(rows),),
            "score": (len(rows),),
            "index": (len(rows),),
            "sample_weight": (len(rows),),
        }
        for i, (row, size) in enumerate(zip(rows, sizes, strict=True)):
            padding = [0] * (T - size)
            assert batch["input_ids"][i].tolist() == [*examples[row]["input_ids"], *padding]
            assert batch["input_mask"][i].tolist() == [1] * size + padding
            assert batch["p_mask"][i].tolist() == [0] * size + [1] * (T - size)
            assert batch["weights"][i].tolist() == [row] * size + padding
            assert batch["choices"][i].tolist() == [[row] * size + padding] * 2
        assert batch["label"].tolist() == rows.tolist()
        assert batch["score"].tolist() == (rows / 2).tolist()
        assert batch["sample_weight"].tolist() == [1.0] * len(rows)


@pytest.mark.parametrize("count", [7, 64, 203])
@pytest.mark.parametrize("by_length", [True, False])
def test_every_epoch_has_every_example_once_in_another_order(count, by_length, monkeypatch):
    monkeypatch.setattr(task_batches, "_POOL", 4)
    dataset = bucketed_batches(features(count), 8, BatchOrder(3, num_epochs=3, by_length=by_length))
    batches = indices(taken(dataset))
    per_epoch = batches_per_epoch(count, 8)
    assert dataset.cardinality().numpy() == len(batches) == 3 * per_epoch
    epochs = [list(itertools.chain(*batches[i : i + per_epoch])) for i in range(0, len(batches), per_epoch)]
    assert all(sorted(epoch) == list(range(count)) for epoch in epochs)
    if count > 8:
        assert epochs[0] != epochs[1] != epochs[2] != epochs[0]


@pytest.mark.slow
def test_the_order_follows_from_the_seed():
    orders = [
        indices(taken(bucketed_batches(features(), 8, BatchOrder(seed, num_epochs=2)))) for seed in (1, 1, 2)
    ]
    assert orders[0] == orders[1] != orders[2]


@pytest.mark.slow
@pytest.mark.parametrize("skip", all_but_very_slow([1, 26, 60], [26]))
@pytest.mark.parametrize("seed", [None, 5])
def test_a_resumed_run_gets_the_remaining_batches(skip, seed):
    whole = indices(taken(bucketed_batches(features(), 8, BatchOrder(seed, num_epochs=None)), 70))
    rest = bucketed_batches(features(), 8, BatchOrder(seed, num_epochs=None, skip_batches=skip))
    assert indices(taken(rest, 70 - skip)) == whole[skip:]
    finite = bucketed_batches(features(), 8, BatchOrder(seed, num_epochs=2, skip_batches=skip))
    assert indices(taken(finite)) == whole[skip:52]
    assert finite.cardinality().numpy() == max(0, 52 - skip)


def test_in_order_and_by_falling_length():
    examples = features()
    assert list(itertools.chain(*indices(taken(bucketed_batches(examples, 8, BatchOrder(None)))))) == list(
        range(203)
    )
    batches = taken(bucketed_batches(examples, 8, BatchOrder(None, by_length=True)))
    lengths = [examples[row]["input_ids"].size for batch in batches for row in batch["index"]]
    assert lengths == sorted(lengths, reverse=True)
    order = list(itertools.chain(*indices(batches)))
    assert sorted(order) == list(range(203))
    assert order == by_falling_length(np.array([len(example["input_ids"]) for example in examples])).tolist()


def test_the_last_batch():
    sizes = [len(rows) for rows in indices(taken(bucketed_batches(features(), 8, BatchOrder(1))))]
    assert sorted(sizes) == [3] + [8] * 25
    filled = taken(bucketed_batches(features(), 8, BatchOrder(1), fill_remainder=True))
    assert {len(batch["index"]) for batch in filled} == {8}
    fillers = [batch for batch in filled if -1 in batch["index"]]
    assert len(fillers) == 1
    assert ((fillers[0]["index"] < 0) == (fillers[0]["sample_weight"] == 0)).all()
    assert fillers[0]["sample_weight"].sum() == 3
    assert sorted(row for batch in filled for row in batch["index"] if row >= 0) == list(range(203))


def test_shapes_are_known_if_batches_are_filled():
    spec = bucketed_batches(features(), 8, BatchOrder(1), pad_to=64, fill_remainder=True).element_spec
    assert spec["input_ids"].shape == spec["input_mask"].shape == (8, 64)
    assert spec["choices"].shape == (8, 2, 64)
    assert spec["label"].shape == spec["index"].shape == (8,)


@pytest.mark.slow
def test_little_padding_is_left():
    examples = features(5000, longest=200)
    real = sum(example["input_ids"].size for example in examples)
    padded = {
        by_length: sum(
            batch["input_ids"].size
            for batch in taken(bucketed_batches(examples, 16, BatchOrder(1, by_length=by_length)))
        )
        for by_length in (True, False)
    }
    assert padded[True] < 1.05 * real
    assert padded[False] > 1.5 * real


def test_batches_are_not_sorted_by_length():
    """A run that saw short texts first would learn lengths."""
    batches = taken(bucketed_batches(features(5000), 16, BatchOrder(1)))
    lengths = np.array([batch["input_ids"].shape[1] for batch in batches])
    assert abs(np.corrcoef(lengths, np.arange(len(lengths)))[0, 1]) < 0.2


def test_invalid_arguments():
    with pytest.raises(InputError, match="at least one example"):
        bucketed_batches([], 8, BatchOrder(1))
    with pytest.raises(
        InputError, match="`pad_to` must be no less than the longest example. Received 16 < 40"
    ):
        bucketed_batches(features(), 8, BatchOrder(1), pad_to=16)
