"""What happens at a step where a checkpoint is due, or where the guard wants to go back."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import tensorflow as tf

from albert_tf.pretraining.guard import Guard
from albert_tf.pretraining.steps import evaluate
from albert_tf.training.checkpoints import RunCheckpoints
from albert_tf.training.preemption import Preemption
from albert_tf.training.run_log import RunLog, TrainingProgress
from albert_tf.training.strategy import check_agreement, is_chief


@dataclass
class Milestones:
    """Saves, evaluates and rolls back; all workers call the same at the same step, the chief writes.

    Attributes:
      strategy: the run's.
      checkpoints: where to save and what to go back to.
      eval_step: of `make_eval_function`.
      eval_batches: a function that gives all evaluation batches once; None for no evaluation.
      max_eval_steps: at most so many of them.
      guard: knows what is good.
      preemption: may end an evaluation.
      log: gets evaluations and roll-backs.
      progress: likewise.
      metrics: of the last evaluation.
    """

    strategy: tf.distribute.Strategy
    checkpoints: RunCheckpoints
    eval_step: Callable
    eval_batches: Callable[[], Iterable] | None
    max_eval_steps: int
    guard: Guard
    preemption: Preemption
    log: RunLog
    progress: TrainingProgress
    metrics: dict[str, float] = field(default_factory=dict)

    def save(self) -> None:
        """Saves a checkpoint, good if training goes well."""
        if is_chief(self.strategy):
            self.checkpoints.save(good=self.guard.calm)

    def evaluate(self, step: int) -> None:
        """Evaluates, if there is something to evaluate on."""
        if self.eval_batches is None:
            return
        batches = self.preemption.watched(self.eval_batches(), step)
        self.metrics = evaluate(self.eval_step, batches, self.max_eval_steps)
        self.log.write(step, self.metrics)
        self.progress.say_evaluation(step, self.metrics)

    def roll_back(self, step: int) -> None:
        """Goes on from `step` with a good checkpoint's weights and moments, and saves that.

        Raises:
          InputError: there is no good checkpoint, or there have been too many roll-backs.
        """
        source = self.guard.choose(self.checkpoints.good_steps())
        self.checkpoints.restore_values(source)
        check_agreement(self.strategy, source, "All workers must see the same checkpoints. Received others.")
        if is_chief(self.strategy):
            self.checkpoints.save(good=False)
        self.log.write(step, {"rolled_back_to": source})
        self.progress.say(self.guard.rolled_back(source))
