import collections
import hashlib
import io
import json
import os
from itertools import chain
from pathlib import Path

import google_crc32c
import numpy as np
import pytest
import tensorflow as tf
from rich.console import Console

from data_prep.errors import InputError
from data_prep.examples.manifest import Manifest, SourceFile
from data_prep.examples.prepare_flags import PrepareSettings, shard_names
from data_prep.inspection.inspection import inspect
from data_prep.prepare.local import prepare
from data_prep.reading.example_files import ExampleFiles
from data_prep.text.documents import read_documents
from data_prep.text.sources import expand_files
from data_prep.tfrecord.records import count_examples, read_records
from data_prep.tfrecord.schema import chunk_features, pretraining_features
from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer
from data_prep.tokenizers.wordpiece_tokenizer import WordPieceTokenizer
from tests.data_prep.wordpieces import vocab_file
from tests.story import write_story

__all__ = ["vocab_file"]


def prepared(story, model_file, folder, **changes):
    values = {
        "input_file": str(story),
        "output_file": str(folder / "train.tfrecord"),
        "spm_model_file": model_file and str(model_file),
        "max_seq_length": 48,
        "dupe_factor": 2,
        **changes,
    }
    return prepare(PrepareSettings(**values), show_progress=False)


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def examples(path):
    for record in read_records(path):
        features = tf.train.Example.FromString(record).features.feature
        yield {
            name: np.array(getattr(feature, feature.WhichOneof("kind")).value)
            for name, feature in features.items()
        }


def test_every_example_is_a_stretch_of_a_document(model_file, tmp_path):
    """An example is found in the text once its masks and its swap are undone."""
    # All sentences are different, so each is found in one place only.
    text = "".join(f"Nobody sold {i} bottles.\nThe café painted {i}, for £{i}.\n" for i in range(1, 80))
    (tmp_path / "numbered.txt").write_text(text, encoding="utf-8")
    prepared(tmp_path / "numbered.txt", model_file, tmp_path, max_seq_length=64, dupe_factor=5)
    tokenizer = AlbertTokenizer(model_file)
    whole = " ".join(str(i) for line in text.splitlines() for i in tokenizer.encode(line)) + " "

    def places(example):
        ids = example["input_ids"].copy()
        weights = example["masked_lm_weights"].astype(int)
        predicted = example["masked_lm_positions"][weights == 1]
        ids[predicted] = example["masked_lm_ids"][weights == 1]
        length = example["input_mask"].sum()
        for name in ("input_ids", "segment_ids", "token_boundary", "input_mask"):
            assert not example[name][length:].any(), "padding is zero"
        first_sep, last_sep = np.flatnonzero(ids[:length] == tokenizer.sep_id)
        assert ids[0] == tokenizer.cls_id
        assert last_sep == length - 1
        assert np.flatnonzero(example["segment_ids"][:length]).tolist() == list(range(first_sep + 1, length))
        for segment in (ids[1:first_sep], ids[first_sep + 1 : last_sep]):
            stretch = " ".join(map(str, segment)) + " "
            assert whole.count(" " + stretch) + whole.startswith(stretch) == 1
            yield whole.index(stretch)

    labels = []
    for example in examples(tmp_path / "train.tfrecord"):
        first, second = places(example)
        assert example["next_sentence_labels"] == [int(first > second)]
        labels.append(first > second)
    assert len(labels) > 50
    assert 0 < sum(labels) < len(labels)


def test_same_seed_same_bytes(story, model_file, tmp_path):
    first, second, other = (tmp_path / name for name in ("first", "second", "other"))
    for folder, seed in ((first, 7), (second, 7), (other, 8)):
        prepared(story, model_file, folder, random_seed=seed, num_shards=2)
    a, b, c = contents(first), contents(second), contents(other)
    manifest = "manifest.json"
    assert a.pop(manifest) == b.pop(manifest).replace(b"/second/", b"/first/")
    c.pop(manifest)
    assert a == b
    assert all(a[name] != c[name] for name in a)


def test_examples_do_not_depend_on_the_order_of_documents(story, model_file, tmp_path):
    documents = ["\n".join(document.sentences) for document in read_documents([story])]
    (tmp_path / "a.txt").write_text("\n\n".join(documents[5:]), encoding="utf-8")
    (tmp_path / "b.txt").write_text("\n\n\n".join(reversed(documents[:5])), encoding="utf-8")
    prepared(story, model_file, tmp_path / "one")
    prepared(f"{tmp_path}/a.txt,{tmp_path}/b.txt", model_file, tmp_path / "two")
    one, two = contents(tmp_path / "one"), contents(tmp_path / "two")
    assert one["train.tfrecord"] == two["train.tfrecord"]


