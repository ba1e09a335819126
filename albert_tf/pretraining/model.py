"""The model of a run and its optimizer, as the flags describe them."""

from pathlib import Path

import keras

from albert_tf.checkpoints.open_model import read_config
from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.optimizers import AdamW, Lamb, WarmupPolynomialDecay
from albert_tf.pretraining.flags import PretrainingFlags, PretrainingPlan
from data_prep.errors import InputError


def model_config(settings: PretrainingFlags) -> AlbertConfig:
    """The configuration that is given, or that of the run in --output_dir, or of --init_checkpoint."""
    of_run = Path(settings.output_dir) / CONFIG_FILE
    if settings.albert_config_file:
        return AlbertConfig.from_json_file(settings.albert_config_file)
    if of_run.is_file():
        return AlbertConfig.from_json_file(of_run)
    if settings.init_checkpoint:
        return read_config(settings.init_checkpoint)
    if not settings.do_train:
        raise no_model_to_evaluate(settings)
    raise InputError(
        "A new model needs its sizes. Received neither --albert_config_file nor --init_checkpoint; name a model "
        "to train further, or a configuration. `AlbertConfig.from_preset('albert_base_v2', vocab_size=30000)"
        ".to_json_file('albert_config.json')` writes one."
    )


def no_model_to_evaluate(settings: PretrainingFlags) -> InputError:
    """The error for an evaluation alone where there is nothing to evaluate."""
    return InputError(
        "--do_eval without --do_train needs a model: --init_checkpoint, or a run with checkpoints in "
        f"--output_dir. {settings.output_dir} has none."
    )


def make_model(
    settings: PretrainingPlan, config: AlbertConfig
) -> tuple[AlbertPretrainer, keras.optimizers.Optimizer]:
    """A fresh model with float32 weights, and its optimizer."""
    model = AlbertPretrainer(
        config,
        seed=settings.seed,
        remat=settings.remat,
        scan_layers=settings.scan_layers,
        dtype=keras.DTypePolicy("mixed_bfloat16" if settings.mixed_precision == "bfloat16" else "float32"),
    )
    optimizer = {"lamb": Lamb, "adamw": AdamW}[settings.optimizer](make_schedule(settings))
    optimizer.build(model.trainable_variables)
    return model, optimizer


def make_schedule(settings: PretrainingPlan) -> WarmupPolynomialDecay:
    """The learning rate over the run."""
    return WarmupPolynomialDecay(
        settings.learning_rate,
        settings.num_train_steps,
        settings.num_warmup_steps,
        settings.poly_power,
        settings.start_warmup_step,
    )
