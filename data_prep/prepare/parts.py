"""Parts become shards: a shuffle of more records than memory holds.

A part holds the records of one stretch of the text, sorted by (shard, key), and an index. The keys are random, so
sorting a shard's records by key shuffles them. A shard is merged from all parts, one range of keys at a time, so
that memory holds no more than a pool of records.

    records, keys --Part.write--> NUMBER.records .index .json ... all parts --merge_shard--> shard
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from data_prep.examples.manifest import Shard
from data_prep.files import write_text, written_aside
from data_prep.prepare.outputs import ShardWriter

# About how many bytes of records are sorted at a time, which does not change the order.
_LEAST_POOL_BYTES = 8 << 20
_MOST_POOL_BYTES = 128 << 20
_BYTES_PER_READ = 64 << 10  # shorter reads take as long

# One row per record; the last three numbers are added up for the manifest.
INDEX = np.dtype(
    [("key", "<u8"), ("size", "<u4"), ("example_tokens", "<u4"), ("masked_tokens", "<u4"), ("swapped", "<u4")]
)


@dataclass(frozen=True)
class Part:
    """The files of one part.

    Attributes:
      folder: the folder with the files.
      number: the part's number.
    """

    folder: Path
    number: int

    @property
    def files(self) -> tuple[Path, ...]:
        """The files in the order in which they are written; the last one marks the part as complete."""
        return tuple(map(self._file, ("records", "index", "json")))

    def write(self, records: list[bytes], index: np.ndarray, num_shards: int, summary: dict) -> None:
        """Writes the records, their index and at last the summary, which marks the part as complete.

        `records` are framed as in a TFRecord file, in any order, with a row of `index`, INDEX [records], for each;
        those with `key % num_shards == n` belong to shard n. `summary` holds more values to keep, for JSON.
        """
        shard = index["key"] % num_shards
        order = np.lexsort((index["key"], shard))
        index = index[order]
        first_rows = np.searchsorted(shard[order], np.arange(num_shards + 1))
        first_bytes = np.concatenate([[0], np.cumsum(index["size"], dtype=np.int64)])[first_rows]
        with written_aside(self._file("records")) as aside, aside.open("wb") as file:
            file.writelines(records[i] for i in order.tolist())
        with written_aside(self._file("index")) as aside:
            aside.write_bytes(index.tobytes())
        complete = {**summary, "first_rows": first_rows.tolist(), "first_bytes": first_bytes.tolist()}
        write_text(self._file("json"), json.dumps(complete))

    def summary(self) -> dict | None:
        """The summary that `write` stored; None if the part is missing or incomplete."""
        try:
            summary = json.loads(self._file("json").read_text(encoding="utf-8"))
            sizes = (self._file("records").stat().st_size, self._file("index").stat().st_size)
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        complete = sizes == (summary["first_bytes"][-1], summary["first_rows"][-1] * INDEX.itemsize)
        return summary if complete else None

    def shard(self, shard: int) -> "ShardOfPart":
        """The records that belong to one shard."""
        summary = json.loads(self._file("json").read_text(encoding="utf-8"))
        rows, offsets = summary["first_rows"], summary["first_bytes"]
        return ShardOfPart(
            self._file("records"), self._file("index"), *rows[shard : shard + 2], *offsets[shard : shard + 2]
        )

    def _file(self, suffix: str) -> Path:
        return self.folder / f"{self.number:06d}.{suffix}"


@dataclass
class ShardOfPart:
    """The records of a part that belong to one shard, read from front to back.

    Attributes:
      records, index: the part's files.
      row, last_row: the rows that are not read yet.
      offset, last_offset: the bytes that are not read yet.
    """

    records: Path
    index: Path
    row: int
    last_row: int
    offset: int
    last_offset: int

    def read(self, last_key: int) -> tuple[np.ndarray, bytes]:
        """Reads the next records, up to and including a key; returns their INDEX [n] and their bytes."""
        if self.row == self.last_row:
            return np.empty(0, INDEX), b""
        rows = np.memmap(self.index, INDEX, mode="r")[self.row : self.last_row]
        found = np.array(rows[: np.searchsorted(rows["key"], np.uint64(last_key), side="right")])
        num_bytes = int(found["size"].sum(dtype=np.int64))
        with self.records.open("rb") as file:
            file.seek(self.offset)
            records = file.read(num_bytes)
        self.row += len(found)
        self.offset += num_bytes
        return found, records


def merge_shard(
    sources: Sequence[ShardOfPart], path: Path, drop_duplicates: bool = False, pool_bytes: int | None = None
) -> Shard:
    """Writes one shard, sorted by key, from its records in each part; returns its row of the manifest.

    Equal documents make equal records with equal keys; all but one of them are left out if `drop_duplicates`.

    Memory holds about `pool_bytes` of records at a time, and their sorted copy: 8 MiB, and up to 128 for hundreds
    of sources, each of which is read for every pool.
    """
    pool_bytes = pool_bytes or _pool_bytes(len(sources))
    num_bytes = sum(source.last_offset - source.offset for source in sources)
    with path.open("wb") as file:
        writer = ShardWriter(file)
        for last_key in _range_ends(num_bytes, pool_bytes):
            indices = []
            records = bytearray()
            for source in sources:
                rows, chunk = source.read(last_key)
                indices.append(rows)
                records += chunk
            index, sorted_records = _sorted_by_key(np.concatenate(indices), records)
            repeated = _repeated(index["key"], sorted_records)
            if drop_duplicates and repeated.any():
                index = index[~repeated]
                sorted_records = [sorted_records[i] for i in np.flatnonzero(~repeated).tolist()]
            writer.write(b"".join(sorted_records))
            names = ("example_tokens", "masked_tokens", "swapped")
            totals = (index[name].sum(dtype=np.int64) for name in names)
            writer.count(len(index), *totals, repeated.sum())
        file.flush()
        os.fsync(file.fileno())
    return writer.shard(path.name)


def _pool_bytes(num_parts: int) -> int:
    """The size of the pool: large enough that many parts are not read in tiny pieces.

    >>> [_pool_bytes(num_parts) >> 20 for num_parts in (1, 1000, 100_000)]
    [8, 62, 128]
    """
    return min(max(_LEAST_POOL_BYTES, num_parts * _BYTES_PER_READ), _MOST_POOL_BYTES)


def _range_ends(num_bytes: int, pool_bytes: int) -> list[int]:
    """The last keys of equal ranges, each with about `pool_bytes` of records, since the keys are random.

    >>> [f"{key:x}" for key in _range_ends(100, 60)]
    ['7fffffffffffffff', 'ffffffffffffffff']
    """
    number = -(-num_bytes // pool_bytes) or 1
    return [((i + 1) << 64) // number - 1 for i in range(number)]


def _sorted_by_key(index: np.ndarray, records: bytearray) -> tuple[np.ndarray, list[memoryview]]:
    """Sorts the rows of concatenated records, and the records, by key; equal keys keep their order."""
    ends = np.cumsum(index["size"], dtype=np.int64)
    order = np.argsort(index["key"], kind="stable")
    view = memoryview(records)
    spans = zip((ends - index["size"])[order].tolist(), ends[order].tolist(), strict=True)
    return index[order], [view[begin:end] for begin, end in spans]


def _repeated(keys: np.ndarray, records: list[memoryview]) -> np.ndarray:
    """Whether each of the sorted records equals the one before; bool [n]."""
    repeated = np.zeros(len(keys), bool)
    for i in (np.flatnonzero(keys[1:] == keys[:-1]) + 1).tolist():
        repeated[i] = records[i] == records[i - 1]
    return repeated
