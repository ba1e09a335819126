"""What a kind of task gives to be served: functions of strings and of ids, which `export` writes to files."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.model.inputs import random_inputs
from albert_tf.tasks.features import SURROUNDING_SYMBOLS
from albert_tf.tasks.hub_names import TEXT_INPUTS, from_hub_names, to_hub_names
from albert_tf.tasks.task_model import TaskModel
from data_prep.errors import needs_extra
from data_prep.tokenizers.vocabulary import Tokenizer

TEXT = tf.TensorSpec([None], tf.string, name="text")
# The logit of a token that cannot be in an answer, and of an option that is padding. float16 can hold it.
MASKED_LOGIT = -10000.0

# A method of the exported object, and its inputs, whose names are those of the signature's inputs.
Method = tuple[Callable[..., dict[str, tf.Tensor]], Sequence[tf.TensorSpec]]


@dataclass(frozen=True)
class FromStrings:
    """A model with its tokenizer, from strings to answers.

    Attributes:
      methods: by the name of the signature; `serving_default` is the object's call.
      tracked: name -> what holds the tables of the methods.
      check: runs the loaded SavedModel and the model on the same input; returns for each output both arrays, that
        of the SavedModel first.
      example: Python that uses the SavedModel in the working directory.
      warmup: the requests, strings for each input, with which TensorFlow Serving warms up.
    """

    methods: Mapping[str, Method]
    tracked: Mapping[str, Any]
    check: Callable[[Any], dict[str, tuple[Any, Any]]]
    example: str
    warmup: Sequence[Mapping[str, Sequence]]


@dataclass(frozen=True)
class FromIds:
    """A model as a function of ids, for other runtimes.

    Attributes:
      function: takes a dict of TEXT_INPUTS, int32 (B, T), and returns the kind's `outputs`.
      sample: a batch for comparisons. Default: random ids.
      options: which a loader needs.
      dimensions: of the inputs.
      example_ids, example_types: Python for `input_word_ids` and `input_type_ids` of an example.
    """

    function: Callable[[dict[str, tf.Tensor]], dict[str, tf.Tensor]]
    sample: Mapping[str, np.ndarray] = field(default_factory=dict)
    options: Mapping[str, int] = field(default_factory=dict)
    dimensions: str = "B, T"
    example_ids: str = "[[2, 13, 1, 9, 3]]"
    example_types: str = "np.zeros_like(ids)"


def model_function(model: TaskModel) -> Callable[[dict[str, tf.Tensor]], Any]:
    """The model without dropout as one function of its inputs, so that all methods share its layers."""
    specs = {
        name: tf.TensorSpec([None] * model.input_rank, tf.int32, name=name) for name in model.input_names
    }
    return tf.function(partial(model, training=False), input_signature=[specs], autograph=False)


def random_ids(model: Any, seed: int = 0) -> dict[str, np.ndarray]:
    """A random batch of TEXT_INPUTS."""
    found = to_hub_names(random_inputs(model.encoder.config, seed))
    return {name: found[name] for name in TEXT_INPUTS}


def at_least_masked(logits: tf.Tensor) -> tf.Tensor:
    """Raises logits to MASKED_LOGIT and keeps NaN, in whose place OpenVINO's maximum has the other operand."""
    return tf.where(logits < MASKED_LOGIT, tf.constant(MASKED_LOGIT, logits.dtype), logits)


def repeated(text: str) -> str:
    """A text that fills the full length of any model, for warm-up requests and checks."""
    return " ".join([text] * 100)


def warmup_requests(text: str) -> list[dict[str, list[str]]]:
    """A request of a short text, and one of a short text with a long one."""
    return [{"text": [text]}, {"text": [text, repeated(text)]}]


def ids_to_classes(
    model: TaskModel, probabilities: Callable[[tf.Tensor], tf.Tensor] = tf.nn.softmax
) -> Callable[[dict[str, tf.Tensor]], dict[str, tf.Tensor]]:
    """A function from TEXT_INPUTS to the `probabilities` of classes and their `logits`."""

    def classify(inputs):
        logits = model(from_hub_names(inputs), training=False)
        return {"probabilities": probabilities(logits), "logits": at_least_masked(logits)}

    return classify


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
