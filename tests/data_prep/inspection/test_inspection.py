import gzip
import io
import json
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf
from rich.console import Console

from albert_cli.cli import main
from data_prep.errors import InputError
from data_prep.examples.prepare_flags import PrepareSettings
from data_prep.inspection.example_batches import read_batches
from data_prep.inspection.example_stats import ExampleStats, most_frequent_share, stats_table
from data_prep.inspection.inspection import inspect
from data_prep.prepare.local import prepare
from data_prep.reading.dataset import pretraining_dataset
from data_prep.reading.example_files import ExampleFiles
from tests.data_prep.wordpieces import vocab_file

__all__ = ["vocab_file"]


@pytest.fixture(scope="module")
def prepared(story, model_file, tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    flags = {"num_shards": 2, "max_seq_length": 48, "dupe_factor": 20}
    settings = PrepareSettings(str(story), f"{folder}/train.tfrecord", str(model_file), **flags)
    prepare(settings, show_progress=False)
    return folder


@pytest.fixture
def folder(prepared, tmp_path):
    """A copy to damage."""
    shutil.copytree(prepared, tmp_path / "copy")
    return tmp_path / "copy"


def inspected(files, **settings) -> str:
    console = Console(file=io.StringIO(), width=200)
    inspect([str(files)], console, **settings)
    return console.file.getvalue()


def records(path) -> list[bytes]:
    return [record.numpy() for record in tf.data.TFRecordDataset(str(path))]


def write(path, records, compression=""):
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for record in records:
            writer.write(record)


def changed(record: bytes, **features) -> bytes:
    """An example with other values in some places, ((place, value), ...), or without a feature, None."""
    example = tf.train.Example.FromString(record)
    for name, changes in features.items():
        if changes is None:
            del example.features.feature[name]
            continue
        feature = example.features.feature[name]
        values = getattr(feature, feature.WhichOneof("kind")).value
        for place, value in changes:
            values[place] = value
    return example.SerializeToString()


def small_example() -> dict[str, np.ndarray]:
    """[CLS] a bb c [SEP] d e [SEP] and 2 of padding; "a bb" and "d" masked, id 9 continues a word."""
    return {
        "input_ids": np.array([[2, 4, 4, 9, 12, 3, 13, 14, 3, 0, 0]]),
        "input_mask": np.array([[1] * 9 + [0] * 2]),
        "token_boundary": np.array([[1, 1, 1, 0, 1, 1, 1, 1, 1, 0, 0]]),
        "masked_lm_positions": np.array([[1, 2, 3, 6, 0]]),
        "masked_lm_ids": np.array([[10, 11, 9, 20, 0]]),
        "masked_lm_weights": np.array([[1.0, 1, 1, 1, 0]]),
        "next_sentence_labels": np.array([[1]]),
    }


@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize("with_boundary", [True, False])
def test_counts_by_hand(with_boundary, copies):
    starts_word = np.ones(30, bool)
    starts_word[[0, 9]] = False
    stats = ExampleStats(4, starts_word)
    example = small_example()
    if not with_boundary:
        del example["token_boundary"]
    for _ in range(2):
        stats.add({name: np.repeat(values, copies, axis=0) for name, values in example.items()})
    n = 2 * copies
    assert (stats.examples, stats.tokens, stats.masked, stats.max_seq_length) == (n, 9 * n, 4 * n, 11)
    assert stats.lengths.nonzero()[0].tolist() == [9]
    assert stats.masked_shares.nonzero()[0].tolist() == [44]
    assert stats.originals.nonzero()[0].tolist() == [9, 10, 11, 20]
    assert stats.replaced.tolist() == [2 * n, n, n]
    assert stats.runs.tolist() == [0, n, n, 0, 0]
    assert stats.labels.tolist() == [0, n]


@pytest.mark.slow
def test_the_most_frequent_masked_piece(prepared):
    files = ExampleFiles.read([prepared / "train.tfrecord-00000-of-00002"])
    batches = list(pretraining_dataset(files, batch_size=7, repeat=False))
    ids = np.concatenate(
        [batch["masked_lm_ids"].numpy()[batch["masked_lm_weights"].numpy() > 0] for batch in batches]
    )
    share = most_frequent_share(prepared / "train.tfrecord-00000-of-00002")
    assert share == np.unique(ids, return_counts=True)[1].max() / len(ids)


def column(output, number):
    rows = (line.strip("│").split("│") for line in output.splitlines())
    return {" ".join(cells[0].split()): cells[number].strip() for cells in rows if len(cells) == 3}


def test_the_rules_are_those_of_the_settings(prepared):
    output = inspected(prepared / "train*", stats=True)
    found, usual = (column(output, number) for number in (1, 2))
    for name, share, most in (("become [MASK]", 80, 4), ("masked tokens", 15, 1), ("swapped", 50, 8)):
        assert float(found[name].rstrip("%")) == pytest.approx(share, abs=most)
    assert re.fullmatch(r"\d+%, 15%, 1\d%", found["in an example: lowest, median, highest"])
    names = [name for name in usual if name.startswith("masked runs")]
    assert [usual[name] for name in names] == ["54.5% *", "27.3% *", "18.2% *", "0.0% *"]
    assert (usual["masked tokens"], usual["swapped"]) == ("15%, at most P", "50%")

    stats = ExampleStats(4, np.ones(30, bool))
    stats.add(small_example())

    def rules(**settings):
        console = Console(file=io.StringIO(), width=200)
        console.print(stats_table(stats, PrepareSettings("", "", **settings)))
        return column(console.file.getvalue(), 2)

    assert rules() == usual | {"shortest, median, longest": "at most 11"}
    other = rules(masked_lm_prob=0.125, ngram=1, sentence_objective="none")
    assert [other[name] for name in names] == ["100.0% *", "0.0% *", "0.0% *", "0.0% *"]
    assert (other["masked tokens"], other["swapped"]) == ("12.5%, at most P", "0%")
    longer = rules(ngram=5, favor_shorter_ngram=False)  # 1/5, 1/4, 1/3, and 1/2 and 1
    assert [longer[name] for name in names] == ["8.8% *", "10.9% *", "14.6% *", "65.7% *"]
    assert {rules(do_whole_word_mask=False)[name] for name in names} == {""}


@pytest.mark.slow
def test_examples_are_decoded(prepared):
    output = inspected(prepared / "train.tfrecord-00000*")
    assert output.count("train.tfrecord-00000-of-00002, example") == 3
    assert "[CLS]" in output
    assert "became [MASK]" in output
    assert inspected(prepared / "train*", num_examples=1).count(", example ") == 1
    many = inspected(prepared / "train*", num_examples=1000)
    assert "train.tfrecord-00001-of-00002, example 0" in many


def test_whole_files_verify(prepared, tmp_path):
    output = inspected(prepared / "train*", verify=True)
    assert output.count("ok     ") == output.count("matches its manifest") == 2
    source = prepared / "train.tfrecord-00000-of-00002"
    (tmp_path / "packed").write_bytes(gzip.compress(source.read_bytes()))
    output = inspected(tmp_path / "packed", verify=True)
    assert f"{len(records(source)):,} examples" in output
    assert "no manifest" in output
    assert "Ids were not checked" in output


def test_ids_are_checked_against_the_vocabulary_of_each_file(prepared, vocab_file, story, tmp_path):
    """A glob may name files of several vocabularies; the first one's may be the smallest."""
    settings = {"vocab_file": str(vocab_file), "max_seq_length": 48, "dupe_factor": 1}
    prepare(PrepareSettings(str(story), f"{tmp_path}/small.tfrecord", **settings), show_progress=False)
    output = inspected(f"{tmp_path}/small.tfrecord,{prepared}/train*", verify=True)
    assert output.count("ok     ") == output.count("matches its manifest") == 3
    assert "Ids were not checked" not in output


def test_files_without_masks(prepared, model_file, tmp_path):
    """As if masked in training."""
    names = dict.fromkeys(("masked_lm_positions", "masked_lm_ids", "masked_lm_weights"))
    source = records(prepared / "train.tfrecord-00000-of-00002")
    write(tmp_path / "plain.tfrecord", [changed(record, **names) for record in source], "GZIP")
    settings = {"spm_model_file": str(model_file), "num_examples": 1}
    output = inspected(tmp_path / "plain.tfrecord", stats=True, verify=True, **settings)
    assert "masked in training" in output
    assert ", 0 masked" in output


@pytest.fixture(scope="module")
def chunks(story, model_file, tmp_path_factory):
    """A file of chunks, from which training draws the pairs."""
    path = tmp_path_factory.mktemp("chunks") / "train.tfrecord"
    settings = PrepareSettings(str(story), str(path), str(model_file), max_seq_length=48, masking="dynamic")
    prepare(settings, show_progress=False)
    return path


def test_chunks_are_shown_with_their_sentences(chunks, tokenizer):
    output = inspected(chunks, num_examples=2, stats=True, verify=True)
    first = tf.train.Example.FromString(records(chunks)[0]).features.feature
    ids, starts = (list(first[name].int64_list.value) for name in ("input_ids", "sentence_starts"))
    assert f"example 0: {len(starts) + 1} sentences, {len(ids)} tokens, cut and masked in training" in output
    sentence = "".join(tokenizer.pieces[i] for i in ids[: starts[0]]).replace("▁", " ")
    assert f"│ 1 {sentence}" in output
    assert "matches its manifest" in output
    assert f"{len(records(chunks)):,} chunks, " in output and "drawn in training" in output


@pytest.mark.parametrize(
    ("feature", "values", "message"),
    [
        ("input_ids", [5, 6, 100, 7], "at least 0 and below 100, the size .* record 1 has 100 at place 2"),
        ("sentence_starts", [], "`sentence_starts` must ascend|must have values"),
        ("sentence_starts", [0], "`sentence_starts` must ascend, .* record 1 has 0 at place 0"),
        ("sentence_starts", [2, 2], "`sentence_starts` must ascend, .* record 1 has 2 at place 1"),
        ("sentence_starts", [2, 0, 3], "`sentence_starts` must ascend, .* record 1 has 0 at place 1"),
        ("sentence_starts", [4], "`sentence_starts` must ascend, .* record 1 has 4 at place 0"),
        ("token_boundary", [1, 0, 1], "`token_boundary` must have a value for each .* record 1 has 3 for 4"),
    ],
)
def test_wrong_chunks_are_found(chunks, model_file, tmp_path, feature, values, message):
    good = {"input_ids": [5, 6, 7, 8], "token_boundary": [1, 1, 1, 1], "sentence_starts": [1, 3]}
    features = {
        name: tf.train.Feature(int64_list=tf.train.Int64List(value=each))
        for name, each in {**good, feature: values}.items()
    }
    bad = tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
    write(tmp_path / "bad", [records(chunks)[0], bad])
    with pytest.raises(InputError, match=message):
        inspected(tmp_path / "bad", spm_model_file=str(model_file), stats=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_ids": [(3, 100)]}, "`input_ids` must be at least 0 and below 100, .* 1 has 100 at place 3"),
        ({"input_ids": [(0, -1)]}, "`input_ids` .* has -1"),
        ({"masked_lm_ids": [(0, 7000)]}, "`masked_lm_ids` .* record 1 has 7000"),
        ({"masked_lm_positions": [(0, 48)]}, "`masked_lm_positions` must be the position of a token"),
        ({"input_mask": [(1, 0)]}, "`input_mask` must be 1 for the tokens and then 0"),
        ({"segment_ids": [(1, 2)]}, "`segment_ids` must be 0 or 1"),
        ({"next_sentence_labels": [(0, 3)]}, "`next_sentence_labels` must be 0 or 1"),
        ({"segment_ids": None}, "must have the feature `segment_ids`. .* record 1 has only"),
        ({"token_boundary": None}, "must have the feature `token_boundary`"),
    ],
)
def test_wrong_values_are_found(folder, changes, message):
    path = folder / "train.tfrecord-00000-of-00002"
    first, second, *rest = records(path)
    (folder / "manifest.json").rename(folder / "manifest.txt")
    write(path, [first, changed(second, **changes), *rest])
    model = json.loads((folder / "manifest.txt").read_text())["vocabulary"]["file"]
    for settings in ({"num_examples": 2}, {"stats": True}):
        with pytest.raises(InputError, match=message):
            inspected(path, spm_model_file=model, **settings)
    with pytest.raises(InputError, match="Of 1 files 1 are damaged"):
        inspected(path, spm_model_file=model, verify=True)


