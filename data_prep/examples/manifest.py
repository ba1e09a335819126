"""manifest.json: what `albert prepare` wrote, from what, and how. Without times: same input, same bytes."""

import dataclasses
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib import metadata
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np

from data_prep.errors import InputError
from data_prep.examples.prepare_flags import PrepareSettings, shard_names
from data_prep.files import as_record, encodable, file_sha256, one_process_in, read_json_object, write_text
from data_prep.storage.paths import address, file_size, folder_matches, local_copy, open_file, shown
from data_prep.text.mixture import Corpus
from data_prep.tokenizers.normalization import Normalization
from data_prep.tokenizers.vocabulary import Tokenizer, Vocabulary, read_normalization

MANIFEST = "manifest.json"
_COUNTED_IN_SHARDS = ("example_tokens", "masked_tokens", "swapped_examples", "duplicate_examples")
_BLOCK = 1 << 20  # bytes


@dataclass(frozen=True)
class ExampleCounts:
    """What was read and written.

    Attributes:
      documents, sentences, tokens: in the text, each counted once.
      examples, example_tokens, masked_tokens, swapped_examples: in the output. Counts of what training draws are
        0 here and left out of the file.
      duplicate_examples: of documents that occur more than once, without the first of each; --drop_duplicates
        leaves them out.
      dropped_sentences: single sentences left over at the ends of documents, over all duplicates.
      documents_of_one_line, lines_of_prose, wrapped_lines: signs of prose in text with one sentence per line:
        documents that make no pair, lines that hold several sentences, and lines that break off inside one.
    """

    documents: int
    sentences: int
    tokens: int
    examples: int
    example_tokens: int
    masked_tokens: int = field(default=0, kw_only=True)
    swapped_examples: int = field(default=0, kw_only=True)
    duplicate_examples: int = field(default=0, kw_only=True)
    dropped_sentences: int
    documents_of_one_line: int = 0
    lines_of_prose: int = 0
    wrapped_lines: int = 0

    @classmethod
    def of(cls, counts: Counter) -> "ExampleCounts":
        """Makes the counts from a Counter with these names."""
        return cls(**{each.name: counts[each.name] for each in fields(cls)})

    def of_shards(self, shards: Iterable["Shard"]) -> "ExampleCounts":
        """These counts of the text, with those of the output from its files."""
        rows = list(shards)
        names = ("examples", *_COUNTED_IN_SHARDS)
        return dataclasses.replace(self, **{name: sum(getattr(row, name) for row in rows) for name in names})


@dataclass(frozen=True)
class Shard:
    """One TFRecord file.

    Attributes:
      file: its name, without the folder.
      examples: how many it holds.
      bytes: its size.
      crc32c: the CRC-32C of the whole file, hexadecimal.
      example_tokens, masked_tokens, swapped_examples: how many it holds; 0 if training draws them.
      duplicate_examples: how many equal another one, because their documents do; --drop_duplicates left them out.
    """

    file: str
    examples: int
    bytes: int
    crc32c: str
    example_tokens: int = 0
    masked_tokens: int = 0
    swapped_examples: int = 0
    duplicate_examples: int = 0


@dataclass(frozen=True)
class VocabularyFacts:
    """The vocabulary that examples were made with.

    Attributes:
      file: its path, relative to the manifest's folder unless it was absolute or remote, so that it is valid in
        any working directory.
      sha256: of its content, hexadecimal.
      size: V.
      cls_id, sep_id, mask_id: ids of the symbols.
      special_ids: all ids that are never a random replacement.
      do_lower_case, keep_accents, remove_space: how the text was normalized.
    """

    file: str
    sha256: str
    size: int
    cls_id: int
    sep_id: int
    mask_id: int
    special_ids: list[int]
    do_lower_case: bool = True
    keep_accents: bool = False
    remove_space: bool = True

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "VocabularyFacts":
        """Describes a tokenizer's vocabulary."""
        return cls(
            shown(tokenizer.file),
            file_sha256(local_copy(tokenizer.file)),
            tokenizer.vocab_size,
            tokenizer.cls_id,
            tokenizer.sep_id,
            tokenizer.mask_id,
            np.flatnonzero(tokenizer.is_special).tolist(),
            **dataclasses.asdict(tokenizer.normalization),
        )

    @property
    def named(self) -> str:
        """Its file and the beginning of its hash, for messages: the file may have been replaced since."""
        return f"{self.file} (SHA-256 {self.sha256[:12]}...)"

    @property
    def normalization(self) -> Normalization:
        """How the text was normalized."""
        return Normalization(self.do_lower_case, self.keep_accents, self.remove_space)

    def read(self, file: str | os.PathLike | None = None) -> Vocabulary:
        """Reads the vocabulary from its file (`Manifest.vocabulary_here`), or from another one."""
        vocabulary = Vocabulary.read(file or self.file)
        beside = read_normalization(vocabulary.file)
        if beside and beside != self.normalization:
            raise InputError(
                f"Examples and vocabulary must have the same normalization. The examples were prepared with "
                f"{self.normalization}; {vocabulary.file} is for {beside}. Prepare them again with it."
            )
        if vocabulary.sha256 != self.sha256:
            raise InputError(
                f"Examples are read with the vocabulary that they were prepared with. {vocabulary.file} is "
                f"another one than {self.file} was then, by its SHA-256; name that one, or prepare them again."
            )
        return dataclasses.replace(vocabulary, normalization=self.normalization)


