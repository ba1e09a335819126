"""One model trained with Keras `fit`, from where it was interrupted if it was."""

from collections.abc import Callable
from pathlib import Path

import keras
import tensorflow as tf

from albert_tf.finetuning.callback import RunCallback
from albert_tf.finetuning.model_file import save_model
from albert_tf.finetuning.progress import FinetuningProgress
from albert_tf.finetuning.replicas import ClippedAdamW
from albert_tf.finetuning.settings import FinetuningSettings
from albert_tf.finetuning.state import RunState
from albert_tf.optimizers import WarmupPolynomialDecay
from albert_tf.training.preemption import Preemption
from albert_tf.training.run_log import RunLog


def train(
    model: keras.Model,
    batches: Callable[[int], tf.data.Dataset],
    evaluate: Callable[[int], dict[str, float]] | None,
    *,
    metric: str,
    run: Path,
    settings: FinetuningSettings,
    preemption: Preemption,
) -> None:
    """Trains to the end, or to an early stop; RUN/model.keras then holds the best weights, or the last ones.

    Args:
      model: built under its strategy's scope, with the initial weights; `compile` without a loss suffices it.
      batches: a function from the number of steps that were taken to a dataset without an end that goes on there.
      evaluate: step -> metrics of the dev set, with names that begin with `eval_`; None to keep the last weights.
      metric: the name among those that the best weights are chosen by.
      run: the folder of this seed.
      settings: resolved.
      preemption: asked after every step whether to save and stop.

    Raises:
      Preempted: there was a SIGTERM, and the state is saved.
      InputError: training diverged.
    """
    assert settings.learning_rate and settings.num_train_steps and settings.num_warmup_steps is not None
    schedule = WarmupPolynomialDecay(
        settings.learning_rate, settings.num_train_steps, settings.num_warmup_steps
    )
    with model.distribute_strategy.scope():
        optimizer = ClippedAdamW(schedule)
        optimizer.build(model.trainable_variables)
        model.compile(optimizer=optimizer, jit_compile=False)
    state = RunState(run, model, optimizer)
    start_step = state.restore_latest()
    with FinetuningProgress(settings.num_train_steps, start_step) as progress:
        if start_step:
            progress.say(f"going on at step {start_step} of {run}")
        callback = RunCallback(
            run, settings, state, evaluate, metric, schedule, RunLog(run, start_step), progress, preemption
        )
        callback.set_model(model)
        callback.make_up()
        if not callback.is_over():
            model.fit(
                batches(start_step),
                steps_per_epoch=settings.num_train_steps - start_step,
                callbacks=[callback],
                shuffle=False,  # the dataset does it
                verbose=0,
            )
        if preemption.requested and not callback.is_over():
            raise preemption.stop(state.step)
    if evaluate is None:
        save_model(model, run)
