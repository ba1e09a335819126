"""Pretraining, as a story in order: plan, devices, model, folder, phases of steps."""

import contextlib
import dataclasses
import zlib
from collections.abc import Iterator
from functools import partial

import keras

from albert_tf.checkpoints.checkpoint_files import steps_in
from albert_tf.checkpoints.run_files import CHECKPOINTS
from albert_tf.model.pretrainer import AlbertPretrainer
from albert_tf.optimizers import AdamW, Lamb
from albert_tf.pretraining.devices import check_batches, choose_parallel_parts, step_options
from albert_tf.pretraining.figures import WORDING, Speed
from albert_tf.pretraining.flags import PretrainingFlags
from albert_tf.pretraining.objective import PretrainingObjective
from albert_tf.pretraining.phase_data import PhaseData
from albert_tf.pretraining.phases import Phase
from albert_tf.pretraining.plan import PretrainingPlan, make_plan
from albert_tf.pretraining.run_folder import notes_on_changes, write_run_folder
from albert_tf.pretraining.steps import EvalStep, step_metrics, trust_ratios
from albert_tf.training.device_flags import settings_json
from albert_tf.training.devices import Devices, check_agreement, make_devices, started_backend
from albert_tf.training.guard import Guard
from albert_tf.training.held_out import EVALUATION_ALONE, HeldOut
from albert_tf.training.initial_weights import load_weights_into
from albert_tf.training.interruptions import Preemption, as_input_errors
from albert_tf.training.run import Run, locked_by_chief
from albert_tf.training.run_place import RunPlace, run_place
from albert_tf.training.step_loop import StepLoop, iterations_per_loop
from albert_tf.training.weights import tile_from
from data_prep.errors import InputError
from data_prep.reading.example_files import ExampleFiles


def pretrain(flags: PretrainingFlags) -> None:
    """Starts a run, or resumes the one in `flags.output_dir`.

    Raises:
      InputError: files, flags and configuration do not fit together, training diverges, the disk is full, or
        another worker stops.
      Preempted: the process received SIGTERM or Ctrl-C and has saved a checkpoint.
    """
    with started_backend(flags), run_place(flags.output_dir, flags) as place:
        _pretrain(make_plan(flags), place)


def _pretrain(plan: PretrainingPlan, place: RunPlace) -> None:
    parallel_parts = choose_parallel_parts(plan)  # sets threads, which TensorFlow reads when it starts
    devices = make_devices(plan)
    if plan.do_train:
        check_batches(plan, devices)
    check_agreement(
        devices,
        zlib.crc32(f"{settings_json(plan)} {plan.config.to_dict()}".encode()),
        "All workers must be started with the same flags, configuration and files. Those of another worker "
        "differ.",
    )
    place.share(devices)
    with locked_by_chief(plan.folder, devices), as_input_errors(plan.folder):
        pretraining = Pretraining(plan, devices, parallel_parts, place)
        pretraining.restore()
        with Preemption(devices) as preemption, pretraining.opened(preemption) as run:
            if not plan.do_train:
                pretraining.evaluate_alone()
            elif run.is_over:
                run.evaluate_checkpoint()
            else:
                pretraining.train()


