"""Reading any file gives examples that can be tokenized, or an InputError."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from albert_tf.tasks.own_data import labels_of
from albert_tf.tasks.problems import Problems
from albert_tf.tasks.reading import read_examples
from albert_tf.tasks.task import all_tasks
from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Vocabulary

pytestmark = pytest.mark.slow

QA = {"id": "1", "question": "Who?", "answers": [{"text": "Ann", "answer_start": 0}], "is_impossible": False}
ROW = {
    "text": "a b",
    "label": 1,
    "question": "_?",
    "options": ["1", "b"],
    "context": "Ann went",
    "answers": {"text": ["Ann"], "answer_start": [0]},
    "words": ["a", "b"],
    "labels": ["O", "B"],
}
FILES = {
    ".tsv": 'index\tsentence1\tsentence2\tlabel\n0\tA b\tC "d\t1\n1\tx\ty\tentailment\n',
    ".csv": 'id,text,label,question,options,context,answer\n1,"a ""q""",x,Q?,"[""a"",""b""]",an Ann,Ann\n',
    ".jsonl": (json.dumps(ROW) + "\n") * 2,
    ".json": json.dumps({"data": [{"paragraphs": [{"context": "Ann went", "qas": [QA]}]}]}),
    ".txt": json.dumps(
        {"article": "a", "questions": ["_"], "options": [["a", "b", "c", "d"]], "answers": ["A"]}
    ),
    ".conll": "a O\nb B\n\nc O\n",
}
SNIPPETS = [b"", *(bytes([code]) for code in b'\t\n",[]{}\xff\r'), b"\\ud83d", b"\xe2\x80\xa8"]
ODD = st.sampled_from([None, -1, 1.5, "", "\ud83d", [], {}, [None], True, float("nan")])


@st.composite
def damaged(draw, text):
    """The text with some bytes replaced, or JSON with some values replaced."""
    if text.startswith("{") and draw(st.booleans()):
        return "\n".join(json.dumps(altered(draw, json.loads(line))) for line in text.splitlines()).encode()
    data = bytearray(text.encode())
    for _ in range(draw(st.integers(0, 4))):
        place, length = draw(st.integers(0, len(data))), draw(st.integers(0, 4))
        data[place : place + length] = draw(st.sampled_from(SNIPPETS))
    return bytes(data)


def altered(draw, value):
    if draw(st.integers(0, 9)) == 0:
        return draw(ODD)
    if isinstance(value, dict):
        return {key: altered(draw, part) for key, part in value.items() if draw(st.integers(0, 15))}
    return [altered(draw, part) for part in value] if isinstance(value, list) else value


@pytest.mark.parametrize("suffix", FILES)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_examples_or_an_input_error(suffix, data, tmp_path, model_file):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(data.draw(damaged(FILES[suffix])))
    task = data.draw(st.sampled_from(list(all_tasks().values())))
    try:
        examples = read_examples(task, path, data.draw(st.sampled_from(["train", "dev", "test"])), Problems())
    except InputError:
        return
    assert examples
    labels = task.labels or (labels_of(task.kind, examples) if task.kind.has_classes else ())
    split = task.kind.preprocessor(Vocabulary.read(model_file), 40).split("train", examples, labels)
    for window in split.windows:
        context = next(example.context for example in examples if example.id == window.example_id)
        window.text(context, 0, -1).encode("utf-8")
