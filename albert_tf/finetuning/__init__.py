"""Fine-tuning: task models, the paper's recipes, official metrics, ensembles and submissions."""

import importlib

_HOME = {
    "MultipleChoice": "multiple_choice",
    "QuestionAnswering": "question_answering",
    "TextClassifier": "text_classifier",
    "TextRegressor": "text_regressor",
    "TokenClassifier": "token_classifier",
}
__all__ = list(_HOME)


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
