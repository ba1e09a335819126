"""The tasks: those of the benchmarks, and for each kind the user's own data."""

import difflib
from collections.abc import Mapping
from types import MappingProxyType

from albert_tf.tasks.benchmarks.glue import GLUE
from albert_tf.tasks.benchmarks.race import RACE
from albert_tf.tasks.benchmarks.squad import SQUAD
from albert_tf.tasks.kind import Kind, Task
from albert_tf.tasks.kinds import KINDS
from data_prep.errors import InputError

BENCHMARKS: Mapping[str, Task] = MappingProxyType({task.name: task for task in (*GLUE, *SQUAD, RACE)})


def all_tasks() -> dict[str, Task]:
    """Each task by its name, the value of --task."""
    own = {kind.task_name: Task(kind.task_name, kind, metrics=kind.metrics) for kind in KINDS.values()}
    return {**BENCHMARKS, **own}


def find_task(name: str) -> Task:
    """The task of a name, in upper or lower case, with hyphens or underscores.

    Raises:
      InputError: there is no such task; the message suggests the nearest name.
    """
    wanted, tasks = name.lower().replace("_", "-"), all_tasks()
    task = tasks.get(wanted)
    if task is None:
        near = difflib.get_close_matches(wanted, tasks, n=1, cutoff=0.5)
        advice = f" Did you mean {near[0]}?" if near else ""
        raise InputError(f"A task must be one of {', '.join(tasks)}. Received {name!r}.{advice}")
    return task


def own_data_task(kind: Kind, answerable: bool = False) -> Task:
    """The task for own data of a kind; of questions SQuAD's 2.0 if there may be no answer."""
    if answerable:
        return next(task for task in BENCHMARKS.values() if task.kind is kind and task.answerable)
    return find_task(kind.name)


def wrong_kind(wanted: Kind, source: object, found: Kind) -> InputError:
    """The error for a model of another kind than `--task` says."""
    return InputError(
        f"--task={wanted.task_name} must match the model. {source} holds one for {found.task_name}."
    )
