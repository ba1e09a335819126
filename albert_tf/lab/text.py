"""The data of a laboratory: text cut into files to train on and to hold out, a vocabulary, examples.

files --split--> train, part, heldout --albert vocab--> vocabulary --albert prepare--> examples of each objective
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from albert_tf.lab.programs import Programs
from albert_tf.lab.scales import Scale
from albert_tf.lab.settings import LabSettings
from albert_tf.lab.variants import Objective
from data_prep.errors import InputError
from data_prep.examples.manifest import MANIFEST, file_sha256
from data_prep.examples.settings import PrepareSettings, check_settings
from data_prep.text.documents import expand_files
from data_prep.tokenizers.vocabulary_training import VocabularySettings

Part = Literal["train", "part", "heldout"]
HELD_OUT = 20  # one file in so many
FEWEST_HELD_OUT = 2  # documents, for a next sentence comes from another one
PART = 4  # a quarter of the files to train on, where an experiment wants less text


def split_files(paths: list[Path], otherwise: str = "") -> tuple[list[Path], list[Path]]:
    """Cuts files into those to train on and those to hold out, in an order that depends on their names alone.

    `otherwise` is what else a user who has too few could do.
    """
    if len(paths) <= FEWEST_HELD_OUT:
        raise InputError(
            f"--input_file must name at least {FEWEST_HELD_OUT + 1} files, of which {FEWEST_HELD_OUT} are held "
            f"out{otherwise}. Received {len(paths)}."
        )
    hashed = by_hash(paths)
    number = max(FEWEST_HELD_OUT, len(paths) // HELD_OUT)
    return hashed[number:], hashed[:number]


def by_hash(paths: list[Path]) -> list[Path]:
    """Files in the order of their names' hashes: any, but always the same."""
    return sorted(paths, key=lambda path: hashlib.sha256(path.name.encode()).digest())


def link_files(paths: list[Path], folder: Path) -> str:
    """Links files, and nothing else, into a folder; returns their glob."""
    folder.mkdir(parents=True, exist_ok=True)
    for link in folder.iterdir():
        link.unlink()
    for number, path in enumerate(paths):
        name = path.name.replace(",", "")  # a comma would separate two names
        (folder / f"{number:05d}-{name}").symlink_to(path.absolute())
    return f"{folder}/*"


@dataclass(frozen=True)
class LabText:
    """Text and examples in a laboratory's folder, made when they are asked for.

    Attributes:
      settings: resolved.
      scale: the laboratory's.
      programs: make them.
    """

    settings: LabSettings
    scale: Scale
    programs: Programs

    @property
    def folder(self) -> Path:
        """Where they are."""
        return self.settings.folder / "data"

    @property
    def vocabulary_file(self) -> Path:
        """Where the SentencePiece model is or will be."""
        return Path(self.settings.spm_model_file or self.folder / "vocabulary.model")

    def check(self, parts: set[Part], objectives: set[Objective]) -> str:
        """Checks what can be checked before anything is written.

        Args:
          parts: what is going to be asked for, "train" and "heldout" among it.
          objectives: likewise.

        Returns:
          A hash of the files' names and sizes.

        Raises:
          InputError: there is no text, or too little, or a flag is out of range.
        """
        paths = {part: self.paths(part) for part in parts}
        if "part" in paths and len(self.paths("train")) < PART:
            raise InputError(
                "This experiment trains on a quarter of the files, too, so there must be at least "
                f"{PART} to train on. Received {len(self.paths('train'))}; cut the text into more files."
            )
        fewest = min(len(files) for files in paths.values())
        if "nsp" in objectives and self.settings.input_format == "prose" and fewest < 2:
            raise InputError(
                "A next sentence is drawn from another document, and in prose each file is one, so there must be "
                f"two files at least to train on and to hold out. Received {fewest}."
            )
        vocabulary = self.settings.spm_model_file
        if vocabulary and not Path(vocabulary).is_file():
            raise InputError(
                f"--spm_model_file must name a SentencePiece model. There is no file {vocabulary}."
            )
        check_settings(self._prepare_settings("sop", "train", "text", Path("vocabulary.model")))
        files = [*paths["train"], *paths["heldout"]]
        listed = "".join(f"{path.name} {path.stat().st_size}\n" for path in files)
        return hashlib.sha256(listed.encode()).hexdigest()[:16]

    def vocabulary(self) -> Path:
        """The SentencePiece model; trained on what is not held out, unless one was given."""
        model = self.vocabulary_file
        if not model.is_file():
            assert self.settings.vocab_size, "it is resolved"
            settings = VocabularySettings(
                self._linked("train"),
                str(model.with_suffix("")),
                vocab_size=self.settings.vocab_size,
                input_format=self.settings.input_format,
                language=self.settings.language,
            )
            self.programs.albert("vocab", settings)
        return model

    def examples(self, objective: Objective, part: Part) -> str:
        """The glob of the examples of an objective, prepared unless they are there."""
        folder = self.folder / objective / part
        if not (folder / MANIFEST).is_file():
            vocabulary, text = self.vocabulary(), self._linked(part)
            self.programs.albert("prepare", self._prepare_settings(objective, part, text, vocabulary))
        return f"{folder}/examples.tfrecord*"

    def facts(self) -> dict[str, str]:
        """What identifies the data that have been made: a hash of each manifest, which has those of its files."""
        manifests = sorted(self.folder.glob(f"*/*/{MANIFEST}"))
        return {str(path.parent.relative_to(self.folder)): file_sha256(path)[:16] for path in manifests}

    def _prepare_settings(
        self, objective: Objective, part: Part, text: str, vocabulary: Path
    ) -> PrepareSettings:
        assert self.settings.max_seq_length, "it is resolved"
        held_out = part == "heldout"
        return PrepareSettings(
            text,
            str(self.folder / objective / part / "examples.tfrecord"),
            str(vocabulary),
            input_format=self.settings.input_format,
            language=self.settings.language,
            max_seq_length=self.settings.max_seq_length,
            sentence_objective=objective,
            # Other pairs in each pass over the text, masks new in each epoch; held-out masks never change.
            dupe_factor=1 if held_out else self.scale.dupe_factor,
            masking="static" if held_out else "dynamic",
        )

    def _linked(self, part: Part) -> str:
        return link_files(self.paths(part), self.folder / "text" / part)

    def paths(self, part: Part) -> list[Path]:
        """The files of a part of the text."""
        if not self.settings.input_file:
            raise InputError("This experiment trains models, so --input_file must name text. Received none.")
        paths = [path for path in expand_files(self.settings.input_file) if path.is_file()]
        if not self.settings.heldout_file:
            train, heldout = split_files(paths, otherwise=", or --heldout_file another text")
        else:
            train, heldout = paths, expand_files(self.settings.heldout_file)
        if part == "part":
            return by_hash(train)[: -(-len(train) // PART)]
        return heldout if part == "heldout" else train
