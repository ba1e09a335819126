"""pretrained.json beside a model: which of its parts are trained, and how its text is normalized."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albert_tf.checkpoints.names import OPTIONAL_PARTS, OptionalPart
from albert_tf.checkpoints.stored import find_vocabulary, read_optional_json
from data_prep.files import as_record, write_json
from data_prep.tokenizers.normalization import Normalization
from data_prep.tokenizers.vocabulary import Vocabulary

FACTS_FILE = "pretrained.json"


def write_facts(folder: Path, parts: Sequence[str], vocabulary: Vocabulary | None) -> Path:
    """Writes the trained parts and the normalization, which no other file holds; returns the path."""
    facts: dict[str, Any] = {"parts": list(parts)}
    if vocabulary:
        facts |= dataclasses.asdict(vocabulary.normalization)
    write_json(folder / FACTS_FILE, facts)
    return folder / FACTS_FILE


def read_parts(folder: Path) -> Sequence[str]:
    """The trained parts of a folder's model, from the file that `write_facts` wrote; all parts without one."""
    path = folder / FACTS_FILE
    return as_record(_Facts, read_optional_json(path), path).parts


def read_vocabulary(folder: Path) -> Vocabulary | None:
    """The vocabulary in a folder, with the normalization from the file that `write_facts` wrote, if any."""
    path = folder / FACTS_FILE
    return find_vocabulary(folder, default=Normalization.from_dict(read_optional_json(path), str(path)))


@dataclass(frozen=True)
class _Facts:
    parts: Sequence[OptionalPart] = OPTIONAL_PARTS
