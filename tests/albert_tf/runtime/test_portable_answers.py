"""Portable models answer as the SavedModels of their kinds, on both engines.

tests/export/test_finetuned.py writes the SavedModels and loads them; here their functions run where they are made.
"""

import functools
import importlib.util
import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from albert_tf import load_portable
from albert_tf.checkpoints.sources import NO_FLAGS
from albert_tf.runtime.engine_flags import EngineSettings
from albert_tf.runtime.finetuned import read_finetuned
from albert_tf.runtime.portable_loading import load_trained
from albert_tf.runtime.predictor import Predictor
from albert_tf.tasks.spans.rows import QuestionExample
from albert_tf.tasks.splits import BatchSize
from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Vocabulary
from export.source import read_export_source
from export.write import build_export, export_for_runtime, export_model
from tests.albert_tf.checkpoints.processes import run_python
from tests.albert_tf.runtime.conftest import pretrained_kind
from tests.data_prep.nasty import LINES
from tests.export.conftest import CONFIG
from tests.export.test_finetuned import saved

ENGINES = [name for name in ("onnxruntime", "openvino") if importlib.util.find_spec(name)]
LONG = " ".join(LINES[:40])
TEXTS = [*LINES, LONG, "", " ", "İstanbul ﷺ ½ ΟΔΟΣ", "a\u3000b\x1cc"]
MASKED = [
    "The captain [MASK] past the lighthouse.",
    "[MASK][MASK]s, [MASK] .",
    "no mask",
    "",
    "[MASK]",
    f"[MASK] {LONG} [MASK]",
    f"{LONG} [MASK], {LONG}",
    "a [MASK]\tb[MASK]c",
]
QUESTIONS = [f"Who {text[:20]}?" for text in TEXTS]
PAIRS = (TEXTS, TEXTS[::-1])
COLUMNS = {
    "text": (TEXTS,),
    "topics": (TEXTS,),
    "pair": PAIRS,
    # Enough questions for full batches: there OpenVINO finds wrong maxima of integers.
    "choice": (TEXTS * 3, QUESTIONS * 3, [["the captain", "_", "a café"]] * 3 * len(TEXTS)),
    "words": (TEXTS,),
    "span": PAIRS,
    "span or none": PAIRS,
    "fill-mask": (MASKED,),
    "embedding": (TEXTS,),
}


@pytest.fixture(scope="module")
def exported(portable, tmp_path_factory):
    """A function of a model's name: what its SavedModel holds, and the folder of the portable one."""

    @functools.cache
    def functions(name):
        found = read_export_source(portable(name, exported=False), pretrained_kind(name), NO_FLAGS, {})
        assets = tmp_path_factory.mktemp("assets")
        return build_export(found, found.build_model(), assets, unpad=True, options={}).root

    return lambda name: (functions(name), portable(name))


def as_text(array):
    """TensorFlow's bytes as strings."""
    if array.dtype != object:
        return array
    return np.array([value.decode() for value in array.reshape(-1)], object).reshape(array.shape)


def assert_equal(theirs: dict, ours: dict):
    assert set(ours) == set(theirs)
    for name, value in theirs.items():
        array = as_text(value.numpy())
        assert ours[name].shape == array.shape, name
        if array.dtype.kind == "f":
            np.testing.assert_allclose(ours[name], array, atol=1e-4, err_msg=name)
        else:
            np.testing.assert_array_equal(ours[name], array, err_msg=name)
        if array.dtype == object:
            assert {type(value) for value in ours[name].ravel()} <= {str}, name


@pytest.mark.very_slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", COLUMNS)
def test_answers_equal_the_savedmodel(name, engine, exported):
    """Texts of all scripts, empty ones and those that are longer than the model's sequences; streams are JSON."""
    loaded, folder = exported(name)
    model, columns = load_portable(folder, engine=engine), COLUMNS[name]
    method = "pair" if name == "pair" else "__call__"
    theirs = getattr(loaded, method)(*map(tf.constant, columns))
    assert_equal(theirs, getattr(model, method)(*columns))
    if name != "choice":  # options of no questions have no second axis
        nothing = getattr(loaded, method)(*[tf.zeros([0], tf.string)] * len(columns))
        assert_equal(nothing, getattr(model, method)(*[column[:0] for column in columns]))
    for answer in model.stream(columns[0] if len(model.columns) == 1 else zip(*columns, strict=True)):
        arrays = {key: value for key, value in answer.items() if isinstance(value, np.ndarray)}
        assert all(value.dtype == model.fields[key].dtype for key, value in arrays.items())
        json.dumps({**answer, **{key: value.tolist() for key, value in arrays.items()}})


