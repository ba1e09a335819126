"""One model trained in the folder of its seed, as a story: optimizer, checkpoint, steps, best weights."""

from collections.abc import Callable

import tensorflow as tf

from albert_tf.finetuning.construction import rate_factors
from albert_tf.finetuning.plan import FinetuningPlan
from albert_tf.finetuning.seed_folder import SeedFolder
from albert_tf.optimizers import AdamW, Lamb, WarmupPolynomialDecay
from albert_tf.tasks.objective import TaskObjective
from albert_tf.tasks.task_model import TaskModel
from albert_tf.training.devices import Devices
from albert_tf.training.held_out import HeldOut
from albert_tf.training.interruptions import Preemption
from albert_tf.training.run import Run, Timetable, moving_averages
from albert_tf.training.run_log import Wording
from albert_tf.training.run_place import RunPlace
from albert_tf.training.step_loop import StepLoop, iterations_per_loop
from albert_tf.training.weights import by_position
from data_prep.errors import InputError

_KEPT = 2  # checkpoints: the newest, and one before it in case its files are damaged


class DivergedError(InputError):
    """The loss or its gradient is not finite."""


def train_seed(
    model: TaskModel,
    plan: FinetuningPlan,
    folder: SeedFolder,
    preemption: Preemption,
    evaluate: Callable[[int], dict[str, float]] | None,
    devices: Devices,
    place: RunPlace | None = None,
) -> dict[str, int]:
    """Trains to the end or to an early stop; model.keras then holds the best weights, or the last ones.

    Args:
      model: built under the devices' scope, with its initial weights.
      plan: the run's, with this seed.
      folder: of the seed; if it has a checkpoint, training resumes there.
      preemption: asked between steps whether to save and stop.
      evaluate: step -> metrics of the dev set with names that begin with `eval_`; the task's main metric chooses
        the best weights. None keeps the last ones.
      devices: share every batch.
      place: where the run is kept. Default: in its folder.

    Returns:
      "steps", and "best_step", whose weights are kept.

    Raises:
      Preempted: after SIGTERM or Ctrl-C; the state is saved.
      DivergedError: the loss or its gradient is not finite.
    """
    learning_rate = WarmupPolynomialDecay(plan.learning_rate, plan.num_train_steps, plan.num_warmup_steps)
    with devices.scope():
        optimizer = {"adamw": AdamW, "lamb": Lamb}[plan.optimizer](
            learning_rate,
            rate_factors=rate_factors(model.encoder.config, plan.layer_decay),
            use_ema=plan.ema_decay is not None,
            ema_momentum=plan.ema_decay or 0.0,
        )
        optimizer.build(model.trainable_variables)
    timetable = Timetable(plan.log_steps, plan.save_checkpoints_steps, [plan.num_train_steps])
    run = Run(
        folder.path,
        model,
        optimizer,
        devices,
        timetable,
        keep=_KEPT,
        content=by_position,
        place=place,
        log_to=plan.log_to,
    )
    metric = f"eval_{plan.definition.main_metric}"
    held_out = HeldOut(run.lines if evaluate else [], metric, plan.early_stopping_patience)

    def save_model(line: dict | None = None) -> None:
        if run.is_chief:
            folder.save_model(model)

    with run.opened(preemption, WORDING, held_out, evaluate or (lambda step: {}), save_model):
        if run.step:
            run.say(f"resuming at step {run.step} of {folder.path}")
        run.catch_up()
        if not run.is_over:
            run.take_steps(_make_loop(run, plan, learning_rate))
    if held_out.best is None:
        with moving_averages(model, optimizer):
            save_model()
    return {"steps": run.step, "best_step": held_out.best["step"] if held_out.best else run.step}


def _make_loop(run: Run, plan: FinetuningPlan, learning_rate: WarmupPolynomialDecay) -> StepLoop:
    (split,) = plan.data.splits["train"]

    def batches() -> tf.data.Dataset:
        order = {"seed": plan.seed, "num_epochs": None, "skip_batches": run.step}
        return plan.batches(split, plan.train_batch_size, **order)

    step = run.devices.optimizer_step(
        TaskObjective(run.model), run.optimizer, accumulation_steps=plan.gradient_accumulation_steps
    )

    def figures(sums: dict, steps: int, seconds: float) -> dict[str, float]:
        if float(sums["skipped_steps"]):
            raise DivergedError(
                "Training diverged: the loss or its gradient is not finite before step "
                f"{run.step + steps}. Use a lower --learning_rate, and another --output_dir, or delete this one."
            )
        return {
            "loss": float(sums["loss"] / sums["loss_weight"]),
            "gradient_norm": float(sums["gradient_norm"]) / steps,
            "examples_per_second": steps * plan.train_batch_size / seconds,
        }

    return StepLoop(
        step,
        iter(run.devices.divide(batches, plan.train_batch_size)),
        figures,
        learning_rate,
        iterations_per_loop(plan.iterations_per_loop, run.devices),
    )


def _figures(values: dict[str, float]) -> str:
    return f"loss {values['loss']:.3f}  {values['examples_per_second']:,.1f} examples/s"


def _evaluation(step: int, metrics: dict[str, float]) -> str:
    figures = "  ".join(
        f"{name.removeprefix('eval_')} {value:{',' if isinstance(value, int) else '.4f'}}"
        for name, value in metrics.items()
    )
    return f"dev at step {step}: {figures}"


# Evaluations show how a run goes, so a file that holds the output gets few lines of training steps between them.
WORDING = Wording(_figures, _evaluation, seconds_between_steps=30)
