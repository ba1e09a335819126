"""What only saves time or memory: the results of the textbook in `albert_tf/model/`, computed otherwise.

Models compute without this folder, too.
"""

from collections.abc import Callable, Sequence

from keras import ops

from albert_tf.kernels.formulas import Formulas
from albert_tf.kernels.layers import Layer, LayerRun


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
        positions,
        *,
        training: bool,
        intermediates: bool,
        scan_layers: bool,
        **options,
    ) -> list:
        """The output of the last layer or, with `intermediates`, the input of the first and the outputs of all.

        The arguments are those of `LayerRun`; `x` (B*T, H) is the input of the first layer. Returns arrays
        (B, T, H), or with `positions` (B, P, H).
        """
        make_function = None if training else self.make_layer_function
        masks = mask_scores, input_mask
        run = LayerRun(
            self, layers, *masks, positions, training=training, make_function=make_function, **options
        )
        return run(x, scan_layers and not intermediates, intermediates)
