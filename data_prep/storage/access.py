"""Reaches object stores through fsspec: outages are retried, every other failure becomes one sentence.

All other files of this folder call `attempt`. fsspec, and the package of a scheme, are imported on first use.
"""

import logging
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from data_prep.errors import InputError, disk_full, first_line, needs_extra

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

T = TypeVar("T")
PATIENCE = (
    60.0  # seconds from the first failure until an outage is reported; s3fs and gcsfs retry before it, too
)
_LONGEST_PAUSE = 10.0  # seconds
# For a scheme: package, extra, and where its credentials come from.
_S3 = ("s3fs", "s3", "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
_GCS = (
    "gcsfs",
    "gcs",
    "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to a key file",
)
_BUCKETS = {"s3": _S3, "s3a": _S3, "gs": _GCS, "gcs": _GCS}
# Classes of errors by name, as their packages may be missing. The first two lists have no HTTP status.
_NO_CREDENTIALS = {
    *("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound", "TokenRetrievalError"),
    *("SSOTokenLoadError", "UnauthorizedSSOTokenError", "DefaultCredentialsError", "RefreshError"),
}
_OUTAGES = {
    *("OSError", "HTTPClientError", "ResponseStreamingError", "EndpointConnectionError"),  # botocore
    *(
        "ClientError",
        "TransportError",
        "ChecksumError",
        "RequestException",
    ),  # aiohttp, google.auth, gcsfs, requests
}
_PASSING = {408, 409, 425, 429}  # HTTP: too slow, two at a time, too early, too many


class StorageError(InputError):
    """An object store did not answer, or not with the whole file, for about a minute."""


class MissingFileError(InputError):
    """Nothing is stored at an address."""


def attempt(url: str, action: Callable[["AbstractFileSystem", str], T]) -> T:
    """Calls `action(file_system, path)`, again and again during an outage.

    The action must be safe to repeat: one whole read or write. Errors of the local disk pass through, as does
    the FileExistsError of an exclusive creation.

    Args:
      url: SCHEME://BUCKET/NAME, or any other address that fsspec reads.
      action: receives the file system and the path without the scheme.

    Raises:
      StorageError: the outage lasts longer than `PATIENCE`.
      MissingFileError: there is no such file.
      InputError: an unknown scheme, a missing package, missing credentials, a missing bucket, a refused request.
    """
    file_system, path = _open(url)
    first, pause = None, 1.0
    while True:
        try:
            return action(file_system, path)
        except (InputError, FileExistsError):
            raise
        except FileNotFoundError:
            _check_bucket(url, file_system, path)
            raise MissingFileError(f"{url} must exist. There is no such file.") from None
        except Exception as error:
            if disk_full(error) or getattr(error, "filename", None):
                raise  # of this machine: errors of servers name no file
            _raise_lasting(url, error)
            first = first or time.monotonic()
            if time.monotonic() - first >= PATIENCE:
                raise StorageError(
                    f"{url} could not be reached for {time.monotonic() - first:.0f} seconds: {_words(error)}. Run "
                    "the same command again when the store answers."
                ) from None
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def in_bucket(url: str) -> bool:
    """Whether an address is on S3 or GCS, which have no folders to create and write each file whole or not."""
    return url.partition("://")[0].lower() in _BUCKETS


def _open(url: str) -> tuple["AbstractFileSystem", str]:
    """The file system of an address, and the path in it."""
    import fsspec

    scheme = url.partition("://")[0].lower()
    # Of Google's "zonal" buckets, for which gcsfs would ask about every bucket, over gRPC.
    os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    logging.getLogger("gcsfs").setLevel(logging.CRITICAL)  # it logs a traceback for each error that it raises
    try:
        if scheme in _BUCKETS:
            package, extra, _ = _BUCKETS[scheme]
            with needs_extra(f"{scheme}://", package, extra):
                fsspec.get_filesystem_class(scheme)
        # Other machines write there, too: no listing is kept.
        return fsspec.core.url_to_fs(url, use_listings_cache=False)
    except InputError:
        raise
    except ImportError as error:
        raise InputError(f"{url} needs a package that is not installed: {_words(error)}.") from None
    except Exception as error:  # an unknown scheme, or a malformed address or setting
        _raise_lasting(url, error)
        raise InputError(f"{url} cannot be opened: {_words(error)}.") from None


def _check_bucket(url: str, file_system: "AbstractFileSystem", path: str) -> None:
    """Raises InputError if the bucket itself does not exist."""
    scheme, bucket = url.partition("://")[0], path.partition("/")[0]
    if not in_bucket(url):
        return
    for look in (file_system.info, file_system.ls):  # rights to one of them need not be rights to the other
        try:
            look(bucket)
            return
        except FileNotFoundError:
            continue
        except Exception:  # it exists, and refuses
            return
    raise InputError(f"The bucket {scheme}://{bucket} must exist. It does not.")


def _raise_lasting(url: str, error: Exception) -> None:
    """Raises InputError if a repetition would end in the same error."""
    classes = {base.__name__ for base in type(error).__mro__}
    status = _http_status(error)
    if (
        status in (401, 403)
        or isinstance(error, PermissionError)
        or classes & _NO_CREDENTIALS
        or str(error).startswith("Forbidden:")  # gcsfs
    ):
        *_, advice = _BUCKETS.get(url.partition("://")[0].lower(), ("set the credentials of this scheme",))
        raise InputError(
            f"{url} refuses access: {_words(error)}. Its credentials must allow this; {advice}."
        ) from None
    if (
        isinstance(error, ValueError | NotImplementedError)  # the second: a scheme that is only read
        or ("BotoCoreError" in classes and not classes & _OUTAGES)
        or (status is not None and 400 <= status < 500 and status not in _PASSING)
    ):
        raise InputError(f"{url} cannot be used: {_words(error)}.") from None
    if not classes & _OUTAGES and status is None:
        raise error  # a defect


def _http_status(error: BaseException) -> int | None:
    """The server's answer behind an error of s3fs (which has it in the cause), gcsfs or aiohttp."""
    for one in (error, error.__cause__):
        response: Any = getattr(one, "response", None)
        if isinstance(response, dict):
            return response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        for number in (getattr(one, "status", None), getattr(one, "code", None)):
            if str(number).isdigit():
                return int(str(number))
    return None


def _words(error: BaseException) -> str:
    return first_line(error).rstrip(".")
