"""An eighth kind of task, in one file: a pair of numbers for a text, such as where it stands on a map."""

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from albert_tf.tasks.answering import Field
from albert_tf.tasks.features import LABEL_SET
from albert_tf.tasks.hub_names import from_hub_names
from albert_tf.tasks.linear_task_model import LinearTaskModel
from albert_tf.tasks.prediction_files import finite_number, read_object
from albert_tf.tasks.preprocessor import each_row
from albert_tf.tasks.problems import shown
from albert_tf.tasks.served import TEXT, FromIds, FromStrings, joined_batch, model_function, warmup_requests
from albert_tf.tasks.texts.features import TextPreprocessor
from albert_tf.tasks.texts.kind import TextKind
from albert_tf.tasks.texts.strings import TextAnswering
from albert_tf.tasks.values import as_list, as_number
from data_prep.in_graph import make_graph_tokenizer

_EXAMPLE = """
import tensorflow as tf
import tensorflow_text

place = tf.saved_model.load(".")
print(place(tf.constant(["The captain sailed past."]))["numbers"].numpy())
"""


def read_pair(value, source, split):
    """Two numbers, as an array of JSON."""
    numbers = as_list(value)
    pair = tuple(map(as_number, numbers)) if isinstance(numbers, list) else ()
    if len(pair) == 2 and None not in pair:
        return pair
    split.problems.add("label that is not two numbers", source, f"received {shown(value)}")
    return None


class PairPreprocessor(TextPreprocessor):
    def labels(self, y, number, classes):
        return each_row(lambda pair: tuple(map(float, pair)), list(y))

    def arrays(self, examples, classes=()):
        features = [super(PairPreprocessor, self).arrays([_unlabelled(one)])[0] for one in examples]
        for arrays, example in zip(features, examples, strict=True):
            if example.label is not None:
                arrays[LABEL_SET] = np.array(example.label, np.float32)
        return features


def _unlabelled(example):
    return NUMBER_PAIRS.without_label(example)


@keras.saving.register_keras_serializable(package="albert_tf")
class PairRegressor(LinearTaskModel):
    """Predicts two numbers from the pooled output, trained with squared errors; float32 (B, 2)."""

    default_name, kind = "pair_regressor", "number_pairs"
    preprocessor_class, head_name, label_key = PairPreprocessor, "regressor", LABEL_SET
    has_labels, outputs = False, 2

    def call(self, inputs, training=False):
        return self.regressor(self.pooled_output(inputs, training), training=training)

    def task_losses(self, y, outputs):
        return ops.mean(ops.square(outputs - ops.cast(y, "float32")), axis=-1)

    def labels_of_outputs(self, outputs):
        return outputs.tolist()


class PairAnswering(TextAnswering):
    """Texts to `numbers` (B, 2)."""

    fields = {"numbers": Field((2,))}  # noqa: RUF012

    def _answer(self, row):
        return {"numbers": row["numbers"]}


class NumberPairs(TextKind):
    """A text, or a pair of texts, has two numbers."""

    name = "number_pairs"
    export = "number-pairs"
    metrics = ("closeness",)
    preprocessor, model, answering = PairPreprocessor, PairRegressor, PairAnswering
    predictions_suffix = ".json"
    outputs, output = {"numbers": "B, 2"}, "numbers"
    read_label = staticmethod(read_pair)

    def value(self, example, features, output, labels):
        return output

    def score(self, task, predictions, labels, groups=(), classes=()):
        distances = np.linalg.norm(np.array(predictions) - np.array(labels), axis=-1)
        return {"closeness": float(1 / (1 + distances.mean()))}

    def line(self, example, value, guess, predictions):
        return {"numbers": guess}

    def read_predictions(self, task, path):
        return read_object(path, lambda pair, source: [finite_number(number, source) for number in pair])

    def from_strings(self, model, tokenizer, null_threshold, **options):
        graph, numbers_of = make_graph_tokenizer(tokenizer), model_function(model)

        def predict(texts):
            length = model.preprocessor.max_seq_length
            return {"numbers": numbers_of(joined_batch([graph.tokenize(texts)], tokenizer, length))}

        def check(loaded):
            texts = ["The captain sailed past.", "a"]
            found = loaded(tf.constant(texts))["numbers"]
            return {"numbers": (found, model.predict(texts, verbose=0))}

        methods = {"serving_default": (predict, [TEXT])}
        return FromStrings(methods, {"tokenizer": graph}, check, _EXAMPLE, warmup_requests("The captain"))

    def from_ids(self, model, **options):
        return FromIds(lambda inputs: {"numbers": model(from_hub_names(inputs), training=False)})


NUMBER_PAIRS = NumberPairs()
