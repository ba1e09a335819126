"""The replicas of JAX: a copy of all variables, and a share of every batch, on each device."""

import functools
from collections.abc import Callable, Iterable

import keras
import numpy as np

from data_prep.errors import needs_extra

with needs_extra("--backend=jax", "jax", "jax"):
    import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

AXIS = "replica"  # the only one of the mesh: every batch is divided along it


class Replicas:
    """Devices of all processes that train together, each with a copy of the model.

    Attributes:
      mesh: the devices, in the order of the processes.
      replicas: their number.
      processes: the number of processes.
    """

    def __init__(self, devices: list[jax.Device]):
        self.mesh = Mesh(np.array(devices), (AXIS,))
        self.replicas, self.processes = len(devices), jax.process_count()
        self._copied = NamedSharding(self.mesh, PartitionSpec())
        self._divided = NamedSharding(self.mesh, PartitionSpec(AXIS))

    @property
    def local_replicas(self) -> int:
        """The replicas of this process."""
        return len(self.mesh.local_devices)

    def divided(self, batch: dict[str, np.ndarray]) -> dict[str, jax.Array]:
        """The global batch of which this process has these rows, those of its replicas in their order."""
        if self.processes == 1:
            return jax.device_put(batch, self._divided)
        make = functools.partial(jax.make_array_from_process_local_data, self._divided)
        return {name: make(values) for name, values in batch.items()}

    def copied(self, variables: Iterable[keras.Variable]) -> list[jax.Array]:
        """The values of variables, a copy on each replica, where they stay until they are set again."""
        values = []
        for variable in variables:
            values.append(self.copy(variable.value))
            if values[-1] is not variable.value:
                variable.assign(values[-1])
        return values

    def copy(self, value: jax.Array | np.ndarray) -> jax.Array:
        """An array that all processes have, with a copy on each replica."""
        if isinstance(value, jax.Array) and value.sharding == self._copied:
            return value
        array = np.asarray(value)
        return jax.make_array_from_callback(array.shape, self._copied, lambda index: array[index])

    def on_replicas(
        self, function: Callable, *specs: PartitionSpec, donated: tuple[int, ...] = ()
    ) -> jax.stages.Wrapped:
        """A compiled function that runs in each replica on its shares of the arguments, and returns copies."""
        sharded = jax.shard_map(
            function, mesh=self.mesh, in_specs=specs, out_specs=PartitionSpec(), check_vma=False
        )
        shardings = tuple(NamedSharding(self.mesh, spec) for spec in specs)
        return jax.jit(sharded, in_shardings=shardings, donate_argnums=donated)


def all_rows(arrays):
    """The rows of all replicas, from inside of a replica."""
    return jax.tree.map(lambda array: jax.lax.all_gather(array, AXIS, tiled=True), arrays)
