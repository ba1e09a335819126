"""Are pretraining files whole, and what their manifest says? The checks of `albert inspect --verify`."""

import json
from collections.abc import Callable
from pathlib import Path

import google_crc32c
import numpy as np

from data_prep.errors import InputError
from data_prep.inspection.example_files import ExampleBatch, read_batches

_BLOCK = 1 << 20  # bytes


def verify_file(path: Path, vocab_size: int | None, shard: dict | None, watch: Callable | None = None) -> int:
    """Reads a whole file: the checksum of every record, the schema, the range of every value, the manifest.

    Args:
      path: a TFRecord file.
      vocab_size: V, if known.
      shard: what the manifest says of the file: {"examples", "bytes", "crc32c" (if it has one)}.
      watch: is given every batch that is right.

    Returns:
      How many examples it has.

    Raises:
      InputError: the first thing that is wrong; names the file and the record.
    """
    if shard:
        # First: it is quick, and tells of a file that was cut off between two records.
        _check_size(path, shard)
    examples = 0
    for batch in read_batches(path):
        check_values(batch, vocab_size, path)
        examples += len(batch.values["input_ids"])
        if watch:
            watch(batch.values)
    if shard and examples != shard["examples"]:
        raise InputError(
            f"{path} must have {shard['examples']} examples, as its manifest says. It has {examples}."
        )
    return examples


def check_values(batch: ExampleBatch, vocab_size: int | None, path: Path) -> None:
    """Checks that every value of a batch can be what it is said to be.

    Args:
      batch: neighbouring examples.
      vocab_size: V, if known.
      path: the file, for the message.

    Raises:
      InputError: names the record and the feature.
    """
    values = batch.values
    mask = values["input_mask"]
    length = mask.sum(axis=1, keepdims=True)
    limit = vocab_size or np.iinfo(np.int64).max
    padding = np.arange(mask.shape[1]) >= length
    rules = [
        ("input_mask", (mask != 0) & (mask != 1), "must be 0 or 1"),
        ("input_mask", mask != ~padding, "must be 1 for the tokens and then 0"),
        (
            "input_ids",
            (values["input_ids"] < 0) | (values["input_ids"] >= limit),
            f"must be below {limit}, the vocabulary",
        ),
        ("segment_ids", (values["segment_ids"] < 0) | (values["segment_ids"] > 1), "must be 0 or 1"),
        ("next_sentence_labels", values["next_sentence_labels"] >> 1 != 0, "must be 0 or 1"),
    ]
    if "masked_lm_ids" in values:
        used = values["masked_lm_weights"] > 0
        positions, ids = values["masked_lm_positions"], values["masked_lm_ids"]
        rules += [
            (
                "masked_lm_positions",
                used & ((positions < 0) | (positions >= length)),
                "must be that of a token",
            ),
            ("masked_lm_ids", (ids < 0) | (ids >= limit), f"must be below {limit}, the vocabulary"),
        ]
    for name, wrong, rule in rules:
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise InputError(
                f"`{name}` {rule}. {path}, record {batch.first + row} has {values[name][row, column]} "
                f"at place {column}."
            )


def manifest_shards(path: Path) -> dict[str, dict]:
    """What the manifests in a file's folder say of its files, by name; nothing where there is none.

    >>> manifest_shards(Path("data/train.tfrecord"))
    {'train.tfrecord': {'file': 'train.tfrecord', 'examples': 120, 'bytes': 64000}}
    """
    return {shard["file"]: shard for manifest in _manifests(path) for shard in manifest["shards"]}


def manifest_of(path: Path) -> dict | None:
    """The manifest that names a file, or None."""
    manifests = [m for m in _manifests(path) if path.name in {shard["file"] for shard in m["shards"]}]
    return manifests[0] if manifests else None


def missing_shards(paths: list[Path]) -> list[Path]:
    """Files that are not there, though a manifest lists them together with one of `paths`."""
    missing: dict[Path, None] = {}
    for path in paths:
        manifest = manifest_of(path)
        shards = [path.with_name(shard["file"]) for shard in manifest["shards"]] if manifest else []
        missing.update(dict.fromkeys(shard for shard in shards if not shard.is_file()))
    return list(missing)


def _manifests(path: Path) -> list[dict]:
    manifests = []
    # Every run's own: an earlier one is kept as NAME.manifest.json.
    for file in sorted(path.parent.glob("*manifest.json")):
        try:
            manifest = json.loads(file.read_text(encoding="utf-8"))
            shards = [(shard["file"], shard["examples"], shard["bytes"]) for shard in manifest["shards"]]
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{file} is not a manifest of `albert prepare` ({type(error).__name__}: {error}). "
                "Prepare the data again."
            ) from None
        manifests += [manifest] if shards else []
    return manifests


def _check_size(path: Path, shard: dict) -> None:
    if path.stat().st_size != shard["bytes"]:
        raise InputError(
            f"{path} must have {shard['bytes']} bytes, as its manifest says. It has {path.stat().st_size}."
        )
    if "crc32c" not in shard:
        return
    checksum = google_crc32c.Checksum()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            checksum.update(block)
    if checksum.hexdigest().decode() != shard["crc32c"]:
        raise InputError(
            f"{path} must have the CRC-32C {shard['crc32c']}, as its manifest says. "
            f"It has {checksum.hexdigest().decode()}; copy it again or prepare it again."
        )
