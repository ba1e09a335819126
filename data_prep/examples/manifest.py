"""manifest.json: what `albert prepare` made, from what, and how. It holds no times: same input, same bytes."""

import hashlib
import json
from collections import Counter
from importlib import metadata
from pathlib import Path

import numpy as np

from data_prep.files import write_text
from data_prep.text.documents import input_size
from data_prep.tokenizers.vocabulary import Tokenizer

MANIFEST = "manifest.json"


def build_manifest(
    settings: dict,
    tokenizer: Tokenizer,
    inputs: list[Path],
    counts: Counter,
    shards: list[dict],
) -> dict:
    """Puts the manifest together.

    Args:
      settings: the flags by name, with the values that were used.
      tokenizer: the vocabulary.
      inputs: the files that were read.
      counts: documents, sentences, tokens (of the text, once), examples, example_tokens, masked_tokens and
        swapped_examples (of the output), dropped_sentences (over all duplicates: the single sentences left
        over at ends of documents).
      shards: of each shard {"file", "examples", "bytes", "crc32c" (of the file), "example_tokens",
        "masked_tokens", "swapped_examples"}.
    """
    names = (
        "documents",
        "sentences",
        "tokens",
        "examples",
        "example_tokens",
        "masked_tokens",
        "swapped_examples",
        "dropped_sentences",
    )
    return {
        "counts": {name: counts[name] for name in names},
        "settings": settings,
        "seed": settings["random_seed"],
        "vocabulary": {
            "file": str(tokenizer.file),
            "sha256": file_sha256(tokenizer.file),
            "size": tokenizer.vocab_size,
            "cls_id": tokenizer.cls_id,
            "sep_id": tokenizer.sep_id,
            "mask_id": tokenizer.mask_id,
            "special_ids": np.flatnonzero(tokenizer.is_special).tolist(),
        },
        "inputs": [{"file": str(path), "bytes": input_size(path)} for path in inputs],
        "shards": shards,
        "versions": package_versions(),
    }


def write_manifest(folder: Path, manifest: dict) -> None:
    """Writes FOLDER/manifest.json; one that describes other files there is kept as NAME.manifest.json."""
    path = folder / MANIFEST
    kept = _shards_of(path)
    if kept and not set(kept) & {shard["file"] for shard in manifest["shards"]}:
        path.replace(folder / f"{kept[0]}.{MANIFEST}")
    write_text(path, json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")


def drop_manifest(folder: Path, outputs: list[Path]) -> None:
    """Removes FOLDER/manifest.json if it describes files that are about to be replaced."""
    path = folder / MANIFEST
    if set(_shards_of(path)) & {output.name for output in outputs}:
        path.unlink()


def package_versions() -> dict[str, str]:
    """The packages whose versions may change the bytes."""
    return {name: _version(name) for name in ("albert-tf", "numpy", "sentencepiece", "sentencex")}


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file, hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _shards_of(manifest: Path) -> list[str]:
    if not manifest.is_file():
        return []
    return [shard["file"] for shard in json.loads(manifest.read_text(encoding="utf-8"))["shards"]]


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # run from a checkout that was never installed
        return "unknown"
