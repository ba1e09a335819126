import gzip
import json
import sys

import pytest
import tensorflow as tf

from data_prep.errors import InputError
from data_prep.text.documents import read_documents
from data_prep.text.sources import expand_files, input_size

TEXTS = ["# Emma\n\nShe was handsome. And clever,\nand rich.\n\nShe lived.", "", "Zwei: schön."]
SENTENCES = [("Emma", "She was handsome.", "And clever, and rich.", "She lived."), ("Zwei: schön.",)]


def example(**features) -> bytes:
    lists = {
        name: tf.train.Feature(
            bytes_list=tf.train.BytesList(value=[v.encode() if isinstance(v, str) else v for v in values])
        )
        if isinstance(values[0], str | bytes)
        else tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        for name, values in features.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=lists)).SerializeToString()


def write_json_lines(path, field):
    path.write_text("".join(json.dumps({"id": 1, field: text}) + "\n" for text in TEXTS))


def write_tfrecords(path, field, compression=""):
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for text in TEXTS:
            writer.write(example(**{"id": [1], field: [text]}))


def write_parquet(path, field):
    pyarrow = pytest.importorskip("pyarrow", reason="no pyarrow: pip install '.[parquet]'")
    from pyarrow import parquet

    texts = [text or None for text in TEXTS]
    parquet.write_table(pyarrow.table({"id": [1] * len(texts), field: texts}), path, row_group_size=2)


def write_json_array(path, field):
    path.write_text("\ufeff" + json.dumps([{"id": 1, field: text} for text in TEXTS], indent=1))


WRITERS = {
    "wiki.json": write_json_array,
    "WIKI.JSON": write_json_array,
    "wiki.train.00000-of-00001.json": write_json_lines,
    "wiki.jsonl": write_json_lines,
    "wiki.ndjson": write_json_lines,
    "wiki.tfrecord": write_tfrecords,
    "wiki-train.tfrecord-00000-of-00001": write_tfrecords,
    "wiki.parquet": write_parquet,
}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", "[1]", "The elements of a .json file must be objects. .*element 1 is a int"),
        ("a.json", '[{"texts": "a"}]', "element 1.*texts"),
        ("a.json", '{\n"text": "a"}', "an array of objects, or one JSON object per line. .*line 1 is not"),
        ("a.json", '[{"text": "a"}', "A .json file must hold JSON. .*a.json does not"),
        ("wiki_00", ' {"text": "a"}\n', "wiki_00 begins with a JSON object; for JSON lines, give the file"),
        ("a.csv", "text\na\n", "must be text files, .jsonl, .json, .tfrecord or .parquet. Received .*a.csv"),
        ("a.tsv.gz", "text\na\n", "Received .*a.tsv.gz"),
    ],
)
def test_other_files(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    for layout in ("lines", "prose"):
        with pytest.raises(InputError, match=message):
            list(read_documents([tmp_path / name], layout))


def test_text_that_begins_with_a_brace(tmp_path):
    (tmp_path / "a.txt").write_text("{sic} he said.\n{}x\n")
    (document,) = read_documents([tmp_path / "a.txt"])
    assert document.sentences == ("{sic} he said.", "{}x")


KINDS = {
    write_json_array: "element",
    write_json_lines: "line",
    write_tfrecords: "record",
    write_parquet: "row",
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", WRITERS)
def test_rows_are_documents_of_prose(tmp_path, name, packed):
    path = tmp_path / name
    WRITERS[name](path, "content")
    if packed and not name.endswith(".parquet"):
        path = path.rename(f"{path}.gz")
        path.write_bytes(gzip.compress(path.read_bytes()))
    documents = list(read_documents(expand_files(f"{tmp_path}/[wW]*"), "lines", "en", "content"))
    assert [document.sentences for document in documents] == SENTENCES
    assert sum(document.num_bytes for document in documents) == input_size(path)
    assert [document.source for document in documents] == [
        f"{path}, {KINDS[WRITERS[name]]} {n}" for n in (1, 3)
    ]


def test_gzip_tfrecords_are_recognized_by_content(tmp_path):
    write_tfrecords(tmp_path / "wiki.tfrecord", "text", "GZIP")
    documents = read_documents([tmp_path / "wiki.tfrecord"])
    assert [document.sentences for document in documents] == SENTENCES


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"text": "cut o', "line 2 is not: Unterminated string"),
        (b"Plain text.", "line 2 is not: Expecting value"),
        (b'["text"]', "line 2 is a list"),
        (b'{"content": "One.", "id": 3}', "line 2 has no 'text', only: content, id"),
        (b"{}", "only: none"),
        (b'{"text": 5}', "`text` must be text. In .*wiki.jsonl, line 2 it is a int"),
        (b'{"text": "\xff"}', "line 2 is not: 'utf-8' codec"),
        (b"[" * 100_000, "line 2 is not"),
    ],
)
def test_bad_json_lines(tmp_path, line, message):
    (tmp_path / "wiki.jsonl").write_bytes(b'{"text": "One."}\n' + line + b"\n")
    documents = read_documents([tmp_path / "wiki.jsonl"])
    assert next(documents).sentences == ("One.",)
    with pytest.raises(InputError, match=message):
        next(documents)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (rb'{"text": "A \ud800 B"}', ("A \ufffd B",)),  # half a pair
        (rb'{"text": "\udc00\ud83d"}', None),
        (rb'{"text": "\ud83d\ude00 one"}', ("\U0001f600 one",)),  # a whole pair
        (rb'{"text": "a\u0000b\u200bc"}', ("a\x00b\u200bc",)),
        (rb'{"text": null}', None),
        (b'\xef\xbb\xbf{"text": "One."}', ("One.",)),
        (b'\n \n{"text": "One.\\r\\n\\r\\nTwo."}\n\n', ("One.", "Two.")),
    ],
)
def test_odd_json_lines(tmp_path, raw, expected):
    (tmp_path / "wiki.jsonl").write_bytes(raw)
    documents = [document.sentences for document in read_documents([tmp_path / "wiki.jsonl"])]
    assert documents == ([expected] if expected else [])
    for sentence in expected or ():
        sentence.encode()


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (example(content=["One."]), "record 2 has no 'text', only: content"),
        (example(text=[5]), "record 2 it holds numbers"),
        (example(text=[b"On\xff"]), "`text` in .*record 2 has the byte 0xff at offset 2"),
        (b"\xffno example", "record 2 is not"),
    ],
)
def test_bad_tfrecords(tmp_path, record, message):
    path = tmp_path / "a.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(example(text=["One.", "Two."]))
        writer.write(record)
    documents = read_documents([path])
    assert next(documents).sentences == ("One.", "Two.")
    with pytest.raises(InputError, match=message):
        next(documents)


