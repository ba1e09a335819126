"""Text in, classes or a number out: a SavedModel with the tokenizer and a fine-tuned classifier.

texts, or texts and the texts after them --tokenize--> pieces --cut--> one batch --model--> probabilities (B, C)
"""

import tensorflow as tf

from albert_tf.finetuning.task_models import TextClassifier, TextRegressor
from data_prep.in_graph import make_graph_tokenizer
from data_prep.tokenizers.vocabulary import Tokenizer
from export.batches import joined_batch, warmup_texts
from export.finetuned import track_model
from export.preprocessor import TEXTS
from export.saving import Export

_PAIRED = tf.TensorSpec([None], tf.string, name="text_pair")
_TEXT = "The captain sailed past."
_EXAMPLE = """
import tensorflow as tf
import tensorflow_text  # registers the tokenizer's operations

classify = tf.saved_model.load(".")
outputs = classify(tf.constant(["The captain sailed past.", "A quiet neighbour."]))
print({name: array.numpy() for name, array in outputs.items()})
"""


def build_classifier(model: TextClassifier | TextRegressor, tokenizer: Tokenizer) -> Export:
    """The model with its tokenizer, from text to classes.

    The object is called with a batch of texts, string (B,), and `.pair` with the texts that follow them, too. A
    classifier returns `label`, string (B,), the best one, and `labels`, string (B, C), with their
    `probabilities`, float32 (B, C); a regressor `score`, float32 (B,). What is too long is cut as in training. The
    signature `serving_default` has the input `text`; `pair` has `text` and `text_pair`.

    Args:
      model: fine-tuned.
      tokenizer: of its vocabulary.
    """
    graph = make_graph_tokenizer(tokenizer)
    max_seq_length = model.preprocessor.max_seq_length

    def predict(*texts):
        batch = joined_batch([graph.tokenize(part) for part in texts], tokenizer, max_seq_length)
        outputs = model(batch, training=False)
        return {"score": outputs} if isinstance(model, TextRegressor) else _classes(outputs, model.labels)

    def check(loaded):
        pair = [_TEXT] * 2, [_TEXT, "a"]
        single, double = loaded(tf.constant(pair[1])), loaded.pair(*map(tf.constant, pair))
        name = "score" if isinstance(model, TextRegressor) else "probabilities"
        expected = [model.predict(texts, verbose=0) for texts in (pair[1], pair)]
        if name == "probabilities":
            expected = [tf.nn.softmax(logits) for logits in expected]
        return {name: (single[name], expected[0]), f"{name} of pairs": (double[name], expected[1])}

    root = tf.train.Checkpoint()
    track_model(root, model)
    root.tokenizer = graph
    root.__call__ = tf.function(predict, input_signature=[TEXTS], autograph=False)
    root.pair = tf.function(predict, input_signature=[TEXTS, _PAIRED], autograph=False)

    @tf.function(input_signature=[TEXTS], autograph=False)
    def serving_default(text):
        return root.__call__(text)

    @tf.function(input_signature=[TEXTS, _PAIRED], autograph=False)
    def pair(text, text_pair):
        return root.pair(text, text_pair)

    signatures = {"serving_default": serving_default, "pair": pair}
    return Export(root, signatures, check, _EXAMPLE, warmup_texts(_TEXT))


def _classes(logits: tf.Tensor, labels: tuple[str, ...]) -> dict[str, tf.Tensor]:
    names = tf.constant(labels)
    return {
        "label": tf.gather(names, tf.argmax(logits, axis=-1)),
        "labels": tf.repeat(names[tf.newaxis], tf.shape(logits)[0], axis=0),
        "probabilities": tf.nn.softmax(logits),
    }
