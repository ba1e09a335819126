"""Lines of standard input as examples."""

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.runtime import input_lines
from albert_tf.runtime.input_lines import UNNAMED, InputLines
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.task import find_task
from data_prep.errors import InputError

OWN = Columns.named("text_a=review,label=stars")
TEXT = find_task("classification")


def texts(content: str, columns: Columns = OWN, line_format="auto", named=UNNAMED) -> list[tuple]:
    """The texts of all lines, and of the same lines if each arrives alone."""
    found = []
    lines = content.removesuffix("\n").split("\n")
    for size in (10**6, 1):
        reader = InputLines(TEXT, columns, line_format, named=named)
        examples = [one for i in range(0, len(lines), size) for one in reader.examples(lines[i : i + size])]
        reader.finish()
        found.append([(one.id, one.text_a, one.text_b, one.label) for one in examples])
    assert found[0] == found[1]
    return [(number, a) if b is None else (number, a, b) for number, a, b, label in found[0] if label is None]


def test_formats_are_recognized():
    assert texts("a\tb\nc\n") == [("1", "a", "b"), ("2", "c")]
    assert texts('{"review": "a"}\n{"text": "b", "stars": 9}\n') == [("1", "a"), ("2", "b")]
    assert texts('\ufeffreview,stars\r\na,5\r\n\r\n"b, c",1\r\n') == [("2", "a"), ("4", "b, c")]
    assert texts('stars\treview\n5\ta "b\n1\t"c"\n') == [("2", 'a "b'), ("3", "c")]
    assert texts("review;stars\na, b;1,5\n") == [("2", "a, b")]
    assert texts("review;stars\na;1\n", line_format="csv") == [("2", "a")]
    assert texts("text\na, b\n".replace("a, b", '"a, b"')) == [("2", "a, b")]
    assert texts("sentence1,sentence2\na,b\n") == [("2", "a", "b")]
    assert texts("text, a review of stars\n") == [("1", "text, a review of stars")]
    assert texts("review, stars\na, 5\n") == texts("review , stars\na,5\n") == [("2", "a")]
    assert texts("text, label\na, b\n") == [("2", "a")]
    assert texts("[{name}] said\n[5]\n") == [("1", "[{name}] said"), ("2", "[5]")]
    assert texts("[\n", line_format="text") == [("1", "[")]
    assert texts("review\n", line_format="text") == [("1", "review")]
    assert texts("a\tb\n", line_format="text") == [("1", "a\tb")]
    assert texts("review,stars\n", line_format="csv") == []


def test_json_without_a_second_text():
    assert texts('{"text_a": "a", "text_b": null}\n{"text": 5}\n') == [("1", "a", ""), ("2", "5")]


def test_blank_lines_between_objects():
    assert texts('{"text": "a"}\n\n{"text": "b"}\r\n \r\n\n') == [("1", "a"), ("3", "b")]


def test_fields_of_several_lines():
    assert texts('review,stars\n"a\nb ""c""\n",5\nd,1\n') == [("2", 'a\nb "c"\n'), ("5", "d")]


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), min_size=1), min_size=1))
def test_tables_that_python_writes(rows):
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerows([["review", "stars"], *([row, "1"] for row in rows)])
    assert [found[1] for found in texts(file.getvalue(), line_format="csv")] == rows


@given(st.text('a",\n', max_size=40))
def test_quotes_mean_the_same_however_the_lines_arrive(content):
    results = []
    for size in (10**6, 1):
        reader, lines, found = InputLines(TEXT, Columns(), "csv"), ["text", *content.split("\n")], []
        try:
            for i in range(0, len(lines), size):
                found += reader.examples(lines[i : i + size])
            reader.finish()
        except InputError as error:
            found = str(error)
        results.append(found)
    assert results[0] == results[1]


@pytest.mark.parametrize("line", ["b,1", 'a "" b,1', '","'])
def test_a_stray_quote_costs_each_line_once(line, monkeypatch):
    parsed, csv_records = [], input_lines.csv_records

    def counted(lines, delimiter):
        lines = list(lines)
        parsed.extend(lines)
        return csv_records(lines, delimiter)

    monkeypatch.setattr(input_lines, "csv_records", counted)
    reader = InputLines(TEXT, OWN, "csv")
    assert reader.examples(["review,stars", '"a,1']) == []
    for _ in range(500):
        assert reader.examples([line]) == []
    with pytest.raises(InputError, match="The one in line 2"):
        reader.finish()
    assert len(parsed) <= 3 * 502


def test_a_quote_that_is_open_for_too_long(monkeypatch):
    monkeypatch.setattr(input_lines, "_LONGEST_ROW", 100)
    reader = InputLines(TEXT, OWN, "csv")
    reader.examples(["review,stars", '"a,1'])
    with pytest.raises(InputError, match="line 2 never does in 100 characters"):
        for _ in range(100):
            reader.examples(["b,1"])


