"""Examples that are prepared at an address, from text and a vocabulary there, equal local ones."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from data_prep.errors import InputError
from data_prep.examples.manifest import Manifest
from data_prep.examples.prepare_flags import PrepareSettings
from data_prep.prepare import local
from data_prep.prepare.local import prepare
from data_prep.reading.dataset import pretraining_dataset
from tests.story import write_story

SHARDS = [f"train.tfrecord-0000{i}-of-00002" for i in range(2)]


@pytest.fixture
def bucket(tmp_path, model_file, monkeypatch) -> tuple[Path, str]:
    """A folder with text and a vocabulary, and its address. fsspec treats file:// like any other store."""
    monkeypatch.setenv("ALBERT_TF_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "bucket"
    folder.mkdir()
    for number in range(2):
        write_story(folder / f"text{number}.txt", seed=number)
    shutil.copy(model_file, folder / "spm.model")
    return folder, f"file://{folder}"


def settings_at(base: str, output: str, **changes) -> PrepareSettings:
    flags = {"max_seq_length": 48, "dupe_factor": 2, "num_shards": 2, **changes}
    return PrepareSettings(
        f"{base}/text*.txt", f"{base}/{output}/train.tfrecord", f"{base}/spm.model", **flags
    )


def prepared(*arguments, **changes) -> Manifest:
    return prepare(settings_at(*arguments, **changes), show_progress=False)


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in SHARDS}


def test_the_bytes_and_the_stream_are_those_of_local_files(bucket, tmp_path):
    folder, url = bucket
    here, there = prepared(str(folder), "here"), prepared(url, "there")
    assert contents(folder / "there") == contents(folder / "here")
    assert {path.name for path in (folder / "there").iterdir() if path.is_file()} == {
        "manifest.json",
        *SHARDS,
    }
    assert (there.counts, there.shards) == (here.counts, here.shards)
    assert [each.file for each in there.inputs] == [f"{url}/text0.txt", f"{url}/text1.txt"]
    assert there.vocabulary.file == f"{url}/spm.model"
    assert not [*(tmp_path / "cache" / "prepare").iterdir()], "the scratch folder is removed"
    flags = {"batch_size": 4, "shuffle_seed": 1}
    remote = pretraining_dataset(f"{url}/there/train.tfrecord*", **flags)
    ours = pretraining_dataset(f"{folder}/here/train.tfrecord*", **flags)
    for batch, expected in zip(remote.take(60), ours.take(60), strict=True):
        for name, values in expected.items():
            np.testing.assert_array_equal(batch[name], values)


def test_an_interrupted_run_resumes(bucket, monkeypatch):
    folder, url = bucket
    prepared(str(folder), "here")

    def killed(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(local, "_write_shards", killed)
        with pytest.raises(KeyboardInterrupt):
            prepared(url, "there")
    assert not (folder / "there" / SHARDS[0]).exists()
    with monkeypatch.context() as patched:  # the parts are made already
        patched.setattr(local, "document_examples", killed)
        prepared(url, "there")
    assert contents(folder / "there") == contents(folder / "here")


def test_other_settings_replace_files_on_request_only(bucket):
    folder, url = bucket
    prepared(url, "there")
    with pytest.raises(InputError, match="only replaced with --overwrite. Received file:"):
        prepared(url, "there", ngram=1)
    assert prepared(url, "there", ngram=1, overwrite=True).settings.ngram == 1
    assert Manifest.read(folder / "there").settings.ngram == 1
    with pytest.raises(InputError, match="must be those of one command"):
        prepared(url, "there", num_shards=3)


def test_a_second_set_in_the_folder_keeps_the_first_ones_manifest(bucket):
    folder, url = bucket
    prepared(url, "there")
    other = PrepareSettings(
        f"{url}/text0.txt",
        f"{url}/there/heldout.tfrecord",
        f"{url}/spm.model",
        max_seq_length=48,
        dupe_factor=1,
    )
    prepare(other, show_progress=False)
    assert Manifest.read(folder / "there").files == {"heldout.tfrecord"}
    assert Manifest.read(folder / "there" / f"manifest.{SHARDS[0]}.json").files == set(SHARDS)
    prepared(url, "there", ngram=1, overwrite=True)
    assert Manifest.read(folder / "there").files == set(SHARDS)
    assert Manifest.read(folder / "there" / "manifest.heldout.tfrecord.json").files == {"heldout.tfrecord"}
