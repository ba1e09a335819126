import bz2
import gzip
import lzma
import os
import random
import sys
import threading
import tracemalloc
from pathlib import Path

import pytest

from data_prep.errors import InputError
from data_prep.text.documents import MAX_SENTENCES, read_documents
from data_prep.text.sources import InputFile, expand_files, input_size


def packed(suffix: str, raw: bytes) -> bytes:
    if suffix == ".zst":
        zstd = pytest.importorskip("backports.zstd", reason="no zstd: pip install '.[zstd]'")
        return zstd.compress(raw)
    return {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}[suffix](raw)


def incompressible(lines: int) -> bytes:
    rng = random.Random(0)
    return b"".join(b"%x %x.\n" % (rng.getrandbits(200), rng.getrandbits(200)) for _ in range(lines))


SUFFIXES = ["", ".gz", ".bz2", ".xz", ".zst"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_compressed_text_equals_text(tmp_path, suffix):
    path = tmp_path / f"text.txt{suffix}"
    path.write_bytes(
        packed(suffix, b"Emma ist sch") + packed(suffix, "ön.\nJa.\n\nTwo.".encode())
    )  # two streams
    lines, prose = [("Emma ist schön.", "Ja."), ("Two.",)], [("Emma ist schön.", "Ja.", "Two.")]
    for input_format, expected in (("lines", lines), ("prose", prose)):
        documents = list(read_documents([path], input_format))
        assert [document.sentences for document in documents] == expected
        assert sum(document.num_bytes for document in documents) == input_size(path) == path.stat().st_size


@pytest.mark.parametrize("suffix", SUFFIXES[1:])
def test_damaged_files_are_reported_with_the_byte(tmp_path, suffix):
    whole = packed(suffix, incompressible(5000))
    (tmp_path / "fine.txt").write_text("One.\nTwo.\n\n")
    path = tmp_path / f"text.txt{suffix}"
    for damaged in (whole[: len(whole) // 2], b"Plain text, and not packed.\n" * 9):
        path.write_bytes(damaged)
        documents = read_documents([tmp_path / "fine.txt", path])
        assert next(documents).sentences == ("One.", "Two.")
        message = rf"text\.txt\{suffix} is not a complete \{suffix} file.* before byte \d+, after \d+ bytes"
        with pytest.raises(InputError, match=message):
            list(documents)


def test_a_flipped_bit_is_reported(tmp_path):
    whole = bytearray(gzip.compress(incompressible(5000)))
    whole[len(whole) // 2] ^= 0x10
    (tmp_path / "a.gz").write_bytes(whole)
    with pytest.raises(InputError, match=r"a\.gz is not a complete .* byte \d+"):
        list(read_documents([tmp_path / "a.gz"]))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_empty_texts(tmp_path, suffix):
    path = tmp_path / f"empty{suffix}"
    path.write_bytes(packed(suffix, b""))
    with pytest.raises(InputError, match="is empty"):
        list(read_documents([path]))


@pytest.mark.very_slow
def test_memory_does_not_grow_with_the_file(tmp_path):
    """The worst case: no blank line."""
    path = tmp_path / "long.txt.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(60):
            file.write(b"One sentence of some length, as they are.\n" * 5_000)
    tracemalloc.start()
    try:
        documents = [len(document.sentences) for document in read_documents([path])]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert documents == [MAX_SENTENCES] * 30
    assert peak < 6e6  # bytes, of 13 MB of text


@pytest.mark.slow
def test_long_prose_is_cut_between_paragraphs(tmp_path):
    (tmp_path / "t").write_text("One here. Two here. Three here.\n\n" * 8000)
    (tmp_path / "u").write_text("One here.\n" * 300_000)  # a single paragraph
    first, second, third = read_documents([tmp_path / "t"], "prose")
    assert (len(first.sentences), first.source) == (10_002, f"{tmp_path}/t")
    assert (len(second.sentences), second.source) == (10_002, f"{tmp_path}/t")
    assert first.num_bytes + second.num_bytes + third.num_bytes == input_size(tmp_path / "t")
    pieces = [len(document.sentences) for document in read_documents([tmp_path / "u"], "prose")]
    assert sum(pieces) == 300_000
    assert len(pieces) == 6


def test_one_very_long_line(tmp_path):
    (tmp_path / "t").write_text("A few words again. " * 300_000)
    documents = list(read_documents([tmp_path / "t"]))
    assert sum(document.num_characters for document in documents) > 5_000_000
    assert max(document.num_characters for document in documents) <= 1_000_000
    pieces = [len(document.sentences) for document in read_documents([tmp_path / "t"], "prose")]
    assert len(pieces) == 6
    assert 300_000 <= sum(pieces) <= 300_012  # a sentence at the end of each half million characters is cut


def test_standard_input(standard_input):
    standard_input(b"One.\nTwo.\n\nThr\xffee.")
    paths = expand_files("-")
    assert paths == [Path("-")]
    assert input_size(paths[0]) == 0
    documents = read_documents(paths)
    assert next(documents).source == "standard input, line 1"
    with pytest.raises(InputError, match="standard input has the byte 0xff at offset 14"):
        next(documents)
    standard_input(b"")
    with pytest.raises(InputError, match="standard input is empty"):
        list(read_documents(paths))


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_pipes(tmp_path, suffix):
    """As from a shell's <(zcat ...)."""
    pipe = tmp_path / f"pipe{suffix}"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(packed(suffix, b"One.\nTwo.\n")))
    writer.start()
    assert [document.sentences for document in read_documents(expand_files(str(pipe)))] == [("One.", "Two.")]
    writer.join()


def test_a_scheme_that_nothing_reads():
    with pytest.raises(InputError, match="nope://bucket/text.txt cannot be used: Protocol not known"):
        expand_files("nope://bucket/text.txt")


def test_zstd_with_a_long_window(tmp_path):
    """As `zstd --long=28` writes, and `zstd` reads with --long only."""
    zstd = pytest.importorskip("backports.zstd", reason="no zstd: pip install '.[zstd]'")
    with zstd.open(tmp_path / "a.zst", "wb", options={zstd.CompressionParameter.window_log: 28}) as file:
        file.write(b"One.\nTwo.\n")
    with InputFile(tmp_path / "a.zst") as file:
        assert list(file) == [b"One.\n", b"Two.\n"]


def test_missing_zstd(tmp_path, monkeypatch):
    (tmp_path / "a.zst").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "compression", None)
    monkeypatch.setitem(sys.modules, "backports", None)
    with pytest.raises(InputError, match=r"pip install '.\[zstd\]'"):
        InputFile(tmp_path / "a.zst")


def test_files_that_cannot_be_opened(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("One.")

    def refused(*arguments, **keywords):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refused)  # the tests may run as root
    with pytest.raises(InputError, match="a cannot be opened: Permission denied"):
        InputFile(tmp_path / "a")
