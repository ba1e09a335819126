import json

import numpy as np
import pytest

from albert_tf.lab.peer_processes import Peer
from benchmarks import inference
from benchmarks.inference import Cell, InferenceSettings, cells, compare, latency_table
from benchmarks.inference_peers import batch
from data_prep.errors import InputError
from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer
from tests.benchmarks.finished_peers import finished_peer


def finished(name: str, seconds: list[float], value: float = 1.0) -> Peer:
    """A peer whose steps took these times."""
    return finished_peer(
        name,
        [
            {"seconds": each, "user_seconds": 2 * each, "value": value, "load_seconds": 1.0}
            for each in seconds
        ],
    )


def test_a_batch_is_the_same_in_every_process_and_padding_is_zero():
    (ids, mask), (again, _) = batch([3, 5], 5), batch([3, 5], 5)
    np.testing.assert_array_equal(ids, again)
    np.testing.assert_array_equal(mask, [[1, 1, 1, 0, 0], [1] * 5])
    np.testing.assert_array_equal(ids > 0, mask)
    assert ids.dtype == mask.dtype == np.int32


def test_cells_of_full_rows_and_of_real_lengths(tmp_path, model_file):
    texts = ["a", "the captain", "a quiet neighbour sailed past the lighthouse", "he was late", "so"]
    (tmp_path / "dev.tsv").write_text(
        "\n".join(["sentence\tlabel", *(f"{text}\t1" for text in texts)]) + "\n"
    )
    settings = InferenceSettings(
        shapes=("2,16",),
        tasks=(f"sst-2={tmp_path}",),
        task_batch=2,
        turns=2,
        spm_model_file=str(model_file),
    )
    full, mixed = cells(settings)
    assert (full.name, full.batches, full.filled) == ("2 x 16", ((16, 16),), 1.0)
    assert Cell("", ((3, 1), (2, 2))).filled == 0.8
    assert mixed.name == "sst-2, 2 rows"
    tokenizer = AlbertTokenizer(model_file)
    possible = {2 + len(tokenizer.encode(text)) for text in texts}
    assert [len(rows) for rows in mixed.batches] == [2, 2]
    assert {length for rows in mixed.batches for length in rows} <= possible
    assert json.loads(mixed.request(3)) == {"lengths": list(mixed.batches[1]), "T": max(mixed.batches[1])}
    assert mixed.tokens(3) == [sum(mixed.batches[0]), sum(mixed.batches[1]), sum(mixed.batches[0])]


@pytest.mark.parametrize(
    ("task", "message"),
    [("sst-2", "needs data of at least 8 rows. Received .* with 2"), ("race", "with one sequence per row")],
)
def test_data_that_give_no_cell(tmp_path, model_file, task, message):
    (tmp_path / "dev.tsv").write_text("sentence\tlabel\na\t1\nb\t0\n")
    settings = InferenceSettings(tasks=(f"{task}={tmp_path}",), task_batch=8, spm_model_file=str(model_file))
    with pytest.raises(InputError, match=message):
        cells(settings)


def test_what_is_measured_is_written_after_each_cell(tmp_path, monkeypatch):
    def measured(*_):
        yield {"dtype": "float32", "cells": {"1 x 16": {}}}
        raise KeyboardInterrupt

    monkeypatch.setattr(inference, "export_all", lambda *_: {})
    monkeypatch.setattr(inference, "measure", measured)
    output = tmp_path / "report.json"
    with pytest.raises(KeyboardInterrupt):
        inference.main(InferenceSettings(logs=tmp_path, output=output))
    assert json.loads(output.read_text())["runs"] == [{"dtype": "float32", "cells": {"1 x 16": {}}}]


def test_each_library_is_compared_with_ours_turn_by_turn():
    ours, slow = finished("albert_tf", [1.0, 2.0, 1.0]), finished("openvino", [2.0, 4.0, 2.0], 1.0005)
    wrong, other = finished("onnx_runtime", [1.0] * 3, 1.1), finished("keras_hub", [1.0] * 3, 7.0)
    cell = Cell("2 x 16", ((16, 16),))
    rows = compare([ours, slow, wrong, other], cell.tokens(3), "float32")
    assert rows["albert_tf"]["tokens_per_second"] == 32
    assert rows["albert_tf"]["seconds"] == [1.0, 2.0, 1.0]
    assert rows["openvino"]["user_seconds"] == [4.0, 8.0, 4.0]
    times = {name: row["times_best_peer"] for name, row in rows.items()}
    assert times == {"albert_tf": 1.0, "openvino": 0.5, "onnx_runtime": 1.0, "keras_hub": 1.0}
    assert rows["openvino"]["seconds_of_albert_tf"] == rows["openvino"]["user_seconds_of_albert_tf"] == 2.0
    assert rows["openvino"]["median_milliseconds"] == pytest.approx(2000)
    agreed = {name: row["agrees"] for name, row in rows.items()}
    assert agreed == {"albert_tf": True, "openvino": True, "onnx_runtime": False, "keras_hub": None}
    start = {"start_seconds": 3.0, "load_seconds": 1.0}
    run = {"starts": dict.fromkeys(rows, start), "filled": {cell.name: 0.75}, "cells": {cell.name: rows}}
    shown = latency_table({"dtype": "float32", **run})
    assert "| 2 x 16, 75% tokens | 32 (1.00) | 16 (2.00) | 32 (1.00) differs | 32 (1.00) | 1.00 |" in shown


def test_without_another_library_there_is_no_best_one():
    rows = compare([finished("albert_tf", [1.0])], [32], "float32")
    assert "times_best_peer" not in rows["albert_tf"]
    start = {"start_seconds": 3.0, "load_seconds": 1.0}
    run = {"starts": {"albert_tf": start}, "filled": {"2 x 16": 1.0}, "cells": {"2 x 16": rows}}
    assert "| 2 x 16, 100% tokens | 32 (1.00) |  |" in latency_table({"dtype": "float32", **run})
