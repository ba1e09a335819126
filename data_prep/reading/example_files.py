"""A set of files of pretraining examples: their kind, lengths, counts and manifest, read once and handed down.

first records --ExampleLayout.of--> feature names and lengths --ExampleFiles.read--> the same of all files, checked
"""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from data_prep.errors import InputError
from data_prep.examples.manifest import (
    Manifest,
    check_same_vocabulary,
    manifests_of,
    without_empty_shards,
    without_manifests,
)
from data_prep.examples.masking import MaskingSettings
from data_prep.reading.dynamic_masking import DynamicMasking
from data_prep.storage.paths import file_size
from data_prep.text.mixture import Mixture
from data_prep.text.sources import expand_files
from data_prep.tfrecord.records import count_examples, read_records
from data_prep.tfrecord.schema import Feature, chunk_features, pretraining_features
from data_prep.tfrecord.serialization import FeatureValues, parse_example

# Name in a batch -> name in the files.
_MASKED = {
    "input_ids": "input_ids",
    "input_mask": "input_mask",
    "token_type_ids": "segment_ids",
    "masked_lm_positions": "masked_lm_positions",
    "masked_lm_ids": "masked_lm_ids",
    "masked_lm_weights": "masked_lm_weights",
    "sentence_order": "next_sentence_labels",
}
_MODEL_GARDEN = {**_MASKED, "input_ids": "input_word_ids", "token_type_ids": "input_type_ids"}
# The reader makes masked_lm_*, for which it needs the words' boundaries.
_UNMASKED = {
    **{ours: theirs for ours, theirs in _MASKED.items() if not ours.startswith("masked_lm")},
    "token_boundary": "token_boundary",
}
_CHUNKS = {name: name for name in chunk_features()}  # the reader makes pairs, too
_LISTS = {"int64": "int64_list", "float32": "float_list"}
_CHECKED_RECORDS = 8  # of each file

RawFeatures = Mapping[str, FeatureValues]


@dataclass(frozen=True)
class ExampleLayout:
    """The features of one kind of examples.

    Attributes:
      names: name in a batch -> name in the files.
      max_seq_length: T; 0 for chunks, which do not show it.
      max_predictions_per_seq: P; 0 for unmasked examples.
    """

    names: Mapping[str, str]
    max_seq_length: int
    max_predictions_per_seq: int

    @classmethod
    def of(cls, record: bytes, path: Path) -> "ExampleLayout":
        """The layout of a serialized tf.train.Example of this library, of the original or of Model Garden."""
        found = parse_record(record, path)
        if "sentence_starts" in found:
            return cls(_CHUNKS, 0, 0)
        masked = any(name.startswith("masked_lm_") for name in found)
        if "input_word_ids" in found:
            names = _MODEL_GARDEN
        else:
            names = _MASKED if masked or "token_boundary" not in found else _UNMASKED
        lengths = []
        for name in ("input_ids", "masked_lm_positions"):
            if name in names and names[name] not in found:
                raise _missing(names[name], found, path)
            _, values = found.get(names.get(name, ""), ("", []))
            if name in names and not values:
                raise _without_values(names[name], path)
            lengths.append(len(values))
        return cls(names, *lengths)

    @property
    def is_masked(self) -> bool:
        """Whether the examples are masked already."""
        return "masked_lm_ids" in self.names

    @property
    def holds_chunks(self) -> bool:
        """Whether the examples are chunks, from which the reader draws pairs."""
        return self.names is _CHUNKS

    def original_name(self, name: str) -> str:
        """The original's name of a feature in the files."""
        return next((_MASKED.get(ours, ours) for ours, theirs in self.names.items() if theirs == name), name)

    @property
    def features(self) -> dict[str, Feature]:
        """Name in the files -> type and length."""
        if self.holds_chunks:
            return chunk_features()
        schema = pretraining_features(self.max_seq_length, self.max_predictions_per_seq)
        return {theirs: schema[_MASKED.get(ours, ours)] for ours, theirs in self.names.items()}