def test_manifest(story, model_file, tmp_path):
    manifest = prepared(story, model_file, tmp_path, num_shards=3, input_format="lines")
    assert Manifest.read(tmp_path) == manifest
    content = json.loads((tmp_path / "manifest.json").read_text("utf-8"))
    assert list(content) == ["counts", "settings", "seed", "vocabulary", "inputs", "shards", "versions"]
    assert content["seed"] == 12345
    assert content["settings"]["max_predictions_per_seq"] == 8  # 0.15 * 48 = 7.2, rounded up
    assert not {"workers", "runner", "pipeline_options"} & set(content["settings"])
    documents = list(read_documents([story]))
    counts = manifest.counts
    assert counts.documents == len(documents)
    assert counts.sentences == sum(len(document.sentences) for document in documents)
    shards = [tmp_path / f"train.tfrecord-0000{i}-of-00003" for i in range(3)]
    assert [(shard.file, shard.examples) for shard in manifest.shards] == [
        (path.name, number) for path, number in zip(shards, count_examples(shards), strict=True)
    ]
    for path, row in zip(shards, manifest.shards, strict=True):
        content = path.read_bytes()
        assert (row.bytes, row.crc32c) == (len(content), f"{google_crc32c.value(content):08x}")
    for row, paths in (
        *((row, [path]) for path, row in zip(shards, manifest.shards, strict=True)),
        (counts, shards),
    ):
        found = [example for path in paths for example in examples(path)]
        assert row.examples == len(found) == len({example["input_ids"].tobytes() for example in found})
        assert row.example_tokens == sum(example["input_mask"].sum() for example in found)
        assert row.masked_tokens == sum(example["masked_lm_weights"].sum() for example in found)
        assert row.swapped_examples == sum(example["next_sentence_labels"][0] for example in found)
    assert manifest.vocabulary.sha256 == hashlib.sha256(model_file.read_bytes()).hexdigest()
    assert manifest.inputs == [SourceFile(str(story), story.stat().st_size)]


@pytest.mark.parametrize("flags", [{"input_weights": "1,3"}, {"input_exponent": 0.3}])
def test_a_mixture(model_file, tmp_path, flags):
    """Beside the same text, counted: every document has the passes of its corpus, or one more."""
    sizes, texts = [], []
    for number, documents in enumerate((60, 15)):
        path = write_story(tmp_path / f"{number}.txt", documents=documents, seed=number)
        texts.append([document.sentences for document in read_documents([path])])
        sizes.append(len("".join(chain.from_iterable(chain.from_iterable(texts[-1])))))
    weights = np.array([1, 3]) if "input_weights" in flags else np.power(sizes, 0.3)
    shares = weights / weights.sum()
    passes = 2 * sum(sizes) * shares / sizes
    patterns = f"{tmp_path}/0.txt,{tmp_path}/1.txt"
    chunks = {"masking": "dynamic", "dupe_factor": 2, "max_seq_length": 4096}
    manifest = prepared(patterns, model_file, tmp_path / "out", **chunks, **flags)
    assert [(row.documents, row.input_file) for row in manifest.corpora] == [
        (60, f"{tmp_path}/0.txt"),
        (15, f"{tmp_path}/1.txt"),
    ]
    np.testing.assert_allclose([row.passes for row in manifest.corpora], passes)
    np.testing.assert_allclose([row.weight for row in manifest.corpora], shares)
    tokens = [row.example_tokens for row in manifest.corpora]
    assert sum(tokens) == manifest.counts.example_tokens
    assert [row.share for row in manifest.corpora] == pytest.approx(np.divide(tokens, sum(tokens)))
    for row in manifest.corpora:
        assert row.share == pytest.approx(row.weight, abs=0.05)
    # A chunk holds all tokens of a document or a short beginning, so that documents can be told apart.
    tokenizer = AlbertTokenizer(model_file)
    found = collections.Counter()
    for example in examples(tmp_path / "out" / "train.tfrecord"):
        found[tuple(example["input_ids"].tolist())] += 1
    for some, mean in zip(texts, passes, strict=True):
        whole = [found[tuple(chain.from_iterable(map(tokenizer.encode, document)))] for document in some]
        assert max(whole) <= int(mean) + 1
        assert np.mean(whole) == pytest.approx(0.9 * mean, abs=5 * np.sqrt((0.25 + 0.09 * mean) / len(whole)))


