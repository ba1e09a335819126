"""The training step of pretraining and fine-tuning: what both backends do, under the same names.

Keras `fit` is not used: under several strategies it fails (docs/architecture.md).

    global batch -> share of a replica -> micro-batches, in turn -> parts, in parallel -> gradients and sums
                 -> added over parts, micro-batches and replicas -> clipped -> update
"""

from collections.abc import Iterator
from typing import Any, Protocol

import keras

# The sums of every step after those of its objective: steps taken and steps skipped, 1 and 0 or 0 and 1; the norm
# of the gradient before clipping; the seconds that the step waited for its batch.
STEP_SUMS = ("steps", "skipped_steps", "gradient_norm", "input_wait")


class Objective(Protocol):
    """What training minimizes: sums over examples, divided by counts of the global batch.

    Attributes:
      model: the model.
      names: the names of the sums.
    """

    @property
    def model(self) -> keras.Model: ...

    @property
    def names(self) -> tuple[str, ...]: ...

    def counts(self, batch) -> list:
        """Counts over a replica's share of a batch; `loss_and_sums` receives their totals."""

    def loss_and_sums(self, batch, counts: list) -> tuple[Any, Any]:
        """A part's share of the loss of the global batch, and its sums in the order of `names`, float32.

        If the objective `needs_rows` and the part is not the whole batch, `counts` ends with the rows of the
        global batch and the number of the part's first one. The loss is then that of the global batch, of which
        the part's outputs alone carry a gradient: the gradients of all parts add up as if the batch had been
        computed at once, but only one part's activations are kept at a time (gradient caching: Gao et al., 2021).
        """

    def needs_rows(self, batch) -> bool:
        """Whether an example's loss depends on the other examples of the global batch."""

    def rows(self, batch) -> dict[str, Any]:
        """What the loss needs of each example, arrays with a row for each. Only if it `needs_rows`."""


class OptimizerStep(Protocol):
    """Takes optimizer steps: `sums = step(batches, 10, step.zero_sums())` takes ten in one call.

    A step whose loss or gradient is not finite is skipped: it changes neither weights nor moments, and adds
    nothing to the sums but a count. It still counts in `optimizer.iterations`, so that the next step reads
    other examples.

    Attributes:
      names: of the sums: those of the objective and `STEP_SUMS`.
    """

    names: tuple[str, ...]

    def zero_sums(self) -> dict[str, Any]:
        """The sums before the first step."""

    def __call__(self, batches: Iterator, steps: int, sums: dict[str, Any]) -> dict[str, Any]:
        """Takes `steps` optimizer steps and adds their sums over all replicas to `sums`.

        The sums are added step by step, so that the number of steps in a call does not change a single bit of
        them.

        Args:
          batches: the devices' batches; they start with that of the next step. No steps compile the step only.
          steps: how many.
          sums: `zero_sums`, or what an earlier call returned.
        """


def dropout_states(model) -> list[keras.Variable]:
    """The dropout states of a model: the encoder's, and the head's if it has its own."""
    generators = (model.encoder.seeds, getattr(model, "seeds", model.encoder.seeds))
    return list({id(seeds): seeds.state for seeds in generators}.values())