@dataclass(frozen=True)
class ExampleFiles:
    """TFRecord files of pretraining examples with the same features.

    Attributes:
      paths: plain or GZIP files.
      counts: number of examples in each file.
      layout: features of the examples.
      max_predictions_per_seq: P of the batches.
      manifest: the manifest that lists the first file, if any; the file may have been renamed.
      masking: how the reader masks unmasked examples and chunks; None for examples that are already masked.
      sets: the number of the set in a mixture that each file belongs to; empty if nothing is mixed.
      shares: the share of the examples that training takes from each set.

    >>> files = ExampleFiles.read("heldout.tfrecord")
    >>> files.max_seq_length
    32
    """

    paths: Sequence[Path]
    counts: Sequence[int]
    layout: ExampleLayout
    max_predictions_per_seq: int
    manifest: Manifest | None
    masking: DynamicMasking | None
    sets: Sequence[int] = ()
    shares: Sequence[float] = ()

    @property
    def max_seq_length(self) -> int:
        """T."""
        return self.layout.max_seq_length

    @property
    def num_examples(self) -> int:
        """The number of examples in all files."""
        return sum(self.counts)

    @property
    def num_bytes(self) -> int:
        """The size of all files."""
        return sum(file_size(path) or 0 for path in self.paths)

    @classmethod
    def read(
        cls,
        paths: str | Path | Sequence[str | Path],
        *,
        vocab_size: int | None = None,
        type_vocab_size: int | None = None,
        max_seq_length: int | None = None,
        max_predictions_per_seq: int | None = None,
    ) -> "ExampleFiles":
        """Reads the manifests and the first records of every file, and counts those that no manifest counts.

        Args:
          paths: TFRecord files, plain or GZIP, of this library, of the original or of Model Garden; also one
            string or path, with globs and commas as for --input_file.
          vocab_size: V, if known; every id must be below it.
          type_vocab_size: of the model, if known; every token type must be below it.
          max_seq_length: T that the examples must have. Default: T of the first example.
          max_predictions_per_seq: P that the examples must have. Default: P of the first file.
        """
        if isinstance(paths, str | Path):
            paths = expand_files(str(paths))
        example_paths = without_manifests(map(Path, paths))
        if not example_paths:
            raise InputError("Pretraining needs at least one TFRecord file. Received none.")
        manifests = manifests_of(example_paths)
        paths = without_empty_shards(example_paths, manifests) or example_paths
        counts = [_count(path, manifests.get(path)) for path in paths]
        layouts = {path: ExampleLayout.of(next(read_records(path)), path) for path in paths}
        _check_same_layout(layouts)
        if known := {path: manifests[path] for path in paths if path in manifests}:
            check_same_vocabulary("All files of a run", known)
            _check_same_masking(known)
        layout = layouts[paths[0]]
        flags = {"max_seq_length": max_seq_length, "max_predictions_per_seq": max_predictions_per_seq}
        T = max_seq_length or layout.max_seq_length
        P = max_predictions_per_seq or layout.max_predictions_per_seq
        masking = None
        if not layout.is_masked:
            prepared, *_ = [_manifest_for_masking(path, manifests) for path in paths]
            masking = DynamicMasking.of(prepared)
            T, P = prepared.settings.max_seq_length, prepared.settings.predictions
            for (flag, received), value in zip(flags.items(), (T, P), strict=True):
                if received not in (None, value):
                    raise InputError(
                        f"--{flag} must be the value given to `albert prepare` for unmasked examples. "
                        f"{paths[0]} has {value}. Received {received}; leave the flag out."
                    )
            if layout.holds_chunks and prepared.settings.sentence_objective != "none":
                _check_range("token_type_ids", (1,), type_vocab_size, "type_vocab_size", paths[0])
        layout = ExampleLayout(layout.names, T, P if layout.is_masked else 0)
        by_flags = {name for name, value in flags.items() if value}
        for path in paths:
            _check_first_records(path, layout, vocab_size, type_vocab_size, by_flags)
        return cls(paths, counts, layout, P, manifests.get(paths[0]), masking)

    def mixed(self, mixture: Mixture, corpora: Sequence[Sequence[Path]]) -> "ExampleFiles":
        """These files, which `mixture` names, as sets to mix; `corpora` are the paths of each."""
        if not mixture.is_mixed:
            return self
        set_of = {path: number for number, paths in enumerate(corpora) for path in paths}
        sets = [set_of[path] for path in self.paths]
        sizes: Counter[int] = Counter()
        for number, count in zip(sets, self.counts, strict=True):
            sizes[number] += count
        mixture.check_sizes(sizes)
        return dataclasses.replace(self, sets=sets, shares=mixture.shares(sizes))


def parse_record(record: bytes, place: Path | str) -> RawFeatures:
    """The features of a serialized tf.train.Example."""
    if features := parse_example(record):
        return features
    raise InputError(f"{place} must hold tf.train.Examples; its content is something else.")


def _count(path: Path, manifest: Manifest | None) -> int:
    """The number of examples of a file, from its manifest if the size agrees.

    Otherwise from the headers of its records, which are so close together that all of the file is read.
    """
    shard = manifest.shard(path) if manifest else None
    if shard and shard.examples > 0 and file_size(path) == shard.bytes:
        return shard.examples
    return count_examples([path])[0]  # an error if the file is cut off