def test_an_empty_corpus_of_a_mixture(story, model_file, tmp_path):
    (tmp_path / "blank.txt").write_text("\n \n")
    with pytest.raises(InputError, match=r"Every input of a mixture must have content. .*blank.txt has none"):
        prepared(f"{story},{tmp_path}/blank.txt", model_file, tmp_path / "out", input_weights="1,1")
    assert not (tmp_path / "out").exists()


def test_two_outputs_in_one_folder_keep_both_manifests(story, model_file, tmp_path):
    """Globs for the files do not read a manifest as examples."""
    first = prepared(story, model_file, tmp_path)
    prepared(story, model_file, tmp_path, output_file=str(tmp_path / "heldout.tfrecord"), random_seed=2)
    pattern = f"{tmp_path}/train.tfrecord*"
    read = ExampleFiles.read(expand_files(pattern))
    assert (read.manifest, read.num_examples) == (first, first.counts.examples)
    inspect([pattern], Console(file=io.StringIO()), verify=True)
    everything = ExampleFiles.read(f"{tmp_path}/*")  # as the message for a folder advises
    assert [path.name for path in everything.paths] == ["heldout.tfrecord", "train.tfrecord"]


def test_shard_names():
    assert [str(path) for path in shard_names("a/b", 1)] == ["a/b"]
    assert [str(path) for path in shard_names("a/b, a/c", 1)] == ["a/b", "a/c"]
    assert str(shard_names("a/b", 12)[11]) == "a/b-00011-of-00012"
    with pytest.raises(InputError, match="must be a file. new/ is a folder; name a file in it."):
        shard_names("new/", 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_seq_length": 4}, "--max_seq_length must be at least 5. Received 4"),
        ({"max_predictions_per_seq": 48}, "below --max_seq_length. Received 48 and 48"),
        ({"max_predictions_per_seq": 0}, "at least 1"),
        ({"masked_lm_prob": 0.0}, "--masked_lm_prob must lie between 0 and 1. Received 0.0"),
        ({"masked_lm_prob": 15.0}, "--masked_lm_prob"),
        ({"short_seq_prob": float("nan")}, "--short_seq_prob"),
        ({"dupe_factor": 0}, "--dupe_factor"),
        ({"ngram": 0}, "--ngram"),
        ({"num_shards": 0}, "--num_shards"),
        ({"output_file": "a,b,c", "num_shards": 2}, "--num_shards must agree"),
        ({"output_file": " , "}, "--output_file must name a file"),
        ({"input_file": "/nowhere/*.txt"}, "No file matches"),
        ({"spm_model_file": "/nowhere.model"}, "The file /nowhere.model"),
        ({"spm_model_file": None}, "needs one vocabulary.*Received neither"),
        ({"input_format": "poems"}, "--input_format"),
        ({"input_weights": "1,1"}, "A mixture needs several patterns"),
        ({"input_file": "-,-", "input_weights": "1,1"}, "must belong to one corpus"),
        ({"input_file": "-,/dev/null", "input_weights": "1,1"}, "A mixture reads the text twice"),
    ],
)
def test_bad_settings(story, model_file, tmp_path, changes, message):
    changes.setdefault("output_file", str(tmp_path / "out" / "train.tfrecord"))
    with pytest.raises(InputError, match=message):
        prepared(story, model_file, tmp_path, **changes)
    assert not list(tmp_path.rglob("*.*"))


