"""The model of each kind of task."""

from albert_tf.finetuning.multiple_choice import MultipleChoice
from albert_tf.finetuning.question_answering import QuestionAnswering
from albert_tf.finetuning.task_model import TaskModel
from albert_tf.finetuning.text_classifier import TextClassifier
from albert_tf.finetuning.text_regressor import TextRegressor
from albert_tf.finetuning.token_classifier import TokenClassifier
from data_prep.tasks.task import TASKS, Task

TASK_MODELS: dict[str, type[TaskModel]] = {
    "classification": TextClassifier,
    "regression": TextRegressor,
    "multiple_choice": MultipleChoice,
    "question_answering": QuestionAnswering,
    "token_classification": TokenClassifier,
}


def task_of(model: TaskModel) -> Task:
    """The task of own data that a model is for."""
    if isinstance(model, QuestionAnswering) and model.answerable:
        return TASKS["squad2.0"]
    kind = next(kind for kind, one in TASK_MODELS.items() if isinstance(model, one))
    return TASKS[kind.replace("_", "-")]