def test_negative_ids_without_a_vocabulary(folder, capsys):
    path = folder / "train.tfrecord-00000-of-00002"
    write(path, [changed(records(path)[0], input_ids=[(0, -5)])])
    (folder / "manifest.json").unlink()
    assert main(["inspect", str(path), "--verify"]) == 2
    assert "`input_ids` must not be negative." in capsys.readouterr().out


@pytest.mark.slow
def test_an_empty_shard_is_right_if_its_manifest_counts_none(story, model_file, tmp_path):
    flags = {"num_shards": 60, "max_seq_length": 512, "masking": "dynamic"}
    settings = PrepareSettings(str(story), f"{tmp_path}/train.tfrecord", str(model_file), **flags)
    manifest = prepare(settings, show_progress=False)
    empty = [shard.file for shard in manifest.shards if not shard.examples]
    assert 0 < len(empty) < 60
    output = inspected(tmp_path / "train*", verify=True, stats=True, num_examples=1)
    assert output.count("ok     ") == 60
    for flags in ({}, {"stats": True}):
        assert inspected(tmp_path / empty[0], **flags) == "The files hold no examples.\n"
    files = sorted(tmp_path.glob("train*"))
    assert ExampleFiles.read(files).num_examples == manifest.counts.examples
    (tmp_path / next(shard.file for shard in manifest.shards if shard.examples)).write_bytes(b"")
    with pytest.raises(InputError, match="Of 60 files 1 are damaged"):
        inspected(tmp_path / "train*", verify=True)
    with pytest.raises(InputError, match="is empty"):
        ExampleFiles.read(files)


