"""Pretraining, as a story in order: configuration, data, devices, model, loop."""

import contextlib
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import keras

from albert_tf.config import AlbertConfig
from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.optimizers import AdamW, Lamb, WarmupPolynomialDecay
from albert_tf.pretrained.loading import load_weights_into
from albert_tf.pretraining.cores import parts_at_once
from albert_tf.pretraining.devices import check_batch, compiles, iterations_per_loop
from albert_tf.pretraining.guard import Guard
from albert_tf.pretraining.guidance import learning_rate_line, warnings
from albert_tf.pretraining.inputs import PretrainingInputs
from albert_tf.pretraining.loop import train
from albert_tf.pretraining.milestones import Milestones
from albert_tf.pretraining.run_folder import open_run
from albert_tf.pretraining.settings import PretrainingSettings
from albert_tf.pretraining.speed import Speed, device_peak
from albert_tf.pretraining.steps import (
    make_eval_function,
    make_train_function,
    make_trust_ratio_function,
)
from albert_tf.training.checkpoint_files import steps_in
from albert_tf.training.checkpoints import RunCheckpoints
from albert_tf.training.failures import failures_told
from albert_tf.training.metrics_file import read_metrics
from albert_tf.training.preemption import Preemption
from albert_tf.training.run_files import CHECKPOINTS, settings_json
from albert_tf.training.run_log import RunLog, TrainingProgress
from albert_tf.training.strategy import check_agreement, is_chief, make_strategy


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
    parts = parts_at_once(settings, config)
    strategy = make_strategy(settings)
    check_batch(settings, strategy)
    check_agreement(
        strategy,
        zlib.crc32(f"{settings_json(settings)} {config.to_dict()}".encode()),
        "All workers must be started with the same flags and configuration. Received others elsewhere than here.",
    )
    run, chief = Path(settings.output_dir), is_chief(strategy)
    with strategy.scope():
        model, optimizer = make_model(settings, config)
        is_new = not steps_in(run / CHECKPOINTS)
        missing = initialise(settings, model, optimizer) if is_new else ()
    if chief:
        with failures_told(run):
            open_run(settings, config, inputs.vocabulary, inputs.manifest)
    checkpoints = RunCheckpoints(run, model, optimizer, settings.keep_checkpoint_max)
    start_step = checkpoints.restore_latest()
    check_agreement(
        strategy,
        start_step,
        f"--output_dir must be one folder that all workers share. Received {run}, where this one finds the "
        f"checkpoint of step {start_step} and another one finds another.",
    )

    with (
        failures_told(run),
        log_folder(run, chief) as folder,
        TrainingProgress(settings.num_train_steps, start_step) as progress,
        Preemption(strategy) as preemption,
    ):
        lines = [line for line in read_metrics(run) if line["step"] <= start_step]
        guard = Guard(settings, lines)
        was_evaluated = any("eval_loss" in line for line in lines if line["step"] == start_step)
        log = RunLog(folder, start_step)

        milestones = Milestones(
            strategy,
            checkpoints,
            make_eval_function(model, strategy, parts_at_once=parts),
            (lambda: inputs.eval_batches(strategy)) if settings.do_eval and settings.eval_file else None,
            settings.max_eval_steps,
            guard,
            preemption,
            log,
            progress,
        )
        for line in notes(settings, start_step, is_new, missing):
            progress.say(line)
        if settings.do_train and start_step < settings.num_train_steps:
            if given.learning_rate is None:
                progress.say(learning_rate_line(settings))
            for line in warnings(settings, inputs.examples, inputs.manifest):
                progress.say(line)
            if start_step and start_step % settings.save_checkpoints_steps == 0 and not was_evaluated:
                milestones.evaluate(start_step)  # a run that was killed between checkpoint and evaluation
            peak = device_peak(
                strategy, run, model.compute_dtype, measure=settings.measure_peak, at_once=parts
            )
            train(
                make_train_function(
                    model,
                    optimizer,
                    strategy,
                    accumulation_steps=settings.gradient_accumulation_steps,
                    parts_at_once=parts,
                    jit_compile=compiles(settings, strategy),
                ),
                iter(inputs.train_batches(strategy, start_step)),
                start_step=start_step,
                speed=Speed(settings, config, peak),
                learning_rate=make_schedule(settings),
                more_metrics=make_trust_ratio_function(optimizer),
                iterations_per_loop=iterations_per_loop(settings, strategy),
                settings=settings,
                milestones=milestones,
            )
        elif settings.do_eval:
            milestones.evaluate(start_step)
    return milestones.metrics


def make_model(
    settings: PretrainingSettings, config: AlbertConfig
) -> tuple[AlbertPretrainer, keras.optimizers.Optimizer]:
    """A fresh model and its optimizer."""
    dtype = dtype_policy(settings)
    model = AlbertPretrainer(
        config, seed=settings.seed, remat=settings.remat, scan_layers=settings.scan_layers, dtype=dtype
    )
    optimizer = make_optimizer(settings)
    optimizer.build(model.trainable_variables)
    return model, optimizer


def initialise(
    settings: PretrainingSettings, model: AlbertPretrainer, optimizer: keras.optimizers.Optimizer
) -> tuple[str, ...]:
    """Takes the weights of --init_checkpoint, if there is one; returns the parts that it does not hold."""
    if not settings.init_checkpoint:
        return ()
    return load_weights_into(
        model,
        settings.init_checkpoint,
        resize_positions=settings.resize_positions,
        optimizer=optimizer if settings.init_optimizer else None,
    )


def notes(
    settings: PretrainingSettings, start_step: int, is_new: bool, missing: tuple[str, ...]
) -> Iterator[str]:
    """What to tell before the run begins."""
    if start_step:
        source = settings.init_checkpoint if is_new else f"the run in {settings.output_dir}"
        yield f"going on at step {start_step} of {source}"
    if missing:
        yield f"{settings.init_checkpoint} holds no {', '.join(missing)}: fresh weights there"
    if settings.do_eval and not settings.eval_file:
        yield "no evaluation: --do_eval needs --eval_file, since it never reads the training files"


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
