"""What `albert doctor` finds, also on stores that lack something, and that nothing stays behind."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from data_prep.storage import doctor
from data_prep.storage.doctor import STEPS, examine
from data_prep.storage.objects import files_below, write
from tests.data_prep.storage.servers import Front, s3_server

ALL = ["list", "write", "read", "find what was written", "create only once", "lock", "upload", "download"]


def failing(findings):
    return {finding.name: finding.detail for finding in findings if finding.works is False}


def test_a_store_that_can_everything(url):
    steps = []
    findings = examine(url, lambda file: b"written by albert doctor\n", lambda: steps.append(1))
    assert [finding.name for finding in findings] == [*ALL, "read by TensorFlow", "remove"]
    assert all(finding.works for finding in findings)
    assert findings[0].detail == "nothing is stored there yet" and findings[6].detail.endswith(" MB/s")
    assert len(steps) == STEPS
    assert not files_below(url)


def test_what_other_files_are_there_stays(url):
    write(f"{url}/file", b"mine")
    findings = examine(url)
    assert findings[0].detail == "1 entry" and not failing(findings)
    assert list(files_below(url)) == ["file"]


def test_a_store_that_creates_a_file_twice(url, monkeypatch):
    def create(file, content):
        write(file, content)
        return True

    monkeypatch.setattr(doctor, "create", create)
    findings = examine(url)
    assert list(failing(findings)) == ["create only once"]
    assert not files_below(url)


def test_a_store_that_tensorflow_reads_otherwise(url):
    def refuse(file):
        raise RuntimeError("no such bucket\nmore")

    assert failing(examine(url, refuse)) == {"read by TensorFlow": "RuntimeError: no such bucket"}


def test_ctrl_c(url, monkeypatch):
    def interrupted(path, address):
        assert files_below(url)
        raise KeyboardInterrupt

    monkeypatch.setattr(doctor, "upload", interrupted)
    with pytest.raises(KeyboardInterrupt):
        examine(url)
    assert not files_below(url)


@pytest.fixture(scope="module")
def s3():
    """An S3 server with a bucket, behind a proxy."""
    for package in ("s3fs", "moto", "flask"):
        pytest.importorskip(package, reason=f"{package} is for tests of s3://")
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}
    with s3_server() as port, Front(port).running() as front, pytest.MonkeyPatch.context() as environment:
        for name, value in (keys | {"AWS_ENDPOINT_URL": front.url}).items():
            environment.setenv(name, value)
        doctor.attempt("s3://bucket", lambda file_system, path: file_system.mkdir(path))
        yield front


@pytest.mark.very_slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
class TestOnS3:
    @pytest.fixture(autouse=True)
    def one_after_the_other(self, monkeypatch):
        """Moto looks whether a file exists and writes it in two steps, unlike S3."""
        monkeypatch.setattr(doctor, "ThreadPoolExecutor", lambda number: ThreadPoolExecutor(1))
        barrier = threading.Barrier
        monkeypatch.setattr(doctor.threading, "Barrier", lambda number: barrier(1))

    def test_all_works(self, s3):
        s3.inject("", "", 0)
        findings = examine("s3://bucket/new")
        assert [finding.name for finding in findings if finding.works] == [*ALL, "remove"]
        assert not files_below("s3://bucket")

    def test_refused_credentials(self, s3):
        s3.inject(".", "403", 1000)
        found = failing(examine("s3://bucket/new"))
        assert list(found) == ["list", "write"]
        assert all("refuses access" in detail and "AWS_PROFILE" in detail for detail in found.values())

    def test_a_missing_bucket(self, s3):
        s3.inject("", "", 0)
        findings = examine("s3://elsewhere/new")
        assert failing(findings) == {"list": "The bucket s3://elsewhere must exist. It does not."}
        assert [finding.works for finding in findings] == [False, None, None]

    def test_a_bucket_to_read_from(self, s3):
        s3.inject("", "", 0)
        write("s3://bucket/there", b"content")
        s3.inject("^(PUT|POST|DELETE)", "403", 1000)
        findings = examine("s3://bucket")
        assert list(failing(findings)) == ["write"]
        assert findings[-1] == ("read", True, "s3://bucket/there")

    def test_no_right_to_remove(self, s3):
        s3.inject("^(DELETE|POST)", "403", 1000)
        found = failing(examine("s3://bucket/kept"))
        assert list(found) == ["remove"]
        assert "refuses access" in found["remove"]
