"""The processes of JAX that train together: how they meet, and how all of them end when one is lost.

    JAX in process 1 -> relay in process 1 -> relay in process 0 -> JAX's coordination service in process 0

JAX aborts a process as soon as its connection to the service closes, and collectives of GPUs wait for a lost
process without end. So its connections pass through relays of our own, which see first that one has closed, and
which hide it from JAX.
"""

import atexit
import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import jax
from jax._src.clusters import ClusterEnv
from jax.experimental.multihost_utils import sync_global_devices

from albert_tf.training.device_flags import DeviceFlags
from data_prep.errors import InputError, Preempted, first_line, system_fault

WAIT = 300  # seconds for all processes to start
_SILENCE = 30  # seconds without an answer, after which a host is lost
_GRACE = 10  # seconds in which a process may end with a message of its own after another has ended
_LOST = (
    "Another process stopped, so this one stops too. Look at its output, and start all processes again with the "
    "same command; a run resumes at its last checkpoint."
)
# JAX's names of the environments that it recognizes without asking a scheduler for more.
_CLUSTERS = ("slurm", "gcetpu", "gketpu")


@dataclass(frozen=True)
class Place:
    """The place of this process among those that train together.

    Attributes:
      coordinator: HOST:PORT of the first process.
      processes: the number of processes.
      index: of this process.
      local_device_ids: of the GPUs of this machine that the process uses; None for all.
    """

    coordinator: str
    processes: int
    index: int
    local_device_ids: list[int] | None = None


def find_place(settings: DeviceFlags) -> Place | None:
    """The place of this process by the flags, Slurm or Cloud TPU; None if it is alone."""
    if settings.coordinator_address:
        return Place(settings.coordinator_address, settings.num_processes or 1, settings.process_id or 0)
    clusters = [
        each for each in ClusterEnv._cluster_types if each.name in _CLUSTERS and each.is_env_present()
    ]
    if not clusters or clusters[0].get_process_count() == 1:
        return None
    cluster, processes = clusters[0], clusters[0].get_process_count()
    coordinator = cluster.get_coordinator_address(WAIT, os.environ.get("JAX_COORDINATOR_PORT"))
    # Several tasks on a machine take one of its GPUs each.
    alone = os.environ.get("SLURM_STEP_NUM_NODES") == str(processes)
    local = None if alone else cluster.get_local_process_id()
    return Place(coordinator, processes, cluster.get_process_id(), None if local is None else [local])


@contextlib.contextmanager
def joined(place: Place) -> Iterator[None]:
    """Within this context the process belongs to those of `place`; at its end it waits for them.

    Raises:
      InputError: the others cannot be reached, or one of them is lost.
    """
    print(f"waiting for {place.processes} processes at {place.coordinator}", file=sys.stderr, flush=True)
    try:
        relay = _join(place)
        try:
            yield
        except Preempted:
            relay.leave()
            raise
        except (RuntimeError, ValueError) as error:  # JAX's: a collective on CPUs fails if a process is lost
            if not isinstance(error, InputError) and relay.lost.wait(2 * _GRACE):
                raise InputError(_LOST) from None
            raise
        else:
            relay.leave()
        finally:
            relay.watches = False
    except BaseException as error:
        if not isinstance(error, Preempted):  # JAX would wait for the others, which wait for this process
            atexit.register(_end, _status(error))
        raise


