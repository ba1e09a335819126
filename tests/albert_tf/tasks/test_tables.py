"""Rows of files, and malformed rows."""

import gzip

import pandas as pd
import pytest

from albert_tf.tasks.columns import Columns
from albert_tf.tasks.kind import Split
from albert_tf.tasks.own_data import examples_of_rows
from albert_tf.tasks.problems import Problems
from albert_tf.tasks.tables import read_table
from albert_tf.tasks.task import find_task
from data_prep.errors import InputError


def rows_of(path, text, **arguments):
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    problems = Problems()
    rows = list(read_table(path, problems, **arguments))
    return [row.values for row in rows], [row.source.rpartition(":")[2] for row in rows], problems.lines()


def test_quotes_and_unusual_line_ends_are_text_in_tsv(tmp_path):
    text = '\ufefftext\tlabel\r\n"a\u2028b\x85c\t1\r\n\r\nd"\t0'
    values, lines, problems = rows_of(tmp_path / "a.tsv", text, needed=["text"])
    assert values == [{"text": '"a\u2028b\x85c', "label": "1"}, {"text": 'd"', "label": "0"}]
    assert lines == ["2", "4"]
    assert problems == []


def test_quoted_fields_in_tsv(tmp_path):
    text = 'text\tlabel\n"a ""b""\tc"\t1\n"open\t0\nno "quote" here\t1\n'
    values, lines, problems = rows_of(tmp_path / "a.tsv", text, quoted=True)
    assert [row["text"] for row in values] == ['a "b"\tc', '"open', 'no "quote" here']
    assert (lines, problems) == (["2", "3", "4"], [])


def test_csv_with_a_line_feed_in_a_field(tmp_path):
    text = 'text,label\n"two\nlines, ""quoted""",1\nnext,0\n'
    values, lines, problems = rows_of(tmp_path / "a.csv", text)
    assert values == [{"text": 'two\nlines, "quoted"', "label": "1"}, {"text": "next", "label": "0"}]
    assert (lines, problems) == (["2", "4"], [])


def test_csv_with_empty_fields(tmp_path):
    """Only a blank line is no row; in a test set, every row needs a prediction."""
    values, lines, problems = rows_of(tmp_path / "a.csv", "text,label\n,\n\nfine,1\n")
    assert values == [{"text": "", "label": ""}, {"text": "fine", "label": "1"}]
    assert (lines, problems) == (["2", "4"], [])


def test_a_line_that_is_not_csv(tmp_path):
    values, lines, problems = rows_of(tmp_path / "a.csv", 'text,label\n"a"b,1\nc,0\n')
    assert (values, lines) == ([{"text": "c", "label": "0"}], ["3"])
    assert problems == [
        f"1 row: line that is not CSV, left out ({tmp_path}/a.csv:2: ',' expected after '\"')"
    ]


def test_a_quote_that_never_closes(tmp_path):
    with pytest.raises(InputError, match=r"a\.csv:3 never does"):
        rows_of(tmp_path / "a.csv", 'text,label\nx,1\n"a,1\nc,0\n')


def test_a_field_longer_than_the_csv_modules_limit(tmp_path):
    long = "x" * 200_000
    values, _, _ = rows_of(tmp_path / "a.csv", f"text\n{long}\n")
    assert values == [{"text": long}]


def test_json_lines(tmp_path):
    text = '{"text": "a", "label": 1}\n\n{"text": \n[1]\n{"text": "b"}\n'
    values, lines, problems = rows_of(tmp_path / "a.jsonl", text)
    assert values == [{"text": "a", "label": 1}, {"text": "b"}]
    assert lines == ["1", "5"]
    assert len(problems) == 2
    assert problems[0].startswith("1 row: line that is not JSON, left out") and "a.jsonl:3" in problems[0]
    assert "line that is not a JSON object, left out" in problems[1] and "received [1]" in problems[1]


def test_csv_of_spreadsheets_with_decimal_commas(tmp_path):
    values, _, problems = rows_of(tmp_path / "a.csv", 'text;score\na, b;0,5\n"c;d";1\n')
    assert values == [{"text": "a, b", "score": "0,5"}, {"text": "c;d", "score": "1"}]
    assert problems == []
    assert rows_of(tmp_path / "b.csv", "text,score;\na,1\n")[0] == [{"text": "a", "score;": "1"}]


