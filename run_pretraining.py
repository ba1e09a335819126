#!/usr/bin/env python
"""Pretrains an ALBERT with masked-LM and sentence-order losses; `albert pretrain` is the same program.

    python run_pretraining.py --input_file='data/train.tfrecord*' --eval_file='data/heldout.tfrecord*' \
        --albert_config_file=albert_config.json --output_dir=runs/base --do_train --do_eval

`python run_pretraining.py --help` lists the flags.
"""

import sys

from albert_tf import cli

if __name__ == "__main__":
    # Before the imports that follow, so that a wrong flag is told at once and TensorFlow starts quietly.
    sys.exit(cli.main(["pretrain", *sys.argv[1:]]))

import contextlib
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import keras

from albert_tf.config import AlbertConfig
from albert_tf.models import AlbertPretrainer
from albert_tf.optimizers import AdamW, Lamb, WarmupPolynomialDecay
from albert_tf.training.checkpoints import RunCheckpoints, load_weights, open_run
from albert_tf.training.guidance import learning_rate_line, warnings
from albert_tf.training.inputs import PretrainingInputs
from albert_tf.training.loop import train
from albert_tf.training.run_log import RunLog, TrainingProgress
from albert_tf.training.settings import PretrainingSettings, settings_json
from albert_tf.training.steps import evaluate, make_eval_function, make_train_function
from albert_tf.training.strategy import (
    check_agreement,
    check_batch,
    compiles,
    is_chief,
    iterations_per_loop,
    make_strategy,
)


def pretrain(settings: PretrainingSettings) -> dict[str, float]:
    """Starts a run, or goes on with the one in `settings.output_dir`.

    Returns:
      The metrics of the last evaluation, names prefixed with `eval_`; empty if there was none.

    Raises:
      InputError: files, flags and configuration do not fit each other; then nothing has been written.
    """
    config = AlbertConfig.from_json_file(settings.albert_config_file)
    inputs = PretrainingInputs(settings, config)
    given, settings = settings, inputs.settings
    strategy = make_strategy(settings)
    check_batch(settings, strategy)
    check_agreement(
        strategy,
        zlib.crc32(f"{settings_json(settings)} {config.to_dict()}".encode()),
        "All workers must be started with the same flags and configuration. Received others elsewhere than here.",
    )
    chief = is_chief(strategy)
    with strategy.scope():
        model = AlbertPretrainer(config, seed=settings.seed, dtype=dtype_policy(settings))
        optimizer = make_optimizer(settings)
        optimizer.build(model.trainable_variables)
        if settings.init_checkpoint:
            load_weights(model, settings.init_checkpoint)

    run = Path(settings.output_dir)
    if chief:
        open_run(settings, config, inputs.vocabulary, inputs.manifest)
    checkpoints = RunCheckpoints(run, model, optimizer, settings.keep_checkpoint_max)
    start_step = checkpoints.restore_latest()
    check_agreement(
        strategy,
        start_step,
        f"--output_dir must be one folder that all workers share. Received {run}, where this one finds the "
        f"checkpoint of step {start_step} and another one finds another.",
    )
    eval_step = make_eval_function(model, strategy)
    metrics: dict[str, float] = {}

    with (
        log_folder(run, chief) as folder,
        TrainingProgress(settings.num_train_steps, start_step) as progress,
    ):
        log = RunLog(folder, start_step)

        def evaluate_at(step: int) -> None:
            if not (settings.do_eval and settings.eval_file):
                return
            metrics.update(evaluate(eval_step, inputs.eval_batches(strategy), settings.max_eval_steps))
            log.write(step, metrics)
            progress.say_evaluation(step, metrics)

        def save_at(step: int) -> None:
            if chief:
                checkpoints.save()
            evaluate_at(step)

        if start_step:
            progress.say(f"going on at step {start_step} of the run in {run}")
        if settings.do_eval and not settings.eval_file:
            progress.say(
                "no evaluation: --do_eval needs --eval_file, since it never reads the training files"
            )
        if settings.do_train and start_step < settings.num_train_steps:
            if given.learning_rate is None:
                progress.say(learning_rate_line(settings))
            for line in warnings(settings, inputs.examples, inputs.manifest):
                progress.say(line)
            train(
                make_train_function(
                    model,
                    optimizer,
                    strategy,
                    accumulation_steps=settings.gradient_accumulation_steps,
                    jit_compile=compiles(settings, strategy),
                ),
                iter(inputs.train_batches(strategy, start_step)),
                start_step=start_step,
                tokens_per_step=inputs.tokens_per_step,
                learning_rate=make_schedule(settings),
                iterations_per_loop=iterations_per_loop(settings, strategy),
                settings=settings,
                log=log,
                progress=progress,
                save=save_at,
            )
        elif settings.do_eval:
            evaluate_at(start_step)
    return metrics


def dtype_policy(settings: PretrainingSettings) -> keras.DTypePolicy:
    """What the model computes in; its weights are float32."""
    return keras.DTypePolicy("mixed_bfloat16" if settings.mixed_precision == "bfloat16" else "float32")


@contextlib.contextmanager
def log_folder(run: Path, chief: bool) -> Iterator[Path]:
    """Where to write metrics: the run's folder, or for all workers but the chief one that is thrown away."""
    if chief:
        yield run
        return
    with tempfile.TemporaryDirectory() as aside:
        yield Path(aside)


def make_schedule(settings: PretrainingSettings) -> WarmupPolynomialDecay:
    """The learning rate that the flags ask for."""
    assert settings.learning_rate, "inputs.py has resolved it"
    return WarmupPolynomialDecay(
        settings.learning_rate, settings.num_train_steps, settings.num_warmup_steps, settings.poly_power
    )


def make_optimizer(settings: PretrainingSettings) -> keras.optimizers.Optimizer:
    """The optimizer that the flags ask for."""
    optimizer = {"lamb": Lamb, "adamw": AdamW}[settings.optimizer]
    return optimizer(make_schedule(settings))
