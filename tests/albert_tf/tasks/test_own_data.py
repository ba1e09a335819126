"""The user's own files, for every kind of task."""

import csv
import json
import re

import pyarrow as pa
import pyarrow.parquet
import pytest

from albert_tf.tasks.choice.rows import ChoiceExample, option_number
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.own_data import labels_of
from albert_tf.tasks.spans.rows import QuestionExample
from albert_tf.tasks.task import find_task
from albert_tf.tasks.texts.kind import CLASSES, LABEL_SETS
from albert_tf.tasks.texts.rows import TextExample
from albert_tf.tasks.values import as_list
from albert_tf.tasks.words.kind import WORDS
from albert_tf.tasks.words.rows import WordsExample
from data_prep.errors import InputError
from tests.albert_tf.tasks.reading import read


def write(path, rows):
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0], delimiter="," if path.suffix == ".csv" else "\t")
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl"])
@pytest.mark.parametrize("names", [("text_a", "text_b"), ("sentence1", "sentence2")])
def test_pairs_of_texts(tmp_path, suffix, names):
    rows = [{names[0]: 'He said "no", twice', names[1]: "No", "label": "x", "id": "7"}]
    path = write(tmp_path / f"train{suffix}", rows)
    for data in (path, tmp_path):
        examples, problems = read("classification", data)
        assert examples == [TextExample("7", 'He said "no", twice', "No", "x")]
        assert problems.lines() == []


def test_named_columns(tmp_path):
    path = write(tmp_path / "train.csv", [{"review": "Good", "text": "no", "stars": "4.5"}])
    for columns in (Columns(text_a="review", label="stars"), Columns.named("text_a = review, label = stars")):
        examples, _ = read("regression", path, columns=columns)
        assert examples == [TextExample("0", "Good", None, 4.5)]
    assert Columns.named("text=review,score=stars") == Columns(text_a="review", label="stars")
    for names, message in (
        ("text_a= ", "must be a list of COLUMN=NAME"),
        ("labels=stars", "COLUMN is one of text_a, text_b, label"),  # of texts or of words
    ):
        with pytest.raises(InputError, match=message):
            Columns.named(names)
    with pytest.raises(InputError, match=r"`label` must .* has no 'star', only: review, text, stars"):
        read("regression", path, columns=Columns(label="star"))
    with pytest.raises(
        InputError, match="named label or labels or score; .* give --column_names=label=NAME. "
    ):
        read("regression", path)


def test_labels_of_any_type_become_names(tmp_path):
    path = write(
        tmp_path / "train.jsonl", [{"text": "a", "label": label} for label in (10, "9", 9.0, True, 0)]
    )
    examples, _ = read("classification", path)
    assert [example.label for example in examples] == ["10", "9", "9", "true", "0"]
    assert labels_of(CLASSES, examples[:3]) == ("9", "10")
    assert labels_of(CLASSES, examples) == ("0", "10", "9", "true")


@pytest.mark.parametrize(
    ("task", "row"),
    [
        ("regression", {"text": "a", "label": 10**400}),
        ("multiple-choice", {"question": "Q?", "options": ["1", "0"], "label": "9" * 5000}),
    ],
)
def test_labels_that_are_huge_numbers(tmp_path, task, row):
    path = write(tmp_path / "train.jsonl", [{**row, "label": "1"}, row])
    examples, problems = read(task, path)
    assert (len(examples), problems.counts.total()) == (1, 1)


def test_decimal_commas(tmp_path):
    (tmp_path / "train.csv").write_text("text;label\na;1,5\nb;2.5\n")
    examples, problems = read("regression", tmp_path / "train.csv")
    assert [example.label for example in examples] == [2.5]
    assert "train.csv:2: received '1,5'; write a point for the comma" in problems.lines()[0]