def _join(place: Place) -> "_Relay":
    host, _, port = place.coordinator.rpartition(":")
    os.environ["no_grpc_proxy"] = "127.0.0.1"  # noqa: SIM112 - JAX's own connections stay on this machine
    jax.config.update("jax_check_proxy_envs", False)
    jax.config.update("jax_enable_preemption_service", False)  # it would ignore SIGTERM
    try:
        if place.index == 0:
            service = f"127.0.0.1:{_free_port()}"
            relay = _Relay("", int(port), service, from_others=True)
            address = service
        else:
            _wait_for(host, int(port))
            relay = _Relay("127.0.0.1", 0, place.coordinator, from_others=False)
            service, address = "", relay.address
        late = threading.Timer(WAIT, _end, (2, _cannot_join(place, f"not all started within {WAIT} seconds")))
        late.daemon = True
        late.start()
        jax.distributed.initialize(
            address,
            place.processes,
            place.index,
            place.local_device_ids,
            cluster_detection_method="deactivate",
            initialization_timeout=10 * WAIT,  # after which JAX would abort
            coordinator_bind_address=service or None,
        )
        late.cancel()
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else first_line(error)
        raise InputError(_cannot_join(place, reason.partition(" (")[0].rstrip("."))) from None
    return relay


def _cannot_join(place: Place, reason: str) -> str:
    return (
        f"Process {place.index} could not join the others at {place.coordinator}: {reason}. Start all processes, "
        "each with its own --process_id, and choose a free port of the first one's machine."
    )


class _Relay:
    """Passes JAX's connections on, and ends the process when another one closes its.

    Args:
      host: to listen on.
      port: to listen on; 0 for any.
      target: HOST:PORT to which connections are passed on.
      from_others: whether other processes connect; otherwise JAX of this process does, to another one.

    Attributes:
      lost: set once another process has closed its connection.
      watches: whether this process has to end then.
      address: HOST:PORT on which it listens.
    """

    def __init__(self, host: str, port: int, target: str, from_others: bool):
        name, _, number = target.rpartition(":")
        self._target, self._from_others = (name, int(number)), from_others
        self.lost, self.watches, self._hides = threading.Event(), True, True
        both = not host and socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if both else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family, dualstack_ipv6=both)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        for work in (self._accept, self._watch):
            threading.Thread(target=work, daemon=True).start()

    def leave(self) -> None:
        """Waits until all processes leave, and leaves with them."""
        sync_global_devices("all leave")
        self.watches, self._hides = False, False
        jax.distributed.shutdown()

    def _accept(self) -> None:
        while True:
            near = self._listener.accept()[0]
            try:
                far = socket.create_connection(self._target)
            except OSError:  # JAX tries again
                near.close()
                continue
            for connection in (near, far):
                _keep_alive(connection)
            for source, sink, is_other in (
                (near, far, self._from_others),
                (far, near, not self._from_others),
            ):
                threading.Thread(target=self._pass_on, args=(source, sink, is_other), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, is_other: bool) -> None:
        """Passes on what `source` sends; `is_other` tells whether that is another process."""
        has_spoken = False
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                has_spoken = True
                sink.sendall(data)
        if is_other and has_spoken and self._hides:
            self.lost.set()
            return
        for connection in (source, sink):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _watch(self) -> None:
        self.lost.wait()
        time.sleep(_GRACE)
        if self.watches:
            _end(2, _LOST)


def _keep_alive(connection: socket.socket) -> None:
    """Closes a connection if the other host does not answer for `_SILENCE` seconds."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    third = _SILENCE // 3
    for name, value in (
        ("TCP_KEEPIDLE", third),
        ("TCP_KEEPINTVL", third),
        ("TCP_KEEPCNT", 2),
        ("TCP_USER_TIMEOUT", 1000 * _SILENCE),
    ):
        if hasattr(socket, name):  # Linux has all of them
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _wait_for(host: str, port: int) -> None:
    """Returns once a process listens there; raises OSError after `WAIT` seconds."""
    end = time.monotonic() + WAIT
    while True:
        try:
            socket.create_connection((host, port), timeout=10).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(min(1, WAIT / 10))


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def _status(error: BaseException) -> int:
    """The exit status of a program that an error ends."""
    if isinstance(error, KeyboardInterrupt):
        return 130
    if number := getattr(error, "number", None):
        return 128 + number
    return 2 if isinstance(error, InputError) or system_fault(error) else 1


def _end(status: int, message: str = "") -> None:
    """Ends the process at once, whatever its threads do."""
    if message:
        print(f"albert: {message}", file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)
