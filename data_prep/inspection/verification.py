"""The checks of `albert inspect --verify`: are pretraining files complete, and do they match their manifest?"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from data_prep.errors import InputError
from data_prep.examples.manifest import Manifest, Shard, file_crc32c
from data_prep.inspection.example_batches import ExampleBatch, read_batches
from data_prep.storage.paths import file_size


def verify_file(
    path: Path, vocab_size: int | None, shard: Shard | None, watch: Callable | None = None
) -> int:
    """Checks the checksum of every record of a file, its features, the range of every value, and the manifest.

    `shard` is its row of the manifest, if it has one; `watch` receives every batch that passes. Returns the number
    of examples.
    """
    if shard:
        # First: it is fast, and finds a file cut off between two records.
        _check_size(path, shard)
        if not shard.bytes:
            return 0
    examples = 0
    for batch in read_batches(path):
        check_values(batch, vocab_size, path)
        examples += len(batch.values["input_ids"])
        if watch:
            watch(batch.values)
    if shard and examples != shard.examples:
        raise InputError(
            f"{path} must have {shard.examples} examples according to its manifest. It has {examples}."
        )
    return examples


def check_values(batch: ExampleBatch, vocab_size: int | None, path: Path) -> None:
    """Checks that every value of a batch is valid; the message names the file, the record and the feature."""
    values = batch.values
    mask = values["input_mask"]
    length = mask.sum(axis=1, keepdims=True)
    limit = vocab_size or np.iinfo(np.int64).max
    id_rule = "must not be negative"
    if vocab_size:
        id_rule = f"must be at least 0 and below {vocab_size}, the size of the vocabulary"
    padding = np.arange(mask.shape[1]) >= length
    rules = [
        ("input_mask", (mask != 0) & (mask != 1), "must be 0 or 1"),
        ("input_mask", mask != ~padding, "must be 1 for the tokens and then 0"),
        ("input_ids", (values["input_ids"] < 0) | (values["input_ids"] >= limit), id_rule),
    ]
    if "sentence_starts" in values:
        starts = values["sentence_starts"]
        earlier = np.pad(starts, ((0, 0), (1, 0)))[:, :-1]
        used = np.logical_or.accumulate(starts[:, ::-1] != 0, axis=1)[:, ::-1]
        used[:, :1] = True  # a chunk has two sentences or more
        wrong = used & ((starts <= earlier) | (starts >= length))
        rules.append(("sentence_starts", wrong, "must ascend, from 1 to the last token"))
    for name in ("segment_ids", "next_sentence_labels"):
        if name in values:
            rules.append((name, values[name] >> 1 != 0, "must be 0 or 1"))
    if "masked_lm_ids" in values:
        used = values["masked_lm_weights"] > 0
        positions, ids = values["masked_lm_positions"], values["masked_lm_ids"]
        rules += [
            (
                "masked_lm_positions",
                used & ((positions < 0) | (positions >= length)),
                "must be the position of a token",
            ),
            ("masked_lm_ids", (ids < 0) | (ids >= limit), id_rule),
        ]
    for name, wrong, rule in rules:
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise InputError(
                f"`{name}` {rule}. {path}, record {batch.first + row} has {values[name][row, column]} "
                f"at place {column}."
            )


def missing_shards(paths: list[Path], manifests: dict[Path, Manifest]) -> list[Path]:
    """Files that do not exist, though a manifest lists them together with one of `paths`."""
    listed = {path.with_name(name) for path in paths if path in manifests for name in manifests[path].files}
    shards = ((path, manifests[path].shard(path)) for path in paths if path in manifests)
    renamed = {path.with_name(shard.file) for path, shard in shards if shard}
    return [path for path in sorted(listed - renamed) if file_size(path) is None]


def _check_size(path: Path, shard: Shard) -> None:
    size = file_size(path)
    if size != shard.bytes:
        raise InputError(f"{path} must have {shard.bytes} bytes according to its manifest. It has {size}.")
    if (found := file_crc32c(path)) != shard.crc32c:
        raise InputError(
            f"{path} must have the CRC-32C {shard.crc32c} according to its manifest. "
            f"It has {found}; copy it again or prepare it again."
        )
