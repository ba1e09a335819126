"""One seed of a fine-tuning run: train, evaluate, predict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from albert_tf.finetuning.best import best_evaluation
from albert_tf.finetuning.building import build_model
from albert_tf.finetuning.inference import Inference, by_row, mean_loss
from albert_tf.finetuning.preprocessor import Preprocessor
from albert_tf.finetuning.run_folder import (
    finish_training,
    is_trained,
    load_finetuned,
    open_run,
    seed_results,
    training_facts,
    write_seed_results,
)
from albert_tf.finetuning.settings import FinetuningSettings
from albert_tf.finetuning.task_data import Split, eval_batches, train_batches
from albert_tf.finetuning.task_outputs import (
    EVEN_ODDS,
    Predictions,
    keep_predictions,
    main_metric_of,
    metrics_of,
    predictions_of,
)
from albert_tf.finetuning.training import train
from albert_tf.pretrained.loading import Pretrained
from albert_tf.training.metrics_file import read_metrics
from albert_tf.training.preemption import Preemption
from data_prep.tasks.task import Task


@dataclass(frozen=True)
class Work:
    """What all seeds of a run have in common.

    Attributes:
      task: what is asked for.
      settings: resolved.
      labels: the classes in the model's order.
      preprocessor: of the model.
      splits: by role, "train", "dev" and "test": what is wanted of each.
      loaded: the pretrained checkpoint; None without training.
      strategy: the devices.
      preemption: knows of SIGTERM.
    """

    task: Task
    settings: FinetuningSettings
    labels: tuple[str, ...]
    preprocessor: Preprocessor
    splits: Mapping[str, Sequence[Split]]
    loaded: Pretrained | None
    strategy: tf.distribute.Strategy
    preemption: Preemption


def train_seed(work: Work, seed: int) -> Path:
    """Trains one seed to its end, from where it was interrupted if it was; returns its folder."""
    assert work.loaded is not None
    run = open_run(work.settings, work.preprocessor.vocabulary, seed)
    with work.strategy.scope():
        model = build_model(work.task, work.loaded, work.labels, work.preprocessor, work.settings, seed)
    inference, dev = Inference(model), work.splits.get("dev", ())
    metric = f"eval_{main_metric_of(work.task)}"

    def evaluate(step: int) -> dict[str, float]:
        metrics, _ = judge(work, dev, inference, step)
        return {f"eval_{name}": value for name, value in metrics.items()}

    (split,) = work.splits["train"]
    train(
        model,
        train_batches(split, work.settings, seed),
        evaluate if dev else None,
        metric=metric,
        run=run,
        settings=work.settings,
        preemption=work.preemption,
    )
    lines = read_metrics(run)
    best = best_evaluation(lines, metric)
    steps = max((line["step"] for line in lines), default=0)
    finish_training(run, {"seed": seed, "steps": steps, "best_step": best["step"] if best else steps})
    return run


def finish_seed(work: Work, run: Path) -> dict[str, Any]:
    """Evaluates and predicts with the best weights of a seed; returns what it came to.

    Args:
      work: with the splits of "dev" and "test" that are wanted.
      run: the seed's folder.
    """
    result: dict[str, Any] = {**seed_results(run), **(training_facts(run) if is_trained(run) else {})}
    with work.strategy.scope():
        model = load_finetuned(run)
    inference, threshold = Inference(model), result.get("dev", {}).get("best_f1_thresh", EVEN_ODDS)
    for role in ("dev", "test"):
        if not work.splits.get(role):
            continue
        metrics, predictions = judge(work, work.splits[role], inference, result.get("steps", 0))
        if role == "dev":
            threshold = metrics.get("best_f1_thresh", threshold)
        for split, of_split in zip(work.splits[role], predictions, strict=True):
            keep_predictions(run, work.task, split, of_split, threshold)
        if metrics:
            result[role] = metrics
    write_seed_results(run, result)
    return result


def judge(
    work: Work, splits: Sequence[Split], inference: Inference, step: int
) -> tuple[dict[str, float], list[Predictions]]:
    """A model's metrics over some splits, and its predictions for each of them.

    Args:
      work: what is asked for.
      splits: of one role.
      inference: of the model.
      step: that is saved, should there be a SIGTERM.

    Raises:
      Preempted: there was a SIGTERM.
    """
    predictions, rows = [], []
    for split in splits:
        outputs = work.preemption.watched(inference(eval_batches(split, work.settings)), step)
        rows.append(by_row(outputs, len(split.features)))
        predictions.append(
            predictions_of(work.task, split, rows[-1], work.labels, work.settings.max_answer_length)
        )
    metrics = metrics_of(work.task, splits, predictions)
    every = [row for of_split in rows for row in of_split]
    if metrics and all("loss" in row for row in every):
        metrics = {
            "loss": mean_loss(every),
            **metrics,
            "examples": sum(len(split.examples) for split in splits),
        }
    return metrics, predictions
