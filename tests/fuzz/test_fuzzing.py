"""A few cases of each reader; `python -m tests.fuzz` runs thousands. And what once gave a traceback."""

import gzip
import json
import os
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import pytest
from sentencepiece import sentencepiece_model_pb2

from albert_tf.checkpoints.checkpoint_files import damage
from albert_tf.config import AlbertConfig
from albert_tf.runtime.input_lines import _is_object
from albert_tf.tasks.open_task import read_source
from albert_tf.tasks.problems import Problems
from albert_tf.tasks.reading import read_examples
from albert_tf.tasks.spans.squad_json import gold_answers
from albert_tf.tasks.task import find_task
from albert_tf.tasks.values import as_list
from data_prep.errors import InputError
from data_prep.files import read_json
from data_prep.tfrecord.records import framed, read_records
from data_prep.tokenizers.vocabulary import Vocabulary
from tests.albert_tf.checkpoints.random_models import spm_model
from tests.fuzz.campaign import run
from tests.fuzz.readers import BY_NAME
from tests.selection import all_but_very_slow

SLOW = {"metrics.jsonl", "tokenizer.json", *(name for name in BY_NAME if name.startswith("portable "))}
FEW = BY_NAME.keys() - SLOW


@pytest.mark.slow
@pytest.mark.parametrize("name", all_but_very_slow(BY_NAME, FEW))
@pytest.mark.parametrize(
    "cases", [range(4), pytest.param(range(4, 12), marks=pytest.mark.very_slow)], ids=str
)
def test_any_bytes_give_a_result_or_an_input_error(name, cases):
    if BY_NAME[name].seal:
        pytest.importorskip("tf2onnx", reason="an extra: pip install 'albert-tf[onnx]'")
        pytest.importorskip("onnxruntime", reason="an extra: pip install 'albert-tf[onnx]'")
    outcome = run(BY_NAME[name], cases, seed=0)
    assert not outcome.failures, outcome.examples
    assert outcome.refused + outcome.unchanged + outcome.changed == len(cases)


def edited(change: Callable[[dict], object]) -> Callable[[Path], None]:
    """Changes the object in a JSON file."""

    def edit(path: Path) -> None:
        values = json.loads(path.read_text())
        change(values)
        path.write_text(json.dumps(values))

    return edit


def written(content: str | bytes) -> Callable[[Path], None]:
    """Replaces the content of a file."""
    return lambda path: path.write_bytes(content.encode() if isinstance(content, str) else content)


def cut(path: Path) -> None:
    """Removes the second half of a file."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flipped(path: Path) -> None:
    """Changes a bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def of_dtype(name: str) -> Callable[[Path], None]:
    """Calls the numbers of a safetensors file's last tensor others, of 8 bits."""

    def change(path: Path) -> None:
        content = path.read_bytes()
        end = 8 + int.from_bytes(content[:8], "little")
        tensors = json.loads(content[8:end])
        tensor = tensors[max(tensors, key=lambda each: tensors[each].get("data_offsets", [0]))]
        tensor |= {"dtype": name, "shape": [4, *tensor["shape"]]}
        header = json.dumps(tensors).encode()
        path.write_bytes(struct.pack("<Q", len(header)) + header + content[end:])

    return change


def compressed(path: Path) -> None:
    """Compresses a zip file with LZMA, and damages it."""
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    damaged = bytearray(path.read_bytes())
    begin = damaged.index(b"model.weights.h5") + len("model.weights.h5")
    damaged[begin : begin + 1000] = bytes(1000)
    path.write_bytes(damaged)


def of_type(make: Callable[[], h5py.h5t.TypeID | None]) -> Callable[[Path], None]:
    """Replaces an array of an HDF5 file by one of another type, or by none."""

    def change(path: Path) -> None:
        with h5py.File(path, "r+") as file:
            shape = file["layers/dense/vars/0"].shape
            del file["layers/dense/vars/0"]
            if kind := make():
                h5py.h5d.create(file.id, b"layers/dense/vars/0", kind, h5py.h5s.create_simple(shape))
            else:
                file["layers/dense/vars/0"] = h5py.Empty("f4")

    return change


