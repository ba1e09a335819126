"""Splits a SQuAD file by article into a training and a development set, if only one file is available.

For example:

    python -m experiments.squad_split --data_file=dev-v1.1.json --output_dir=squad_by_article

No article contributes to both. Prints one JSON object with the titles of the development set.
"""

import json
import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albert_cli import program
from data_prep.errors import InputError
from data_prep.files import new_folder, read_json_object, write_text


@dataclass(frozen=True)
class SplitSettings:
    """What is split, and where the parts go.

    Attributes:
      data_file: SQuAD's JSON file.
      output_dir: folder for train-v1.1.json and dev-v1.1.json, or v2.0 if that is the file's version.
      dev_share: share of the articles in the development set.
      seed: seed of the random choice.
    """

    data_file: Path
    output_dir: Path
    dev_share: float = 0.2
    seed: int = 0


def main(settings: SplitSettings) -> dict[str, Any]:
    """Writes both files and prints the result."""
    content = read_json_object(settings.data_file)
    try:
        articles = content["data"]
        sizes = [sum(len(paragraph["qas"]) for paragraph in article["paragraphs"]) for article in articles]
    except (TypeError, KeyError) as error:
        raise InputError(f"{settings.data_file} must have SQuAD's format. It does not: {error}.") from None
    held_out = _held_out(len(articles), settings)
    version = "v2.0" if "2.0" in str(content.get("version")) else "v1.1"
    result: dict[str, Any] = {"questions": {}}
    with new_folder(settings.output_dir) as folder:
        for split in ("train", "dev"):
            chosen = [i for i in range(len(articles)) if (i in held_out) == (split == "dev")]
            part = {**content, "data": [articles[i] for i in chosen]}
            write_text(folder / f"{split}-{version}.json", json.dumps(part, ensure_ascii=False))
            result["questions"][split] = sum(sizes[i] for i in chosen)
    result["held_out"] = [articles[i].get("title", str(i)) for i in sorted(held_out)]
    print(json.dumps(result, ensure_ascii=False, indent=2))
    return result


def _held_out(count: int, settings: SplitSettings) -> set[int]:
    size = round(settings.dev_share * count)
    if not 0 < size < count:
        raise InputError(
            f"--dev_share must leave an article on either side. Received {settings.dev_share} of {count} articles."
        )
    return set(random.Random(settings.seed).sample(range(count), size))


if __name__ == "__main__":
    sys.exit(program.run_with_settings(main, SplitSettings, __doc__))
