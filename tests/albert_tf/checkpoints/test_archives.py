import errno
import gzip
import io
import os
import tarfile
from pathlib import Path

import pytest

from albert_tf.checkpoints.archives import unpack
from albert_tf.checkpoints.open_model import open_model
from data_prep.errors import InputError


def member(name: str, **fields) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(info, field, value)
    return info


def archive(folder: Path, *members: tarfile.TarInfo) -> Path:
    path = folder / "model.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.addfile(member("albert/first", size=5), io.BytesIO(b"first"))
        for info in members:
            tar.addfile(info, io.BytesIO(bytes(info.size)))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("info", "message"),
    [
        (member("../outside"), "'../outside', which leads out of it"),
        (member("albert/../../outside"), "which leads out of it"),
        (member("/tmp/outside"), "'/tmp/outside', which leads out of it"),
        (member("albert/link", type=tarfile.SYMTYPE, linkname="/etc/passwd"), "a link or a device"),
        (member("albert/link", type=tarfile.LNKTYPE, linkname="first"), "a link or a device"),
        (member("albert/device", type=tarfile.CHRTYPE), "a link or a device"),
        (member("albert/bomb", size=200 << 20), "unpacks to more than 50 times its size"),
    ],
)
def test_harmful_archives_unpack_nothing(info, message, tmp_path):
    path, folder = archive(tmp_path, info), tmp_path / "unpacked"
    folder.mkdir()
    with pytest.raises(InputError, match=message):
        unpack(path, folder)
    assert not list(folder.iterdir())
    with pytest.raises(InputError, match=message):
        open_model(path)


def test_long_names_cannot_fill_the_memory(tmp_path):
    """A header that claims a gigabyte, in a file of a megabyte of zeros."""
    path = tmp_path / "model.tar.gz"
    for kind in (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME):
        info = member("long", type=kind, size=1 << 30)
        path.write_bytes(gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20)))
        with pytest.raises(InputError, match="holds a name of 1,073,741,824 bytes"):
            open_model(path)


def test_damaged_archives(tmp_path):
    whole = archive(tmp_path, member("albert/second", size=100_000)).read_bytes()
    path = tmp_path / "model.tar.gz"
    for content in (whole[:60], b"no archive", b""):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"model.tar.gz is not a complete tar archive"):
            open_model(path)


@pytest.mark.parametrize("headers", [{"GNU.sparse.size": "abc"}, {"GNU.sparse.map": "a,b"}])
def test_damaged_headers(headers, tmp_path):
    path = tmp_path / "model.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(member("sparse", pax_headers=headers))
    with pytest.raises(InputError, match="model.tar is not a complete tar archive"):
        open_model(path)


def test_a_full_disk_is_no_damaged_archive(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("shutil.copyfileobj", full)
    with pytest.raises(
        InputError, match=r"model.tar.gz cannot be read or unpacked: No space left on device\."
    ):
        open_model(archive(tmp_path))


def test_messages_name_the_archive(tmp_path):
    path = archive(tmp_path)
    with pytest.raises(InputError, match=f"There is no model in the folder {path}"):
        open_model(path)


def test_unpacks_files_and_folders(tmp_path):
    (tmp_path / "unpacked").mkdir()
    unpack(archive(tmp_path, member("albert/deep", type=tarfile.DIRTYPE, mode=0o755)), tmp_path / "unpacked")
    assert (tmp_path / "unpacked" / "albert" / "first").read_bytes() == b"first"
    assert (tmp_path / "unpacked" / "albert" / "deep").is_dir()


def test_chains_of_folders_count(tmp_path):
    names = [f"{i}/" + "a/" * 17 + "b" for i in range(600)]
    with pytest.raises(InputError, match="holds more than 10,000 files and folders"):
        unpack(archive(tmp_path, *(member(name, type=tarfile.DIRTYPE) for name in names)), tmp_path)


def test_modes_and_owners_are_not_unpacked(tmp_path):
    (tmp_path / "unpacked").mkdir()
    unpack(archive(tmp_path, member("albert/run", size=1, mode=0o6777, uid=12345)), tmp_path / "unpacked")
    found = (tmp_path / "unpacked" / "albert" / "run").stat()
    assert (found.st_mode & 0o6111, found.st_uid) == (0, os.getuid())
