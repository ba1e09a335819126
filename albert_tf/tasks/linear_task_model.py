"""What the task models with a linear head share."""

from collections.abc import Sequence

import numpy as np
from keras import ops

from albert_tf.checkpoints.heads import with_classes
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.tasks.heads import LinearHead
from albert_tf.tasks.string_batches import is_empty
from albert_tf.tasks.task_model import TaskModel, cross_entropy


class LinearTaskModel(TaskModel):
    """An encoder with one `LinearHead`; a subclass names the head, calls it and has its own loss.

    Args:
      encoder: as for `TaskModel`.
      labels: the C classes' names, for a model with `has_labels`; a label is an index into them.
      classifier_dropout: dropout rate of the head's input.
      preprocessor, seed: as for `TaskModel`.

    Attributes:
      has_labels: whether the head has an output for each of `labels`.
      outputs: their number otherwise.
    """

    has_labels = True
    outputs = 1

    def __init__(
        self,
        encoder: AlbertEncoder,
        labels: Sequence[str] = (),
        *,
        classifier_dropout: float = 0.1,
        preprocessor=None,
        seed: int | None = None,
        **kwargs,
    ):
        names = _class_names(labels)
        if self.has_labels != bool(names):
            rule = "needs `labels`, the names of its classes" if self.has_labels else "takes no `labels`"
            raise ValueError(f"`{type(self).__name__}` {rule}. Received {labels!r}.")
        super().__init__(encoder, preprocessor=preprocessor, seed=seed, **kwargs)
        self.labels = names
        self.classifier_dropout = classifier_dropout
        head = LinearHead(
            len(self.labels) or self.outputs,
            encoder.config,
            self.seeds,
            classifier_dropout,
            name=self.head_name,
            dtype=self.dtype_policy,
        )
        setattr(self, self.head_name, head)
        self.build()

    def build(self, input_shape=None):
        tokens = (None,) if self.has_token_outputs else ()
        getattr(self, self.head_name).build((None, *tokens, self.encoder.config.hidden_size))
        self.built = True

    def pooled_output(self, inputs, training: bool):
        """The encoder's pooled output (B, H); its last layer computes only the token that the pooler reads."""
        first = ops.zeros_like(inputs["input_ids"][:, :1])
        return self.encoder_outputs(inputs, training, positions=first)["pooled_output"]

    def task_losses(self, y, outputs):
        return cross_entropy(y, outputs)

    def predict_labels(self, x, batch_size: int | None = None, verbose="auto") -> list:
        """What the model predicts for each example, as labels in the form that `fit` takes.

        Args:
          x: as for `predict`.
          batch_size: as for `predict`.
          verbose: as for `predict`.

        Returns:
          For each example the name of a class, a list of names, a name for each word, the number of an option, or
          a number; an empty list for no examples.
        """
        if is_empty(x):
            return []
        return self.labels_of_outputs(self.predict(x, batch_size, verbose))

    def labels_of_outputs(self, outputs: np.ndarray) -> list:
        """The labels for what `predict` returns."""
        return [self.labels[best] for best in outputs.argmax(axis=-1)]

    def get_config(self):
        config = {**super().get_config(), "classifier_dropout": self.classifier_dropout}
        return {**config, "labels": list(self.labels)} if self.has_labels else config

    @classmethod
    def _head_arguments(cls, head, labels=(), **arguments):
        if cls.has_labels:
            head = with_classes(head, _class_names(labels) or head.class_names)
            arguments["labels"] = head.labels
        return super()._head_arguments(head, **arguments)


def _class_names(labels) -> tuple[str, ...]:
    """The names of the classes as strings, from any sequence.

    Raises:
      ValueError: they are no sequence, such as a number or one string, or two classes have the same name.
    """
    names = () if isinstance(labels, str | int) else tuple(map(str, labels))
    if isinstance(labels, str | int) or len(set(names)) < len(names):
        raise ValueError(f"`labels` must be a list of different names. Received {labels!r}.")
    return names
