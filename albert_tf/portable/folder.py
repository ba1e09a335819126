"""The folder of a portable model: model.onnx, vocabulary, tables of the tokenizer, and portable.json with hashes.

`albert export --format=onnx` writes it, `albert_tf.load_portable` reads it.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path

from albert_tf.config import CONFIG_FILE, AlbertConfig
from data_prep.errors import InputError
from data_prep.files import Number, as_record, check_file, file_sha256, read_json_object, write_json
from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer
from data_prep.tokenizers.offsets import OffsetTables
from data_prep.tokenizers.vocabulary import Vocabulary

FACTS_FILE = "portable.json"
ONNX_FILE = "model.onnx"
_TABLES_FILE = "offsets.npz"
_VOCABULARIES = ("spm.model", "vocab.txt")


@dataclass(frozen=True)
class PortableFacts:
    """What a portable model's files do not say themselves.

    Attributes:
      kind: the kind of export.
      quantize: how the model was quantized.
      task_kind: of a fine-tuned model, the kind of task; "" for others.
      labels: the classes in the model's order.
      thresholds: in multi-label classification, the lowest probability at which a text gets each label.
      answerable: in question answering, whether it may find no answer.
      null_threshold: for SQuAD 2.0, the null odds above which there is no answer.
      lengths: of the preprocessor, in tokens, such as max_seq_length.
      options: of the kind.
      settings: those of our run that name its task and columns.
    """

    kind: str
    quantize: str = "none"
    task_kind: str = ""
    labels: tuple[str, ...] = ()
    thresholds: tuple[Number, ...] = ()
    answerable: bool = False
    null_threshold: Number = 0.0
    lengths: Mapping[str, int] = field(default_factory=dict)
    options: Mapping[str, int | str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Manifest:
    """portable.json: the facts, and the SHA-256 of each file."""

    facts: PortableFacts
    files: Mapping[str, str]


class PortableFolder:
    """A folder whose files are those that were exported.

    Args:
      path: the folder, or an address that `albert_tf.pretrained.downloads.download` takes.

    Attributes:
      path: the folder; of an address, the one in the cache.
      facts: what portable.json says of the model.
      config: the encoder's configuration.

    Raises:
      InputError: there is no such folder, nothing can be downloaded, or a file is missing or has changed.
    """

    def __init__(self, path: str | Path):
        self.path = _local_folder(path)
        if not is_portable(self.path):
            raise InputError(
                f"A portable model is a folder with {FACTS_FILE}, as `albert export --format=onnx` writes it. "
                f"Received {path}."
            )
        manifest = as_record(_Manifest, read_json_object(self.path / FACTS_FILE), self.path / FACTS_FILE)
        if ONNX_FILE not in manifest.files or CONFIG_FILE not in manifest.files:
            raise InputError(
                f"{self.path / FACTS_FILE} must list {ONNX_FILE} and {CONFIG_FILE}. It does not."
            )
        for name, expected in manifest.files.items():
            _check_hash(self.path, name, expected)
        self.facts, self._files = manifest.facts, manifest.files
        self.config = AlbertConfig.from_json_file(self.path / CONFIG_FILE)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary, with the tables of its offsets if they were written.

        Raises:
          InputError: there is none.
        """
        for name in _VOCABULARIES:
            if name in self._files:
                found = Vocabulary.read(self.path / name)
                if _TABLES_FILE not in self._files:
                    return found
                return replace(found, offset_tables=OffsetTables.read(self.path / _TABLES_FILE))
        raise InputError(f"Text input needs a vocabulary, which {self.path} does not hold.")


def is_portable(path: str | Path) -> bool:
    """Whether a path is the folder of a portable model, or an address, whose files are downloaded, of one."""
    return (_local_folder(path) / FACTS_FILE).is_file()


def _local_folder(path: str | Path) -> Path:
    if "://" not in str(path):
        return Path(path)
    from albert_tf.pretrained.downloads import download  # its packages are not for folders on this machine

    return download(str(path))


def write_manifest(folder: Path, facts: PortableFacts) -> None:
    """Writes portable.json, after all other files but README.md."""
    files = {path.name: file_sha256(path) for path in sorted(folder.iterdir()) if path.suffix != ".md"}
    write_json(folder / FACTS_FILE, asdict(_Manifest(facts, files)))


def write_tables(folder: Path, vocabulary: Vocabulary) -> None:
    """Writes the tables of a vocabulary's offsets, which take half a second to compute; WordPiece has none."""
    tokenizer = vocabulary.tokenizer()
    if isinstance(tokenizer, AlbertTokenizer):
        tokenizer.offset_tables.write(folder / _TABLES_FILE)


def _check_hash(folder: Path, name: str, expected: str) -> None:
    if "/" in name or "\\" in name or name in ("", ".", ".."):
        raise InputError(f"{folder / FACTS_FILE} must name files of its folder. Received {name!r}.")
    check_file(folder / name)
    if file_sha256(folder / name) != expected:
        raise InputError(
            f"{folder / name} must be the file that was exported. Its SHA-256 is not the one in {FACTS_FILE}; "
            "export the model again."
        )
