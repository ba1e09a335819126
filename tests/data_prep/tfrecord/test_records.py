import gzip

import pytest
import tensorflow as tf

from data_prep.errors import InputError
from data_prep.tfrecord.records import count_examples, read_records

PAYLOADS = [b"first", b"", b"third" * 7]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "three.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for payload in PAYLOADS:
            writer.write(payload)
    return path


def read_all(paths):
    return [payload for path in paths for payload in read_records(path)]


def test_whole_files(file, tmp_path):
    packed = tmp_path / "packed"  # recognized by content, not by name
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert count_examples([file, packed]) == [3, 3]
    assert list(read_records(file)) == list(read_records(packed)) == PAYLOADS


def test_cut_off_at_every_byte(file):
    raw = file.read_bytes()
    ends = [0, 21, 37, 88]
    assert len(raw) == ends[-1]
    for length in range(1, len(raw)):
        file.write_bytes(raw[:length])
        if length in ends:
            assert count_examples([file]) == [ends.index(length)] == [len(list(read_records(file)))]
            continue
        begin = max(end for end in ends if end < length)
        for read in (count_examples, read_all):
            with pytest.raises(InputError, match=rf"three.tfrecord.*at byte {begin}\b"):
                read([file])


@pytest.mark.parametrize("place", [0, 7, 8, 21, 28, 37, 44])
def test_damaged_lengths(file, place):
    raw = bytearray(file.read_bytes())
    raw[place] ^= 0x10
    file.write_bytes(raw)
    record = max(begin for begin in (0, 21, 37) if begin <= place)
    for read in (count_examples, read_all):
        with pytest.raises(InputError, match=f"no record at byte {record}"):
            read([file])


def test_other_files(tmp_path):
    path = tmp_path / "other"
    for raw, message in [
        (b"", "is empty"),
        (b"One sentence. Another sentence.\n" * 9, "no record at byte 0"),
        (b"short", "byte 0"),
        (gzip.compress(b""), "is empty"),
        (gzip.compress(b"text" * 99)[:-9], "damaged GZIP file: .* was reached. Copy it again"),
        (b"\x1f\x8bnonsense", "damaged GZIP"),
    ]:
        path.write_bytes(raw)
        with pytest.raises(InputError, match=message):
            count_examples([path])
        with pytest.raises(InputError):
            read_all([path])
    with pytest.raises(InputError, match="no TFRecord file"):
        count_examples([tmp_path / "none"])
