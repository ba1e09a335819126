"""The folder of a portable model: model.onnx, vocabulary, tables of the tokenizer, and portable.json with hashes.

`albert export --format=onnx` writes it, `albert_tf.load_portable` reads it.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta

from albert_tf.checkpoints.downloads import PORTABLE_FACTS as FACTS_FILE
from albert_tf.checkpoints.sources import downloaded
from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.tasks.answering import TaskFacts
from albert_tf.tasks.kind import Kind
from albert_tf.tasks.kinds import KINDS, find_kind
from albert_tf.tasks.preprocessor import Preprocessor
from data_prep.errors import InputError
from data_prep.files import (
    as_record,
    check_file,
    file_sha256,
    read_bytes,
    read_json_object,
    write_json,
)
from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer
from data_prep.tokenizers.normalization import RELEASED
from data_prep.tokenizers.offsets import OffsetTables
from data_prep.tokenizers.vocabulary import (
    Vocabulary,
    VocabularyKind,
    normalization_file,
    read_normalization,
)

ONNX_FILE = "model.onnx"
_TABLES_FILE = "offsets.npz"
_VOCABULARIES: dict[str, VocabularyKind] = {"spm.model": "sentencepiece", "vocab.txt": "wordpiece"}

_FileName = Literal[
    "model.onnx",
    "albert_config.json",
    "spm.model",
    "spm.normalization.json",
    "vocab.txt",
    "vocab.normalization.json",
    "offsets.npz",
]


class _Pretrained(NamedTuple):
    """An export of a pretrained model: its options, and the dimensions of its outputs as in `Kind.outputs`.

    B rows, T tokens, P positions, H of the configuration, V embeddings, K best pieces, D numbers of a vector.
    """

    options: tuple[str, ...]
    outputs: Mapping[str, str]


_PRETRAINED = {
    "encoder": _Pretrained(
        (),
        {
            "sequence_output": "B, T, H",
            "pooled_output": "B, H",
            "sop_logits": "B, 2",
            "mlm_logits": "B, P, V",
        },
    ),
    "fill-mask": _Pretrained(("top_k",), {"ids": "B, P, K", "probabilities": "B, P, K"}),
    "embedding": _Pretrained(("max_seq_length", "vector_size"), {"embedding": "B, D"}),
}


@dataclass(frozen=True, kw_only=True)
class PortableFacts(TaskFacts):
    """The facts about a portable model that its other files do not hold.

    Attributes:
      kind: the kind of export.
      pieces: the number of the vocabulary's pieces; 0 without one.
      quantize: how the model was quantized.
    """

    kind: str
    pieces: Annotated[int, Meta(ge=0)]
    quantize: str = "none"
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Manifest:
    """portable.json: the facts, and the SHA-256 of each file."""

    facts: PortableFacts
    files: Mapping[_FileName, str]


class PortableFolder:
    """A folder whose files are those that were exported and fit each other; no other file in it is read.

    Args:
      path: the folder, or an address that `albert_tf.checkpoints.sources.downloaded` takes.

    Attributes:
      path: the folder; for an address, the folder in the cache.
      facts: what portable.json says of the model.
      config: the encoder's configuration.

    Raises:
      InputError: there is no such folder, nothing can be downloaded, a file is missing or has changed, or two
        contradict each other.
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
        if fault := self._fault():
            raise InputError(
                f"The files of a portable model must fit each other. In {self.path}, {fault}; export the model "
                "again."
            )

    def _fault(self) -> str | None:
        """A contradiction in the manifest, or between it and the configuration or the vocabulary."""
        facts, config, has_text = self.facts, self.config, any(name in self._files for name in _VOCABULARIES)
        kind = self.task_kind
        if facts.kind != kind.export if kind else facts.task_kind or facts.kind not in _PRETRAINED:
            return f"the kind is {facts.kind} and the task {facts.task_kind!r}"
        options = kind.export_options if kind else _PRETRAINED[facts.kind].options
        lengths = {"max_seq_length", *kind.preprocessor.more_lengths} if kind else set()
        has_classes, needs_thresholds = (kind.has_classes, kind.has_thresholds) if kind else (False, False)
        pieces = self.vocabulary.count_pieces() if has_text else 0
        longest = int({**facts.lengths, **facts.options}.get("max_seq_length", 1))
        for is_wrong, fault in (
            (set(facts.options) != set(options), f"the options of {facts.kind} are {sorted(facts.options)}"),
            (
                set(facts.lengths) != (lengths if has_text else set()),
                f"the lengths of {facts.kind} are {sorted(facts.lengths)}",
            ),
            (
                bool(facts.labels) != has_classes or len(set(facts.labels)) < len(facts.labels),
                f"the labels of {facts.task_kind or facts.kind} are {', '.join(facts.labels) or 'missing'}",
            ),
            (
                len(facts.thresholds) != (len(facts.labels) if needs_thresholds else 0),
                f"{len(facts.labels)} labels have {len(facts.thresholds)} thresholds",
            ),
            (
                pieces != facts.pieces or pieces > config.vocab_size,
                f"the vocabulary has {pieces} pieces, {FACTS_FILE} {facts.pieces} and the model "
                f"{config.vocab_size}",
            ),
            (
                facts.options.get("top_k", 0) > pieces,
                f"{facts.options.get('top_k')} of {pieces} pieces are asked for",
            ),
            (
                longest > config.max_position_embeddings,
                f"texts have {longest} tokens and the model {config.max_position_embeddings} positions",
            ),
        ):
            if is_wrong:
                return fault
        return None

    @property
    def task_kind(self) -> Kind | None:
        """The kind of task of a fine-tuned model; None for others, and for a kind that there is not."""
        return KINDS.get(self.facts.task_kind)

    @property
    def outputs(self) -> Mapping[str, str]:
        """The dimensions of what the model may compute."""
        kind = self.task_kind
        return kind.outputs_of(self.facts.answerable) if kind else _PRETRAINED[self.facts.kind].outputs

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary, with the tables of its offsets if they were written.

        Raises:
          InputError: there is none.
        """
        for name, kind in _VOCABULARIES.items():
            if name in self._files:
                path = self.path / name
                is_listed = normalization_file(name).name in self._files
                normalization = (read_normalization(path) if is_listed else None) or RELEASED
                found = Vocabulary(kind, read_bytes(path), normalization, str(path))
                if _TABLES_FILE not in self._files:
                    return found
                tables = OffsetTables.read(self.path / _TABLES_FILE, _tables_of(found))
                return replace(found, offset_tables=tables)
        raise InputError(f"Text input needs a vocabulary, which {self.path} does not hold.")

    def preprocessor(self) -> Preprocessor:
        """A new preprocessor of a fine-tuned model; raises InputError if there is no vocabulary."""
        return find_kind(self.facts.task_kind).preprocessor(self.vocabulary, **self.facts.lengths)


def is_portable(path: str | Path) -> bool:
    """Whether a path is the folder of a portable model or the address of one, whose files are then downloaded."""
    return (_local_folder(path) / FACTS_FILE).is_file()


def _local_folder(path: str | Path) -> Path:
    if "://" not in str(path):
        return Path(path)
    with downloaded(str(path)) as folder:
        return folder


def write_manifest(folder: Path, facts: Mapping[str, Any]) -> None:
    """Writes portable.json, with the fields of `PortableFacts`, after all other files but README.md."""
    files = {path.name: file_sha256(path) for path in sorted(folder.iterdir()) if path.suffix != ".md"}
    manifest = as_record(_Manifest, {"facts": facts, "files": files}, folder / FACTS_FILE)
    write_json(folder / FACTS_FILE, asdict(manifest))


def write_tables(folder: Path, vocabulary: Vocabulary) -> None:
    """Writes the tables of a vocabulary's offsets, which take half a second to compute; WordPiece has none."""
    tokenizer = vocabulary.tokenizer()
    if isinstance(tokenizer, AlbertTokenizer):
        tokenizer.offset_tables.write(folder / _TABLES_FILE, _tables_of(vocabulary))


def _tables_of(vocabulary: Vocabulary) -> str:
    """Identifies the vocabulary that the tables of offsets belong to."""
    return f"{vocabulary.sha256} {vocabulary.normalization}"


def _check_hash(folder: Path, name: str, expected: str) -> None:
    check_file(folder / name)
    if file_sha256(folder / name) != expected:
        raise InputError(
            f"{folder / name} must be the file that was exported. Its SHA-256 is not the one in {FACTS_FILE}; "
            "export the model again."
        )
