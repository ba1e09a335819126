"""Questions in SQuAD's JSON, and answers that are at their offsets or not."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.tasks.problems import Problems
from albert_tf.tasks.spans.rows import QuestionExample, answer_span, with_located_answers
from data_prep.errors import InputError
from tests.albert_tf.tasks.reading import read

CONTEXT = "Ann met Ben in Rome."


def qa(identity, question, answers=(), **more):
    answers = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": identity, "question": question, "answers": answers, **more}


def write(path, *questions, context=CONTEXT):
    articles = [{"title": "Ann", "paragraphs": [{"context": context, "qas": list(questions)}]}]
    path.write_text(json.dumps({"version": "1.1", "data": articles}), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("task", "split", "name"),
    [
        ("squad1.1", "train", "train-v1.1.json"),
        ("squad1.1", "dev", "dev-v1.1.json"),
        ("squad2.0", "train", "train-v2.0.json"),
        ("squad2.0", "test", "test.json"),
        ("question-answering", "dev", "dev.json"),
    ],
)
def test_files_of_a_folder(tmp_path, task, split, name):
    write(tmp_path / name, qa("q1", "Who?", [("Ann", 0), ("Ben", 8)]))
    expected = [QuestionExample("q1", "Who?", CONTEXT, ("Ann", "Ben"), (0, 8))]
    assert read(task, tmp_path, split)[0] == expected
    assert read(task, tmp_path / name, split)[0] == expected


def test_questions_without_answers(tmp_path):
    path = write(
        tmp_path / "a.json",
        qa("q1", "Who?", [("Ann", 0)]),
        qa("q2", "Why?", is_impossible=True, plausible_answers=[{"text": "Rome", "answer_start": 15}]),
        qa("q3", "How?", is_impossible=False),
    )
    examples, problems = read("squad2.0", path, "train")
    assert [(example.id, example.is_impossible) for example in examples] == [("q1", False), ("q2", True)]
    assert problems.lines() == [
        "1 row: question without an answer, left out (a.json, article 0, paragraph 0, question q3: 'How?')"
    ]
    assert [example.id for example in read("squad1.1", path, "train")[0]] == ["q1"]
    for task in ("squad1.1", "squad2.0"):
        examples, problems = read(task, path, "test")
        assert [example.id for example in examples] == ["q1", "q2", "q3"]
        assert problems.lines() == []


@pytest.mark.parametrize(
    ("mark", "expected"),
    [(True, True), (False, False), (1, True), (0, False), (1.0, True), ("true", True), ("False", False),
     (" TRUE ", True), ("1", True), ("0", False), (None, False), ("", False), ("null", False)],
)  # fmt: skip
def test_marks_of_unanswerable_questions(tmp_path, mark, expected):
    path = write(tmp_path / "a.json", qa("q1", "Who?", [("Ann", 0)], is_impossible=mark))
    for split in ("train", "dev"):
        [example], problems = read("squad2.0", path, split)
        assert example.is_impossible is expected
        assert bool(problems.counts) == expected  # the mark and the answer contradict each other


@pytest.mark.parametrize("mark", ["no", 2, [], {}, -1, 0.5])
def test_other_marks_are_reported(tmp_path, mark):
    path = write(
        tmp_path / "a.json",
        qa("q1", "Who?", [("Ann", 0)]),
        qa("q2", "Who?", [("Ann", 0)], is_impossible=mark),
    )
    examples, problems = read("squad2.0", path)
    assert [example.id for example in examples] == ["q1"]
    assert "`is_impossible` is neither true nor false" in problems.lines()[0]


@pytest.mark.parametrize("answers", [{"answers": []}, {"answers": [{"text": "", "answer_start": 0}]}, {}])
@pytest.mark.parametrize("mark", [{}, {"is_impossible": None}])
def test_questions_without_answers_and_without_a_mark(tmp_path, answers, mark):
    question = {"id": "q1", "question": "Who?", **answers, **mark}
    path = write(tmp_path / "a.json", question)
    for split, expected in (
        ("train", True),
        ("dev", True),
        ("test", False),
    ):  # a test set may hide its answers
        [example], problems = read("squad2.0", path, split)
        assert example.is_impossible is expected
        assert problems.lines() == [] or split == "test"
    with pytest.raises(InputError, match="squad2.0 trains on them"):
        read("squad1.1", path)


def test_unusable_questions_are_reported(tmp_path):
    path = write(
        tmp_path / "a.json",
        qa("q1", "Who?", [("Ann", 0)]),
        qa("q1", "Who again?", [("Ann", 0)]),
        qa("q2", " ", [("Ann", 0)]),
        {"id": "q3", "answers": []},
        qa("q4", "Who?", [("Ann", "x")]),
        "q5",
        qa("q6", "Who?", [("Carl", 0)]),
    )
    examples, problems = read("squad1.1", path)
    assert [example.id for example in examples] == ["q1"]
    assert dict(problems.counts) == {
        "id that another question has, left out": 1,
        "empty question, left out": 1,
        "question that is not in SQuAD's form, left out": 3,
        "answer not at its offset, left out": 1,
    }
    assert "'question' is missing" in problems.lines()[2]
    examples, problems = read("squad1.1", path, split="dev")
    assert [example.id for example in examples] == ["q1", "q2", "q6"]
    assert problems.counts["answer not at its offset, kept for evaluation"] == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "files are JSON. .*a.json is not"),
        ("1", "a list `data` of articles. .* is an? int"),
        ('{"version": 1}', "a list `data` of articles. .* is an object with version"),
        (
            '{"data": [{"context": "a", "question": "b"}]}',
            "has rows with context, question: write the list alone",
        ),
        ('{"data": [{"title": "x"}]}', "none to use: 1 row: article without a list `paragraphs`"),
        (
            '{"data": [{"paragraphs": [{"qas": []}]}]}',
            "none to use: 1 row: paragraph without a text `context`",
        ),
        ('{"data": [{"paragraphs": [{"context": "a", "qas": 1}]}]}', "none to use: 1 row: paragraph without"),
        ('{"data":' + "[" * 100_000, "is not: nested too deeply"),
    ],
)
def test_files_of_another_form(tmp_path, content, message):
    (tmp_path / "a.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read("squad1.1", tmp_path / "a.json")


def test_half_of_an_escaped_pair(tmp_path):
    path = write(tmp_path / "a.json", qa("q1", "\ud83d?", [("Ann", 2)]), context="\udc00 Ann \U0001f600")
    assert "\\ud83d" in path.read_text(encoding="utf-8")
    [example], problems = read("squad1.1", path)
    assert (example.question, example.context) == ("\ufffd?", "\ufffd Ann \U0001f600")
    assert problems.lines() == []


def test_a_missing_file(tmp_path):
    with pytest.raises(InputError, match=r"squad2.0 must have the file .*train-v2\.0\.json"):
        read("squad2.0", tmp_path)


WAS = "It was  the\nlast one. The last one it was."


@pytest.mark.parametrize(
    ("answer", "start", "span"),
    [
        ("It was", 0, (0, 6)),
        ("was the last", 3, (3, 16)),
        (" the last", 6, (8, 16)),
        ("the last ", 7, (8, 16)),
        ("last\none", 12, (12, 20)),
        ("last", 11, (12, 16)),
        ("one.", 17, (17, 21)),
        ("was.", 38, (38, 42)),
        ("was", 2, (3, 6)),
        ("was", 0, None),
        ("was", 4, None),
        ("lastone", 12, None),
        ("It", -1, None),
        ("was.", 99, None),
        ("  ", 2, None),
        ("", 0, None),
    ],
)
def test_spans(answer, start, span):
    assert answer_span(WAS, answer, start) == span


@given(st.text("ab .\n\u00a0", min_size=1), st.data())
def test_any_part_of_a_context_is_found_again(context, data):
    begin = data.draw(st.integers(0, len(context)))
    end = data.draw(st.integers(begin, len(context)))
    answer = context[begin:end]
    span = answer_span(context, re.sub(r"\s+", " ", answer), begin)
    if answer.strip():
        assert span is not None
        assert context[slice(*span)] == answer.strip()
    else:
        assert span is None


def misplaced(answers, starts):
    return QuestionExample("q1", "What?", WAS, tuple(answers), tuple(starts))


def test_an_answer_that_occurs_once_elsewhere_is_moved_there():
    problems = Problems()
    example = with_located_answers(misplaced(["The last"], [3]), "a.json", problems, is_training=True)
    assert example == misplaced(["The last"], [22])
    assert problems.lines() == [
        "1 row: answer not at its offset, moved to its only occurrence (a.json, question q1: "
        "'The last' at 3, where the context has 'was  the'; it occurs at 22)"
    ]


@pytest.mark.parametrize(("answer", "times"), [("it were", "no times"), ("last one", "2 times")])
def test_an_answer_that_cannot_be_located(answer, times):
    for is_training, outcome in ((True, "left out"), (False, "kept for evaluation")):
        problems = Problems()
        given_example = misplaced([answer], [1])
        example = with_located_answers(given_example, "a.json", problems, is_training=is_training)
        assert example == (None if is_training else given_example)
        [line] = problems.lines()
        assert line.startswith(f"1 row: answer not at its offset, {outcome} (")
        assert line.endswith(f"it occurs {times})")


def test_one_good_answer_is_enough_and_bad_ones_are_reported_once():
    problems = Problems()
    example = with_located_answers(
        misplaced(["it were", "was", "it were"], [0, 3, 0]), "a.json", problems, is_training=True
    )
    assert example == misplaced(["was"], [3])
    assert problems.counts.total() == 1