@dataclass(frozen=True)
class SourceFile:
    """A file that was read: its name, and its size in bytes, 0 if unknown."""

    file: str
    bytes: int


@dataclass(frozen=True)
class Manifest:
    """What `albert prepare` wrote, from what, and how.

    Attributes:
      counts: what was read and written.
      settings: the flags that decide the output.
      vocabulary: the vocabulary.
      inputs: the files that were read.
      shards: the files that were written.
      versions: the packages whose versions may change the bytes.
      corpora: what each corpus of a mixture contributed; empty, and left out of the file, without one.
      path: the file that the manifest was read from.
    """

    counts: ExampleCounts
    settings: PrepareSettings
    vocabulary: VocabularyFacts
    inputs: Sequence[SourceFile]
    shards: Sequence[Shard]
    versions: dict[str, str]
    corpora: tuple[Corpus, ...] = ()
    path: Path | None = field(default=None, compare=False)

    @classmethod
    def build(
        cls,
        settings: PrepareSettings,
        tokenizer: Tokenizer,
        inputs: Iterable[SourceFile],
        counts: Counter,
        shards: Iterable[Shard],
        corpora: tuple[Corpus, ...] = (),
    ) -> "Manifest":
        """The manifest of new files."""
        facts = VocabularyFacts.of(tokenizer)
        shards = list(shards)
        return cls(
            ExampleCounts.of(counts).of_shards(shards),
            as_record(PrepareSettings, settings.output_settings, "The settings"),
            dataclasses.replace(facts, file=_relative_to_output(facts.file, settings.output_file)),
            list(inputs),
            shards,
            package_versions(),
            corpora,
        )

    @classmethod
    def read(cls, path: Path) -> "Manifest":
        """Reads a manifest, or the manifest.json of a folder."""
        path = path / MANIFEST if path.is_dir() else path
        values = read_json_object(local_copy(path))
        try:
            return dataclasses.replace(as_record(cls, values, path), path=path)
        except InputError as error:
            reason = str(error).removeprefix(f"{path}: ").rstrip(".")
            raise InputError(
                f"{path} is not a manifest of `albert prepare` ({reason}). Restore it, or prepare the data again."
            ) from None

    def write(self, folder: Path) -> None:
        """Writes FOLDER/manifest.json; keeps one that describes other files as manifest.NAME.json."""
        path = folder / MANIFEST
        with one_process_in(folder):  # two runs may end at the same moment
            earlier = Manifest.read(path) if path.is_file() else None
            if earlier and earlier.shards and not earlier.files & self.files:
                path.replace(folder / earlier.name_when_earlier)
            write_text(path, self.to_json())

    def to_json(self) -> str:
        """The text of the file."""
        values = {
            "counts": self._counted(self.counts),
            "settings": self.settings.output_settings,
            "seed": self.settings.random_seed,
            "vocabulary": dataclasses.asdict(self.vocabulary),
            **({"corpora": [dataclasses.asdict(each) for each in self.corpora]} if self.corpora else {}),
            "inputs": [dataclasses.asdict(each) for each in self.inputs],
            "shards": [self._counted(each) for each in self.shards],
            "versions": self.versions,
        }
        # Names of files may be any bytes.
        return encodable(json.dumps(values, indent=2, ensure_ascii=False)) + "\n"

    def _counted(self, counts: ExampleCounts | Shard) -> dict[str, Any]:
        """The values of a row that are known."""
        values = dataclasses.asdict(counts)
        return {name: value for name, value in values.items() if name not in self.settings.uncounted}

    def shard(self, path: Path) -> Shard | None:
        """The row of a file, found by its name or, if it was renamed, by its content."""
        by_name = next((shard for shard in self.shards if shard.file == path.name), None)
        return by_name or next((shard for shard in self.shards if _has_content(path, shard)), None)

    @property
    def vocabulary_here(self) -> VocabularyFacts:
        """The vocabulary, with its file's path relative to this process; the file may have been removed."""
        if address(self.vocabulary.file):
            return self.vocabulary
        file = Path(self.path.parent if self.path else "", self.vocabulary.file)
        return dataclasses.replace(self.vocabulary, file=shown(file))

    @property
    def name_when_earlier(self) -> str:
        """The name of its file once the folder has a newer one; globs for the shards (NAME*) do not match it."""
        return f"manifest.{self.shards[0].file}.json"

    @property
    def files(self) -> set[str]:
        """The names of the shards."""
        return {shard.file for shard in self.shards}


