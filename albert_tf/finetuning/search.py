"""The learning rate found by successive halving: short trainings at several rates, longer ones at the better half.

Every training has a whole schedule, with its warm-up and its decay to 0, in proportion to its steps: before the
decay, high rates look worse than they are. Each round has another seed, so that luck with one does not decide.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from albert_tf.checkpoints.checkpoint_files import say_on_stderr
from albert_tf.finetuning.plan import FinetuningPlan
from data_prep.console import open_console

FACTORS = tuple(
    2.0**power for power in range(-3, 3)
)  # of the usual rate; the round after them has half as many
_ROUNDS = 2


@dataclass(frozen=True)
class Trial:
    """A training at one rate.

    Attributes:
      learning_rate: its peak.
      round: 1 or 2.
      steps: the steps of the training.
      metric: the best of the dev set; None if it diverged.
      loss: that of the dev set.
      failed: why it is out of the question; "" if it is not.
    """

    learning_rate: float
    round: int
    steps: int
    metric: float | None
    loss: float | None
    failed: str

    @property
    def rank(self) -> tuple:
        """More is better: a training that did not fail, then the metric, the loss, and the lower rate."""
        metric, loss = (
            -math.inf if value is None or math.isnan(value) else value
            for value in (self.metric, -self.loss if self.loss is not None else None)
        )
        return not self.failed, metric, loss, -self.learning_rate


def search_learning_rate(
    plan: FinetuningPlan, attempt: Callable[[FinetuningPlan], Mapping[str, Any]]
) -> tuple[FinetuningPlan, list[Trial]]:
    """The plan with the best learning rate instead of the usual one, and what was tried; prints a table of it.

    Args:
      plan: with the usual rate.
      attempt: trains with a plan of one seed and returns its results; at once if they are in the plan's folder.
    """
    metric, usual = plan.definition.main_metric, plan.learning_rate
    best, trials = successive_halving(
        usual,
        plan.search_steps or 2 * plan.num_train_steps,
        lambda *trial: attempt(trial_plan(plan, *trial)),
        metric,
    )
    open_console(stderr=True).print(search_table(trials, best, metric))
    if best is None:
        say_on_stderr(
            f"warning: the search saw no rate learn in {trials[0].steps} steps; training with the usual one, "
            f"{usual:g}. More --search_steps may help"
        )
    return dataclasses.replace(plan, learning_rate=best or usual), trials


def successive_halving(
    usual: float, budget: int, attempt: Callable[[float, int, int], Mapping[str, Any]], metric: str
) -> tuple[float | None, list[Trial]]:
    """The best rate, None if all trainings failed, and what was tried.

    Args:
      usual: the rate in the middle.
      budget: steps of all trainings together.
      attempt: rate, round, steps -> the results of a seed.
      metric: of the dev set; more is better.
    """
    rates: Sequence[float] = [factor * usual for factor in FACTORS]
    best, tried = None, list[Trial]()
    for number in range(1, _ROUNDS + 1):
        steps = max(1, budget // (_ROUNDS * len(rates)))
        trials = []
        for rate in rates:
            results = attempt(rate, number, steps)
            dev = results.get("dev", {})
            failed = results.get("failed", "")
            trials.append(Trial(rate, number, steps, dev.get(metric), dev.get("loss"), failed))
        tried += trials
        trials.sort(key=lambda trial: trial.rank, reverse=True)
        if not trials[0].failed:
            best = trials[0].learning_rate
        elif number == 1:  # in so few steps nothing is learned at any rate
            break
        rates = sorted(trial.learning_rate for trial in trials[: len(trials) // 2])
    return best, tried


def trial_plan(plan: FinetuningPlan, rate: float, number: int, steps: int) -> FinetuningPlan:
    """The plan of a training of the search, in a folder of its own."""
    seed = plan.seed + number - 1
    splits = {role: plan.data.splits[role] for role in ("train", "dev")}
    return dataclasses.replace(
        plan,
        folder=plan.folder / "search" / f"round_{number}" / f"rate_{rate:.3g}",
        seed=seed,
        seed_numbers=(seed,),
        learning_rate=rate,
        num_train_steps=steps,
        num_warmup_steps=round(plan.num_warmup_steps * steps / plan.num_train_steps),
        save_checkpoints_steps=steps,  # one evaluation: the rate has decayed to 0 only then
        data=dataclasses.replace(plan.data, splits=splits),
        do_predict=False,
        log_to=None,
    )


def search_table(trials: Sequence[Trial], best: float | None, metric: str) -> Table:
    """What a search has tried: the rates of each round, and what became of them."""
    title = f"search of the learning rate, {sum(trial.steps for trial in trials):,} steps"
    table = Table("round", "rate", "steps", metric, "loss", "", title=title)
    last = max(trial.round for trial in trials)
    later = {trial.learning_rate for trial in trials if trial.round == last}
    for trial in trials:
        goes_on = trial.learning_rate == best if trial.round == last else trial.learning_rate in later
        outcome = ("best" if trial.round == last else "") if goes_on else "stopped"
        figures = ("" if value is None else f"{value:.4f}" for value in (trial.metric, trial.loss))
        table.add_row(
            str(trial.round),
            f"{trial.learning_rate:.3g}",
            str(trial.steps),
            *figures,
            trial.failed or outcome,
        )
    return table
