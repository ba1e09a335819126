"""A few cases of each reader; `python -m tests.fuzz` runs thousands. And what once gave a traceback."""

import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from sentencepiece import sentencepiece_model_pb2

from albert_tf.config import AlbertConfig
from albert_tf.evaluation.squad_metrics import gold_answers
from albert_tf.prediction.input_lines import _is_object
from albert_tf.pretrained.archives import unpack
from albert_tf.pretrained.loading import read_source
from albert_tf.training.checkpoint_files import damage
from data_prep.errors import InputError
from data_prep.files import read_json
from data_prep.tasks.examples import Problems
from data_prep.tasks.reading import read_examples
from data_prep.tasks.task import find_task
from data_prep.tasks.text_rows import as_list
from data_prep.tfrecord.records import framed, read_records
from data_prep.tokenizers.vocabulary import Vocabulary
from tests.albert_tf.pretrained.random_models import spm_model
from tests.fuzz.campaign import run
from tests.fuzz.readers import BY_NAME

CASES = 8


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_NAME)
def test_any_bytes_give_a_result_or_an_input_error(name):
    outcome = run(BY_NAME[name], range(CASES), seed=0)
    assert not outcome.failures, outcome.examples
    assert outcome.refused + outcome.unchanged + outcome.changed == CASES


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


ONCE_FAILED = [
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
    ("gold answers", "predictions.json", written('{"0-0": ' + "[" * 900 + "]" * 900 + "}")),
    ("predictions", "dev_null_odds.json", written('{"q1": -1.0, "q2": 1' + "0" * 400 + "}")),
    ("table 9", "squad one/results.json", written('{"dev": {"f1": "high"}}')),
    ("table 9", "squad one/settings.json", edited(lambda values: values.update(init_checkpoint=["a"]))),
    ("lab report", "table5/results.json", edited(lambda values: values["rows"][0]["ours"].update(nsp=3))),
    ("lab report", "table5/results.json", edited(lambda values: values["columns"][0].update(decimals=-1))),
    ("lab report", "table5/results.json", edited(lambda values: values.update(settings=None))),
    ("lab report", "table5/results.json", edited(lambda values: values["settings"].update(files="\ud800"))),
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


@pytest.mark.slow
def test_archives_of_many_members(tmp_path):
    with tarfile.open(tmp_path / "many.tar", "w") as archive:
        for number in range(10_001):
            archive.addfile(tarfile.TarInfo(f"{number}"))
    (tmp_path / "unpacked").mkdir()
    with pytest.raises(InputError, match="more than 10,000 files"):
        unpack(tmp_path / "many.tar", tmp_path / "unpacked")
    assert not list((tmp_path / "unpacked").iterdir())


def test_the_file_checkpoint_names_no_other_folder(tmp_path):
    for name in ("here", "elsewhere"):
        (tmp_path / name).mkdir()
        BY_NAME["TF1"].write(tmp_path / name)
    (tmp_path / "here" / "checkpoint").write_text('model_checkpoint_path: "../elsewhere/model.ckpt-2"\n')
    with pytest.raises(
        InputError, match="holds several checkpoints: model.ckpt-2, model.ckpt-best. Name one"
    ):
        read_source(tmp_path / "here")


@pytest.mark.parametrize(("piece", "kind"), [("\0", 1), ("x\0y", 4), ("\0", 5)])
def test_null_characters_in_a_vocabulary(piece, kind):
    """SentencePiece ends the process."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(spm_model(20))
    proto.pieces.add(piece=piece, score=0.0, type=kind)
    vocabulary = Vocabulary("sentencepiece", proto.SerializeToString())
    for read in (vocabulary.count_pieces, vocabulary.tokenizer):
        with pytest.raises(InputError, match="SentencePiece model"):
            read()


def test_a_vocabulary_that_is_not_utf8():
    vocabulary = Vocabulary("sentencepiece", spm_model(20).replace(b"[CLS]", b"\xffCLS]"))
    with pytest.raises(InputError, match="SentencePiece model"):
        vocabulary.count_pieces()


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