@pytest.mark.parametrize(
    ("given", "labels", "expected"),
    [
        (["1.0", "0.0", "1"], ("0", "1"), ["1", "0", "1"]),
        (["1", "0"], ("0.0", "1.0"), ["1.0", "0.0"]),
        (["True", "false"], ("false", "true"), ["true", "false"]),
        (["1", "1.0"], ("1", "1.0"), ["1", "1.0"]),
    ],
)
def test_labels_as_the_training_split_writes_them(tmp_path, given, labels, expected):
    """pandas writes 1.0 for 1 in a column where a label misses; CSV has True where Parquet has true."""
    path = write(tmp_path / "dev.csv", [{"text": "a", "label": label} for label in given])
    examples, problems = read("classification", path, "dev", labels=labels)
    assert [example.label for example in examples] == expected
    assert problems.lines() == []


@pytest.mark.parametrize(
    ("task", "given", "expected"),
    [
        ("classification", ["1", "1.0", "0.0", "0", "nan", "NaN"], ["1", "1", "0", "0"]),
        ("classification", ["True", "true", "TRUE", "1"], ["TRUE", "TRUE", "TRUE", "1"]),
        ("ordinal-classification", ["5", "5.0", "4.0"], ["5", "5", "4.0"]),
        ("multi-label-classification", ["1.0", "1, 2", "", "NaN", "2.0,2"], [("1",), ("1", "2"), (), ("2",)]),
        ("classification", ["1.1", "1.10", "01"], ["1.1", "1.10", "01"]),  # versions and codes
    ],
)  # fmt: skip
def test_spellings_of_one_class(tmp_path, task, given, expected):
    """The same in training, where they make the classes, and for those of the training split."""
    rows = [{"text": "a", "label": label} for label in given]
    examples, problems = read(task, write(tmp_path / "train.csv", rows))
    assert [example.label for example in examples] == expected
    assert list(problems.counts) in ([], ["no label, left out"])
    again, _ = read(
        task, write(tmp_path / "dev.csv", rows), "dev", labels=labels_of(find_task(task).kind, examples)
    )
    assert again == examples


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_missing_labels_of_parquet(tmp_path, task):
    table = pa.table({"text": ["a", "b"], "label": pa.array([1.0, float("nan")])})
    pyarrow.parquet.write_table(table, tmp_path / "train.parquet")
    [example], problems = read(task, tmp_path / "train.parquet")
    assert (str(float(example.label)), list(problems.counts)) == ("1.0", ["no label, left out"])


def test_lists_that_pandas_writes_to_csv(tmp_path):
    labels = [["drama", "it's"], ["drama"], [], "[draft], final"]
    path = write(tmp_path / "train.csv", [{"text": "a", "label": str(label)} for label in labels])
    examples, _ = read("multi-label-classification", path)
    assert [example.label for example in examples] == [
        ("drama", "it's"), ("drama",), (), ("[draft]", "final")
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["['a' 'b']", "['a', f()]", "[" * 1000, "['a'", "[1, 2"])
def test_texts_that_are_no_lists_of_python(text):
    assert as_list(text) == text


def test_several_labels_of_a_text(tmp_path):
    rows = [{"text": "a", "labels": labels} for labels in ("x, 2;y", '["y", 2]', "", "x;x")]
    path = write(tmp_path / "train.csv", rows)
    for separator, expected in ((";", ("x, 2", "y")), (",", ("x", "2;y"))):
        examples, _ = read("multi-label-classification", path, columns=Columns(label_separator=separator))
        assert examples[0].label == expected
        assert [example.label for example in examples[1:3]] == [("y", "2"), ()]
    assert examples[3].label == ("x;x",)
    assert labels_of(LABEL_SETS, examples) == ("2", "2;y", "x", "x;x", "y")
    path = write(tmp_path / "dev.jsonl", [{"text": "a", "labels": ["x", "z"]}, {"text": "b", "labels": []}])
    examples, problems = read("multi-label-classification", path, "dev", labels=("x", "y"))
    assert [example.label for example in examples] == [()]
    assert problems.lines() == [
        f"1 row: label outside the set, left out ({path}:1: received 'z', allowed x, y)"
    ]
    path = write(tmp_path / "none.jsonl", [{"text": "a", "labels": None}])
    with pytest.raises(InputError, match="1 row: no label, left out"):
        read("multi-label-classification", path)


