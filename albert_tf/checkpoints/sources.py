"""What a source means: a path, the name of a model, or an address that the model is downloaded from."""

import contextlib
import difflib
import math
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import safetensors

from albert_tf.checkpoints import archives
from albert_tf.checkpoints.downloads import SCHEMES, download, is_cached
from albert_tf.checkpoints.remote_models import copied_model
from albert_tf.config import PRESETS, AlbertConfig
from albert_tf.parameters import count_parameters
from data_prep.errors import InputError, check_given_once

READABLE = (
    "a pretraining or fine-tuning run, a checkpoint in it, a .keras file of albert_tf, the output of `albert "
    "convert`, Google's TF1 checkpoint (folder, prefix or .tar.gz), a TF-Hub SavedModel, the output of `albert "
    "export --kind=encoder`, a Hugging Face or KerasHub directory, a name from `albert models`, or an address: "
    "hf://OWNER/NAME, the https:// address of a .tar.gz, kaggle://OWNER/MODEL/FRAMEWORK/VARIATION, or one of "
    "these files and folders at an s3:// or gs:// address"
)
_REPOSITORY = re.compile(r"\w[\w.-]*/\w[\w.-]*")  # OWNER/NAME
# One Hugging Face directory for each model of the package.
SHIPPED_FOLDER = Path(__file__).parents[1] / "models"


@dataclass(frozen=True)
class SourceFlags:
    """The flags that supply what a model's files lack, as TF1 checkpoints of google-research/albert may.

    Attributes:
      albert_config_file: the model's albert_config.json, if it is not beside a TF1 checkpoint.
      vocab_file: SentencePiece model or WordPiece vocab.txt, if the model comes without a vocabulary; or a longer
        one that begins with its pieces, for which the model gets new embeddings.
      labels: names of the classes in the order of the head's outputs, separated by commas. Default: those in the
        model's files, or LABEL_0, LABEL_1 and so on.
    """

    albert_config_file: str | None = None
    vocab_file: str | None = None
    labels: str = ""

    def __post_init__(self):
        check_given_once("name of a class", self.label_names)

    @property
    def label_names(self) -> tuple[str, ...]:
        """`labels` as a tuple."""
        return names_in(self.labels)


def names_in(flag: str) -> tuple[str, ...]:
    """The names in a flag, separated by commas."""
    return tuple(name.strip() for name in flag.split(",") if name.strip())


NO_FLAGS = SourceFlags()


@dataclass(frozen=True)
class NamedModel:
    """A model that is known by its name.

    Attributes:
      name: its name.
      source: its folder or its address.
      parameters: encoder, pooler and both heads.
      size: bytes of its files, or about the bytes of its download.
      place: where its files are: "in the package", "in the cache", or "to download".
    """

    name: str
    source: Path | str
    parameters: int
    size: int
    place: str


def named_models() -> list[NamedModel]:
    """All models that have names: those of the package first, then Google's."""
    shipped = [_shipped_model(name, folder) for name, folder in _shipped_folders().items()]
    return shipped + [_google_model(name, address) for name, address in _google_addresses().items()]


@contextlib.contextmanager
def local_files(source: str | Path) -> Iterator[Path]:
    """The files of a source on this machine, downloaded or unpacked if need be.

    Args:
      source: one of `READABLE`. A path that exists has precedence over a name.

    Yields:
      A path. An archive's content is removed after the block; a download stays in a cache.

    Raises:
      InputError: no model has this name, the address is wrong, or the download or the archive fails.
    """
    path, text = Path(source), str(source)
    if path.is_file() and path.name.endswith(archives.SUFFIXES):
        with tempfile.TemporaryDirectory() as temporary:
            yield archives.unpack(path, Path(temporary))
    elif _exists(path):
        yield path
    elif "://" in text:
        with downloaded(text) as path:
            yield path
    elif text in _shipped_folders():
        yield _shipped_folders()[text]
    elif text in _google_addresses():
        with downloaded(_google_addresses()[text]) as path:
            yield path
    elif "." in text or path.name != text:
        raise InputError(f"There is no checkpoint at {path}. {_hub_advice(text)}A model is {READABLE}.")
    else:
        raise InputError(
            f"There is no checkpoint at {text}, and no model has this name{_suggestion(text)}; `albert models` "
            "lists the names."
        )


@contextlib.contextmanager
def downloaded(address: str) -> Iterator[Path]:
    """The files at an address, in a cache; errors in the block that name files in an object store say where."""
    if address.partition("://")[0] not in SCHEMES:
        with copied_model(address) as path:
            yield path
        return
    try:
        path = download(address)
    except InputError as error:
        names = ", ".join(_shipped_folders())
        raise InputError(f"{error} No download is needed for {names}." if names else str(error)) from None
    yield path


def _hub_advice(text: str) -> str:
    """How to name a repository of the Hugging Face Hub, if this may be one."""
    is_repository = _REPOSITORY.fullmatch(text) and not Path(text).parent.exists()
    return f"If it is a repository of the Hugging Face Hub, write hf://{text}. " if is_repository else ""


def _exists(path: Path) -> bool:
    """Whether a path, or the index of the checkpoint with this prefix, exists."""
    return path.exists() or (path.name != "" and path.with_name(f"{path.name}.index").exists())


def _shipped_folders() -> dict[str, Path]:
    """Name -> folder of each model that this installation holds."""
    return {path.parent.name: path.parent for path in sorted(SHIPPED_FOLDER.glob("*/config.json"))}


def _google_addresses() -> dict[str, str]:
    """Name -> address of each of Google's English models."""
    return {name: f"hf://albert/{name.replace('_', '-')}" for name in PRESETS if name.startswith("albert_")}


def _shipped_model(name: str, folder: Path) -> NamedModel:
    with safetensors.safe_open(folder / "model.safetensors", framework="numpy") as file:
        parameters = sum(math.prod(file.get_slice(tensor).get_shape()) for tensor in file.keys())  # noqa: SIM118
    size = sum(path.stat().st_size for path in folder.iterdir())
    return NamedModel(name, folder, parameters, size, "in the package")


def _google_model(name: str, address: str) -> NamedModel:
    parameters = count_parameters(AlbertConfig.from_preset(name)).pretrainer
    place = "in the cache" if is_cached(address) else "to download"
    return NamedModel(name, address, parameters, 4 * parameters, place)  # float32


def _suggestion(name: str) -> str:
    nearest = difflib.get_close_matches(name, [*_shipped_folders(), *_google_addresses()], n=1)
    return f" (the nearest is {nearest[0]})" if nearest else ""
