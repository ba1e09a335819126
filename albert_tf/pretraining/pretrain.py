"""Pretraining as a story: configuration, data, devices, model; then the loop over steps."""

import contextlib
import zlib
from collections.abc import Iterator
from pathlib import Path

from albert_tf.checkpoints.checkpoint_files import steps_in
from albert_tf.checkpoints.run_files import CHECKPOINTS, read_metrics
from albert_tf.checkpoints.stored import find_vocabulary
from albert_tf.pretraining.devices import (
    check_batches_divide,
    check_batches_fit,
    choose_parallel_parts,
    compiles,
)
from albert_tf.pretraining.flags import PretrainingFlags, given_phases, with_defaults
from albert_tf.pretraining.guard import Guard
from albert_tf.pretraining.guidance import MEMORIZATION, learning_rate_line, phases_line, warnings
from albert_tf.pretraining.held_out import ALONE, HeldOut, is_of_run, notes_on_earlier_evaluations
from albert_tf.pretraining.model import make_model, make_schedule, model_config, no_model_to_evaluate
from albert_tf.pretraining.phase_data import PretrainingInputs, read_inputs
from albert_tf.pretraining.phases import ResolvedPhase
from albert_tf.pretraining.run_folder import (
    check_no_finetuning_run,
    notes_on_other_files,
    with_optimizer_of_run,
    write_run_folder,
)
from albert_tf.pretraining.speed import Speed, device_peak, next_logged_step
from albert_tf.pretraining.steps import EvalStep, TrainStep, step_metrics
from albert_tf.training.checkpoints import RunCheckpoints
from albert_tf.training.device_flags import settings_json
from albert_tf.training.initial_weights import load_weights_into
from albert_tf.training.interruptions import as_input_errors
from albert_tf.training.run_lock import locked_folder
from albert_tf.training.session import RunSession, open_session
from albert_tf.training.step_loop import StepLoop, iterations_per_loop
from albert_tf.training.strategy import check_agreement, is_chief, make_strategy
from albert_tf.training.weights import tile_from
from data_prep.errors import InputError


def pretrain(settings: PretrainingFlags) -> dict[str, float]:
    """Starts a run, or resumes the one in `settings.output_dir`.

    Returns:
      The metrics of the last evaluation, names prefixed with `eval_`; empty if there was none.

    Raises:
      InputError: files, flags and configuration do not fit together, training diverges, the disk is full, or
        another worker stops.
      Preempted: the process received SIGTERM or Ctrl-C and has saved a checkpoint.
    """
    run = PretrainingRun(settings)
    with locked_folder(run.folder) if is_chief(run.strategy) else contextlib.nullcontext():
        run.restore()
        with run.opened():
            if settings.do_train and not run.is_over(run.start_step):
                run.train()
            elif settings.do_train:
                run.judge_checkpoint(run.start_step)
            else:
                run.evaluate(run.start_step)
    return run.metrics