def test_with_a_wordpiece_vocabulary(vocab_file, tmp_path):
    """Whole words are masked, the manifest names the vocabulary, and `albert inspect` finds it there."""
    text = "".join(f"我喜欢北京{c}。\nTransformers unaffable cafes {c}!\n" for c in "abcdefghij" * 6)
    letters = "".join(text.lower().split())
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    flags = {"spm_model_file": None, "vocab_file": str(vocab_file), "max_seq_length": 64}
    manifest = prepared(tmp_path / "text.txt", None, tmp_path, **flags)
    assert manifest.vocabulary.file == str(vocab_file)
    assert manifest.vocabulary.special_ids == [0, 1, 2, 3, 4]
    tokenizer = WordPieceTokenizer(vocab_file)
    masked = 0
    for example in examples(tmp_path / "train.tfrecord"):
        ids = example["input_ids"].copy()
        weights = example["masked_lm_weights"] > 0
        predicted = example["masked_lm_positions"][weights]
        ids[predicted] = example["masked_lm_ids"][weights]
        # A segment may begin inside a word.
        words = np.cumsum(
            tokenizer.word_starts("unicode")[ids] | np.append(True, tokenizer.is_special[ids[:-1]])
        )
        assert set(np.flatnonzero(np.isin(words, words[predicted]))) == set(predicted)
        assert "".join(tokenizer.pieces[i].removeprefix("##") for i in ids[1:6]) in letters
        masked += len(predicted)
    assert masked == manifest.counts.masked_tokens
    console = Console(file=io.StringIO(), width=200)
    inspect([str(tmp_path / "train.tfrecord")], console, num_examples=1)
    assert "北" in console.file.getvalue()


def test_invalid_outputs(story, model_file, tmp_path):
    before = story.read_bytes()
    (tmp_path / "file").write_text("x")
    for output, message in [
        (story, "must not overwrite an input"),
        (model_file, "must not overwrite an input"),
        (tmp_path, "is a folder"),
        (f"{tmp_path}/a,{tmp_path}/a", "the same file twice"),
        (f"{tmp_path}/a,{tmp_path}/sub/a", "in one folder"),
        (f"{tmp_path}/file/train.tfrecord", "is a file"),
    ]:
        with pytest.raises(InputError, match=message):
            prepared(story, model_file, tmp_path, output_file=str(output))
    assert story.read_bytes() == before


@pytest.mark.parametrize("elsewhere", ["data", "."])
def test_the_vocabulary_is_found_from_any_folder(story, model_file, tmp_path, monkeypatch, elsewhere):
    (tmp_path / "vocab").mkdir()
    (tmp_path / "vocab" / "spm.model").write_bytes(model_file.read_bytes())
    monkeypatch.chdir(tmp_path)
    prepared(story, Path("vocab/spm.model"), Path("data"))
    monkeypatch.chdir(elsewhere)
    manifest = Manifest.read(Path("manifest.json" if elsewhere == "data" else "data/manifest.json"))
    assert manifest.vocabulary.file == "../vocab/spm.model"
    assert manifest.vocabulary_here.read().content == model_file.read_bytes()


@pytest.mark.parametrize(
    ("name", "text", "objective", "message"),
    [
        (
            "a.txt",
            "One.\n\nTwo.\n\nThree.\n",
            "sop",
            "at least two sentences. .* in 3 .* or set --input_format=prose.",
        ),
        ("a.txt", "\n \n", "sop", "at least two sentences"),
        ("a.txt", "One.\n\u0301\n", "sop", "at least two sentences"),
        ("a.txt", "\u0301\n", "none", "An example needs a sentence."),
        ("a.txt", "One.\nTwo.\nThree.\n", "nsp", "at least two different documents"),
    ],
)
def test_no_document_with_two_sentences(model_file, tmp_path, name, text, objective, message):
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        prepared(tmp_path / name, model_file, tmp_path / "out", sentence_objective=objective)
    assert not (tmp_path / "out").exists()


def test_rows_of_one_sentence(model_file, tmp_path, capsys):
    """They are prose with any --input_format, so that another one would not help."""
    rows, advice = tmp_path / "rows.jsonl", "A row is a document of prose: put the sentences that belong"
    rows.write_text('{"text": "The captain slept."}\n' * 3)
    for changes in ({}, {"input_format": "prose"}, {"strict": True}):
        with pytest.raises(InputError, match=f"at least two sentences. .* {advice}"):
            prepared(rows, model_file, tmp_path / "out", **changes)
    with rows.open("a") as file:
        file.write('{"text": "The captain slept. Nobody saw him. The ship sailed."}\n')
    settings = PrepareSettings(
        str(rows), f"{tmp_path}/out/a.tfrecord", str(model_file), max_seq_length=48, strict=True
    )
    prepare(settings)
    assert f"warning: 3 of 4 rows have one sentence, which makes no pair. {advice}" in capsys.readouterr().err


