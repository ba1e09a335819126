"""What the exports that take text share: batches from ragged ids, methods and signatures, warm-up requests."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import tensorflow as tf

from albert_tf.tasks.features import SURROUNDING_SYMBOLS
from albert_tf.tasks.task_model import TaskModel
from data_prep.errors import needs_extra
from data_prep.tokenizers.vocabulary import Tokenizer
from export.checks import checked_lengths
from export.savedmodel import Export, function_of_ids

TEXT = tf.TensorSpec([None], tf.string, name="text")

# A method of the exported object, and its inputs, whose names are those of the signature's inputs.
Method = tuple[Callable[..., dict[str, tf.Tensor]], Sequence[tf.TensorSpec]]


def model_function(model: TaskModel) -> Callable[[dict[str, tf.Tensor]], Any]:
    """The model without dropout as one function of its inputs, so that all methods share its layers."""
    return function_of_ids(partial(model, training=False), model.input_names, model.input_rank)


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


def repeated(text: str) -> str:
    """A text that fills the full length of any model, for warm-up requests and checks."""
    return " ".join([text] * 100)


def warmup_requests(text: str) -> list[dict[str, list[str]]]:
    """Two requests: a short text, and a short text with a long one."""
    return [{"text": [text]}, {"text": [text, repeated(text)]}]


def padded_batch(ids: tf.RaggedTensor, tokenizer: Tokenizer) -> dict[str, tf.Tensor]:
    """[CLS] ids [SEP] of each text, padded to the longest.

    Args:
      ids: RaggedTensor int32 (B, (T)).
      tokenizer: has the symbols.

    Returns:
      `input_ids` and `input_mask`, int32 (B, T).
    """
    B = ids.nrows()
    first, last = (tf.fill([B, 1], tf.constant(i, tf.int32)) for i in (tokenizer.cls_id, tokenizer.sep_id))
    rows = tf.concat([first, ids, last], axis=1)
    T = tf.maximum(
        tf.reduce_max(rows.row_lengths()), SURROUNDING_SYMBOLS
    )  # the maximum of no rows is negative
    input_ids = rows.to_tensor(tokenizer.pad_id, shape=tf.stack([B, T]))
    mask = tf.sequence_mask(rows.row_lengths(), T, tf.int32)
    return {"input_ids": input_ids, "input_mask": mask}


def joined_batch(
    segments: list[tf.RaggedTensor], tokenizer: Tokenizer, max_seq_length: int
) -> dict[str, tf.Tensor]:
    """[CLS] a [SEP] or [CLS] a [SEP] b [SEP] of each example, padded to the longest, as in fine-tuning.

    Args:
      segments: one or two RaggedTensors int32 (B, (T)).
      tokenizer: has the symbols.
      max_seq_length: longer examples lose the end of their longer segment.

    Returns:
      `input_ids`, `input_mask` and `token_type_ids`, int32 (B, T).
    """
    with needs_extra("Packing segments in the graph", "tensorflow-text", "text"):
        import tensorflow_text as tf_text

    room = max_seq_length - 1 - len(segments)
    trimmed = tf_text.RoundRobinTrimmer(room).trim(segments)
    ids, types = tf_text.combine_segments(trimmed, tokenizer.cls_id, tokenizer.sep_id)
    T = tf.maximum(tf.reduce_max(ids.row_lengths()), 1 + len(segments))  # the maximum of no rows is negative
    shape = tf.stack([ids.nrows(), T])
    return {
        "input_ids": ids.to_tensor(tokenizer.pad_id, shape=shape),
        "input_mask": tf.sequence_mask(ids.row_lengths(), T, tf.int32),
        "token_type_ids": tf.cast(types.to_tensor(0, shape=shape), tf.int32),
    }