@pytest.mark.parametrize(
    ("task", "row", "names"),
    [
        ("classification", {"review": "a"}, "text_a=review,label=stars"),
        ("multiple-choice", {"question": "a", "options": '["b", "c"]'}, "label=right"),
        ("question-answering", {"question": "a", "context": "b"}, "answer=ans,answer_start=begin"),
        ("token-classification", {"words": '["a"]'}, "word_labels=entities"),
    ],
)
def test_a_test_file_without_the_named_labels(tmp_path, task, row, names):
    path, columns = write(tmp_path / "test.csv", [row]), Columns.named(names)
    assert len(read(task, path, "test", columns=columns)[0]) == 1
    with pytest.raises(InputError, match="must be in the file"):
        read(task, path, "dev", columns=columns)


def test_a_test_file_without_labels(tmp_path):
    path = write(tmp_path / "test.csv", [{"text": "a"}, {"text": " "}])
    examples, problems = read("classification", path, "test")
    assert [example.text_a for example in examples] == ["a", " "]
    assert dict(problems.counts) == {"empty text, kept for prediction": 1}


@pytest.mark.parametrize(
    "row",
    [
        {"passage": "P.", "question": "Q?", "options": ["red", "blue"], "label": 1},
        {"article": "P.", "question": "Q?", "choices": '["red", "blue"]', "label": "B"},
        {"context": "P.", "question": "Q?", "option_a": "red", "option_b": "blue", "label": "blue"},
    ],
)
@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_multiple_choice(tmp_path, row, suffix):
    if suffix == ".csv":
        row = {name: json.dumps(value) if isinstance(value, list) else value for name, value in row.items()}
    examples, problems = read("multiple-choice", write(tmp_path / f"train{suffix}", [row]))
    assert examples == [ChoiceExample("0", "P.", "Q?", ("red", "blue"), 1)]
    assert problems.lines() == []


def test_columns_that_the_first_json_row_leaves_out(tmp_path):
    rows = [
        {"question": "Who?", "options": ["a", "b"], "label": 0},
        {"passage": "Mary.", "question": "Who?", "options": ["a", "b"], "label": 1},
    ]
    examples, _ = read("multiple-choice", write(tmp_path / "train.jsonl", rows))
    assert [example.passage for example in examples] == ["", "Mary."]
    rows = [{"text": "One.", "label": "x"}, {"text": "Two.", "text_b": "Three.", "label": "y"}]
    examples, problems = read("classification", write(tmp_path / "train.jsonl", rows))
    assert [example.text_b for example in examples] == ["Three."]
    assert problems.lines()  # the first row lacks what makes it a pair


def test_the_option_that_a_label_names():
    """Its text counts first, then its number from 0, then its letter."""
    options = ["red", " b ", "7", "0", "x", "x"]
    named = {"red": 0, "b": 1, "B": 1, "7": 2, 7: 2, "0": 3, 1: 1, 5: 5, "F": 5, "e": 4}
    assert {label: option_number(label, options) for label in named} == named
    for label in (6, "6", "G", "g", "x", "green", "", -1, "9" * 5000, 1.5):
        assert option_number(label, options) is None, label


def test_choices_that_count_from_one(tmp_path):
    def rows(*labels):
        return [{"question": "q", "options": '["a", "b", "3"]', "label": label} for label in labels]

    three = {"question": "q", "options": '["a", "b", "c"]', "label": "3"}
    with pytest.raises(InputError, match="count from 0. The train split, .* has 1 to 3 for 3 options"):
        read("multiple-choice", write(tmp_path / "a.csv", [*rows("1", "2"), three]))
    for labels in (("0", "2"), ("1", "2"), ("1", "3")):  # the last names the text of an option
        assert len(read("multiple-choice", write(tmp_path / "b.csv", rows(*labels)))[0]) == 2


