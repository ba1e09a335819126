"""Exports that take text: methods and signatures from functions of strings."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.tasks.graph_checks import checked_lengths
from albert_tf.tasks.served import FromStrings, Method
from albert_tf.tasks.task_model import TaskModel
from export.savedmodel import Export, track_variables


def task_export(served: FromStrings, model: TaskModel) -> Export:
    """What a kind of task serves from strings, with the model's variables."""
    root = tf.train.Checkpoint(**served.tracked)
    track_variables(root, model.variables, model.trainable_variables)
    return text_export(root, served.methods, served.check, served.example, served.warmup)


def text_export(
    root: tf.train.Checkpoint,
    methods: Mapping[str, Method],
    check: Callable[[Any], dict[str, tuple[Any, Any]]],
    example: str,
    warmup: Sequence[Mapping[str, Sequence]],
) -> Export:
    """An export with methods that take strings by position, and a signature for each with inputs by name.

    Args:
      root: tracks the variables and the tokenizer already.
      methods: by the name of the signature, which is the method's name too; `serving_default` is `__call__`.
      check: as in `Export`.
      example: as in `Export`.
      warmup: as in `Export`.
    """
    signatures = {}
    for name, (function, inputs) in methods.items():
        # Not traced here: saving uses a context of its own and would trace them again.
        method = tf.function(_checked(function, inputs), input_signature=inputs, autograph=False)
        setattr(root, "__call__" if name == "serving_default" else name, method)
        signatures[name] = method
    return Export(root, signatures, check, example, warmup)


def _checked(function: Callable, inputs: Sequence[tf.TensorSpec]) -> Callable:
    """`function`, which raises InvalidArgumentError if its inputs have different numbers of rows."""
    names = [spec.name for spec in inputs]
    return lambda *texts: function(*checked_lengths(texts, names)) if len(texts) > 1 else function(*texts)
