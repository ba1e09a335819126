"""A laboratory's data: training and held-out files, a vocabulary, and examples.

files --split_files--> train, part, heldout --albert vocab--> vocabulary --albert prepare--> examples per objective
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from albert_tf.lab.laboratory import Laboratory
from albert_tf.lab.variants import SentenceObjective
from data_prep.errors import InputError
from data_prep.examples.manifest import MANIFEST
from data_prep.examples.settings import PrepareSettings, check_settings
from data_prep.files import file_sha256
from data_prep.text.sources import expand_files
from data_prep.tokenizers.settings import VocabularySettings

TextPart = Literal["train", "part", "heldout"]
_HELD_OUT = 20  # one file in this many
_FEWEST_HELD_OUT = 2  # documents, because a next sentence comes from another one
_PART = 4  # "part" is a quarter of the training files


def split_files(paths: list[Path], otherwise: str = "") -> tuple[list[Path], list[Path]]:
    """Splits files into training and held-out ones, depending on their names alone.

    Args:
      paths: at least 3 files.
      otherwise: what else the user can do about too few files, for the error message.
    """
    if len(paths) <= _FEWEST_HELD_OUT:
        raise InputError(
            f"--input_file must name at least {_FEWEST_HELD_OUT + 1} files, of which {_FEWEST_HELD_OUT} are held "
            f"out{otherwise}. Received {len(paths)}."
        )
    shuffled = _by_hash(paths)
    number = max(_FEWEST_HELD_OUT, len(paths) // _HELD_OUT)
    return shuffled[number:], shuffled[:number]


def _files(flag: str, patterns: str) -> list[Path]:
    """The files that a flag names; unlike standard input and tensorflow-datasets, they can be linked."""
    paths = expand_files(patterns)
    for path in paths:
        if not path.is_file():
            raise InputError(f"--{flag} must name files, because a laboratory links them. Received {path}.")
    return paths


def _by_hash(paths: list[Path]) -> list[Path]:
    """Files in an arbitrary but reproducible order: by the hash of their names."""
    return sorted(paths, key=lambda path: hashlib.sha256(os.fsencode(path.name)).digest())


def link_files(paths: list[Path], folder: Path) -> str:
    """Makes a folder hold links to these files and nothing else; returns their glob."""
    folder.mkdir(parents=True, exist_ok=True)
    for link in folder.iterdir():
        link.unlink()
    for number, path in enumerate(paths):
        name = path.name.replace(",", "")  # a comma would separate two names
        (folder / f"{number:05d}-{name}").symlink_to(path.absolute())
    return f"{folder}/*"


@dataclass(frozen=True)
class LabText:
    """The text, vocabulary and examples of a laboratory, created on first use."""

    lab: Laboratory

    @property
    def folder(self) -> Path:
        """The folder of the data."""
        return self.lab.folder / "data"

    @property
    def vocabulary_file(self) -> Path:
        """The SentencePiece model, which need not exist yet."""
        return Path(self.lab.settings.spm_model_file or self.folder / "vocabulary.model")

    def check(self, parts: set[TextPart], objectives: set[SentenceObjective]) -> str:
        """Checks everything that can be checked before the first write.

        Args:
          parts: the parts that the experiment needs; includes "train" and "heldout".
          objectives: the objectives that it needs.

        Returns:
          A hash of the files' names and sizes.

        Raises:
          InputError: there is no text, too little text, or a flag is out of range.
        """
        paths = {part: self.paths(part) for part in parts}
        if "part" in paths and len(self.paths("train")) < _PART:
            raise InputError(
                "This experiment also trains on a quarter of the files, so there must be at least "
                f"{_PART} to train on. Received {len(self.paths('train'))}; split the text into more files."
            )
        fewest = min(len(files) for files in paths.values())
        if "nsp" in objectives and self.lab.settings.input_format == "prose" and fewest < 2:
            raise InputError(
                "A random next sentence comes from another document, and a prose file is one document, so there "
                f"must be at least two files to train on and two to hold out. Received {fewest}."
            )
        vocabulary = self.lab.settings.spm_model_file
        if vocabulary and not Path(vocabulary).is_file():
            raise InputError(
                f"--spm_model_file must name a SentencePiece model. There is no file {vocabulary}."
            )
        check_settings(self._prepare_settings("sop", "train", "text", Path("vocabulary.model")))
        files = [*paths["train"], *paths["heldout"]]
        listed = "".join(f"{path.name} {path.stat().st_size}\n" for path in files)
        return hashlib.sha256(os.fsencode(listed)).hexdigest()[:16]

    def paths(self, part: TextPart) -> list[Path]:
        """The files of a part of the text."""
        settings = self.lab.settings
        if not settings.input_file:
            raise InputError("This experiment trains models, so --input_file must name text. Received none.")
        paths = _files("input_file", settings.input_file)
        if settings.heldout_file:
            heldout = _files("heldout_file", settings.heldout_file)
            held_out = {path.resolve() for path in heldout}
            train = [path for path in paths if path.resolve() not in held_out]
            if not train:
                raise InputError(
                    "--input_file must name files to train on beside those of --heldout_file. Received "
                    f"{settings.input_file}, of which all are held out."
                )
        else:
            train, heldout = split_files(paths, otherwise=", or set --heldout_file to another text")
        if part == "part":
            return _by_hash(train)[: -(-len(train) // _PART)]
        return heldout if part == "heldout" else train

    def vocabulary(self) -> Path:
        """The SentencePiece model: the given one, or one trained on the training files."""
        model = self.vocabulary_file
        if not model.is_file():
            settings = VocabularySettings(
                self._linked("train"),
                str(model.with_suffix("")),
                vocab_size=self.lab.settings.vocab_size,
                input_format=self.lab.settings.input_format,
                language=self.lab.settings.language,
            )
            self.lab.programs.albert("vocab", settings)
        return model

    def examples(self, objective: SentenceObjective, part: TextPart, T: int | None = None) -> str:
        """The glob of an objective's examples, prepared if they do not exist.

        Args:
          objective: the sentence objective.
          part: the part of the text.
          T: tokens per example; None for --max_seq_length.
        """
        folder = self._examples_file(objective, part, T).parent
        if not (folder / MANIFEST).is_file():
            vocabulary, text = self.vocabulary(), self._linked(part)
            self.lab.programs.albert("prepare", self._prepare_settings(objective, part, text, vocabulary, T))
        return f"{folder}/examples.tfrecord*"

    def manifest_hashes(self) -> dict[str, str]:
        """Folder -> hash of its manifest, which contains the hashes of its files: identifies the data."""
        manifests = sorted(self.folder.glob(f"*/*/{MANIFEST}"))
        return {str(path.parent.relative_to(self.folder)): file_sha256(path)[:16] for path in manifests}

    def _linked(self, part: TextPart) -> str:
        return link_files(self.paths(part), self.folder / "text" / part)

    def _examples_file(self, objective: SentenceObjective, part: TextPart, T: int | None) -> Path:
        return self.folder / objective / (f"{part}-{T}" if T else part) / "examples.tfrecord"

    def _prepare_settings(
        self, objective: SentenceObjective, part: TextPart, text: str, vocabulary: Path, T: int | None = None
    ) -> PrepareSettings:
        settings = self.lab.settings
        held_out = part == "heldout"
        return PrepareSettings(
            text,
            str(self._examples_file(objective, part, T)),
            str(vocabulary),
            input_format=settings.input_format,
            language=settings.language,
            max_seq_length=T or settings.max_seq_length,
            sentence_objective=objective,
            # Training: other chunks in each pass, new pairs and masks in each epoch. Held out: always the same.
            dupe_factor=1 if held_out else self.lab.scale.dupe_factor,
            masking="static" if held_out else "dynamic",
        )
