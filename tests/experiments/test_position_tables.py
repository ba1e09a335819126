"""The table of finished runs."""

import json
from pathlib import Path

from experiments.position_tables import PositionSettings, run_folder, spread, table


def test_spread():
    assert spread([0.25]) == "0.250"
    assert spread([0.3, 0.1, 0.25]) == "0.250 (0.100 to 0.300)"


def test_table_has_medians_of_finished_runs(tmp_path):
    settings = PositionSettings("train.txt", "heldout.txt", tmp_path, tokens=4_000_000)
    for seed in settings.seeds:
        for method, offset in (("tile", 0.1), ("fresh", 0.0)):
            folder = run_folder(settings, 128, method, seed)
            write_metrics(folder, [offset + seed / 100 + step / 1000 for step in range(1, 5)])
            if (method, seed) != ("fresh", 3):  # not finished
                (folder / "done").touch()
    header, _, tile, fresh = table(settings).splitlines()
    assert "after 1 million tokens" in header
    assert "after 4 million tokens" in header
    cells = [cell.strip() for cell in tile.strip("|").split("|")]
    assert cells[:4] == ["32 to 128", "tile", "3", "0.121 (0.111 to 0.131)"]
    assert cells[-2:] == ["0.124 (0.114 to 0.134)", "0.600 (0.600 to 0.600)"]
    assert [cell.strip() for cell in fresh.strip("|").split("|")][:3] == ["32 to 128", "fresh", "2"]


def write_metrics(run: Path, accuracies: list[float]) -> None:
    run.mkdir(parents=True)
    lines = [
        {"step": step, "eval_masked_lm_accuracy": accuracy, "eval_sentence_order_accuracy": 0.6}
        for step, accuracy in enumerate(accuracies)
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
