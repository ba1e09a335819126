"""The kind of task that chooses one of several options for a question on a passage."""

from string import ascii_uppercase

from albert_tf.tasks.choice.features import ChoicePreprocessor
from albert_tf.tasks.choice.rows import choice_examples
from albert_tf.tasks.choice.strings import ChoiceAnswering
from albert_tf.tasks.collapse import even_options, labelled, one_answer
from albert_tf.tasks.kind import Kind
from albert_tf.tasks.prediction_files import read_object
from albert_tf.tasks.problems import shown
from data_prep.errors import InputError


class Options(Kind):
    """A question on a passage has one right option; predictions are letters, from A."""

    name = "multiple_choice"
    export = "multiple-choice"
    preprocessor = ChoicePreprocessor
    texts = ("passage", "question")
    needed = ("question",)
    is_one_text = False
    usual_length = 384
    predictions_suffix = ".json"
    input_rank = 3
    call = 'model(["His brother painted it."], ["Who was it?"], [["the captain", "his brother"]])'
    answering = ChoiceAnswering

    @property
    def model(self):
        from albert_tf.tasks.choice.model import MultipleChoice

        return MultipleChoice

    def from_strings(self, model, tokenizer, null_threshold, **options):
        from albert_tf.tasks.choice.serving import options_from_strings

        return options_from_strings(model, tokenizer)

    def from_ids(self, model, **options):
        from albert_tf.tasks.choice.serving import options_from_ids

        return options_from_ids(model)

    def examples(self, rows, first, split):
        return choice_examples(rows, first, split)

    def values(self, fields, source):
        least = len(self.texts) + 2
        if len(fields) < least:
            raise InputError(
                "A line of multiple choice must be a passage, a question and at least two options, separated "
                f"by tabs, or a JSON object. Received {len(fields)} fields in {source}."
            )
        texts = dict(zip(self.texts, fields, strict=False))
        return {**texts, "options": fields[len(self.texts) :]}

    def label(self, example):
        return None if example.label is None else ascii_uppercase[example.label]

    def predicted_classes(self, examples, labels):
        return tuple(ascii_uppercase[: max(len(example.options) for example in examples)])

    def groups(self, split):
        groups = tuple(example.group for example in split.examples)
        return groups if all(groups) else None

    def collapse(self, splits, parts):
        pairs = [(predicted, label) for _, predicted, label in labelled(parts)]
        return one_answer(pairs) or even_options([value for part in parts for value in part.values])

    def score(self, task, predictions, labels, groups=(), classes=()):
        from albert_tf.tasks.texts.metrics import class_metrics

        return class_metrics(task.metrics, predictions, labels, groups)

    def line(self, example, value, guess, predictions):
        # A question may have fewer options than there are classes.
        probabilities = dict(zip(predictions.classes, value.tolist(), strict=False))
        return {
            "label": guess,
            "probability": max(probabilities.values()),
            "probabilities": probabilities,
            "option": example.options[ascii_uppercase.index(guess)],
        }

    def read_predictions(self, task, path):
        letters = ascii_uppercase[: len(task.labels) or len(ascii_uppercase)]

        def letter(value, source: str) -> str:
            if not isinstance(value, str) or len(value) != 1 or value not in letters:
                raise InputError(
                    f"A choice must be a letter from A to {letters[-1]}. Received {shown(value)} for {source}."
                )
            return value

        return dict(read_object(path, letter))


OPTIONS = Options()