def _manifest_for_masking(path: Path, manifests: Mapping[Path, Manifest]) -> Manifest:
    if path not in manifests:
        raise InputError(
            "Unmasked examples need the manifest.json that `albert prepare` wrote beside them: it holds the "
            f"masking settings. No manifest in {path.parent} lists {path.name}; copy it there."
        )
    return manifests[path]


def _check_same_masking(manifests: Mapping[Path, Manifest]) -> None:
    """Raises InputError if the reader would mask the files of a run, or cut their chunks, differently."""
    (first, expected), *others = ((path, _masking(each)) for path, each in manifests.items())
    for path, facts in others:
        for what, value in facts.items():
            if expected.get(what, value) != value:
                raise InputError(
                    f"All files of a run must be prepared with the same {what}. {first} has {expected[what]}, "
                    f"{path} has {value}."
                )


def _masking(manifest: Manifest) -> dict[str, Any]:
    """The settings that files must share if the reader masks them, and do not show; {} for masked examples."""
    settings = manifest.settings
    if settings.masking != "dynamic":
        return {}
    return {"--max_seq_length": settings.max_seq_length, "masking": MaskingSettings.of(settings)}


def _check_same_layout(layouts: Mapping[Path, ExampleLayout]) -> None:
    (first, expected), *others = layouts.items()
    for path, layout in others:
        if layout.names is not expected.names:
            raise InputError(
                "All files of a run must have the same features (masked, unmasked or chunks). Received "
                f"{first} and {path}, which differ."
            )
        for name, length, other in (
            ("input_ids", expected.max_seq_length, layout.max_seq_length),
            ("masked_lm_positions", expected.max_predictions_per_seq, layout.max_predictions_per_seq),
        ):
            if length != other:
                raise InputError(
                    f"All files of a run must have the same lengths. {first} has {length} values of "
                    f"`{expected.names[name]}`, {path} has {other}."
                )


def _check_first_records(
    path: Path, layout: ExampleLayout, vocab_size: int | None, type_vocab_size: int | None, flags: set[str]
) -> None:
    """Checks the first records of a file against a layout whose lengths were given by these flags, if any."""
    for record in islice(read_records(path), _CHECKED_RECORDS):
        found = parse_record(record, path)
        for name, feature in layout.features.items():
            check_feature(name, feature, found, path, by_flag=feature.flag in flags)
        limits = {layout.names["input_ids"]: ("vocab_size", vocab_size)}
        if not layout.holds_chunks:
            limits[layout.names["token_type_ids"]] = ("type_vocab_size", type_vocab_size)
        if layout.is_masked:
            limits["masked_lm_ids"] = ("vocab_size", vocab_size)
            limits["masked_lm_positions"] = ("max_seq_length", layout.max_seq_length)
        for name, (flag, limit) in limits.items():
            _check_range(name, found[name][1], limit, flag, path)


def check_feature(
    name: str, feature: Feature, found: RawFeatures, place: Path | str, by_flag: bool = False
) -> None:
    """Checks that an example has a feature, of the right type and length; `place` names it in the message.

    The length is that of the file's first example unless a flag gave it.
    """
    if name not in found:
        raise _missing(name, found, place)
    kind, values = found[name]
    if kind != _LISTS[feature.dtype]:
        raise InputError(
            f"The feature `{name}` must be of type {_LISTS[feature.dtype]}. {place} has {kind or 'none'}."
        )
    if feature.length is None and not values:
        raise _without_values(name, place)
    if feature.length is not None and len(values) != feature.length:
        reason = ", as the first example of the file" if feature.flag else ""
        advice = ""
        if by_flag:
            reason = f" (--{feature.flag})"
            advice = f" Set --{feature.flag}={len(values)} or prepare the data again."
        raise InputError(
            f"The feature `{name}` must have {feature.length} values{reason}. {place} has {len(values)}.{advice}"
        )


def _missing(name: str, found: RawFeatures, place: Path | str) -> InputError:
    names = ", ".join(sorted(found))
    return InputError(f"Pretraining examples must have the feature `{name}`. {place} has only {names}.")


def _without_values(name: str, place: Path | str) -> InputError:
    return InputError(f"The feature `{name}` must have values. {place} has none.")


def _check_range(name: str, values: Sequence[int], limit: int | None, flag: str, path: Path) -> None:
    if limit is None:
        return
    worst = max(values, key=lambda value: value if value >= 0 else limit - value)
    if not 0 <= worst < limit:
        raise InputError(
            f"The values of `{name}` must be at least 0 and below `{flag}`. {path} has {worst} where `{flag}` is "
            f"{limit}; train with the configuration and vocabulary that the data was prepared for."
        )
