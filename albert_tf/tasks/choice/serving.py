"""Passage, question and options in, the best option out: what a fine-tuned model serves.

question and option --option in place of "_"--> query --[CLS] passage [SEP] query [SEP]--> (B, C, T)
    --model--> (B, C)
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from albert_tf.tasks.choice.model import MultipleChoice
from albert_tf.tasks.hub_names import TEXT_INPUTS
from albert_tf.tasks.serialized import example_batch
from albert_tf.tasks.served import (
    FromIds,
    FromStrings,
    ids_to_classes,
    joined_batch,
    model_function,
    random_ids,
    repeated,
)
from data_prep.in_graph import make_graph_tokenizer
from data_prep.tokenizers.vocabulary import Tokenizer

_INPUTS = [
    tf.TensorSpec([None], tf.string, name="passage"),
    tf.TensorSpec([None], tf.string, name="question"),
    tf.TensorSpec([None, None], tf.string, name="options"),
]
_EXAMPLES = tf.TensorSpec([None, None], tf.string, name="examples")
_BLANK = "_"
_PASSAGE = "The captain sailed past. His brother painted the lighthouse."
_OPTIONS = ["the captain", "his brother", "a neighbour"]
_EXAMPLE = """
import tensorflow as tf
import tensorflow_text  # registers the tokenizer's operations

choose = tf.saved_model.load(".")
passage = tf.constant(["The captain sailed past. His brother painted the lighthouse."])
options = tf.constant([["the captain", "his brother", "a neighbour"]])
outputs = choose(passage, tf.constant(["The lighthouse was painted by _ ."]), options)
print(outputs["answer"].numpy(), outputs["probabilities"].numpy())
"""


def options_from_strings(model: MultipleChoice, tokenizer: Tokenizer) -> FromStrings:
    """The model with its tokenizer, from texts to the best option.

    The object is called with passages and questions, string (B,), and options, string (B, C). It returns
    `answer`, string (B,), the best option, `choice`, int32 (B,), its index, and `probabilities`,
    float32 (B, C). A passage that is too long is cut at its end, a question at its beginning. `.examples` takes a
    serialized tf.train.Example message with the ids of each option, string (B, C), and returns `choice` and
    `probabilities`. The signature `serving_default` has the inputs `passage`, `question` and `options`; `examples`
    has `examples`.

    Args:
      model: the fine-tuned model.
      tokenizer: the tokenizer of its vocabulary.
    """
    graph, logits_of = make_graph_tokenizer(tokenizer), model_function(model)
    max_seq_length = model.preprocessor.max_seq_length
    longest_query = min(max_seq_length - 3, model.preprocessor.max_qa_length)

    def choose(passages, questions, options):
        C = tf.shape(options)[1]
        queries = asked(tf.repeat(questions, C), tf.reshape(options, [-1]))
        queries = graph.tokenize(queries)[:, -longest_query:]
        # Each passage is tokenized once, not once for each option. Only the passage is cut, not the query.
        rows = tf.repeat(tf.range(tf.size(passages)), C)
        passages = tf.gather(graph.tokenize(passages), rows)
        room = max_seq_length - 3 - queries.row_lengths()
        places = tf.ragged.range(passages.row_lengths())
        passages = tf.ragged.boolean_mask(passages, places < room[:, tf.newaxis])
        batch = joined_batch([passages, queries], tokenizer, max_seq_length)
        outputs = choose_ids(batch, tf.shape(options))
        return {"answer": tf.gather(options, outputs["choice"], batch_dims=1), **outputs}

    def choose_ids(batch, size):  # from arrays (B * C, T) and [B, C]
        shape = tf.concat([size, tf.shape(batch["input_ids"])[1:]], 0)
        logits = logits_of({name: tf.reshape(array, shape) for name, array in batch.items()})
        choice = tf.argmax(logits, axis=-1, output_type=tf.int32)
        return {"choice": choice, "probabilities": tf.nn.softmax(logits)}

    def choose_examples(examples):
        batch = example_batch(tf.reshape(examples, [-1]), model.encoder.config)
        return choose_ids(batch, tf.shape(examples))

    def check(loaded):
        questions = ["Who painted? _", "Who?"]
        strings = [_PASSAGE] * 2, questions, [_OPTIONS] * 2
        ours = tf.nn.softmax(model.predict(strings, verbose=0))
        return {"probabilities": (loaded(*map(tf.constant, strings))["probabilities"], ours)}

    warmup: list[dict[str, Sequence]] = [
        {"passage": [passage], "question": ["Who painted it?"], "options": [_OPTIONS]}
        for passage in (_PASSAGE, repeated(_PASSAGE))
    ]
    return FromStrings(
        {"serving_default": (choose, _INPUTS), "examples": (choose_examples, [_EXAMPLES])},
        {"tokenizer": graph},
        check,
        _EXAMPLE,
        warmup,
    )


def options_from_ids(model: MultipleChoice) -> FromIds:
    """`probabilities` and `logits` (B, C) of the options, from ids (B, C, T)."""
    options = [random_ids(model, seed) for seed in range(3)]
    sample = {name: np.stack([option[name] for option in options], axis=1) for name in TEXT_INPUTS}
    sample["input_mask"][0, -1] = 0  # one question has an option less
    return FromIds(
        ids_to_classes(model),
        sample,
        dimensions="B, C, T",
        example_ids="[[[2, 13, 1, 9, 3], [2, 13, 1, 7, 3]]]",
    )


def asked(questions: tf.Tensor, options: tf.Tensor) -> tf.Tensor:
    """Questions with an option filled in, as `albert_tf.tasks.choice.features.asked` does it.

    Args:
      questions: string (N,).
      options: string (N,).

    Returns:
      string (N,): the option in place of each blank, or after the question and a space if there is none.
    """
    questions = tf.strings.regex_replace(questions, f"{_BLANK}+", _BLANK)
    # One more character at the front, so that every question has a part.
    parts = tf.strings.split(tf.strings.join(["x", questions]), _BLANK)
    rows = parts.value_rowids()
    is_first = tf.range(tf.size(parts.values, tf.int64)) == tf.gather(parts.row_starts(), rows)
    before = tf.where(is_first, "", tf.gather(options, rows))
    pieces = tf.strings.join([before, parts.values])
    filled = tf.strings.unsorted_segment_join(pieces, rows, tf.size(questions, tf.int64))
    filled = tf.strings.substr(filled, 1, tf.int32.max)
    has_blank = parts.row_lengths() > 1
    return tf.where(has_blank, filled, tf.strings.join([questions, options], separator=" "))