@pytest.mark.very_slow
@pytest.mark.parametrize("engine", ENGINES)
def test_encoder_equals_the_savedmodel(engine, exported):
    """With and without masked positions; rows of padding give 0."""
    loaded, folder = exported("encoder")
    encoder = load_portable(folder, engine=engine)
    rng = np.random.default_rng(0)
    ids = rng.integers(0, CONFIG.vocab_size, (3, 9), np.int32)
    mask = (np.arange(9) < np.array([[9], [4], [1]])).astype("int32")
    inputs = {"input_word_ids": ids, "input_mask": mask, "input_type_ids": ids % 2}
    names = ("sequence_output", "pooled_output", "sop_logits")
    theirs = {name: value for name, value in loaded.sop(inputs).items() if name in names}
    assert_equal(theirs, encoder(inputs))
    inputs["masked_lm_positions"] = rng.integers(0, 9, (3, 2), np.int32)
    logits = encoder(inputs)["mlm_logits"]
    np.testing.assert_allclose(logits, loaded.mlm(inputs)["mlm_logits"], atol=1e-4)


@pytest.mark.very_slow
def test_stream_answers_in_order(portable):
    """With several batches in flight, and after an item that is no text."""
    for engine in ENGINES:
        model = load_portable(portable("text"), engine=engine, requests=2, size=BatchSize(64, 40))
        together = model(TEXTS)
        answers = list(model.stream(iter(TEXTS)))
        assert [answer["label"] for answer in answers] == together["label"].tolist()
        pairs = list(zip(TEXTS, reversed(TEXTS), strict=True))
        together = model.pair(*zip(*pairs, strict=True))
        answers = list(model.pair.stream(iter(pairs)))
        for answer, probabilities in zip(answers, together["probabilities"], strict=True):
            np.testing.assert_allclose(answer["probabilities"], probabilities, atol=1e-6)
        with pytest.raises(InputError, match="A text must be a string. Received 3."):
            list(model.stream(["a", 3]))
        assert model(["a"])["label"].shape == (1,)  # no request is left busy
        np.testing.assert_allclose(
            model(["again"])["probabilities"], model(["again"])["probabilities"], atol=1e-6
        )


@pytest.mark.very_slow
def test_questions_with_different_numbers_of_options(portable):
    """Each is answered as alone; the array of a call is padded."""
    model = load_portable(portable("choice"))
    options = ["the captain", "_", "a café", "a letter"]
    items = [(LINES[i], QUESTIONS[i], options[: 4 - i % 3]) for i in range(9)]
    alone = [model(*([column] for column in item)) for item in items]
    answers, together = list(model.stream(items)), model(*zip(*items, strict=True))
    assert together["probabilities"].shape == (9, 4)
    for i, (expected, answer) in enumerate(zip(alone, answers, strict=True)):
        assert answer["answer"] == expected["answer"][0] == together["answer"][i]
        assert answer["answer"] == options[answer["choice"]]
        assert answer["choice"] == expected["choice"][0] == together["choice"][i]
        np.testing.assert_allclose(answer["probabilities"], expected["probabilities"][0], atol=1e-5)
        padded = [*answer["probabilities"], 0, 0, 0][:4]
        np.testing.assert_allclose(together["probabilities"][i], padded, atol=1e-6)