def three_bytes() -> h5py.h5t.TypeID:
    kind = h5py.h5t.STD_I32LE.copy()
    kind.set_size(3)
    return kind


def wide_float() -> h5py.h5t.TypeID:
    """Has more bits than any float of NumPy, as damaged headers do."""
    kind = h5py.h5t.IEEE_F64LE.copy()
    kind.set_size(32)
    kind.set_precision(256)
    kind.set_fields(255, 200, 55, 0, 200)
    return kind


def chain_of(kind: bytes) -> Callable[[Path], None]:
    """An archive in which a header follows a header follows a header."""
    header = tarfile.TarInfo("long")
    header.type, header.size = kind, 10
    block = header.tobuf(tarfile.GNU_FORMAT) + b"1 a=b".ljust(512, b"\0")
    return lambda path: path.write_bytes(gzip.compress(block * 5000))


def of_levels(path: Path) -> None:
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(tarfile.TarInfo("a/" * 1000 + "config.json"))


ONCE_FAILED = [
    *(("Hugging Face", "model.safetensors", of_dtype(name)) for name in ("F8_E4M3", "F8_E8M0")),
    ("adapters", "adapters.safetensors", of_dtype("F8_E5M2")),
    ("keras pretrainer", "model.keras", compressed),
    *(("KerasHub", "task.weights.h5", of_type(make)) for make in (lambda: None, three_bytes, wide_float)),
    *(("archive", "model.tar.gz", chain_of(kind)) for kind in (b"L", b"x", b"g")),
    ("archive", "model.tar.gz", of_levels),
    ("config", "albert_config.json", written("[" * 100_000)),
    ("run", "best.json", written('{"step": [1]}')),
    ("run", "spm.model", flipped),
    ("keras pretrainer", "pretrained.json", written('{"parts": [[]]}')),
    ("keras pretrainer", "pretrained.json", written('{"parts": ["pooler", "decoder"]}')),
    ("fine-tuned run", "results.json", written('{"best_seed": "../elsewhere"}')),
    ("fine-tuned run", "seed_0/results.json", written('{"dev": 2}')),
    ("TF1", "checkpoint", written(b"\xff\xfe model")),
    ("Hugging Face", "config.json", edited(lambda values: values.update(hidden_act=["x"]))),
    ("KerasHub", "task.json", edited(lambda values: values.update(config=[1]))),
    ("SavedModel", "variables/variables.index", cut),
    ("tokenizer.json", "tokenizer.json", lambda path: path.unlink()),
    (
        "unmasked examples",
        "manifest.json",
        edited(lambda values: values["settings"].update(masking="\ud800")),
    ),
    ("unmasked examples", "manifest.json", edited(lambda values: values["settings"].update(ngram=20_000))),
    ("examples", "manifest.json", edited(lambda values: values["shards"][0].update(bytes="many"))),
    ("predictions", "0.jsonl", written("[" * 100_000)),
    ("predictions", "dev_nbest_predictions.json", written('{"q1": [{"text": 1}]}')),
    ("gold answers", "predictions.json", written('{"0-0": ' + "[" * 900 + "]" * 900 + "}")),
    ("predictions", "dev_null_odds.json", written('{"q1": -1.0}')),
    ("predictions", "dev_null_odds.json", written('{"q1": -1.0, "q2": 1' + "0" * 400 + "}")),
    ("metrics.jsonl", "metrics.jsonl", written('{"masked_lm_loss": 1.5}\n')),
    ("metrics.jsonl", "metrics.jsonl", written('{"step": 1, "masked_lm_loss": [1]}\n')),
    ("metrics.jsonl", "metrics.jsonl", written(b"\xe4\n")),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "file", "change"), ONCE_FAILED)
def test_what_once_failed_is_refused(name, file, change, tmp_path):
    reader = BY_NAME[name]
    reader.write(tmp_path)
    change(tmp_path / file)
    with pytest.raises(InputError):
        reader.read(tmp_path)