def test_missing_values_that_pandas_writes_as_nan(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text(
        '{"text": NaN, "label": 1}\n{"text": "Good.", "label": NaN}\n{"text": "Bad.", "label": 0}\n'
    )
    problems = Problems()
    split = Split(find_task("classification"), "train", problems, Columns())
    assert [example.text_a for example in examples_of_rows(read_table(path, problems), split)] == ["Bad."]
    assert len(problems.lines()) == 2


def test_json_arrays(tmp_path):
    values, _, problems = rows_of(tmp_path / "a.json", '[{"text": "a", "label": 1}, 7, {"text": "b"}]')
    assert values == [{"text": "a", "label": 1}, {"text": "b"}]
    assert problems == [
        f"1 row: element that is not a JSON object, left out ({tmp_path}/a.json, row 2: received 7)"
    ]
    with pytest.raises(InputError, match=r"must hold an array of objects, one for each row. Received"):
        rows_of(tmp_path / "a.json", '{"text": "a"}')
    with pytest.raises(InputError, match=r"must hold JSON. .* with an object in each line is \.jsonl"):
        rows_of(tmp_path / "a.json", '{"text": "a"}\n{"text": "b"}\n')


def test_parquet(tmp_path):
    table = pd.DataFrame({"text": ["a", "b"], "label": [1, 0], "words": [["c", "d"], []]})
    table.to_parquet(tmp_path / "a.parquet")
    problems = Problems()
    rows = list(read_table(tmp_path / "a.parquet", problems))
    assert [row.values for row in rows] == table.to_dict("records")
    assert rows[1].source == f"{tmp_path}/a.parquet, row 2"
    (tmp_path / "a.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-9])
    with pytest.raises(InputError, match="is not a complete Parquet file"):
        list(read_table(tmp_path / "a.parquet", problems))


def test_wrong_numbers_of_columns(tmp_path):
    text = "a\tb\tc\n1\t2\t3\n1\n1\t2\n1\t2\t3\t4\n"
    values, lines, problems = rows_of(tmp_path / "a.tsv", text, needed=["b"])
    assert lines == ["2", "4"]
    assert values[1] == {"a": "1", "b": "2"}
    assert problems == [
        f"2 rows: wrong number of columns, left out ({tmp_path}/a.tsv:3: received 1 of 3: '1'; "
        f"{tmp_path}/a.tsv:5: received 4 of 3: '1')"
    ]


def test_a_file_without_a_header(tmp_path):
    values, lines, _ = rows_of(tmp_path / "a.tsv", "x\t1\ny\t0\n", needed=["text"], columns=["text", "label"])
    assert values == [{"text": "x", "label": "1"}, {"text": "y", "label": "0"}]
    assert lines == ["1", "2"]


def test_missing_columns(tmp_path):
    with pytest.raises(InputError, match="has no sentence, only: 'text', 'label'"):
        rows_of(tmp_path / "a.tsv", "text\tlabel\nx\t1\n", needed=["sentence"])


def test_two_columns_of_one_name(tmp_path):
    with pytest.raises(InputError, match="must have different names. .*a.csv has more than one 'label';"):
        rows_of(tmp_path / "a.csv", "text,label,label\nx,1,2\n")
    values, _, _ = rows_of(tmp_path / "b.csv", "text,,\nx,,\n")  # columns without a name are not read
    assert [row["text"] for row in values] == ["x"]


def test_compressed_files(tmp_path):
    values, _, _ = rows_of(tmp_path / "a.tsv.gz", gzip.compress(b"text\tlabel\nx\t1\n"))
    assert values == [{"text": "x", "label": "1"}]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"text\n\xff\n", "must be UTF-8. .*a.tsv:2 has the byte 0xff; .* `iconv -f LATIN1 -t UTF-8`"),
        ("text\nx\n".encode("utf-16"), "a.tsv:1 has the byte 0xff; .* `iconv -f UTF-16 -t UTF-8`"),
        (b"", "a.tsv is empty"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, data, message):
    with pytest.raises(InputError, match=message):
        rows_of(tmp_path / "a.tsv", data)