def test_damaged_tfrecords(tmp_path):
    path = tmp_path / "a.tfrecord"
    write_tfrecords(path, "text")
    whole = path.read_bytes()
    second = len(example(id=[1], text=[TEXTS[0]])) + 16
    for raw, message in [
        (whole[:-1], "the record at byte .* is not complete"),
        (whole[: second + 3], f"no record at byte {second}$"),
        (whole[:second] + b"x" + whole[second + 1 :], f"no record at byte {second}$"),
        (b"Plain text, no records.\n", "no record at byte 0"),
    ]:
        path.write_bytes(raw)
        with pytest.raises(InputError, match=message.removesuffix("$")):
            list(read_documents([path]))


def test_bad_parquet(tmp_path):
    write_parquet(tmp_path / "a.parquet", "content")
    with pytest.raises(InputError, match="a.parquet has no 'text', only: content, id"):
        list(read_documents([tmp_path / "a.parquet"]))
    with pytest.raises(InputError, match="`id` must be text. In .*row 1 it is a int"):
        list(read_documents([tmp_path / "a.parquet"], text_field="id"))
    whole = (tmp_path / "a.parquet").read_bytes()
    for raw in (whole[:-20], b"", b"Plain text." * 9):
        (tmp_path / "b.parquet").write_bytes(raw)
        with pytest.raises(InputError, match="b.parquet is not a complete Parquet file: it cannot be read"):
            list(read_documents([tmp_path / "b.parquet"]))
    with pytest.raises(InputError, match="no input file"):
        list(read_documents([tmp_path / "none.parquet"]))


def test_missing_pyarrow(tmp_path, monkeypatch):
    (tmp_path / "a.parquet").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"pip install '.\[parquet\]'"):
        list(read_documents([tmp_path / "a.parquet"]))
