"""Downloads a model to a cache: from the Hugging Face Hub, from Kaggle, or as an archive at a web address.

Nothing that is downloaded is run, and nothing is written outside the caches.
"""

import glob
import hashlib
import http.client
import re
import tempfile
import urllib.error
import urllib.request
from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, NoReturn, cast
from urllib.parse import quote, urlsplit

import msgspec
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from albert_tf.checkpoints import archives
from data_prep.console import no_clock, open_console
from data_prep.errors import InputError, first_line, needs_extra
from data_prep.files import CACHE, as_record, cache_folder, decode_json

SCHEMES = ("hf", "https", "http", "kaggle")
_HUB_FILES = [
    *("*.json", "spiece.model", "vocab.txt", "assets/tokenizer/*", "task.weights.h5"),
    *(
        "[0-9]_*/spiece.model",
        "[0-9]_*/*.safetensors",
        "[0-9]_*/pytorch_model.bin",
    ),  # of sentence-transformers
]
PORTABLE_FACTS = "portable.json"  # in the folder of a portable model
_PORTABLE_FILES = ["model.onnx", "offsets.npz", "spm.model"]
_HUB_WEIGHTS = ["model*.safetensors", "model.weights.h5"]
# For a repository without these weights: an older Hugging Face directory, a .keras file, a checkpoint or a
# SavedModel.
_OTHER_HUB_FILES = [
    "pytorch_model*.bin",
    "*.keras",
    "*.ckpt*",
    "saved_model.pb",
    "variables/*",
    "assets/*",
    "*.model",
    "*vocab*.txt",
]
# The files of all formats that this library reads or writes.
FILES_OF_MODELS = (
    *_HUB_FILES,
    *_HUB_WEIGHTS,
    *_PORTABLE_FILES,
    *_OTHER_HUB_FILES,
    *("fingerprint.pb", "*.onnx", "*.tflite"),
)
_MOST_BYTES = 8 << 30  # no archive of an ALBERT is larger
_BLOCK = 1 << 20  # bytes
_TIMEOUT = 60  # seconds without an answer
# A relative path without "..", backslashes and control characters.
_Name = Annotated[str, msgspec.Meta(pattern=r"^(?!/)(?!(.*/)?\.\.(/|$))[^\x00-\x1f\\]+$")]


def needed_files(names: Collection[str]) -> list[str]:
    """Of the names of the files in a folder, those that the model in it needs, in whatever format."""
    is_portable = PORTABLE_FACTS in names
    has_weights = any(fnmatchcase(name, pattern) for pattern in _HUB_WEIGHTS for name in names)
    others = _PORTABLE_FILES if is_portable else _HUB_WEIGHTS if has_weights else _OTHER_HUB_FILES
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in [*_HUB_FILES, *others])]


def download(address: str) -> Path:
    """Downloads the files of a model, or finds them in the cache.

    Args:
      address: `hf://OWNER/NAME` or `hf://OWNER/NAME@REVISION`; `https://` or `http://` of a tar archive,
        compressed or not; or `kaggle://OWNER/MODEL/FRAMEWORK/VARIATION`.

    Returns:
      The folder in the cache of huggingface_hub, of this library (see `cache_folder`), or of kagglehub.

    Raises:
      InputError: the address is wrong, or nothing can be downloaded from it.
    """
    scheme, _, rest = address.partition("://")
    with no_clock():  # a download has a bar of its own
        if scheme == "hf":
            return _download_from_hub(address, *repository_of(address))
        if scheme in ("https", "http"):
            return _download_archive(address)
        return _download_from_kaggle(address, rest)


def is_cached(address: str) -> bool:
    """Whether the cache of huggingface_hub holds the weights of `hf://OWNER/NAME`."""
    import huggingface_hub

    repository, _ = repository_of(address)
    files = ("model.safetensors", "pytorch_model.bin")
    return any(isinstance(huggingface_hub.try_to_load_from_cache(repository, file), str) for file in files)


def _hub_failures() -> tuple[type[Exception], ...]:
    """The errors of huggingface_hub if the Hub cannot be reached or refuses."""
    from huggingface_hub import errors

    # The HTTP library underneath has its own errors, and differs between releases.
    http_errors = cast(tuple[type[Exception], ...], errors.HfHubHTTPError.__bases__)
    return (OSError, errors.HFValidationError, *http_errors)


def repository_of(address: str) -> tuple[str, str | None]:
    """Repository and revision of an address on the Hub.

    Raises:
      InputError: it is not one.
    """
    repository, _, revision = address.removeprefix("hf://").partition("@")
    owner, _, name = repository.partition("/")
    if not address.startswith("hf://") or not owner or not name or "/" in name:
        raise InputError(f"An address on the Hub is hf://OWNER/NAME. Received {address}.")
    return repository, revision or None


@dataclass(frozen=True)
class _HubFile:
    rfilename: _Name


@dataclass(frozen=True)
class _HubRepository:
    """The part of the Hub's answer about a repository that is needed here."""

    id: str
    sha: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{40}$")]  # names a folder of the cache
    siblings: tuple[_HubFile, ...]


