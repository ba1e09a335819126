"""Rows of a runner, whatever order it computes them in."""

import numpy as np

from albert_tf.tasks.runner import FunctionRunner
from albert_tf.tasks.splits import BatchSize


def test_rows_are_those_of_the_examples():
    """Batches hold similar lengths, and no numbers of rows."""
    lengths, batches = [5, 2, 9, 3, 2, 7], []

    def run(batch):
        batches.append(batch)
        return {"first": batch["input_ids"][:, 0], "tokens": batch["input_mask"].sum(axis=1)}

    runner = FunctionRunner(run)
    features = [{"input_ids": np.full(length, 10 + i, np.int32)} for i, length in enumerate(lengths)]
    rows = runner.rows(features, BatchSize(rows=2))
    assert [(row["first"], row["tokens"]) for row in rows] == [(10 + i, n) for i, n in enumerate(lengths)]
    assert [batch["input_ids"].shape for batch in batches] == [(2, 2), (2, 5), (2, 9)]
    assert all(set(batch) == {"input_ids", "input_mask"} for batch in batches)
    assert runner(batches[0])["tokens"].tolist() == [2, 2]
    assert runner.rows([]) == []
