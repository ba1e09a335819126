"""TF_CONFIG: the processes that train together and the place of this one."""

import itertools
import json
import os
import socket
from dataclasses import dataclass

from data_prep.errors import InputError

_EXAMPLE = (
    'for instance {"cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]}, "task": {"type": "worker", '
    '"index": 0}}, with a different index in every process'
)


@dataclass(frozen=True)
class Cluster:
    """The content of TF_CONFIG.

    Attributes:
      jobs: HOST:PORT of all processes by type: "worker", and optionally one "chief".
      task_type: the type of this process.
      task_index: its index in the list of its type.
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
        """HOST:PORT of this process."""
        return self.jobs[self.task_type][self.task_index]


def read_cluster() -> Cluster | None:
    """TF_CONFIG from the environment, None if it is not set.

    Raises:
      InputError: it is not JSON, or does not describe a cluster of workers with this process among them.
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
        reason = "a part of it has the wrong type"
    except ValueError as error:
        reason = str(error)
    else:
        return cluster
    raise InputError(
        f"TF_CONFIG must be JSON that lists all workers and the task of this process, {_EXAMPLE}. Received "
        f"{text}: {reason}."
    )


def needed_cluster() -> Cluster:
    """`read_cluster` for --strategy=multi_worker, which needs one."""
    cluster = read_cluster()
    if cluster is None:
        raise InputError(
            "--strategy=multi_worker needs the environment variable TF_CONFIG. Received none; set it to JSON, "
            f"{_EXAMPLE}."
        )
    return cluster


def loopback_clusters(number: int) -> list[str]:
    """TF_CONFIG for each of several workers on this machine, with ports that no process listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    workers = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    return [
        json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}})
        for index in range(number)
    ]


def _check(cluster: Cluster) -> None:
    number = len(cluster.jobs[cluster.task_type])
    others = set(cluster.jobs) - {"worker", "chief"}
    if others:
        raise ValueError(f"it has a {min(others)!r}, but only workers and a chief can train")
    if type(cluster.task_index) is not int or not 0 <= cluster.task_index < number:
        raise ValueError(
            f"index {cluster.task_index!r} is not one of the {number} of type {cluster.task_type!r}"
        )
    for address in cluster.addresses:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            raise ValueError(f"{address!r} is not HOST:PORT")
    if len(set(cluster.addresses)) < len(cluster.addresses):
        raise ValueError("an address occurs twice")