@pytest.mark.parametrize(
    ("task", "row"),
    [
        ("classification", {"text": ["Good", "film"], "label": "a"}),
        ("classification", {"text": {"en": "Good"}, "label": "a"}),
        ("multiple-choice", {"question": ["Why?"], "options": ["red", "blue"], "label": 0}),
        ("multiple-choice", {"passage": {}, "question": "Why?", "options": ["red", "blue"], "label": 0}),
        ("multiple-choice", {"question": "Why?", "options": [{"text": "red"}, {"text": "blue"}], "label": 0}),
        ("question-answering", {"question": ["Who?"], "context": "Ann came.", "answer": "Ann"}),
        ("question-answering", {"question": "Who?", "context": ["Ann came."], "answer": "Ann"}),
    ],
)
def test_lists_and_objects_are_no_texts(tmp_path, task, row):
    good = {name: value if isinstance(value, str | int) else "Ann" for name, value in row.items()}
    if "options" in row:
        good["options"] = ["red", "blue"]
    examples, problems = read(task, write(tmp_path / "train.jsonl", [row, good]))
    assert len(examples) == 1
    (line,) = problems.lines()
    assert re.search(r"1 row: (list or object in place of a text|options missing), left out", line)


@pytest.mark.parametrize("task", ["classification", "ordinal-classification"])
def test_lists_and_objects_are_no_classes(tmp_path, task):
    rows = [{"text": "a", "label": label} for label in (["1", "2"], {"1": 0.5}, ["1"], "1")]
    path = write(tmp_path / "train.jsonl", rows)
    for split, labels in (("train", ["1"]), ("test", [None, None, None, "1"])):
        examples, problems = read(task, path, split)
        assert [example.label for example in examples] == labels
        (line,) = problems.lines()
        assert re.search(
            r"3 rows: list or object in place of a class, .* on lists \(.*: received \['1', '2'\]", line
        )


def test_unusable_choices(tmp_path):
    good = {"question": "Q?", "options": ["1", "0"], "label": "1"}
    rows = [
        {**good, "options": [str(number) for number in range(27)]},
        good,
        {**good, "options": ["1", "0", "2"]},
        {**good, "options": "red"},
        {**good, "options": ["1", " "]},
        {**good, "label": "C"},
        {**good, "label": None},
        {**good, "options": ["red", "blue"], "label": "1"},
    ]
    path = write(tmp_path / "train.jsonl", rows)
    examples, problems = read("multiple-choice", path)
    assert [(example.id, example.label) for example in examples] == [("1", 0), ("7", 1)]
    assert dict(problems.counts) == {
        "more than 26 options, left out": 1,
        "options missing, left out": 2,
        "empty text, left out": 1,
        "label that is not one of the options, left out": 2,
    }
    assert len(read("multiple-choice", path, "test")[0]) == 4
    with pytest.raises(InputError, match="A column for `options` is needed"):
        read("multiple-choice", write(tmp_path / "a.csv", [{"question": "Q?", "label": "1"}]))


@pytest.mark.parametrize(
    ("columns", "starts"),
    [
        ({"answer": "Rome"}, (15,)),
        ({"answers": ["Rome", "Ann"]}, (15, 0)),
        ({"answers": {"text": ["Rome"], "answer_start": [15]}}, (15,)),
        ({"answers": [{"text": "Rome", "answer_start": 15}]}, (15,)),
        ({"answers": '["Rome"]', "answer_start": "[15]"}, (15,)),
        ({"answer": "Rome", "answer_start": "15"}, (15,)),
        ({"answer": "Rome", "answer_start": "15.0"}, (15,)),  # as pandas writes it where others miss
    ],
)
def test_questions(tmp_path, columns, starts):
    row = {"id": "q", "context": "Ann met Ben in Rome.", "question": "Where?", **columns}
    [example], problems = read("question-answering", write(tmp_path / "train.jsonl", [row]))
    assert example == QuestionExample("q", "Where?", row["context"], ("Rome", "Ann")[: len(starts)], starts)
    assert problems.lines() == []


