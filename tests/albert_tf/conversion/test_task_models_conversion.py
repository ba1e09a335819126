"""Fine-tuned models through `albert convert`, and back into task models."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit, softmax

from albert_cli import cli
from albert_tf import (
    MultiLabelClassifier,
    MultipleChoice,
    QuestionAnswering,
    TextClassifier,
    TextRegressor,
)
from albert_tf.checkpoints.names import HeadSize
from albert_tf.conversion.convert import convert
from data_prep.errors import InputError
from tests.albert_tf.checkpoints.processes import needs_keras_hub, needs_transformers, run_python
from tests.albert_tf.checkpoints.test_stored_heads import write_google
from tests.albert_tf.tasks.task_models import CASES, outputs
from tests.cards import card_of, examples_of
from tests.selection import all_but_very_slow


@pytest.fixture
def classifier(tmp_path, model_file):
    folder = tmp_path / "run"
    folder.mkdir()
    CASES["text"].build(model_file).save(folder / "model.keras")
    return folder


HELD = [
    (name, to)
    for name in CASES
    for to in ("tf1", "huggingface")
    if (name, to) not in (("words", "tf1"), ("topics", "tf1"), ("span or none", "huggingface"))
]
FEW = (("words", "huggingface"),)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "to"), all_but_very_slow(HELD, FEW))
def test_task_models_predict_the_same_after_a_conversion(name, to, model_file, tmp_path):
    case = CASES[name]
    model = case.build(model_file)
    (tmp_path / "run").mkdir()
    model.save(tmp_path / "run" / "model.keras")
    conversion = convert(tmp_path / "run", tmp_path / "there", to)
    assert [output for output in conversion.comparison.outputs if output.startswith("head_")]
    restored = case.model.from_pretrained(
        tmp_path / "there", **case.arguments, preprocessor=model.preprocessor
    )
    for ours, theirs in zip(outputs(model, case.x), outputs(restored, case.x), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.very_slow
def test_thresholds_travel(model_file, tmp_path):
    (tmp_path / "run").mkdir()
    CASES["topics"].build(model_file).save(tmp_path / "run" / "model.keras")
    for source, there, to in (("run", "hf", "huggingface"), ("hf", "ours", "keras")):
        convert(tmp_path / source, tmp_path / there, to, verify=False)
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert config["problem_type"] == "multi_label_classification"
    assert config["label_thresholds"] == [0.5, 0.25, 0.75]
    model = MultiLabelClassifier.from_pretrained(tmp_path / "ours")
    assert dict(zip(model.labels, model.thresholds, strict=True)) == {
        "apples": 0.5,
        "captain": 0.25,
        "clocks": 0.75,
    }
    swapped = MultiLabelClassifier.from_pretrained(tmp_path / "ours", ("clocks", "apples", "captain"))
    assert swapped.thresholds == (0.75, 0.5, 0.25)


@pytest.mark.slow
def test_the_null_threshold_of_a_run_is_named(model_file, tmp_path):
    """No format has a place for it."""
    run = tmp_path / "run"
    run.mkdir()
    CASES["span or none"].build(model_file).save(run / "model.keras")
    (run / "settings.json").write_text('{"task": "squad2.0"}')
    (run / "results.json").write_text('{"dev": {"best_f1": 80.5, "threshold": -1.25}}')
    notes = convert(run, tmp_path / "keras", "keras", verify=False).notes
    assert notes[-1].startswith(
        "the run finds no answer above null odds of -1.25, which the files do not hold"
    )
    card = card_of(tmp_path / "keras")
    assert "| best_f1 | 80.5000 |" in card
    assert "threshold |" not in card


@pytest.mark.slow
def test_labels_and_dropout_travel(classifier, tmp_path):
    convert(classifier, tmp_path / "hf", "huggingface", verify=False)
    assert json.loads((tmp_path / "hf" / "config.json").read_text())["id2label"] == {"0": "small", "1": "big"}
    convert(tmp_path / "hf", tmp_path / "ours", "keras", verify=False)
    model = TextClassifier.from_pretrained(tmp_path / "ours")
    assert (model.labels, model.classifier_dropout) == (("small", "big"), 0.1)
    texts = CASES["text"].x
    swapped = TextClassifier.from_pretrained(tmp_path / "ours", ("big", "small"))
    np.testing.assert_array_equal(model.predict(texts, verbose=0), swapped.predict(texts, verbose=0)[:, ::-1])


@pytest.mark.slow
def test_a_head_that_does_not_fit_is_new_or_refused(classifier, caplog):
    arguments = {"labels": ("a", "b", "c")}
    with pytest.raises(InputError, match="for each class of the head, 2. Received a, b, c; .*new_head=True"):
        TextClassifier.from_pretrained(classifier, **arguments)
    assert TextClassifier.from_pretrained(classifier, **arguments, new_head=True).labels == ("a", "b", "c")
    with pytest.raises(InputError, match="classes are small, big. Received ham, spam: .*new_head=True"):
        TextClassifier.from_pretrained(classifier, ("ham", "spam"))
    for model, line in (
        (TextRegressor, "holds no head for regression: using fresh weights"),
        (QuestionAnswering, "holds no head for question answering: using fresh weights"),
    ):
        caplog.clear()
        model.from_pretrained(classifier)
        assert line in caplog.text


def test_what_the_files_leave_open_is_asked_for(tmp_path):
    write_google(tmp_path / "race", HeadSize("sequence_head", 1))
    with pytest.raises(
        InputError, match="--task must name .*regression or multiple-choice. Received no --task"
    ):
        convert(tmp_path / "race", tmp_path / "hf", "huggingface")
    with pytest.raises(InputError, match="Received classification"):
        convert(tmp_path / "race", tmp_path / "hf", "huggingface", task="classification")
    assert not (tmp_path / "hf").exists()
    command = ["convert", str(tmp_path / "race"), str(tmp_path / "hf"), "--to=huggingface", "--noverify"]
    assert cli.main([*command, "--task=multiple-choice"]) == 0
    values = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert values["architectures"] == ["AlbertForMultipleChoice"]
    for model in (TextRegressor, MultipleChoice):
        assert model.from_pretrained(tmp_path / "race").preprocessor is None
    config = (tmp_path / "race" / "albert_config.json").rename(tmp_path / "elsewhere.json")
    with pytest.raises(InputError, match="or --albert_config_file .in Python `config`."):
        MultipleChoice.from_pretrained(tmp_path / "race")
    assert MultipleChoice.from_pretrained(tmp_path / "race", config=config).encoder.config.hidden_size == 24


@pytest.mark.slow
def test_command_names_the_classes(tmp_path, capfd):
    write_google(tmp_path / "mnli", HeadSize("sequence_head", 3))
    to = ("--to=huggingface", "--labels=yes, no,perhaps")
    assert cli.main(["convert", str(tmp_path / "mnli"), str(tmp_path / "hf"), *to]) == 0
    assert "head_logits" in capfd.readouterr().err
    values = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert values["id2label"] == {"0": "yes", "1": "no", "2": "perhaps"}
    assert "head for classification (3 classes)" in card_of(tmp_path / "hf")


def test_command_refuses_in_one_sentence(model_file, tmp_path, capfd):
    (tmp_path / "squad2").mkdir()
    CASES["span or none"].build(model_file).save(tmp_path / "squad2" / "model.keras")
    assert cli.main(["convert", str(tmp_path / "squad2"), str(tmp_path / "hf"), "--to=huggingface"]) == 2
    assert "Received that of SQuAD 2.0" in capfd.readouterr().err
    assert not (tmp_path / "hf").exists()


@pytest.mark.very_slow
@pytest.mark.parametrize(
    ("name", "to"),
    [
        ("text", "keras"),
        ("choice", "tf1"),
        *(
            pytest.param(name, "huggingface", marks=needs_transformers)
            for name in ("text", "pair", "words", "span", "choice")
        ),
        pytest.param("text", "kerashub", marks=needs_keras_hub),
    ],
)
def test_example_of_the_card_runs_in_its_folder(name, to, model_file, tmp_path):
    (tmp_path / "run").mkdir()
    CASES[name].build(model_file).save(tmp_path / "run" / "model.keras")
    comparison = convert(tmp_path / "run", tmp_path / "there", to).comparison
    if to == "huggingface":
        assert comparison.result_run_by.startswith("transformers")
        assert "head_logits" in comparison.outputs
        assert comparison.difference < 1e-5
    (example,) = examples_of(tmp_path / "there")
    root = str(Path(__file__).parents[3])
    assert run_python(f"import sys; sys.path.append({root!r})\n{example}", tmp_path / "there")


KERAS_HUB = """
    import json, keras_hub, sys
    model = keras_hub.models.AlbertTextClassifier.from_preset("./there")
    print(json.dumps(model.predict(json.loads(sys.argv[1]), verbose=0).tolist()))
