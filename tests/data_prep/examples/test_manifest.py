"""What is read from manifest.json, and which manifest belongs to a file."""

import dataclasses
import hashlib
import json
import os
from collections import Counter
from pathlib import Path

import pytest

from data_prep.errors import InputError
from data_prep.examples.manifest import (
    ExampleCounts,
    Manifest,
    Shard,
    SourceFile,
    VocabularyFacts,
    manifests_of,
    remove_manifests,
    without_manifests,
)
from data_prep.examples.prepare_flags import PrepareSettings


def make(*files: str, **flags) -> Manifest:
    flags = {"max_predictions_per_seq": 9, "dupe_factor": 1, **flags}
    settings = PrepareSettings("text.txt", "train.tfrecord", "30k.model", **flags)
    vocabulary = VocabularyFacts("30k.model", "ab", 30_000, 2, 3, 4, [0, 1, 2, 3, 4])
    shards = [Shard(file, 3, 100, "00ff") for file in files]
    return Manifest(
        ExampleCounts.of(Counter(examples=3)), settings, vocabulary, [SourceFile("a", 7)], shards, {}
    )


def test_write_and_read(tmp_path):
    manifest = make("train.tfrecord", masking="dynamic")
    manifest.write(tmp_path)
    read = Manifest.read(tmp_path)
    assert read == manifest == Manifest.read(tmp_path / "manifest.json")
    assert read.path == tmp_path / "manifest.json"
    assert read.to_json() == (tmp_path / "manifest.json").read_text(encoding="utf-8")


def test_examples_need_the_vocabulary_that_they_were_prepared_with(tmp_path):
    for name in ("then.model", "other.model"):
        (tmp_path / name).write_bytes(name.encode())
    then = hashlib.sha256(b"then.model").hexdigest()
    facts = VocabularyFacts(f"{tmp_path}/then.model", then, 30_000, 2, 3, 4, [0])
    assert facts.read() == facts.read(tmp_path / "then.model")
    with pytest.raises(InputError, match=r"other.model is another one than .*then.model was then"):
        facts.read(tmp_path / "other.model")
    (tmp_path / "then.model").write_bytes(b"trained again")
    with pytest.raises(InputError, match=r"then.model is another one"):
        facts.read()


def test_names_of_files_need_not_be_utf8(tmp_path):
    manifest = make("train.tfrecord")
    name = os.fsdecode(b"caf\xe9.txt")
    settings = dataclasses.replace(manifest.settings, input_file=name)
    changes = {
        "inputs": [SourceFile(name, 7)],
        "vocabulary": dataclasses.replace(manifest.vocabulary, file=name),
        "shards": [dataclasses.replace(manifest.shards[0], file=name)],
    }
    dataclasses.replace(manifest, settings=settings, **changes).write(tmp_path)
    read = Manifest.read(tmp_path)
    names = (read.settings.input_file, read.inputs[0].file, read.vocabulary.file, read.shards[0].file)
    assert set(names) == {"caf\ufffd.txt"}


def test_counts_that_only_training_knows_are_left_out(tmp_path):
    for flags, missing in (
        ({}, set()),
        ({"masking": "dynamic"}, {"masked_tokens", "swapped_examples"}),
        ({"masking": "dynamic", "sentence_objective": "nsp"}, {"masked_tokens"}),
    ):
        content = json.loads(make("a", **flags).to_json())
        for row in (content["counts"], *content["shards"]):
            assert {"example_tokens", "masked_tokens", "swapped_examples"} - set(row) == missing


def change(path: Path, **values) -> None:
    content = {**json.loads(path.read_text(encoding="utf-8")), **values}
    path.write_text(json.dumps(content), encoding="utf-8")


def test_damaged_manifests(tmp_path):
    for values in (
        {"shards": [{"file": "train.tfrecord", "examples": "3", "bytes": 100, "crc32c": ""}]},
        {"settings": {}},
        {"vocabulary": None},
        {"counts": 3},
    ):
        make("train.tfrecord").write(tmp_path)
        change(tmp_path / "manifest.json", **values)
        with pytest.raises(InputError, match="manifest.json is not a manifest of `albert prepare`"):
            Manifest.read(tmp_path)
        (tmp_path / "manifest.json").unlink()


def test_the_manifest_of_a_file_lists_it(tmp_path):
    for files in (("a-0", "a-1"), ("b",), ("c",)):
        make(*files).write(tmp_path)
    kept = ["manifest.a-0.json", "manifest.b.json", "manifest.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == kept
    found = manifests_of([tmp_path / name for name in ("a-0", "a-1", "b", "c", "d")])
    expected = {"a-0": "a-0", "a-1": "a-0", "b": "b", "c": "c"}
    assert {file.name: manifest.shards[0].file for file, manifest in found.items()} == expected
    # FOLDER/* also matches the manifests; names that are only similar stay.
    examples = ["a-0", "manifest.tfrecord", "my_manifest.json"]
    for name in examples:
        (tmp_path / name).touch()
    assert [path.name for path in without_manifests(sorted(tmp_path.iterdir()))] == examples


def test_manifests_of_replaced_files_are_removed(tmp_path):
    """Also one that was kept aside: it would contradict the new one."""
    for files in (("a",), ("b",)):
        make(*files).write(tmp_path)
    remove_manifests(tmp_path, ["a"])
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]
    make("a", masking="dynamic").write(tmp_path)
    found = manifests_of([tmp_path / "a", tmp_path / "b"])
    assert [manifest.settings.masking for manifest in found.values()] == ["dynamic", "static"]
