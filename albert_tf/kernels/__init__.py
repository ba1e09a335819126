"""What only saves time or memory: the results of the textbook in `albert_tf/model/`, computed otherwise.

Models compute without this folder, too.
"""

from collections.abc import Callable, Sequence

from keras import ops

from albert_tf.kernels.blocks import Blocks, RematLevel, Tokens
from albert_tf.kernels.execution import Execution, Layer
from albert_tf.kernels.formulas import Formulas
from albert_tf.kernels.padding import Unpadding, remove_padding, restore_zero_padding


class Kernels(Formulas):
    """The functions that the parts of a model call in place of their own; each model has an object of its own.

    Attributes:
      make_layer_function: turns a function of (x, *values) and the variables that have these values into a
        function of x (R, H), which all equal layers call outside training. None makes none; an export sets it.
    """

    def __init__(self):
        super().__init__()
        self.make_layer_function: Callable | None = None

    def look_up(self, table, ids, training: bool):
        """The rows of a small table (rows, E) for integers (B, T): (B, T, E).

        In training it is a product, whose gradient is a product, too. That of a lookup adds all tokens of the
        batch to the same few rows, one after the other.
        """
        if not training:
            return ops.take(table, ids, axis=0)
        return ops.matmul(ops.one_hot(ids, ops.shape(table)[0], dtype=table.dtype), table)

    def run_layers(
        self,
        layers: Sequence[Layer],
        x,
        mask_scores,
        input_mask,
        positions=None,
        *,
        training: bool,
        intermediates: bool,
        remat: RematLevel,
        scan_layers: bool,
        unpad: bool,
    ) -> list:
        """The output of the last layer or, with `intermediates`, the input of the first and the outputs of all.

        Args:
          layers: the parts of each layer.
          x: (B*T, H), the input of the first layer.
          mask_scores: (B, 1, 1, T), added to the scores of the keys.
          input_mask: integers (B, T), 1 for tokens.
          positions: integers (B, P), the positions that the last layer computes; None for all.
          training: whether dropout is on.
          intermediates: whether all layers' outputs are wanted.
          remat: as in `AlbertEncoder`.
          scan_layers: as in `AlbertEncoder`.
          unpad: as in `AlbertEncoder`.

        Returns:
          Arrays (B, T, H); with `positions`, the last is (B, P, H).
        """
        T, H = ops.shape(input_mask)[1], ops.shape(x)[-1]
        unpadding = Unpadding(input_mask) if unpad and not training else None
        execution = Execution(
            Blocks(self, training, remat),
            layers,
            Tokens(mask_scores, unpadding, None if positions is None else _rows(positions, T, unpadding)),
            recompute=remat == "layers",
            make_function=None if training else self.make_layer_function,
        )
        hidden = execution.run(remove_padding(x, unpadding), scan_layers and not intermediates)
        if positions is not None:
            return [ops.reshape(hidden[-1], (-1, ops.shape(positions)[1], H))]
        wanted = hidden if intermediates else hidden[-1:]
        return [ops.reshape(restore_zero_padding(each, unpadding), (-1, T, H)) for each in wanted]


def _rows(positions, T: int, unpadding: Unpadding | None):
    """The rows (B, P) of the tokens at positions (B, P)."""
    starts = ops.arange(ops.shape(positions)[0], dtype="int32") * T
    rows = ops.cast(positions, "int32") + ops.expand_dims(starts, 1)
    return rows if unpadding is None else ops.take(unpadding.ranks, rows, axis=0)