@pytest.mark.parametrize(
    ("kind", "lines", "expected"),
    [
        ("question_answering", ["question,context", "a,b"], {"question": "a", "context": "b"}),
        ("multiple_choice", ["question,option_a,option_b", "a,b,c"], {"options": ("b", "c")}),
        ("token_classification", ["id,words", '7,"[""a"", ""b""]"'], {"words": ("a", "b")}),
    ],
)
def test_tables_of_other_tasks(kind, lines, expected):
    (example,) = InputLines(find_task(kind), Columns()).examples(lines)
    assert expected.items() <= vars(example).items()


def test_a_note_about_a_table(caplog):
    texts("review,stars\na,1\n")
    assert "the first line names the columns: review, stars; --input_format=text reads" in caplog.text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("review,stars\na\n", "the 2 columns that the first line names. Received 1 fields in line 2"),
        (
            'review,stars\n"a,1\nb,2\n',
            "A quote that opens a field must close it. The one in line 2 never does",
        ),
        ('review,stars\na,1\n"b"c,2\n', "Every row must be CSV. Received line 3: ',' expected after"),
        ("review,stars,stars\n", "must have different names. Line 1 has more than one 'stars'"),
        ("a\tb\tc\n", "A line must have text_a and text_b, with a tab between them, or be a JSON object"),
        (json.dumps([{"review": "a"}]), "JSON must have one object per line. Received an array"),
        (json.dumps([{"review": "a"}], indent=1), "JSON must have one object per line. Received an array"),
        ('{"text": "a"}\n{"text": \n', "Every line must be a JSON object. Received line 2: Expecting value"),
        ('{"text": "a"}\n[1]\n', "Every line must be a JSON object. Received line 2: '[1]'"),
        ("[{\n", "JSON must have one object per line. Received an array"),
        (json.dumps({"texts": "a"}), "A column for `text_a` is needed"),
        (json.dumps({"text": None}), "`text` must be a text. Received None in line 1."),
        (json.dumps({"review": ["a", "b"]}), "`review` must be a text. Received ['a', 'b'] in line 1."),
        (json.dumps({"text_a": "a", "text_b": {}}), "`text_b` must be a text. Received {} in line 1."),
    ],
)
def test_refused_lines(content, message):
    with pytest.raises(InputError) as error:
        texts(content)
    assert message in str(error.value)


@pytest.mark.parametrize("size", [1, 10**6])
@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("id,article,topic,review\n1,A,b,good\n", "id, article, topic, review"),
        ("id\treview\n1\tgood\n", "id, review"),
        ('nr,topic,critique\n1,a,"good,\nin two lines"\n2,b,bad\n', "nr, topic, critique"),
        (",Review Text,Rating\n0,Absolutely wonderful,4\n1,I love it,5\n", ", Review Text, Rating"),
        ("nr;critique\n1;good, really\n2;bad\n", "nr, critique"),
        ("Text,Stars\ngood,1\na broken, row,2\nbad,2\nworse,3", "Text, Stars"),
    ],
)
def test_a_table_without_a_known_column_is_no_text(content, names, size):
    reader, lines = InputLines(TEXT, Columns()), content.removesuffix("\n").split("\n")
    with pytest.raises(InputError, match="--column_names=text_a=NAME.*reads as a text") as error:
        for i in range(0, len(lines), size):
            reader.examples(lines[i : i + size])
    assert str(error.value).endswith(f"only: {names}.")


def test_texts_with_commas_are_no_table():
    for text in (
        "Well, I liked it\nSo, did I\n",
        "Hello,world\nNothing else here\n",
        "\u5f88\u597d,\u6211\u559c\u6b22\n\u4e0d\u597d\n\u597d,\u597d,\u597d\n",
        "1,000\n2,000\n",
        "one;two\n",
    ):
        assert [found[1] for found in texts(text)] == text.split("\n")[:-1]


def test_a_known_column_settles_what_separates_fields():
    assert texts("review;stars,of five\na,b;1\nc,d;2\n") == [("2", "a,b"), ("3", "c,d")]


def test_named_columns_make_a_table():
    named = Columns.named("text_a=critique")
    assert texts("critique\na, b\n".replace("a, b", '"a, b"'), named=named) == [("2", "a, b")]
    assert texts("review,critique,label\na,b,c\n", named=named) == [("2", "b")]
    assert texts('{"review": "a", "critique": "b"}\n', named=named) == [("1", "b")]
    with pytest.raises(InputError, match="has no 'critique', only: review, stars"):
        texts("review,stars\na,5\n", named=named)