def test_renamed_shards_keep_their_manifest(folder):
    for number, path in enumerate(sorted(folder.glob("train*"))):
        path.rename(folder / f"renamed-{number}")
    output = inspected(folder / "renamed*", verify=True, num_examples=1)
    assert output.count("matches its manifest") == 2
    assert "[CLS]" in output, "the vocabulary is found"
    files = ExampleFiles.read(f"{folder}/renamed*")  # as training does
    assert files.manifest and files.num_examples == files.manifest.counts.examples
    damage(folder / "renamed-1")
    with pytest.raises(InputError, match="1 are damaged .* 1 more are missing"):
        inspected(folder / "renamed*", verify=True)


def damage(path):
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-3]), r"must have \d+ bytes.* It has \d+"),
        (lambda path: write(path, records(path)[:-1]), r"must have \d+ bytes"),
        (lambda path: path.unlink(), "is in the manifest but does not exist"),
        (damage, "must have the CRC-32C"),
    ],
)
def test_verify_compares_with_the_manifest(folder, capsys, change, message):
    change(folder / "train.tfrecord-00001-of-00002")
    assert main(["inspect", f"{folder}/train*", "--verify"]) == 2
    output, error = capsys.readouterr()
    lines = " ".join(output.split())
    assert "ok " in lines
    assert re.search(f"WRONG .*(?:{message})", lines)
    assert error.startswith("albert: Of ")
    assert error.count("\n") == 1