class PretrainingRun:
    """A run in its folder: restored, then trained or evaluated while it is open.

    All workers call the same methods at the same steps; the chief alone writes.

    Args:
      given: the flags.

    Attributes:
      settings: the flags with their defaults filled in.
      inputs: the batches of each phase.
      folder: the run's folder.
      start_step: the steps that were taken before.
      session: the log, the progress bar and the preemption of the open run.
      metrics: those of the last evaluation.
    """

    session: RunSession
    guard: Guard
    held_out: HeldOut

    def __init__(self, given: PretrainingFlags):
        check_no_finetuning_run(Path(given.output_dir))
        self.given = given = with_optimizer_of_run(given)
        self.config = model_config(given)
        self.inputs = read_inputs(given, self.config)
        self.settings = settings = with_defaults(given, [inputs.phase for inputs in self.inputs])
        self.folder = Path(settings.output_dir)
        self.parallel_parts = choose_parallel_parts(settings, self.config)  # before TensorFlow starts
        self.strategy = make_strategy(settings)
        if settings.do_train:
            check_batches_divide(settings, self.strategy)
            check_batches_fit(settings, self.config, self.strategy)
        check_agreement(
            self.strategy,
            zlib.crc32(f"{settings_json(settings)} {self.config.to_dict()}".encode()),
            "All workers must be started with the same flags, configuration and files. Those of another worker "
            "differ.",
        )
        self.start_step, self.metrics = 0, dict[str, float]()
        self.notes: list[str] = []
        with self.strategy.scope():
            self.model, self.optimizer = make_model(settings, self.config)

    def restore(self) -> None:
        """Loads the last checkpoint, or for a new run --init_checkpoint if given, and writes the run's folder.

        Raises:
          InputError: the folder holds another run, a checkpoint does not fit, or there is none to evaluate.
        """
        settings, is_new = self.settings, not steps_in(self.folder / CHECKPOINTS)
        if is_new and not settings.do_train and not settings.init_checkpoint:
            raise no_model_to_evaluate(settings)
        missing = self._load_initial_weights() if is_new else ()
        self.checkpoints = RunCheckpoints(
            self.folder, self.model, self.optimizer, settings.keep_checkpoint_max
        )
        if is_new and settings.do_train and self.checkpoints.step >= settings.num_train_steps:
            raise InputError(
                "With --init_optimizer the steps of --init_checkpoint count too. Received "
                f"--num_train_steps={settings.num_train_steps} and a checkpoint of step {self.checkpoints.step}; "
                "give more steps than that, or leave --init_optimizer out."
            )
        if is_chief(self.strategy):
            self.notes += notes_on_earlier_evaluations(settings, self.folder)
            if not is_new:
                self.notes += notes_on_other_files(settings, self.folder)
            with as_input_errors(self.folder):
                last = self.inputs[-1]
                write_run_folder(settings, self.config, last.vocabulary, last.manifest)
        self.start_step = self.checkpoints.restore_latest()
        check_agreement(
            self.strategy,
            self.start_step,
            f"--output_dir must be one folder that all workers share. Received {self.folder}, in which this "
            f"worker finds the checkpoint of step {self.start_step} and another worker a different one.",
        )
        if self.start_step:
            source = settings.init_checkpoint if is_new else f"the run in {settings.output_dir}"
            verb = "resuming at" if settings.do_train else "evaluating"
            self.notes.append(f"{verb} step {self.start_step} of {source}")
        if missing:
            self.notes.append(
                f"{settings.init_checkpoint} holds no {', '.join(missing)}: using fresh weights"
            )
        self.notes += self._notes_on_files()

    def _notes_on_files(self) -> list[str]:
        """What the run goes without, since a flag or a file is missing."""
        settings, notes, vocabulary = self.settings, list[str](), self.inputs[-1].lost_vocabulary
        has_eval_file = any(phase.eval_file for phase in settings.phases)
        for given, inputs in zip(given_phases(self.given), self.inputs, strict=True):
            if settings.do_train and given.train_batch_size > inputs.phase.train_batch_size:
                notes.append(
                    f"train_batch_size={given.train_batch_size}: a batch has all "
                    f"{inputs.phase.num_examples:,} examples of {given.input_file}"
                )
        if settings.do_eval and not has_eval_file:
            notes.append(
                "no evaluation: --do_eval needs --eval_file, since it never reads the training files"
            )
        if has_eval_file and not settings.do_eval:
            notes.append("no evaluation: --eval_file is read only with --do_eval")
        if vocabulary and settings.do_train and not find_vocabulary(self.folder, ["spm.model"]):
            notes.append(
                f"no vocabulary: {vocabulary}, which the examples were prepared with, is no longer there; name "
                "its new place with --spm_model_file, since fine-tuning and export need it"
            )
        return notes

    def _load_initial_weights(self) -> tuple[str, ...]:
        """Loads --init_checkpoint, if given; returns the parts of the model that it does not hold."""
        if not self.settings.init_checkpoint:
            return ()
        manifest = self.inputs[0].manifest
        with self.strategy.scope():
            return load_weights_into(
                self.model,
                self.settings.init_checkpoint,
                resize_positions=self.settings.resize_positions,
                optimizer=self.optimizer if self.settings.init_optimizer else None,
                vocabulary=manifest.vocabulary_here if manifest else None,
                init_from_group0=self.settings.init_from_group0,
            )

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Within this context the run is open: its other methods may be called."""
        settings = self.settings
        self._lines = [line for line in read_metrics(self.folder) if line["step"] <= self.start_step]
        self.guard, self.held_out = Guard(settings, self._lines), HeldOut(settings, self._lines)
        self._eval_step = EvalStep(self.model, self.strategy, parallel_parts=self.parallel_parts)
        trains, step = settings.do_train, self.start_step
        last_step = settings.num_train_steps if trains else step
        with open_session(self.folder, self.strategy, last_step, step, trains=trains) as session:
            self.session = session
            if trains:  # an evaluation alone changes no file of the run but metrics.jsonl
                self._record_best()
            for line in self.notes:
                session.progress.say(line)
            yield

    def train(self) -> None:
        """Takes the steps from `start_step` to the end; logs, saves, evaluates and rolls back on the way.

        Raises:
          Preempted: the process received SIGTERM or Ctrl-C and has saved a checkpoint.
        """
        self._advise()
        self._catch_up()
        step = self.start_step
        for inputs in self.inputs:
            if step < inputs.phase.end_step and not self.is_over(step):
                loop = self._begin(inputs, step)
                # Until here Ctrl-C ends the run at once: all steps are saved.
                with self.session.preemption.or_ctrl_c():
                    step = self._take_steps(loop, inputs.phase, step)
        if step < self.settings.num_train_steps:
            self.session.progress.say(
                f"stopped at step {step}: {self.settings.early_stopping_patience} evaluations without a better "
                f"held-out loss than at step {self.held_out.best_step}"
            )

    def is_over(self, step: int) -> bool:
        """Whether no step follows, because all are taken or early stopping ends the run."""
        return step >= self.settings.num_train_steps or self.held_out.is_over

    def _begin(self, inputs: PretrainingInputs, step: int) -> StepLoop:
        """The loop that takes the steps of a phase after `step`."""
        if step == inputs.phase.start_step:
            self._tile_untrained_positions(step, inputs.phase)
        return self._make_loop(inputs, step)

    def _take_steps(self, loop: StepLoop, phase: ResolvedPhase, step: int) -> int:
        """Takes the steps of a phase after `step`; returns its last step."""
        settings, preemption = self.settings, self.session.preemption
        saved, stop = step, preemption.agreed()
        while step < phase.end_step and not stop and not self.is_over(step):
            step, values, stop = loop.run(step, next_logged_step(step, phase, settings))
            if values is None:
                break
            line = {"step": step, **values}
            self.held_out.add(line)
            due = self._is_checkpoint_due(step)
            if self.guard.spiked(line):
                self.roll_back(step)
                saved = step
            elif due:
                self.save(good=self.guard.calm)
                saved = step
            if due and (not stop or self.is_over(step)):
                self.judge_checkpoint(step)
                stop = preemption.agreed()
        if stop and not self.is_over(step):
            if saved != step:
                self.save(good=False)  # an uninterrupted run has none here to roll back to
            raise preemption.stop(step)
        return step

    def _is_checkpoint_due(self, step: int) -> bool:
        ends = [phase.end_step for phase in self.settings.phases]
        return step % self.settings.save_checkpoints_steps == 0 or step in ends

    def _advise(self) -> None:
        settings, say = self.settings, self.session.progress.say
        if len(settings.phases) > 1:
            say(phases_line(settings.phases, self.config))
        if self.given.learning_rate is None:
            say(learning_rate_line(settings))
        config = None if settings.init_checkpoint else self.config
        files = [(inputs.phase.num_examples, inputs.manifest) for inputs in self.inputs]
        for line in warnings(settings, files, config):
            say(line)

    def _catch_up(self) -> None:
        """Evaluates the checkpoint of `start_step` if the run was killed between the two.

        A new run with --init_optimizer also begins at a step that is not evaluated; it may become the best one.
        """
        step = self.start_step
        evaluated = any(is_of_run(line) for line in self._lines if line["step"] == step)
        if step and self._is_checkpoint_due(step) and not evaluated:
            if step not in steps_in(self.folder / CHECKPOINTS):
                self.save(good=self.guard.calm)
            self.judge_checkpoint(step)

    def judge_checkpoint(self, step: int) -> None:
        """Evaluates the checkpoint of `step`; records the best one so far, and warns once of memorization."""
        warned = self.held_out.memorizes
        self.held_out.add({"step": step, **self.evaluate(step)})
        self._record_best()
        if self.held_out.memorizes and not warned:
            self.session.progress.say(MEMORIZATION)

    def _record_best(self) -> None:
        """Writes best.json; also when a run resumes, since it may have been killed before it was written."""
        if self.held_out.best_step is not None and is_chief(self.strategy):
            self.checkpoints.record_best(self.held_out.best_step, self.held_out.best_loss)

    def _tile_untrained_positions(self, step: int, phase: ResolvedPhase) -> None:
        """Before a longer phase, repeats the position rows that the phases up to `step` have trained.

        Not if --init_checkpoint gave the table.
        """
        trained = [each.max_seq_length for each in self.settings.phases if each.start_step < step]
        if trained and max(trained) < phase.max_seq_length and not self.settings.init_checkpoint:
            with self.strategy.scope():
                tile_from(max(trained), [*self.model.trainable_variables, *self.optimizer.variables])

    def _make_loop(self, inputs: PretrainingInputs, start_step: int) -> StepLoop:
        settings, strategy = self.settings, self.strategy
        step = TrainStep(
            self.model,
            self.optimizer,
            strategy,
            accumulation_steps=settings.gradient_accumulation_steps,
            parallel_parts=self.parallel_parts,
            jit_compile=compiles(settings, strategy),
        )
        speed = Speed(inputs.phase, self.config, device_peak(strategy))

        def figures(sums: dict, steps: int, seconds: float) -> dict[str, float]:
            return {
                **step_metrics(sums),
                **step.trust_ratios(),
                **speed.values(steps, seconds, float(sums["input_wait"])),
                **self._labels(inputs.phase),
            }

        return StepLoop(
            step,
            iter(inputs.train_batches(strategy, start_step)),
            figures,
            make_schedule(settings),
            self.session,
            iterations_per_loop(settings.iterations_per_loop, strategy),
        )

    def _labels(self, phase: ResolvedPhase) -> dict[str, float]:
        """What the lines of metrics.jsonl also hold if there are several phases."""
        return {"max_seq_length": phase.max_seq_length} if len(self.settings.phases) > 1 else {}

    def save(self, *, good: bool) -> None:
        """Saves a checkpoint; the guard rolls back to `good` ones only."""
        if is_chief(self.strategy):
            self.checkpoints.save(good=good)

    def evaluate(self, step: int) -> dict[str, float]:
        """Evaluates on the --eval_file of the phase of `step`; returns no metrics without it and --do_eval."""
        inputs = self._inputs_at(step)
        if not (self.settings.do_eval and inputs.phase.eval_file):
            return {}
        batches = self.session.preemption.watched(inputs.eval_batches(self.strategy), step)
        self.metrics = self._eval_step.metrics(batches, self.settings.max_eval_steps)
        alone = {} if self.settings.do_train else {ALONE: 1}
        self.session.record_evaluation(step, {**self.metrics, **self._labels(inputs.phase), **alone})
        return self.metrics

    def _inputs_at(self, step: int) -> PretrainingInputs:
        """The inputs of the phase that took a step."""
        return next((each for each in self.inputs if step <= each.phase.end_step), self.inputs[-1])

    def roll_back(self, step: int) -> None:
        """Restores the weights and moments of a good checkpoint and saves them as the checkpoint of `step`.

        Raises:
          InputError: there is no good checkpoint, or there were too many roll-backs.
        """
        source = self.guard.choose(self.checkpoints.good_steps())
        self.checkpoints.restore_values(source)
        self._tile_untrained_positions(source, self._inputs_at(step).phase)
        check_agreement(
            self.strategy, source, "All workers must see the same checkpoints. Another worker sees others."
        )
        # The line comes first: a run that is killed between the two resumes at an earlier checkpoint, without it.
        self.session.log.write(step, {"rolled_back_to": source})
        self.save(good=False)
        self.session.progress.say(self.guard.rolled_back(source))