def test_a_failure_keeps_earlier_output(story, model_file, tmp_path):
    out = tmp_path / "out"
    prepared(story, model_file, out)
    before = contents(out)
    (tmp_path / "bad.txt").write_bytes(b"One.\nTwo.\n\nThr\xffee.\n")
    with pytest.raises(InputError, match="0xff at offset 14"):
        prepared(f"{story},{tmp_path}/bad.txt", model_file, out, random_seed=2, overwrite=True)
    assert contents(out) == before


def test_chunks_hold_the_sentences_of_a_document(story, model_file, tmp_path):
    """--masking=dynamic stores neither pairs nor masks, and each sentence once."""
    manifest = prepared(story, model_file, tmp_path, masking="dynamic", dupe_factor=None)
    assert manifest.settings.dupe_factor == 1
    found = list(examples(tmp_path / "train.tfrecord"))
    assert set(found[0]) == set(chunk_features())
    tokenizer = AlbertTokenizer(model_file)
    text = [list(map(tokenizer.encode, document.sentences)) for document in read_documents([story])]
    sentences = collections.Counter(tuple(sentence) for document in text for sentence in document)
    for example in found:
        parts = np.split(example["input_ids"], example["sentence_starts"])
        assert len(parts) >= 2
        sentences.subtract(collections.Counter(tuple(part.tolist()) for part in parts))
        expected = tokenizer.word_starts("unicode")[example["input_ids"]]
        np.testing.assert_array_equal(example["token_boundary"], expected)
    assert all(count >= 0 for count in sentences.values())
    assert sentences.total() == manifest.counts.dropped_sentences
    assert manifest.counts.example_tokens == sum(min(48, len(one["input_ids"]) + 3) for one in found)


@pytest.mark.parametrize("masking", ["static", "dynamic"])
def test_documents_that_occur_more_than_once(masking, story, model_file, tmp_path):
    once = story.read_text()
    documents = once.strip().split("\n\n")
    repeated = "\n\n".join([*documents, *documents[:3], documents[1]])
    (tmp_path / "repeated.txt").write_text(repeated)
    flags = {"masking": masking, "num_shards": 2}
    unique = prepared(story, model_file, tmp_path / "once", **flags)
    kept = prepared(tmp_path / "repeated.txt", model_file, tmp_path / "kept", **flags)
    dropped = prepared(
        tmp_path / "repeated.txt", model_file, tmp_path / "dropped", drop_duplicates=True, **flags
    )
    assert unique.counts.duplicate_examples == 0
    assert kept.counts.examples == unique.counts.examples + kept.counts.duplicate_examples
    assert 0 < kept.counts.duplicate_examples == dropped.counts.duplicate_examples
    assert dropped.counts.documents == len(documents) + 4
    for name in ("train.tfrecord-00000-of-00002", "train.tfrecord-00001-of-00002"):
        assert (tmp_path / "dropped" / name).read_bytes() == (tmp_path / "once" / name).read_bytes()
    assert dropped.counts.examples == unique.counts.examples
    console = Console(file=io.StringIO(), width=200)
    inspect([str(tmp_path / "dropped" / "*.tfrecord*")], console, verify=True)


@pytest.mark.parametrize("masking", ["static", "dynamic"])
@pytest.mark.parametrize("objective", ["nsp", "none"])
def test_other_sentence_objectives(story, model_file, tmp_path, objective, masking):
    prepared(story, model_file, tmp_path, sentence_objective=objective, masking=masking, dupe_factor=3)
    found = list(examples(tmp_path / "train.tfrecord"))
    schema = pretraining_features(48, 8 if masking == "static" else 0)
    for example in found:
        assert {name: len(values) for name, values in example.items()} == {
            name: feature.length for name, feature in schema.items()
        }
    floats = {name for name, values in found[0].items() if values.dtype.kind == "f"}
    assert floats == {name for name in schema if name == "masked_lm_weights"}
    labels = {int(example["next_sentence_labels"][0]) for example in found}
    assert labels == ({0, 1} if objective == "nsp" else {0})
    assert all(example["segment_ids"].any() == (objective == "nsp") for example in found)