@pytest.mark.parametrize("answer", ["[12]", "[1, 2]", "{}", '{"a": 1}', "[citation needed]"])
def test_answers_in_brackets_are_texts(tmp_path, answer):
    row = {"context": f"Ann came {answer}.", "question": "What?", "answer": answer}
    for name in ("train.csv", "train.jsonl"):
        [example], problems = read("question-answering", write(tmp_path / name, [row]))
        assert (example.answers, example.answer_starts, problems.lines()) == ((answer,), (9,), [])


@pytest.mark.parametrize("task", ["question-answering", "squad2.0"])
def test_questions_in_a_json_array(tmp_path, task):
    rows = [{"question": "Who?", "context": "Mary keeps it.", "answer": "Mary"}]
    (tmp_path / "train.json").write_text(json.dumps(rows))
    (example,), _ = read(task, tmp_path / "train.json")
    assert example == QuestionExample("0", "Who?", "Mary keeps it.", ("Mary",), (0,))


def test_unusable_questions(tmp_path):
    row = {"context": "An Ann.", "question": "Who?", "answer": "Ann"}
    rows = [
        row,
        {**row, "answer": "An"},
        {**row, "answer": 3},
        {**row, "answer": None},
        {**row, "context": ""},
    ]
    path = write(tmp_path / "train.jsonl", rows)
    examples, problems = read("question-answering", path)
    assert [example.id for example in examples] == ["0"]
    assert dict(problems.counts) == {
        "answer not at its offset, left out": 1,
        "answer that is neither a text nor a list of texts, left out": 1,
        "question without an answer, left out; --task=squad2.0 trains on them": 1,
        "empty context, left out": 1,
    }
    examples, _ = read("squad2.0", path)
    assert [(example.id, example.is_impossible) for example in examples] == [("0", False), ("3", True)]


def test_answers_of_a_test_file_are_known_only_if_it_has_their_column(tmp_path):
    row = {"context": "Ann came.", "question": "Who?"}
    for columns, is_known in (({}, False), ({"answer": None}, True), ({"answer": ""}, True)):
        (example,), _ = read("squad2.0", write(tmp_path / "test.jsonl", [{**row, **columns}]), "test")
        assert (example.answers, example.is_impossible) == ((), is_known)


@pytest.mark.parametrize(
    ("task", "row"),
    [
        ("classification", {"text": "a", "label": "x"}),
        ("multiple-choice", {"question": "Q?", "options": ["1", "0"], "label": "1"}),
        ("question-answering", {"context": "Ann.", "question": "Who?", "answer": "Ann"}),
    ],
)
def test_ids_that_repeat(tmp_path, task, row):
    path = write(tmp_path / "a.jsonl", [{**row, "id": number} for number in (1, "1", 2, "", "")])
    for split in ("train", "dev", "test"):
        examples, problems = read(task, path, split)
        if split == "train" and task != "question-answering":  # nothing tells these apart by their ids
            assert (len(examples), problems.lines()) == (5, [])
        else:
            assert [example.id for example in examples] == ["1", "2", "3", "4"]
            assert problems.lines() == [f"1 row: id that another row has, left out ({path}:2: received '1')"]


def test_words(tmp_path):
    rows = [
        {"tokens": ["New", "York"], "ner_tags": ["B", "I"]},
        {"tokens": ["a"], "ner_tags": ["B", "I"]},
        {"tokens": [], "ner_tags": []},
        {"tokens": ["a"], "ner_tags": ["X"]},
        {"tokens": ["b"], "ner_tags": [3]},
    ]
    examples, problems = read(
        "token-classification", write(tmp_path / "train.jsonl", rows), labels=("B", "I", "3")
    )
    assert examples == [WordsExample("0", ("New", "York"), ("B", "I")), WordsExample("4", ("b",), ("3",))]
    assert labels_of(WORDS, examples) == ("3", "B", "I")
    assert dict(problems.counts) == {
        "labels that are not one for each word, left out": 1,
        "words that are not a list of texts, left out": 1,
        "label outside the set, left out": 1,
    }


