"""RACE: the task and its files.

A folder of passages for each split and school, one JSON object in each file or each line of all.txt.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from albert_tf.tasks.choice.kind import OPTIONS
from albert_tf.tasks.choice.rows import ChoiceExample
from albert_tf.tasks.kind import Split, Task
from albert_tf.tasks.problems import shown
from albert_tf.tasks.tables import parse_json, read_unpacked
from data_prep.errors import InputError

GROUPS = ("middle", "high")
_LETTERS = "ABCD"
RACE = Task(
    "race", OPTIONS, tuple(_LETTERS), download="race", folder="RACE", tfds=("race/middle", "race/high")
)
_ALL = "all.txt"  # one JSON object on each line, as google-research/albert reads them


def read_race(path: Path, split: Split) -> list[ChoiceExample]:
    """The questions of a split, middle school first, passages in the order of their numbers.

    Args:
      path: the folder RACE of the download, with train/middle/*.txt or train/middle/all.txt and so on; the folder
        of one split or of one school; or one file.
      split: "train", "dev" or "test".

    Returns:
      One example for each question. Its id is the passage's, "-" and the question's number from 0:
      "middle157.txt-0".

    Raises:
      InputError: there are no passages.
    """
    examples: list[ChoiceExample] = []
    found = False
    for group, file in _passages(path, split.name):
        found = True
        examples += _questions(file, group, split)
    if not found:
        raise InputError(
            f"RACE must have passages {path / split.name}/middle/*.txt and {path / split.name}/high/*.txt. "
            "There are none; name the folder RACE of the download with --data_dir."
        )
    return examples


def split_folders(path: Path, split: str) -> tuple[Path, Path]:
    """Where a split may be: in the folder RACE of the download, or below the folder around it."""
    return path / split, path / "RACE" / split


def _passages(path: Path, split: str) -> Iterator[tuple[str, Path]]:
    if path.is_file():
        yield _group_of(path), path
        return
    for base in (*split_folders(path, split), path):
        folders = [(group, base / group) for group in GROUPS if (base / group).is_dir()]
        if not folders and base.is_dir() and any(base.glob("*.txt")):
            folders = [(_group_of(base / "any"), base)]
        for group, folder in folders:
            alone = folder / _ALL  # beside it, each passage would be read twice
            for file in [alone] if alone.exists() else sorted(folder.glob("*.txt"), key=_number):
                yield group, file
        if folders:
            return


def _group_of(file: Path) -> str:
    return file.parent.name if file.parent.name in GROUPS else ""


def _number(file: Path) -> tuple[int, str]:
    digits = re.sub(r"\D", "", file.stem)
    return int(digits or 0), file.name


def _questions(file: Path, group: str, split: Split) -> Iterator[ChoiceExample]:
    try:
        text = read_unpacked(file)
    except InputError as error:
        split.problems.add("passage that cannot be read", str(file), str(error))
        return
    passages = {str(file): (f"{group}{file.name}", text)}
    if file.name == _ALL:
        lines = enumerate(text.split("\n"), start=1)
        passages = {f"{file}:{number}": (f"{group}{number}", line) for number, line in lines if line.strip()}
    for source, (identity, content) in passages.items():
        try:
            passage = parse_json(content)
        except ValueError as error:
            split.problems.add("passage that is not JSON", source, str(error))
            continue
        yield from passage_questions(passage, group, split, source, identity)


def passage_questions(
    passage: Any, group: str, split: Split, source: str, identity: str
) -> Iterator[ChoiceExample]:
    """The questions of a passage in RACE's form: a dict with article, questions, options, answers, perhaps id.

    `source` is its place for messages, `identity` the id of a passage that has none.
    """
    try:
        article, questions, options = (passage[key] for key in ("article", "questions", "options"))
        answers = passage.get("answers") or [None] * len(questions)
        rows = list(zip(questions, options, answers, strict=True))
        identity = str(passage.get("id") or identity)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        split.problems.add("passage that is not in RACE's form", source, reason)
        return
    for number, (question, choices, answer) in enumerate(rows):
        where = f"{source}, question {number}"
        label = _label(answer, split, where)
        example = ChoiceExample(f"{identity}-{number}", article, question, choices, label, group)
        if (label is not None or split.is_test) and _is_complete(example, split, where):
            yield replace(example, options=tuple(choices))


def _label(answer: Any, split: Split, source: str) -> int | None:
    if isinstance(answer, str) and len(answer) == 1 and answer in _LETTERS:
        return _LETTERS.index(answer)
    if answer is not None or not split.is_test:
        split.add_label_outside(answer, source, _LETTERS)
    return None


def _is_complete(example: ChoiceExample, split: Split, source: str) -> bool:
    """Whether a question has its texts and four options; in a test set these may be empty."""
    options = example.options
    if not isinstance(options, list) or len(options) != len(_LETTERS):
        split.problems.add("question without four options", source, f"received {shown(options)}")
        return False
    texts = (example.passage, example.question, *options)
    if not all(isinstance(text, str) for text in texts):
        split.problems.add("question that is not in RACE's form", source, f"received {shown(texts[1:])}")
        return False
    if all(text.strip() for text in texts):
        return True
    split.problems.add("empty text", source, f"received {shown(texts[1:])}", outcome=split.text_outcome)
    return split.is_test