@pytest.mark.very_slow
def test_the_runs_threshold_decides_whether_there_is_an_answer(model_file, tmp_path):
    """In both exports, and in `albert predict` with the run and with the portable model."""
    model, file = saved("span or none", model_file, tmp_path)
    questions, contexts = QUESTIONS[:12], TEXTS[:12]
    found = model.best_answers(questions, contexts)
    odds = sorted(odds for id_, odds in found.null_odds.items() if found.n_best[id_][0].text)
    threshold = (odds[2] + odds[3]) / 2
    expected = list(found.texts(threshold).values())
    run = tmp_path / "run"
    run.mkdir()
    file.rename(run / "model.keras")
    (run / "settings.json").write_text(json.dumps({"task": "squad2.0"}))
    (run / "results.json").write_text(json.dumps({"dev": {"threshold": threshold}}))
    export_model(run, tmp_path / "savedmodel", "question-answering")
    export_for_runtime(run, tmp_path / "onnx", "onnx", kind="question-answering")
    theirs = tf.saved_model.load(tmp_path / "savedmodel")(*map(tf.constant, (questions, contexts)))
    ours = load_portable(tmp_path / "onnx")(questions, contexts)
    assert_equal(theirs, ours)
    assert ours["answer"].tolist() == expected
    assert [text != "" for text in expected] == [begin >= 0 for begin in ours["begin"]]
    assert 0 < sum(text != "" for text in expected) < len(expected)
    assert expected != list(found.texts(0.0).values())
    examples = [
        QuestionExample(str(i), *each) for i, each in enumerate(zip(questions, contexts, strict=True))
    ]
    for trained in (read_finetuned(run), load_trained(tmp_path / "onnx", EngineSettings())):
        assert [line["answer"] for line in Predictor(trained)(examples)] == expected


@pytest.mark.very_slow
def test_the_longest_answer_of_an_export_is_that_of_its_predictions(model_file, tmp_path):
    model, file = saved("span", model_file, tmp_path)
    questions, contexts = QUESTIONS[:12], TEXTS[:12]
    expected = list(model.best_answers(questions, contexts, max_answer_length=2).texts().values())
    assert expected != list(model.best_answers(questions, contexts).texts().values())
    export_for_runtime(file, tmp_path / "onnx", "onnx", max_answer_length=2)
    assert load_portable(tmp_path / "onnx")(questions, contexts)["answer"].tolist() == expected
    examples = [
        QuestionExample(str(i), *each) for i, each in enumerate(zip(questions, contexts, strict=True))
    ]
    predictor = Predictor(load_trained(tmp_path / "onnx", EngineSettings()))
    assert [line["answer"] for line in predictor(examples)] == expected


@pytest.mark.very_slow
@pytest.mark.parametrize(("name", "method"), [("words", "__call__"), ("pair", "pair")])
def test_a_tokenizer_is_made_once(name, method, portable, monkeypatch):
    """A model answers one call after the other; a tokenizer of 30,000 pieces takes a tenth of a second."""
    model, made, make = load_portable(portable(name)), [], Vocabulary.tokenizer
    monkeypatch.setattr(Vocabulary, "tokenizer", lambda vocabulary: made.append(1) or make(vocabulary))
    for _ in range(2):
        getattr(model, method)(*[["the captain"]] * (1 if name == "words" else 2))
    assert len(made) == 1


@pytest.mark.very_slow
def test_a_text_with_many_masks_is_no_burden_for_others(portable, monkeypatch):
    model, shapes = load_portable(portable("fill-mask")), []
    engine_inputs = model.engine_inputs

    def recorded(batch):
        shapes.append(engine_inputs(batch)["masked_lm_positions"].shape)
        return engine_inputs(batch)

    monkeypatch.setattr(model, "engine_inputs", recorded)
    model(["a [MASK]", "[MASK] " * 6, "b [MASK]", "c"])
    assert sorted(shapes) == [(1, 1), (1, 6), (2, 1)]


@pytest.mark.very_slow
@pytest.mark.parametrize("engine", ENGINES)
def test_threads_share_a_model(engine, portable):
    model = load_portable(portable("fill-mask"), engine=engine)
    batches = [MASKED[i : i + 2] for i in range(len(MASKED) - 1)] * 12
    expected = [model(batch) for batch in batches]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(model, batches))
    for ours, theirs in zip(found, expected, strict=True):
        assert ours["pieces"].tolist() == theirs["pieces"].tolist()
        np.testing.assert_allclose(ours["probabilities"], theirs["probabilities"], atol=1e-6)