"""


@pytest.mark.very_slow
@needs_keras_hub
def test_kerashub_takes_texts(model_file, tmp_path):
    """Its tokenizer does not lower-case, which a note says; long texts are cut."""
    case, model = CASES["text"], CASES["text"].build(model_file)
    (tmp_path / "run").mkdir()
    model.save(tmp_path / "run" / "model.keras")
    notes = convert(tmp_path / "run", tmp_path / "there", "kerashub", verify=False).notes
    assert any("lower case" in note for note in notes)
    texts = [text.lower() for text in case.x if "1987," not in text]
    found = json.loads(run_python(KERAS_HUB, tmp_path, json.dumps(texts)).splitlines()[-1])
    np.testing.assert_allclose(found, model.predict(texts, verbose=0), atol=1e-5)


PIPELINE = """
    import json, sys, transformers
    texts = json.load(open("texts.json"))
    run = transformers.pipeline("text-classification", "hf", top_k=None)
    print(json.dumps([{one["label"]: one["score"] for one in scores} for scores in run(texts)]))
"""


@pytest.mark.very_slow
@needs_transformers
@pytest.mark.parametrize("name", ["text", "topics"])
def test_pipeline_of_transformers(name, model_file, tmp_path):
    """The lines have no comma after a digit, nor quotes, where transformers tokenizes in another way."""
    case, model = CASES[name], CASES[name].build(model_file)
    (tmp_path / "run").mkdir()
    model.save(tmp_path / "run" / "model.keras")
    texts = [text for text in case.x if "1987," not in text]
    conversion = convert(tmp_path / "run", tmp_path / "hf", "huggingface")
    assert conversion.comparison.result_run_by.startswith("transformers")
    assert conversion.comparison.difference < 1e-5
    (tmp_path / "texts.json").write_text(json.dumps(texts))
    found = json.loads(run_python(PIPELINE, tmp_path).splitlines()[-1])
    logits = model.predict(texts, verbose=0)
    expected = expit(logits) if name == "topics" else softmax(logits, axis=-1)
    for row, scores in zip(expected, found, strict=True):
        np.testing.assert_allclose([scores[label] for label in model.labels], row, atol=1e-5)