@pytest.mark.slow
def test_other_settings_replace_files_on_request_only(model_file, story, tmp_path):
    flags = {"input_file": str(story), "spm_model_file": str(model_file), "max_seq_length": 32}
    output = tmp_path / "out" / "train.tfrecord"

    def run(**changes) -> bytes:
        prepare(PrepareSettings(output_file=str(output), **{**flags, **changes}), show_progress=False)
        return output.read_bytes()

    first = run()
    assert run(workers=1) == first  # the same command
    with pytest.raises(InputError, match="train.tfrecord, written with --max_seq_length=32, not 64; --max"):
        run(max_seq_length=64)
    assert output.read_bytes() == first
    scratch = output.with_name(".train.tfrecord.scratch")
    scratch.mkdir()
    (scratch / "0").write_bytes(b"half a record")  # of a killed run
    assert run(max_seq_length=64, overwrite=True) != first
    assert sorted(contents(output.parent)) == ["manifest.json", "train.tfrecord"]
    output.with_name("manifest.json").unlink()
    with pytest.raises(InputError, match="Files that no manifest lists are only replaced with --overwrite"):
        run()
    assert run(overwrite=True) == first


def test_another_vocabulary_replaces_files_on_request_only(story, vocab_file, tmp_path):
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_bytes(vocab_file.read_bytes())
    flags = {"spm_model_file": None, "vocab_file": str(vocabulary)}
    prepared(story, None, tmp_path / "out", **flags)
    with pytest.raises(InputError, match=r"written with do_lower_case=true.* not do_lower_case=false"):
        prepared(story, None, tmp_path / "out", do_lower_case=False, **flags)
    vocabulary.write_bytes(vocab_file.read_bytes() + b"harbour\n")
    with pytest.raises(InputError, match="written with what .*vocab.txt held before it changed. Add"):
        prepared(story, None, tmp_path / "out", **flags)
    prepared(story, None, tmp_path / "out", overwrite=True, **flags)


def test_names_of_files_need_not_be_utf8(story, model_file, tmp_path):
    text = tmp_path / os.fsdecode(b"caf\xe9.txt")
    text.write_bytes(story.read_bytes())
    for _ in range(2):  # the second time, with the manifest of the first
        manifest = prepared(text, model_file, tmp_path / "out")
    assert manifest.inputs[0].file == str(text)
    stored = json.loads((tmp_path / "out" / "manifest.json").read_text(encoding="utf-8"))
    assert stored["settings"]["input_file"] == stored["inputs"][0]["file"] == f"{tmp_path}/caf\ufffd.txt"


def test_another_number_of_shards_leaves_no_files_beside_the_new_ones(story, model_file, tmp_path):
    """Both sets would be what OUTPUT_FILE* names."""
    prepared(story, model_file, tmp_path / "out")
    for overwrite in (False, True):
        with pytest.raises(InputError, match="out/train.tfrecord is of an earlier one, with --num_shards=1;"):
            prepared(story, model_file, tmp_path / "out", num_shards=2, overwrite=overwrite)
    (tmp_path / "out" / "train.tfrecord").unlink()
    prepared(story, model_file, tmp_path / "out", num_shards=2)


PROSE = "The house was old. Nobody lived there. It had a garden.\n\n" * 40 + "A street.\nA door.\nA dog.\n"
WRAPPED = """The house was old and stood at the end of a street that
nobody had used since the bridge had fallen into the river.
It had a garden with apple trees, which were as old as the
house, and a gate."""


@pytest.mark.slow
def test_prose_that_is_read_as_lines_is_reported(model_file, tmp_path, capsys):
    (tmp_path / "book.txt").write_text(PROSE)
    (tmp_path / "novel.txt").write_text("\n\n".join([WRAPPED] * 20))
    (tmp_path / "lines.txt").write_text("One line. Of text.\nAnother line.\n" * 20)
    (tmp_path / "rows.jsonl").write_text(
        '{"text": "It rained. Nobody came. So it was."}\n' * 9
    )  # always prose

    def run(name, **flags) -> str:
        settings = PrepareSettings(
            f"{tmp_path}/{name}", f"{tmp_path}/out/a.tfrecord", str(model_file), **flags
        )
        prepare(settings)
        return capsys.readouterr().err

    refusal = "--strict allows no text that looks like prose. Received "
    with pytest.raises(InputError, match=f"{refusal}40 of 80 lines break off inside a sentence"):
        run("novel.txt", strict=True)
    with pytest.raises(
        InputError, match=f"{refusal}40 of 41 documents have one line, .*, and 40 of 43 lines hold"
    ):
        run("book.txt", strict=True)
    assert not (tmp_path / "out").exists()
    assert "warning: 40 of 41 documents have one line" in run("book.txt")
    assert "warning" not in run("book.txt", input_format="prose", strict=True, overwrite=True)
    for name in ("lines.txt", "row*"):
        run(name, strict=True, overwrite=True)
