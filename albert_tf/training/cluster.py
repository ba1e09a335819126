"""TF_CONFIG: the processes that train together, and which of them this is."""

import itertools
import json
import os
from dataclasses import dataclass

from data_prep.errors import InputError

_EXAMPLE = (
    'for instance {"cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]}, "task": {"type": "worker", '
    '"index": 0}}, with another index for every process'
)


@dataclass(frozen=True)
class Cluster:
    """What TF_CONFIG says.

    Attributes:
      jobs: HOST:PORT of all processes, by type: "worker", and one "chief" if there is one.
      task_type: this process's.
      task_index: its place in the list of its type.
    """

    jobs: dict[str, list[str]]
    task_type: str
    task_index: int

    @property
    def addresses(self) -> list[str]:
        """HOST:PORT of all processes."""
        return list(itertools.chain.from_iterable(self.jobs.values()))

    @property
    def address(self) -> str:
        """HOST:PORT of this one."""
        return self.jobs[self.task_type][self.task_index]


def read_cluster() -> Cluster | None:
    """TF_CONFIG from the environment, None if it is not set.

    Raises:
      InputError: it is not JSON, or it is not of a cluster of workers that this process belongs to.
    """
    text = os.environ.get("TF_CONFIG", "").strip()
    if not text or text == "{}":
        return None
    try:
        parsed = json.loads(text)
        cluster = Cluster(parsed["cluster"], parsed["task"]["type"], parsed["task"]["index"])
        _check(cluster)
    except KeyError as error:
        reason = f"it has no {error}"
    except (TypeError, AttributeError):
        reason = "a part of it is of another type"
    except ValueError as error:
        reason = str(error)
    else:
        return cluster
    raise InputError(
        f"TF_CONFIG must be JSON that names all workers and which of them this is, {_EXAMPLE}. Received {text}: "
        f"{reason}."
    )


def needed_cluster() -> Cluster:
    """`read_cluster`, where there must be one."""
    cluster = read_cluster()
    if cluster is None:
        raise InputError(
            "--strategy=multi_worker needs the environment variable TF_CONFIG. Received none; set it to JSON, "
            f"{_EXAMPLE}."
        )
    return cluster


def _check(cluster: Cluster) -> None:
    number = len(cluster.jobs[cluster.task_type])
    others = set(cluster.jobs) - {"worker", "chief"}
    if others:
        raise ValueError(f"it has a {min(others)!r}, where only workers and a chief train")
    if type(cluster.task_index) is not int or not 0 <= cluster.task_index < number:
        raise ValueError(
            f"index {cluster.task_index!r} is not one of the {number} of type {cluster.task_type!r}"
        )
    for address in cluster.addresses:
        if not address.rpartition(":")[2].isdigit():
            raise ValueError(f"{address!r} is not HOST:PORT")


def other_than_one_machine(num_devices: int, other: str) -> InputError:
    """What is wrong with --num_devices beside a flag `other` that asks for something else."""
    return InputError(
        f"--num_devices is for several devices of one machine. Received {num_devices} with {other}; leave one out."
    )
