"""Text in, classes or a number out: what a fine-tuned classifier serves.

texts, or pairs of texts --tokenize--> pieces --cut--> one batch --model--> probabilities (B, C)
"""

from functools import partial

import tensorflow as tf

from albert_tf.tasks.hub_names import from_hub_names
from albert_tf.tasks.serialized import EXAMPLES, example_batch
from albert_tf.tasks.served import (
    TEXT,
    FromIds,
    FromStrings,
    ids_to_classes,
    joined_batch,
    model_function,
    warmup_requests,
)
from albert_tf.tasks.texts.model import MultiLabelClassifier, TextClassifier, TextRegressor
from data_prep.in_graph import make_graph_tokenizer
from data_prep.tokenizers.vocabulary import Tokenizer

_TEXT_PAIR = tf.TensorSpec([None], tf.string, name="text_pair")
_TEXT = "The captain sailed past."
_EXAMPLE = """
import tensorflow as tf
import tensorflow_text  # registers the tokenizer's operations

classify = tf.saved_model.load(".")
outputs = classify(tf.constant(["The captain sailed past.", "A quiet neighbour."]))
print({name: array.numpy() for name, array in outputs.items()})
"""


def texts_from_strings(model: TextClassifier | TextRegressor, tokenizer: Tokenizer) -> FromStrings:
    """The model with its tokenizer, from text to classes.

    The object is called with a batch of texts, string (B,); `.pair` also takes the second text of each pair. It
    returns, of a classifier, `label`, string (B,), the best one, and `labels`, string (B, C), with their
    `probabilities`, float32 (B, C); of a classifier that gives a text several labels, in place of `label`,
    `has_label`, bool (B, C), whether the probability reaches the label's threshold; of a regressor `score`,
    float32 (B,). Long texts are cut as in training. `.examples` takes the ids of texts as serialized
    tf.train.Example messages, as the original's classifiers do. The signature `serving_default` has the input
    `text`; `pair` has `text` and `text_pair`; `examples` has `examples`.

    Args:
      model: the fine-tuned model.
      tokenizer: the tokenizer of its vocabulary.
    """
    graph, logits_of = make_graph_tokenizer(tokenizer), model_function(model)
    max_seq_length = model.preprocessor.max_seq_length

    def predict(*texts):
        return predict_ids(joined_batch([graph.tokenize(part) for part in texts], tokenizer, max_seq_length))

    def predict_ids(batch):
        outputs = logits_of(batch)
        return {"score": outputs} if isinstance(model, TextRegressor) else _classes(outputs, model)

    def predict_examples(examples):
        return predict_ids(example_batch(examples, model.encoder.config))

    def check(loaded):
        pair = [_TEXT] * 2, [_TEXT, "a"]
        single, double = loaded(tf.constant(pair[1])), loaded.pair(*map(tf.constant, pair))
        name = "score" if isinstance(model, TextRegressor) else "probabilities"
        outputs = [model.predict(texts, verbose=0) for texts in (pair[1], pair)]
        expected = [one if name == "score" else _probabilities(one, model) for one in outputs]
        return {name: (single[name], expected[0]), f"{name} of pairs": (double[name], expected[1])}

    return FromStrings(
        {
            "serving_default": (predict, [TEXT]),
            "pair": (predict, [TEXT, _TEXT_PAIR]),
            "examples": (predict_examples, [EXAMPLES]),
        },
        {"tokenizer": graph},
        check,
        _EXAMPLE,
        warmup_requests(_TEXT),
    )


def texts_from_ids(model: TextClassifier | TextRegressor) -> FromIds:
    """`probabilities` and `logits` (B, C), or `score` (B,). The probabilities of several labels are sigmoids."""
    if isinstance(model, TextRegressor):
        return FromIds(lambda inputs: {"score": model(from_hub_names(inputs), training=False)})
    return FromIds(ids_to_classes(model, partial(_probabilities, model=model)))


def _classes(logits: tf.Tensor, model: TextClassifier) -> dict[str, tf.Tensor]:
    names, probabilities = tf.constant(model.labels), _probabilities(logits, model)
    if isinstance(model, MultiLabelClassifier):
        decision = {"has_label": probabilities >= tf.constant(model.thresholds)}
    else:
        decision = {"label": tf.gather(names, tf.argmax(logits, axis=-1))}
    labels = tf.repeat(names[tf.newaxis], tf.shape(logits)[0], axis=0)
    return {**decision, "labels": labels, "probabilities": probabilities}


def _probabilities(logits: tf.Tensor, model: TextClassifier) -> tf.Tensor:
    return tf.sigmoid(logits) if isinstance(model, MultiLabelClassifier) else tf.nn.softmax(logits)
