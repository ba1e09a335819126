"""Values in tables: texts, lists, names of classes and numbers, however a file writes them."""

import ast
import math
import re
from collections.abc import Sequence
from typing import Any

from albert_tf.tasks.tables import parse_json

_WHOLE = re.compile(r"(-?\d+)\.0+")


def as_text(value: Any) -> str | None:
    """A value as text, "" if it is missing; None for a list or an object.

    >>> as_text("Fine."), as_text(None), as_text(7), as_text(["Fine."])
    ('Fine.', '', '7', None)
    """
    if isinstance(value, list | dict):
        return None
    return "" if value is None else str(value)


def as_list(value: Any) -> Any:
    """The value, parsed if it is a JSON list or object, or a list as Python writes it, in a field of a table."""
    if isinstance(value, str) and value.lstrip().startswith(("[", "{")):
        try:
            return parse_json(value)
        except ValueError:
            return _python_list(value)
    return value


def _python_list(text: str) -> Any:
    """The list that a text is the `repr` of, as pandas writes it to CSV; any other text unchanged."""
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return text
    return value if isinstance(value, list) and repr(value) == text.strip() else text


def as_label(value: Any) -> str:
    """A class's name; whole numbers are written without a decimal point.

    >>> [as_label(value) for value in (" yes ", 1, 1.0, True)]
    ['yes', '1', '1', 'true']
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


def as_number(value: Any) -> float | None:
    """The value as a finite number, or None."""
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def known_label(label: str, labels: Sequence[str]) -> str:
    """The label as `labels` write it: a table has 1.0 for 1 where other labels miss, and True for true.

    >>> known_label("1.0", ("0", "1")), known_label("1", ("0.0", "1.0")), known_label("TRUE", ("false", "true"))
    ('1', '1.0', 'true')
    """
    if not labels or label in labels:
        return label
    same = [known for known in labels if class_of(known) == class_of(label)]
    return same[0] if len(same) == 1 else label


def class_of(label: str) -> str:
    """What all spellings of a class have in common: 1 of 1.0, and true of True."""
    whole, is_truth = _WHOLE.fullmatch(label), label.lower() in ("true", "false")
    return whole[1] if whole else label.lower() if is_truth else label
