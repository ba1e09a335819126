"""The results of several seeds."""

import json

from albert_tf.finetuning.seed_folder import SeedFolder, results_table, run_results, trained_seeds


def test_median_minimum_and_maximum():
    scores = {3: 0.5, 4: 0.9, 5: 0.6}
    seeds = [{"seed": seed, "step": 10, "dev": {"accuracy": score}} for seed, score in scores.items()]
    results = run_results("rte", "accuracy", seeds)
    assert results["best_seed"] == 4
    assert results["dev"] == {"accuracy": {"median": 0.6, "min": 0.5, "max": 0.9}}
    table = results_table(results)
    assert table is not None
    assert [list(column.cells) for column in table.columns] == [
        ["dev"],
        ["accuracy"],
        ["0.6000"],
        ["0.5000"],
        ["0.9000"],
    ]


def test_a_failed_seed_is_the_best_only_among_failed_ones():
    scores, failed = {3: 0.5, 4: 0.9, 5: 0.6}, {"failed": "9 of 9 predictions are 'a'"}
    seeds = [{"seed": seed, "dev": {"accuracy": score}} for seed, score in scores.items()]
    seeds[1] |= failed
    results = run_results("rte", "accuracy", seeds)
    assert results["best_seed"] == 5
    assert results_table(results).caption == "the best seed is 5, failed: 4"
    results = run_results("rte", "accuracy", [{**seed, **failed} for seed in seeds])
    assert results["best_seed"] == 4
    assert results_table(results).caption == "all seeds have failed"
    assert results_table(run_results("rte", "accuracy", seeds[1:2])).caption == "the seed has failed"


def test_failed_trainings_are_set_aside(tmp_path):
    folder = SeedFolder.of(tmp_path, 7)
    for number in range(1, 12):
        folder.path.mkdir()
        for name in ("model.keras", "vocab.txt", "dev_predictions.tsv", "metrics.jsonl"):
            (folder.path / name).touch()
        (folder.path / "checkpoints").mkdir()
        (folder.path / "settings.json").write_text(json.dumps({"learning_rate": 1 / 2**number}))
        folder.write_results({"failed": f"reason {number}"})
        folder.set_aside()
        assert not folder.path.exists()
    assert folder.failures[-1] == tmp_path / "failed" / "seed_7_11"
    left = {path.name for path in folder.failures[0].iterdir()}
    assert left == {"metrics.jsonl", "settings.json", "results.json"}
    assert folder.history()[1] == {"learning_rate": 1 / 4, "failed": "reason 2"}
    assert trained_seeds(tmp_path) == []


def test_without_evaluation():
    results = run_results("rte", "accuracy", [{"seed": 7, "step": 10}])
    assert results["best_seed"] == 7
    assert results_table(results) is None