@pytest.mark.very_slow
@pytest.mark.parametrize("engine", ENGINES)
def test_a_model_from_before_a_fork(engine, portable):
    """As in the workers of a server that loads it first."""
    script = """
    import os, signal, sys
    from albert_tf import load_portable
    from data_prep.errors import InputError
    model = load_portable(sys.argv[1], engine=sys.argv[2])
    model(["a [MASK]."])
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0
    else:
        signal.alarm(60)
        try:
            print(model(["a [MASK]."] * 20)["pieces"].shape, flush=True)
        except InputError as error:
            print(error, flush=True)
        os._exit(0)
    """
    printed = run_python(script, Path.cwd(), str(portable("fill-mask")), engine)
    expected = (
        "(20, 1, 5)" if engine == "onnxruntime" else "call `load_portable` after it, or start processes"
    )
    assert expected in printed


@pytest.mark.very_slow
def test_columns_of_pandas(portable):
    for name, columns in (("text", (TEXTS,)), ("span", PAIRS)):
        model = load_portable(portable(name))
        expected, found = model(*columns), model(*map(pd.Series, columns))
        for key, values in expected.items():
            np.testing.assert_array_equal(found[key], values)


@pytest.mark.very_slow
def test_wrong_inputs_are_refused(portable):
    encoder, classify, answer, choose = (
        load_portable(portable(name)) for name in ("encoder", "text", "span", "choice")
    )
    ids = np.ones((2, 5), np.int32)
    usual = {"input_word_ids": ids, "input_mask": ids, "input_type_ids": ids * 0}
    for inputs, message in (
        ({**usual, "input_word_ids": ids * 104}, "Token ids must be from 0 to 103. Received 104 to 104."),
        ({**usual, "input_word_ids": -ids}, "Token ids must be from 0 to 103. Received -1 to -1."),
        ({**usual, "input_mask": ids * 2}, "The mask must be from 0 to 1."),
        ({**usual, "input_type_ids": ids[:1]}, "must have the same shape. Received (2, 5), (2, 5), (1, 5)."),
        ({**usual, "input_word_ids": ids * 1.5}, "must be integers (rows, tokens). Received float64"),
        ({**usual, "input_mask": [[1], [1, 1]]}, "Received rows of different lengths."),
        ({name: np.ones((1, 17), np.int32) for name in usual}, "from 1 to 16 tokens. Received 17."),
        ({**usual, "masked_lm_positions": ids * 5}, "Masked positions must be from 0 to 4."),
        ({**usual, "ids": ids}, "An encoder takes input_word_ids, input_mask, input_type_ids"),
        ({"input_word_ids": ids}, "Received input_word_ids."),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            encoder(inputs)
    a_list, options = "must be a list of texts. Received ", "a list of texts for each question. Received "
    for call, message in (
        (lambda: classify("one text"), f"`text` {a_list}'one text'."),
        (lambda: classify(np.str_("a")), f"`text` {a_list}np.str_('a')."),
        (lambda: classify.pair(["a"], np.array("a")), f"`text_pair` {a_list}array"),
        (lambda: list(classify.stream("one text")), "iterable of texts. Received 'one text'."),
        (lambda: classify([1]), "A text must be a string. Received 1 "),
        (lambda: classify(["a"], ["b"]), "This model takes text. Received 2 columns."),
        (lambda: answer(["a"]), "This model takes question and context. Received 1 columns."),
        (lambda: answer(["a"], ["b", "c"]), "must have the same number of rows. Received 1, 2."),
        (lambda: list(answer.stream(["ab"])), "must be a tuple of question and context. Received 'ab'."),
        (lambda: list(answer.stream([("a", "b"), ("c",)])), "question and context. Received ('c',)."),
        (lambda: choose(["a"], ["b"], ["captain"]), f"{options}'captain'."),
        (lambda: choose(["a"], ["b"], [np.array("c")]), f"{options}array"),
        (lambda: choose(["a"] * 2, ["b"] * 2, [["c"], []]), "at least one option. Received none in row 1"),
        (lambda: list(choose.stream([("a", "b", [])])), "Each question must have at least one option."),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            call()