def _relative_to_output(file: str, output_file: str) -> str:
    """Makes a path relative to the output's folder in place of the working directory, if both are local."""
    if Path(file).is_absolute() or address(file):
        return file
    if address(output_file):
        return str(Path(file).absolute())
    path = Path(file).parent.resolve() / Path(file).name  # a file that is a link keeps its name
    try:
        return os.path.relpath(path, shard_names(output_file, 1)[0].parent.resolve())
    except ValueError:  # on another drive of Windows
        return str(path)


def manifests_in(folder: Path) -> list[Manifest]:
    """The manifests of a folder: manifest.json, which is the newest, then earlier ones by name."""
    found = folder_matches(folder, "manifest*.json")
    newest = [path for path in found if path.name == MANIFEST]
    earlier = [path for path in found if path.name.startswith("manifest.") and path not in newest]
    return [Manifest.read(path) for path in newest + earlier]


def manifests_of(files: Iterable[Path]) -> dict[Path, Manifest]:
    """For each example file the manifest beside it that lists it, perhaps under another name, if any."""
    files = list(files)
    folders = {folder: manifests_in(folder) for folder in dict.fromkeys(file.parent for file in files)}
    found: dict[Path, Manifest] = {}
    for file in files:
        for manifest in folders[file.parent]:
            if manifest.shard(file):
                found[file] = manifest
                break
    return found


def check_same_vocabulary(what: str, manifests: Mapping[Path, Manifest]) -> None:
    """Raises InputError if files were prepared with different vocabularies or normalizations.

    `what` names the files in the message; there is a manifest of one at least.
    """
    (first, ours), *others = ((path, manifest.vocabulary) for path, manifest in manifests.items())
    for path, theirs in others:
        if theirs.sha256 != ours.sha256:
            raise InputError(
                f"{what} must have one vocabulary. {first} was prepared with {ours.named}, {path} with "
                f"{theirs.named}; prepare both with the same one."
            )
        if theirs.normalization != ours.normalization:
            raise InputError(
                f"{what} must have one normalization of text. {first} was prepared with {ours.normalization}, "
                f"{path} with {theirs.normalization}; prepare both alike."
            )


def without_manifests(files: Iterable[Path]) -> list[Path]:
    """Leaves out manifest.json and manifest.NAME.json, which FOLDER/* matches."""
    return [file for file in files if not (file.name.startswith("manifest.") and file.suffix == ".json")]


def without_empty_shards(files: Iterable[Path], manifests: Mapping[Path, Manifest]) -> list[Path]:
    """Leaves out empty files that hold no examples according to their manifest: a small text may not fill all."""

    def counts_none(file: Path) -> bool:
        shard = manifests[file].shard(file) if file in manifests else None
        return shard is not None and shard.examples == 0

    return [file for file in files if file_size(file) != 0 or not counts_none(file)]


def remove_manifests(folder: Path, outputs: Iterable[str]) -> None:
    """Removes the manifests that list files which are about to be replaced."""
    replaced = set(outputs)
    with one_process_in(folder):
        for manifest in manifests_in(folder):
            if manifest.path and manifest.files & replaced:
                manifest.path.unlink()


def package_versions() -> dict[str, str]:
    """The packages whose versions may change the bytes."""
    return {name: _version(name) for name in ("albert-tf", "numpy", "sentencepiece", "sentencex")}


def file_crc32c(path: Path) -> str:
    """The CRC-32C of a file, hexadecimal."""
    checksum = google_crc32c.Checksum()
    with open_file(path) as file:
        while block := file.read(_BLOCK):
            checksum.update(block)
    return checksum.hexdigest().decode()


def _has_content(path: Path, shard: Shard) -> bool:
    """Whether a file is a shard: it is not empty, and its size and then its checksum agree."""
    same_size = file_size(path) == shard.bytes > 0
    return same_size and file_crc32c(path) == shard.crc32c


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # run from a checkout that was never installed
        return "unknown"