def test_a_byte_order_mark_does_not_matter(tmp_path, tiny_config):
    path = tmp_path / "albert_config.json"
    tiny_config.to_json_file(path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert AlbertConfig.from_json_file(path) == tiny_config


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("config", "albert_config.json"),
        ("keras pretrainer", "model.keras"),
        ("Hugging Face", "model.safetensors"),
        ("Hugging Face", "spiece.model"),
        ("KerasHub", "model.weights.h5"),
        ("adapters", "adapters.safetensors"),
    ],
)
def test_a_pipe_is_no_file(name, file, tmp_path):
    BY_NAME[name].write(tmp_path)
    (tmp_path / file).unlink()
    os.mkfifo(tmp_path / file)
    with pytest.raises(InputError, match="must be a regular file. Received a pipe or a device"):
        BY_NAME[name].read(tmp_path)


@pytest.mark.parametrize(
    "content", ["[" * 100_000, "{}", '{"good": 1, "files": {}}', '{"good": true, "files": [1]}']
)
def test_damaged_checksums(content, tmp_path):
    (tmp_path / "ckpt-1.json").write_text(content)
    assert damage(tmp_path / "ckpt-1") == "ckpt-1.json is damaged"


def test_deep_lines_and_fields():
    assert not _is_object("[" * 100_000)
    assert as_list("[" * 100_000) == "[" * 100_000


def test_a_feature_without_a_name(tmp_path):
    """TensorFlow's error quotes the record, which is not UTF-8."""
    reader, path = BY_NAME["examples"], tmp_path / "e.tfrecord"
    reader.write(tmp_path)
    records = [record.replace(b"\n\x0etoken", b"J\x0etoken") for record in read_records(path)]
    path.write_bytes(b"".join(map(framed, records)))
    with pytest.raises(
        InputError, match="must be a tf.train.Example message. .*e.tfrecord has one that is not"
    ):
        reader.read(tmp_path)


def test_sizes_are_looked_at_before_reading(tmp_path):
    with (tmp_path / "values.json").open("wb") as file:
        file.truncate(1 << 40)  # a sparse file
    with pytest.raises(InputError, match="must have at most 1,073,741,824 bytes. It has 1,099,511,627,776"):
        read_json(tmp_path / "values.json")


def test_the_file_checkpoint_names_no_other_folder(tmp_path):
    for name in ("here", "elsewhere"):
        (tmp_path / name).mkdir()
        BY_NAME["TF1"].write(tmp_path / name)
    (tmp_path / "here" / "checkpoint").write_text('model_checkpoint_path: "../elsewhere/model.ckpt-2"\n')
    with pytest.raises(
        InputError, match="holds several checkpoints: model.ckpt-2, model.ckpt-best. Name one"
    ):
        read_source(tmp_path / "here")


@pytest.mark.parametrize(("piece", "kind"), [("\0", 1), ("x\0y", 4), ("\0", 5), ("x" * 100_000, 1)])
def test_null_characters_and_long_pieces_in_a_vocabulary(piece, kind):
    """SentencePiece ends the process."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(spm_model(20))
    proto.pieces.add(piece=piece, score=0.0, type=kind)
    vocabulary = Vocabulary("sentencepiece", proto.SerializeToString())
    broken = Vocabulary("sentencepiece", spm_model(20).replace(b"[CLS]", b"\xffCLS]"))  # no UTF-8
    for read in (vocabulary.count_pieces, vocabulary.tokenizer, broken.count_pieces):
        with pytest.raises(InputError, match="SentencePiece model"):
            read()


@pytest.mark.parametrize("start", [float("inf"), "nan", [1], None])
def test_answers_at_impossible_places(start, tmp_path):
    question = {"id": "q1", "question": "who ?", "answers": [{"text": "a", "answer_start": start}]}
    content = {"data": [{"paragraphs": [{"context": "a b", "qas": [question]}]}]}
    (tmp_path / "train.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match="1 row: question that is not in SQuAD's form, left out"):
        read_examples(find_task("squad2.0"), tmp_path / "train.json", "train", Problems())


def test_gold_answers_that_are_no_texts():
    question = {"id": "q1", "answers": [{"text": 7}]}
    with pytest.raises(InputError, match="gold answers must be"):
        gold_answers({"data": [{"paragraphs": [{"qas": [question]}]}]})
