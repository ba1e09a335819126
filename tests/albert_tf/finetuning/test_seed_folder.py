"""The results of several seeds."""

from albert_tf.finetuning.seed_folder import results_table, run_results


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


def test_without_evaluation():
    results = run_results("rte", "accuracy", [{"seed": 7, "step": 10}])
    assert results["best_seed"] == 7
    assert results_table(results) is None
