import struct

import google_crc32c
import numpy as np
import pytest

from data_prep.examples.manifest import Shard
from data_prep.prepare.parts import INDEX, Part, merge_shard


def make_parts(folder, num_shards, sizes, rng):
    """Parts of numbered records with random keys, and all of them as (key, record)."""
    everything = []
    parts = []
    for number, size in enumerate(sizes):
        keys = rng.integers(1 << 64, size=size, dtype=np.uint64)
        records = [struct.pack("<Q", key) + b"x" * int(key % 90) for key in keys]
        index = np.zeros(size, INDEX)
        index["key"], index["size"] = keys, [len(record) for record in records]
        index["example_tokens"], index["masked_tokens"], index["swapped"] = 3, 2, keys % 2
        parts.append(Part(folder, number))
        parts[-1].write(records, index, num_shards, {"number": number})
        everything += zip(keys.tolist(), records, strict=True)
    return parts, everything


@pytest.mark.parametrize("pool_bytes", [1 << 26, 5000, 300])
@pytest.mark.parametrize("num_shards", [1, 3])
def test_a_shard_is_its_records_in_the_order_of_their_keys(tmp_path, num_shards, pool_bytes):
    parts, everything = make_parts(tmp_path, num_shards, (100, 0, 1, 250), np.random.default_rng(0))
    for shard in range(num_shards):
        own = sorted((key, record) for key, record in everything if key % num_shards == shard)
        sources = [part.shard(shard) for part in parts]
        row = merge_shard(sources, tmp_path / "shard", pool_bytes=pool_bytes)
        content = b"".join(record for _, record in own)
        assert (tmp_path / "shard").read_bytes() == content
        assert row == Shard(
            file="shard",
            examples=len(own),
            bytes=len(content),
            crc32c=f"{google_crc32c.value(content):08x}",
            example_tokens=3 * len(own),
            masked_tokens=2 * len(own),
            swapped_examples=sum(key % 2 for key, _ in own),
        )


def test_a_part_is_complete_or_missing(tmp_path):
    (part,), _ = make_parts(tmp_path, 2, (50,), np.random.default_rng(0))
    assert part.summary()["number"] == 0
    assert Part(tmp_path, 1).summary() is None
    for suffix in ("records", "index", "json"):
        path = tmp_path / f"000000.{suffix}"
        content = path.read_bytes()
        path.write_bytes(content[:-1])
        assert part.summary() is None, f"{suffix} is cut off"
        path.write_bytes(content)
    assert part.summary()