def test_a_test_set_keeps_words_whose_labels_cannot_be_used(tmp_path):
    """As in CoNLL files: each sentence is predicted."""
    rows = [
        {"tokens": ["New", "York"], "ner_tags": ["B", "X"]},
        {"tokens": ["a"], "ner_tags": ["B", "I"]},
        {"tokens": ["b"], "ner_tags": None},
        {"tokens": ["c"], "ner_tags": ["I"]},
    ]
    path = write(tmp_path / "test.jsonl", rows)
    examples, problems = read("token-classification", path, "test", labels=("B", "I"))
    assert [example.labels for example in examples] == [None, None, None, ("I",)]
    assert dict(problems.counts) == {
        "labels that are not one for each word, label ignored": 1,
        "label outside the set, label ignored": 1,
    }


def test_files_with_other_names_and_suffixes(tmp_path):
    with pytest.raises(InputError, match=r"must have a file for the dev split, for example dev\.tsv"):
        read("classification", tmp_path, "dev")
    (tmp_path / "a.xlsx").write_text("x", encoding="utf-8")
    with pytest.raises(InputError, match=r"Own data must be a \.csv, "):
        read("classification", tmp_path / "a.xlsx")
    (tmp_path / "a.csv").write_text("text,label\n", encoding="utf-8")
    with pytest.raises(InputError, match="must have rows"):
        read("classification", tmp_path / "a.csv")
    write(tmp_path / "valid.csv", [{"text": "a", "label": "x"}])
    assert len(read("classification", tmp_path, "dev")[0]) == 1


def test_own_files_for_the_papers_tasks(tmp_path):
    rows = [{"sentence": "fine", "label": 1}, {"sentence": "odd", "label": 2}]
    examples, problems = read("sst-2", write(tmp_path / "train.jsonl", rows))
    assert examples == [TextExample("0", "fine", None, "1")]
    assert problems.counts.total() == 1


@pytest.mark.parametrize(
    ("task", "texts", "labels"),
    [
        ("qnli", {"question": "Who?", "sentence": "Ann."}, {"label": "entailment"}),
        ("qnli", {"text_a": "Who?", "text_b": "Ann."}, {"label": "entailment"}),
        ("qqp", {"question1": "Who?", "question2": "Why?"}, {"is_duplicate": "0"}),
        (
            "mnli",
            {"sentence1": "Rain.", "sentence2": "Wet."},
            {"label1": "neutral", "gold_label": "entailment"},
        ),
    ],
)
@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_own_files_with_the_names_of_glue(tmp_path, task, texts, labels, suffix):
    expected = TextExample("0", *texts.values(), [*labels.values()][-1])
    for split in ("train", "dev", "test"):
        examples, problems = read(task, write(tmp_path / f"{split}{suffix}", [texts | labels]), split)
        assert (examples, problems.lines()) == ([expected], [])


def test_named_columns_count_before_those_of_glue(tmp_path):
    row = {"question": "Who?", "sentence": "Ann.", "first": "What?", "second": "It.", "label": "entailment"}
    path = write(tmp_path / "train.csv", [row])
    examples, _ = read("qnli", path, columns=Columns(text_a="first", text_b="second"))
    assert examples == [TextExample("0", "What?", "It.", "entailment")]


def test_pairs_of_glue_need_both_texts(tmp_path):
    path = write(tmp_path / "train.csv", [{"question": "Who?", "text": "Ann.", "label": "entailment"}])
    with pytest.raises(InputError, match="A column for `text_b` is needed, named text_b or sentence2; "):
        read("qnli", path)


def test_columns_of_a_run_and_those_that_replace_them():
    run = Columns.of_run({"column_names": "text_a=review,label=stars", "label_separator": ";"})
    assert run == Columns(text_a="review", label="stars", label_separator=";")
    assert run.replaced_by(Columns()) == run
    assert run.replaced_by(Columns(label="rating", id="key")) == Columns(
        text_a="review", label="rating", id="key", label_separator=";"
    )
    assert run.replaced_by(Columns(label_separator="|")).label_separator == "|"
    assert Columns.of_run({}) == Columns()
