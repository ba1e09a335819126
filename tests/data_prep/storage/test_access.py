"""Outages are retried; each failure that lasts is one sentence."""

import errno
import sys

import pytest

from data_prep.errors import InputError
from data_prep.storage import access
from data_prep.storage.access import MissingFileError, StorageError, attempt


@pytest.fixture(autouse=True)
def pauses(monkeypatch):
    """The pauses between attempts, which take no time."""
    now, taken = [0.0], []

    def sleep(seconds):
        taken.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(access.time, "sleep", sleep)
    monkeypatch.setattr(access.time, "monotonic", lambda: now[0])
    return taken


def failing(*errors):
    """An action that raises the errors one after the other, and then answers."""
    waiting = list(errors)

    def action(file_system, path):
        if waiting:
            raise waiting.pop(0)
        return "answer"

    return action


def with_status(status, code="x", kind=OSError):
    """An error as s3fs raises it, with botocore's as its cause."""
    cause, error = Exception(), kind("words of the server")
    cause.response = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    error.__cause__ = cause
    return error


def named(name, message="words", **attributes):
    return type(name, (Exception,), attributes)(message)


@pytest.mark.parametrize(
    "error",
    [
        *(ConnectionResetError(), TimeoutError(), OSError("cut"), with_status(503), with_status(429)),
        *(named("HttpError", code=503), named("ClientResponseError", status=500), named("ClientError")),
        *(named("HTTPClientError"), named("TransportError"), named("ChecksumError")),
        type("EndpointConnectionError", (type("BotoCoreError", (Exception,), {}),), {})("refused"),
    ],
)
def test_an_outage_is_retried(error, url, pauses):
    assert attempt(url, failing(error, error, error)) == "answer"
    assert pauses == [1, 2, 4]


def test_a_long_outage_is_one_sentence(url, pauses):
    with pytest.raises(
        StorageError, match=rf"^{url} could not be reached for \d+ seconds: cut\. Run the same"
    ):
        attempt(url, failing(*[OSError("cut")] * 100))
    assert access.PATIENCE <= sum(pauses) <= access.PATIENCE + 10


@pytest.mark.parametrize(
    "error",
    [
        *(with_status(403, kind=PermissionError), named("HttpError", code=401), with_status(401)),
        *(OSError("Forbidden: b/o\nwords"), named("NoCredentialsError"), named("DefaultCredentialsError")),
    ],
)
@pytest.mark.parametrize("scheme, advice", [("s3", "AWS_PROFILE"), ("gs", "gcloud auth")])
def test_refused_access(error, scheme, advice, url, pauses, monkeypatch):
    opened = access._open(url)
    monkeypatch.setattr(access, "_open", lambda url: opened)
    with pytest.raises(InputError, match=rf"^{scheme}://bucket/x refuses access: .*; .*{advice}.*\.$"):
        attempt(f"{scheme}://bucket/x", failing(error))
    assert not pauses


@pytest.mark.parametrize(
    "error",
    [with_status(400), ValueError("words"), NotImplementedError("words"), named("HttpError", code=416)],
)
def test_a_refused_request_is_not_repeated(error, url, pauses):
    with pytest.raises(InputError, match=f"^{url} cannot be used: words"):
        attempt(url, failing(error))
    assert not pauses


def test_what_passes_through(url):
    """Errors of this machine, of exclusive creation, and defects."""
    full = OSError(errno.ENOSPC, "No space left on device")
    local = PermissionError(errno.EACCES, "Permission denied", "/cache/file")
    for error in (full, local, FileExistsError(), TypeError("a defect"), MissingFileError("x")):
        with pytest.raises(type(error)) as raised:
            attempt(url, failing(error))
        assert raised.value is error


def test_nothing_is_there(url):
    with pytest.raises(MissingFileError, match=f"^{url} must exist. There is no such file.$"):
        attempt(url, lambda file_system, path: file_system.cat_file(path))


@pytest.mark.parametrize("scheme, package, extra", [("s3", "s3fs", "s3"), ("gs", "gcsfs", "gcs")])
def test_a_missing_package(scheme, package, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    from fsspec.registry import _registry

    for name in (scheme, "s3a", "gcs"):
        monkeypatch.delitem(_registry, name, raising=False)
    with pytest.raises(
        InputError, match=rf"^{scheme}:// needs the package {package}.*pip install '\.\[{extra}\]'"
    ):
        attempt(f"{scheme}://bucket/name", failing())


def test_an_unknown_scheme():
    with pytest.raises(
        InputError, match="^nowhere://bucket/name cannot be .*: Protocol not known: nowhere.$"
    ):
        attempt("nowhere://bucket/name", failing())
    with pytest.raises(InputError, match="^adl://bucket/name needs a package that is not installed: .*adlfs"):
        attempt("adl://bucket/name", failing())