def test_damaged_records_are_found_without_a_manifest(folder):
    (folder / "manifest.json").unlink()
    path = folder / "train.tfrecord-00000-of-00002"
    damage(path)
    raw = path.read_bytes()
    for damaged in (raw, raw[:-3], gzip.compress(b"Plain text." * 99)[:-12]):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match="damaged after record 0, before record 512: "):
            list(read_batches(path))


def test_other_files(tmp_path, model_file):
    write(tmp_path / "raw", [b"no example"])
    features = {"text": tf.train.Feature(int64_list=tf.train.Int64List(value=[1]))}
    other = tf.train.Example(features=tf.train.Features(feature=features))
    write(tmp_path / "other", [other.SerializeToString()])
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "packed").write_bytes(gzip.compress(b""))
    for name, message in [
        ("raw", "raw must hold tf.train.Examples"),
        ("other", "must have the feature `input_ids`. .*/other has only text"),
        ("empty", "is empty"),
        ("packed", "is empty"),
        ("none", "no input file"),
    ]:
        with pytest.raises(InputError, match=message):
            inspected(tmp_path / name, spm_model_file=str(model_file))


def test_bad_settings(folder, capsys):
    files = f"{folder}/train*"
    (folder / "manifest.json").rename(folder / "gone")
    for arguments, message in [
        ([files], "has no manifest; give it with --spm_model_file"),
        ([files, "--num_examples=-1"], "must not be negative. Received -1"),
        ([files, "--spm_model_file=/nowhere.model"], "The file /nowhere.model"),
        ([], "At least one TFRecord file"),
    ]:
        assert main(["inspect", *arguments]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
    (folder / "manifest.json").write_text("{}")
    assert main(["inspect", files, "--verify"]) == 2
    assert "is not a manifest of `albert prepare`" in capsys.readouterr().err
