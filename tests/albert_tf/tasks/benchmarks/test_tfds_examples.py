"""Tasks from tensorflow-datasets, in the forms of its GLUE, SQuAD and RACE."""

import sys

import pytest

from albert_tf.tasks.choice.rows import ChoiceExample
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.spans.rows import QuestionExample
from albert_tf.tasks.texts.rows import TextExample
from albert_tf.tasks.words.rows import WordsExample
from data_prep.errors import InputError
from tests.albert_tf.tasks.reading import read

tfds = pytest.importorskip("tensorflow_datasets", reason="no tensorflow-datasets")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

BUILDER = '''
import numpy as np
import tensorflow_datasets as tfds

f = tfds.features
FEATURES = {
    "sst2": {"sentence": f.Text(), "label": f.ClassLabel(names=["negative", "positive"]), "idx": np.int32},
    "rte": {
        "sentence1": f.Text(), "sentence2": f.Text(), "idx": np.int32,
        "label": f.ClassLabel(names=["entailment", "not_entailment"]),
    },
    "stsb": {"sentence1": f.Text(), "sentence2": f.Text(), "label": np.float32, "idx": np.int32},
    "v1.1": {
        "id": f.Text(), "title": f.Text(), "context": f.Text(), "question": f.Text(),
        "answers": f.Sequence({"text": f.Text(), "answer_start": np.int32}),
    },
    "v2.0": {
        "id": f.Text(), "title": f.Text(), "context": f.Text(), "question": f.Text(), "is_impossible": f.Text(),
        "answers": f.Sequence({"text": f.Text(), "answer_start": np.int32}),
    },
    "middle": {
        "article": f.Text(), "questions": f.Sequence(f.Text()), "answers": f.Sequence(f.Text()),
        "options": f.Sequence(f.Sequence(f.Text())), "example_id": f.Text(),
    },
    "words": {"tokens": f.Sequence(f.Text()), "tags": f.Sequence(f.ClassLabel(names=["O", "B-PER"]))},
}
ROWS = {
    "sst2": [{"sentence": "fine ", "label": 1, "idx": 7}, {"sentence": "schön", "label": -1, "idx": 8}],
    "rte": [{"sentence1": "A.", "sentence2": "B.", "label": "not_entailment", "idx": 0}],
    "stsb": [{"sentence1": "A.", "sentence2": "B.", "label": 2.5, "idx": 0}],
    "v1.1": [
        {"id": "q", "title": "", "context": "Ann went.", "question": "Who?",
         "answers": {"text": ["Ann"], "answer_start": [0]}},
    ],
    "v2.0": [
        {"id": f"q{mark}", "title": "", "context": "Ann went.", "question": "Who?", "is_impossible": mark,
         "answers": {"text": [], "answer_start": []} if mark in ("", "true") else
                    {"text": ["Ann"], "answer_start": [0]}}
        for mark in ("", "true", "false", "maybe")
    ],
    "middle": [
        {"article": "Ann went.", "questions": ["Who?", "_ went."], "answers": ["A", "C"],
         "options": [["Ann", "Ben", "Cid", "Dot"], ["a", "b", "c", "d"]], "example_id": "middle1.txt"},
    ],
    "words": [{"tokens": ["Ann", "went"], "tags": ["B-PER", "O"]}],
}

class Builder(tfds.core.GeneratorBasedBuilder):
    """A few rows in the form of each dataset."""
    name = "miniature"
    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [tfds.core.BuilderConfig(name=name) for name in FEATURES]

    def _info(self):
        features = f.FeaturesDict(FEATURES[self.builder_config.name])
        return tfds.core.DatasetInfo(builder=self, features=features)

    def _split_generators(self, _):
        return {"train": self._generate_examples(), "validation_matched": self._generate_examples(),
                "validation": self._generate_examples(), "test": self._generate_examples()}

    def _generate_examples(self):
        yield from enumerate(ROWS[self.builder_config.name])
'''


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Datasets in the folder where tensorflow-datasets looks."""
    folder = tmp_path_factory.mktemp("tfds")
    # Building them takes a package of its own: tensorflow-datasets looks for files beside the builder.
    (folder / "miniature_package").mkdir()
    (folder / "miniature_package" / "miniature_dataset_builder.py").write_text(BUILDER)
    sys.path.insert(0, str(folder))
    try:
        from miniature_package.miniature_dataset_builder import FEATURES, Builder

        for config in FEATURES:
            Builder(config=config, data_dir=folder / "data", file_format="tfrecord").download_and_prepare()
    finally:
        sys.path.remove(str(folder))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tfds.core.constants, "DATA_DIR", str(folder / "data"))
        yield folder / "data"


def read_sorted(task, name, split="train", **arguments):
    examples, problems = read(task, name, split, **arguments)
    return sorted(examples, key=lambda example: example.id), problems


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_classes_without_the_originals_names_are_numbers(prepared, split):
    examples, problems = read_sorted("sst-2", "tfds:miniature/sst2", split)
    fine, unknown = TextExample("7", "fine ", None, "1"), TextExample("8", "schön")
    assert examples == ([fine, unknown] if split == "test" else [fine])
    assert dict(problems.counts) == ({} if split == "test" else {"no label, left out": 1})


@pytest.mark.parametrize(
    ("task", "name", "split", "expected"),
    [
        ("rte", "rte", "train", [TextExample("0", "A.", "B.", "not_entailment")]),
        ("sts-b", "stsb", "dev", [TextExample("0", "A.", "B.", 2.5)]),
        ("squad1.1", "v1.1", "train", [QuestionExample("q", "Who?", "Ann went.", ("Ann",), (0,))]),
        (
            "race", "middle", "dev",
            [ChoiceExample(f"middle1.txt-{i}", "Ann went.", question, options, label, "middle")
             for i, (question, options, label) in enumerate(
                 [("Who?", ("Ann", "Ben", "Cid", "Dot"), 0), ("_ went.", ("a", "b", "c", "d"), 2)])],
        ),
    ],
)  # fmt: skip
def test_rows_of_benchmarks(prepared, task, name, split, expected):
    examples, problems = read_sorted(task, f"tfds:miniature/{name}", split)
    assert (examples, problems.lines()) == (expected, [])


def test_marks_of_unanswerable_questions(prepared):
    examples, problems = read_sorted("squad2.0", "tfds:miniature/v2.0")
    assert [(example.id, example.is_impossible) for example in examples] == [
        ("q", True), ("qfalse", False), ("qtrue", True)
    ]  # fmt: skip
    assert list(problems.counts) == ["question that is not in SQuAD's form, left out"]


def test_own_data(prepared):
    assert read_sorted("token-classification", "tfds:miniature/words", "dev")[0] == [
        WordsExample("0", ("Ann", "went"), ("B-PER", "O"))
    ]
    examples, problems = read_sorted(
        "classification", "tfds:miniature/sst2", columns=Columns(text_a="sentence")
    )
    assert examples == [TextExample("7", "fine ", None, "positive")]
    assert problems.lines() == [
        "1 row: no label, left out (tfds:miniature/sst2:train, example 1: received None in 'label')"
    ]


def test_splits_by_their_names(prepared):
    assert len(read_sorted("mnli", "tfds:miniature/rte:validation_matched", "test_matched")[0]) == 1
    assert len(read_sorted("sst-2", "tfds:miniature/sst2:1.0.0:train[:1]", "dev")[0]) == 1


@pytest.mark.parametrize(
    ("task", "name", "message"),
    [
        ("rte", "tfds:", 'must be written "tfds:NAME/CONFIG"'),
        ("rte", "tfds:no_such_thing", "no dataset 'no_such_thing'"),
        ("rte", "tfds:miniature/rte:valid", "must be one of .* Received 'valid'"),
        ("squad1.1", "tfds:miniature/sst2", "must have the features id, question, context and answers"),
        ("race", "tfds:miniature/sst2", "passage that is not in RACE's form"),
    ],
)
def test_other_names(prepared, task, name, message):
    with pytest.raises(InputError, match=message):
        read_sorted(task, name)


def test_the_tasks_own_configuration(monkeypatch):
    asked = []

    def opened(dataset):
        asked.append(dataset)
        raise InputError("enough")

    monkeypatch.setattr("albert_tf.tasks.benchmarks.tfds_examples.open_tfds", opened)
    for task, name in (
        ("sst-2", "tfds:glue"),
        ("squad2.0", "tfds:squad"),
        ("race", "tfds:race"),
        ("rte", "tfds:x/y"),
    ):
        with pytest.raises(InputError, match="enough"):
            read_sorted(task, name)
    assert asked == ["glue/sst2", "squad/v2.0", "race/middle", "x/y"]
