"""Computes a task's metric for trivial predictions, which fine-tuning has to exceed.

For example:

    python -m experiments.trivial_baselines --task=race --data_dir=RACE

Classification: the most frequent class. Regression: a constant, and the share of words that both texts have.
Multiple choice: the longest option. Question answering: the context's first sentence. Prints one JSON object.
"""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from albert_cli import program
from albert_tf.tasks.examples import ChoiceExample, Problems, QuestionExample, TextExample
from albert_tf.tasks.reading import read_examples
from albert_tf.tasks.spans.metrics import evaluate_squad1, evaluate_squad2
from albert_tf.tasks.task import Task, find_task
from albert_tf.tasks.texts.metrics import task_metrics
from data_prep.errors import InputError
from data_prep.text.documents import split_sentences


@dataclass(frozen=True)
class BaselineSettings:
    """What is evaluated.

    Attributes:
      task: name of the task.
      data_dir: folder or file of the task, or tfds:NAME.
      split: split to predict; it must have labels.
      language: language of the sentences, as an ISO 639 code.
    """

    task: str
    data_dir: str
    split: str = "dev"
    language: str = "en"


def main(settings: BaselineSettings) -> dict[str, Any]:
    """Evaluates a split and prints the result."""
    task, problems = find_task(settings.task), Problems()
    examples = read_examples(task, settings.data_dir, settings.split, problems)
    result = {
        "task": task.name,
        "split": settings.split,
        "examples": len(examples),
        "problems": problems.lines(),
        "metrics": baseline_metrics(task, examples, settings.language),
    }
    print(json.dumps(result, ensure_ascii=False, indent=2))
    return result


def baseline_metrics(task: Task, examples: Sequence[Any], language: str = "en") -> dict[str, Any]:
    """The task's metrics for predictions that need no training.

    Raises:
      InputError: this kind of task has no baseline, or an example has no label.
    """
    if any(getattr(example, "label", "") is None for example in examples):
        raise InputError("A baseline needs a split with labels. Received examples without any.")
    if task.kind == "question_answering":
        return _of_questions(task, examples, language)
    if task.kind == "multiple_choice":
        chosen = [longest_option(example) for example in examples]
        return task_metrics(task, chosen, [example.label for example in examples], _groups(examples))
    if task.kind == "regression":
        labels = [example.label for example in examples]
        ways = {"constant": [0.0] * len(labels), "shared_words": [shared_words(e) for e in examples]}
        return {name: task_metrics(task, numbers, labels) for name, numbers in ways.items()}
    if task.kind == "classification":
        labels = [example.label for example in examples]
        most_frequent = Counter(labels).most_common(1)[0][0]
        return task_metrics(task, [most_frequent] * len(labels), labels)
    raise InputError(f"All kinds of tasks but token classification have a baseline. Received {task.name}.")


def longest_option(example: ChoiceExample) -> int:
    """The index of the longest option, in characters; the first of several."""
    return max(range(len(example.options)), key=lambda i: len(example.options[i]))


def shared_words(example: TextExample) -> float:
    """The number of words in both texts, divided by the number in either."""
    a, b = (set((text or "").lower().split()) for text in (example.text_a, example.text_b))
    return len(a & b) / max(1, len(a | b))


def first_sentence(example: QuestionExample, language: str = "en") -> str:
    """The first sentence of the question's context."""
    return next(iter(split_sentences(" ".join(example.context.split()), language)), "")


def _groups(examples: Sequence[ChoiceExample]) -> list[str] | None:
    groups = [example.group for example in examples]
    return groups if any(groups) else None


def _of_questions(task: Task, examples: Sequence[QuestionExample], language: str) -> dict[str, Any]:
    answers = {example.id: example.answers for example in examples}
    contexts = {example.context: example for example in examples}
    sentences = {context: first_sentence(example, language) for context, example in contexts.items()}
    first = {example.id: sentences[example.context] for example in examples}
    if not task.answerable:
        return {"first_sentence": evaluate_squad1(answers, first)}
    none = dict.fromkeys(first, "")
    return {"first_sentence": evaluate_squad2(answers, first), "no_answer": evaluate_squad2(answers, none)}


if __name__ == "__main__":
    sys.exit(program.run_with_settings(main, BaselineSettings, __doc__))