def _download_from_hub(address: str, repository: str, revision: str | None) -> Path:
    """HF_ENDPOINT, HF_HOME, HF_TOKEN and HF_HUB_OFFLINE mean what they mean to huggingface_hub."""
    import huggingface_hub
    from huggingface_hub.utils import filter_repo_objects

    def snapshot(patterns: list[str]) -> Path:
        if names is not None:
            found = filter_repo_objects(names, allow_patterns=patterns)
            patterns = [glob.escape(name) for name in found]
        return Path(
            huggingface_hub.snapshot_download(
                repository, revision=revision, allow_patterns=patterns, local_files_only=silence is not None
            )
        )

    names: list[str] | None = None
    silence: Exception | None = None
    try:
        try:
            names = _names_on_hub(repository, revision or "main")
        except _hub_failures() as error:  # the snapshot reports it, or finds the files in the cache
            silence = error if "Timeout" in type(error).__name__ else None  # a snapshot would wait for ever
        folder = snapshot(_HUB_FILES + _HUB_WEIGHTS)
        if (folder / PORTABLE_FACTS).exists():
            snapshot(_PORTABLE_FILES)
        elif not any(match for pattern in _HUB_WEIGHTS for match in folder.glob(pattern)):
            folder = snapshot(_HUB_FILES + _OTHER_HUB_FILES)
    except Exception as error:  # of any class, if something other than the Hub answers
        command = f"`hf download {repository} --local-dir={repository.split('/')[1]}`"
        _fail(address, silence or error, f"run {command} elsewhere and name the folder", "HF_HOME")
    return folder


def _names_on_hub(repository: str, revision: str) -> list[str]:
    """The names of the files in a repository.

    Raises:
      One of `_hub_failures`: the Hub does not answer, or refuses.
      InputError: something else answers, such as the login page of a network, or a name leads out of its folder.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

    url = f"{HfApi().endpoint}/api/models/{repository}/revision/{quote(revision, safe='')}"
    answer = get_session().get(url, headers=build_hf_headers(), timeout=_TIMEOUT)
    hf_raise_for_status(answer)
    where = f"the Hub's answer from {url}"
    content = decode_json(answer.content.decode(errors="replace"), where)
    return [file.rfilename for file in as_record(_HubRepository, content, where).siblings]


def _download_from_kaggle(address: str, handle: str) -> Path:
    """KAGGLEHUB_CACHE, KAGGLE_USERNAME and KAGGLE_KEY mean what they mean to kagglehub."""
    with needs_extra(address, "kagglehub", "kaggle"):
        import kagglehub
    try:
        return Path(kagglehub.model_download(handle))
    except Exception as error:  # kagglehub's errors have no common class
        page = f"https://www.kaggle.com/models/{'/'.join(handle.split('/')[:2])}"
        _fail(address, error, f"get it from {page} elsewhere and name the folder", "KAGGLEHUB_CACHE")


def _download_archive(address: str) -> Path:
    """Downloads a tar archive and unpacks it into the cache; the archive itself is not kept."""
    name = re.sub(r"[^\w.-]", "_", urlsplit(address).path.rpartition("/")[2]) or "model"
    digest = hashlib.sha256(address.encode()).hexdigest()[:12]
    folder = cache_folder() / f"{name.split('.')[0]}-{digest}"
    if folder.exists():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
            archive, content = Path(temporary, "archive"), Path(temporary, "content")
            _fetch(address, archive)
            content.mkdir()
            _unpack(archive, content, address).rename(folder)
    except InputError:
        raise
    except (OSError, http.client.HTTPException, ValueError) as error:
        if not folder.exists():  # if it exists, another process was faster
            _fail(address, error, "download it elsewhere and name the file", CACHE)
    return folder


def _fetch(address: str, file: Path) -> None:
    """Downloads a file with a progress bar.

    Raises:
      InputError: it is too large, or the server redirects from https:// to an unsafe address.
      OSError, HTTPException, ValueError: it cannot be downloaded or written completely.
    """
    request = urllib.request.Request(address, headers={"User-Agent": "albert_tf"})
    opener = urllib.request.build_opener(_Redirects)
    with opener.open(request, timeout=_TIMEOUT) as response, file.open("wb") as output:
        total, done = response.length, 0
        with _progress_bar() as bar:
            task = bar.add_task(urlsplit(address).path.rpartition("/")[2], total=total)
            while block := response.read(_BLOCK):
                done += len(block)
                if max(done, total or 0) > _MOST_BYTES:
                    raise InputError(f"{address} has more than {_MOST_BYTES:,} bytes, which no ALBERT has.")
                output.write(block)
                bar.update(task, completed=done)
        if total is not None and done < total:
            raise OSError(f"the connection broke after {done:,} of {total:,} bytes")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects from https to another scheme, whose answers anyone on the way may replace."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise InputError(f"{req.full_url} redirects to an address without https: {newurl}.")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _progress_bar() -> Progress:
    """A bar on standard error; nothing if that is not a terminal."""
    console = open_console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def _unpack(archive: Path, folder: Path, address: str) -> Path:
    try:
        return archives.unpack(archive, folder)
    except InputError as error:
        raise InputError(str(error).replace(str(archive), address)) from None


def _fail(address: str, error: Exception, remedy: str, cache: str) -> NoReturn:
    reason = error.reason if type(error) is urllib.error.URLError else first_line(error)
    raise InputError(
        f"{address} cannot be downloaded: {str(reason).rstrip('.')}. If this machine has no network, {remedy}, "
        f"or set {cache} to a cache that holds it."
    ) from None