class Pretraining:
    """The model of a plan, its steps and its evaluations.

    Attributes:
      run: what happens between steps; once `restore` is called.
    """

    run: Run

    def __init__(self, plan: PretrainingPlan, devices: Devices, parallel_parts: int, place: RunPlace):
        self._plan, self._devices, self._parallel_parts = plan, devices, parallel_parts
        self._place = place
        self._notes = list[str]()
        with devices.scope():
            self._model = AlbertPretrainer(
                plan.config,
                seed=plan.seed,
                remat=plan.remat,
                scan_layers=plan.scan_layers,
                dtype=keras.DTypePolicy("mixed_bfloat16" if plan.mixed_precision else "float32"),
            )
            self._optimizer = {"lamb": Lamb, "adamw": AdamW}[plan.optimizer](plan.schedule())
            self._optimizer.build(self._model.trainable_variables)

    def restore(self) -> None:
        """Loads the run's last checkpoint, or for a new run --init_checkpoint if given; writes the run's folder.

        Raises:
          InputError: the folder holds another run, or a checkpoint does not fit.
        """
        plan, is_new = self._plan, not steps_in(self._plan.folder / CHECKPOINTS)
        missing = self._load_initial_weights(plan.init_checkpoint) if is_new and plan.init_checkpoint else ()
        if self._devices.is_chief:
            self._notes += notes_on_changes(plan)
            write_run_folder(plan)
        self.run = Run(
            plan.folder,
            self._model,
            self._optimizer,
            self._devices,
            plan.timetable,
            keep=plan.keep_checkpoint_max,
            place=self._place,
            log_to=plan.log_to,
        )
        if self.run.step:
            source = plan.init_checkpoint if is_new else f"the run in {plan.folder}"
            verb = "resuming at" if plan.do_train else "evaluating"
            self._notes.append(f"{verb} step {self.run.step} of {source}")
        if missing:
            self._notes.append(f"{plan.init_checkpoint} holds no {', '.join(missing)}: using fresh weights")

    def _load_initial_weights(self, source: str) -> tuple[str, ...]:
        """Loads --init_checkpoint; returns the parts of the model that it does not hold."""
        plan, manifest = self._plan, self._plan.data[0].train.manifest
        facts = manifest.vocabulary_here if manifest else None
        if facts and plan.vocabulary:
            facts = dataclasses.replace(facts, file=plan.vocabulary.file)
        with self._devices.scope():
            missing = load_weights_into(
                self._model,
                source,
                resize_positions=plan.resize_positions,
                optimizer=self._optimizer if plan.init_optimizer else None,
                vocabulary=facts,
                init_from_group0=plan.init_from_group0,
            )
        step = int(keras.ops.convert_to_numpy(self._optimizer.iterations))
        if plan.do_train and step >= plan.num_train_steps:
            raise InputError(
                "With --init_optimizer the steps of --init_checkpoint count too. Received "
                f"--num_train_steps={plan.num_train_steps} and a checkpoint of step {step}; give more steps than "
                "that, or leave --init_optimizer out."
            )
        return missing

    @contextlib.contextmanager
    def opened(self, preemption: Preemption) -> Iterator[Run]:
        """Within this context the run may be trained and evaluated."""
        plan, run, self._preemption = self._plan, self.run, preemption
        held_out = HeldOut(run.lines, patience=plan.early_stopping_patience, after=plan.phases[-1].start_step)
        guard = Guard(
            run.lines, run.timetable.ends, plan.spike_factor, plan.spike_intervals, plan.max_rollbacks
        )
        self._eval_step = EvalStep(self._model, self._devices, parallel_parts=self._parallel_parts)
        with run.opened(
            preemption, WORDING, held_out, self._evaluate, self._keep_best, guard, trains=plan.do_train
        ):
            if held_out.best and plan.do_train:  # an evaluation alone changes no file but metrics.jsonl
                self._keep_best(held_out.best)
            for line in (*self._notes, *plan.notes):
                run.say(line)
            yield run

    def train(self) -> None:
        """Takes the steps that are left, phase by phase."""
        self.run.catch_up()
        for data in self._plan.data:
            if self.run.step < data.phase.end_step and not self.run.is_over:
                self._tile_untrained_positions(data.phase, self.run.step)
                self.run.take_steps(
                    self._make_loop(data), partial(self._tile_untrained_positions, data.phase)
                )

    def evaluate_alone(self) -> None:
        """Evaluates the restored weights, in a line of metrics.jsonl that decides nothing."""
        if metrics := self._evaluate(self.run.step):
            self.run.record_evaluation({**metrics, EVALUATION_ALONE: 1})

    def _tile_untrained_positions(self, phase: Phase, step: int) -> None:
        """Before the weights of `step` take steps of a longer phase, repeats the position rows that are trained.

        Not if --init_checkpoint gave the table.
        """
        trained = [each.max_seq_length for each in self._plan.phases if each.start_step < step]
        if trained and max(trained) < phase.max_seq_length and not self._plan.init_checkpoint:
            with self._devices.scope():
                tile_from(max(trained), [*self._model.trainable_variables, *self._optimizer.variables])

    def _make_loop(self, data: PhaseData) -> StepLoop:
        """The loop over the steps that are left of a phase."""
        plan, devices = self._plan, self._devices
        step = devices.optimizer_step(
            PretrainingObjective(self._model),
            self._optimizer,
            accumulation_steps=plan.gradient_accumulation_steps,
            **step_options(plan, devices, self._parallel_parts),
        )
        speed = Speed(data.phase, plan.config, devices.peak())
        taken = self.run.step

        def figures(sums: dict, steps: int, seconds: float) -> dict[str, float]:
            nonlocal taken
            taken += steps
            return {
                **step_metrics(sums),
                **trust_ratios(self._optimizer),
                **speed.values(steps, seconds, float(sums["input_wait"])),
                **data.set_shares(taken - steps, steps, plan.seed),
                **self._label(data.phase),
            }

        batches = data.train_batches(devices, self.run.step, plan.seed)
        per_call = iterations_per_loop(plan.iterations_per_loop, devices)
        return StepLoop(step, batches, figures, plan.schedule(), per_call)

    def _evaluate(self, step: int) -> dict[str, float]:
        """The metrics on the --eval_file of the phase of `step`; none without it and --do_eval."""
        plan = self._plan
        data = next((each for each in plan.data if step <= each.phase.end_step), plan.data[-1])
        if not (plan.do_eval and data.heldout):
            return {}
        old = self._measure(data, data.old, step) if data.old else {}
        return {
            **self._measure(data, data.heldout, step),
            **{f"eval_old_{name.removeprefix('eval_')}": value for name, value in old.items()},
            **self._label(data.phase),
        }

    def _measure(self, data: PhaseData, files: ExampleFiles, step: int) -> dict[str, float]:
        """The metrics of the weights of `step` on the files of a phase."""
        batches = data.eval_batches(files, self._devices, self._plan.eval_batch_size)
        return self._eval_step.metrics(self._preemption.watched(batches, step), self._plan.max_eval_steps)

    def _label(self, phase: Phase) -> dict[str, float]:
        """What the lines of metrics.jsonl also hold if there are several phases."""
        return {"max_seq_length": phase.max_seq_length} if len(self._plan.phases) > 1 else {}

    def _keep_best(self, line: dict) -> None:
        """Writes best.json; also when a run resumes, perhaps from an earlier checkpoint than the best one."""
        if self.run.is_chief:
            self.run.checkpoints.record_best(line["step"], line["eval_loss"])
