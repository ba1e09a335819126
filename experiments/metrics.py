"""What the log of a pretraining run says."""

from pathlib import Path

from albert_tf.checkpoints.run_files import SETTINGS_FILE, read_metrics
from data_prep.files import read_json_object


def evaluations(run: Path, sentences: bool = True) -> list[dict]:
    """The evaluations in a run's metrics, in order; a resumed run may have repeated one, which counts once.

    Without `sentences`, they lack those of sentence order, which mean nothing for a model without pairs.
    """
    lines = {line["step"]: line for line in read_metrics(run) if "eval_masked_lm_accuracy" in line}
    return [
        {name: value for name, value in line.items() if sentences or "sentence_order" not in name}
        for line in lines.values()
    ]


def training_seconds(run: Path) -> float:
    """The time that a run's steps took, without start-up and evaluations."""
    settings = read_json_object(run / SETTINGS_FILE)
    lines = [line for line in read_metrics(run) if "tokens_per_second" in line]
    # A run that continues another one's schedule begins at the step of its checkpoint, ckpt-STEP.
    begin = int(settings["init_checkpoint"].rpartition("-")[2]) if settings["init_optimizer"] else 0
    starts = [begin, *(line["step"] for line in lines[:-1])]
    return sum(
        (line["step"] - start)
        * _tokens_per_step(settings["phases"], line["step"])
        / line["tokens_per_second"]
        for line, start in zip(lines, starts, strict=True)
    )


def _tokens_per_step(phases: list[dict], step: int) -> int:
    """The tokens of the step in a run with these phases, as its settings.json lists them."""
    phase = next(phase for phase in phases if step <= phase["start_step"] + phase["num_train_steps"])
    return phase["train_batch_size"] * phase["max_seq_length"]
