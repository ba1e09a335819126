"""Shards, put together by a cluster: a slice is a range of keys that one worker sorts in memory.

((shard, slice), rows) --write_slice--> (shard, slice file) ... --write_shard--> shard file, row of the manifest
"""

import uuid
from pathlib import PurePosixPath

import google_crc32c

from data_prep.examples.manifest import Shard
from data_prep.prepare.beam_files import open_file

_COPIED_TOGETHER = 8 << 20  # bytes


def write_slice(placed, scratch: str):
    """((shard, slice), rows): sorts the records and writes them; gives (shard, (slice, file, numbers))."""
    (shard, number), rows = placed
    found = sorted(filter(None, rows), key=lambda row: row[0])
    # A name of its own, since a cluster may do the same work twice.
    name = f"{scratch}/slice-{uuid.uuid4().hex}"
    with open_file(name, "w") as file:
        file.write(b"".join(record for _, record, _ in found))
    totals = [sum(numbers) for numbers in zip(*(numbers for *_, numbers in found), strict=True)] or [0, 0, 0]
    return shard, (number, name, len(found), *totals)


def write_shard(gathered, scratch: str, outputs: list[str]):
    """(shard, slices): puts the shard together; gives (shard, file, its row of the manifest)."""
    shard, slices = gathered
    name = f"{scratch}/shard-{uuid.uuid4().hex}"
    crc = num_bytes = 0
    examples = example_tokens = masked_tokens = swapped = 0
    with open_file(name, "w") as file:
        for _, slice_name, *numbers in sorted(slices):
            with open_file(slice_name) as records:
                while chunk := records.read(_COPIED_TOGETHER):
                    crc = google_crc32c.extend(crc, chunk)
                    num_bytes += len(chunk)
                    file.write(chunk)
            examples += numbers[0]
            example_tokens += numbers[1]
            masked_tokens += numbers[2]
            swapped += numbers[3]
    file_name = PurePosixPath(outputs[shard]).name
    row = Shard(file_name, examples, num_bytes, f"{crc:08x}", example_tokens, masked_tokens, swapped)
    return shard, name, row
