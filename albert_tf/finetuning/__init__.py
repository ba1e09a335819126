"""Fine-tuning: task models, the paper's recipes, official metrics, ensembles and submissions."""

import importlib

_HOME = {
    "MultiLabelClassifier": "task_models",
    "MultipleChoice": "task_models",
    "OrdinalClassifier": "task_models",
    "QuestionAnswering": "question_answering",
    "TextClassifier": "task_models",
    "TextRegressor": "task_models",
    "TokenClassifier": "task_models",
    "load_adapters": "adapters",
    "save_adapters": "adapters",
}
__all__ = list(_HOME)


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
