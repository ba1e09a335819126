"""Exports of fine-tuned models: strings in, everything in the graph."""

import ast
import functools
import json
import zipfile
from collections import defaultdict

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_cli import cli
from albert_tf.checkpoints.card import weights_hash
from albert_tf.checkpoints.open_model import open_model
from albert_tf.checkpoints.sources import SourceFlags
from albert_tf.tasks.choice.features import asked as asked_in_python
from albert_tf.tasks.choice.serving import asked
from albert_tf.tasks.spans.serving import spans_from_strings
from data_prep.errors import InputError
from export.encoder import TEXT_INPUTS
from export.text import task_export
from export.write import export_for_runtime, export_model
from tests.albert_tf.tasks.task_models import CASES, CONFIG
from tests.cards import card_of
from tests.data_prep.nasty import LINES
from tests.export.conftest import run_alone, serialized

LONG = " ".join(LINES[:40])


def saved(name, model_file, folder):
    """A model, with weights so large that a misplaced one shows in the outputs, and its .keras file."""
    model = CASES[name].build(model_file)
    rng = np.random.default_rng(4)
    for weight in model.trainable_variables:
        weight.assign(weight.numpy() + rng.normal(0, 0.2, weight.shape))
    if name == "span or none":  # finds no answers with these weights, some with their opposite
        kernel = model.span.answerable_output.kernel
        kernel.assign(-kernel)
    if name == "choice":
        model.preprocessor.max_qa_length = 12  # shorter than some questions
    file = folder / f"{name}.keras"
    model.save(file)
    return model, file


@pytest.fixture(scope="module")
def finetuned(model_file, tmp_path_factory):
    """A function of a task model's name: the model, its SavedModel and its folder, exported at most once."""
    folder = tmp_path_factory.mktemp("finetuned")
    made: dict = {}

    def get(name, kind):
        if name not in made:
            model, file = saved(name, model_file, folder)
            export_model(file, folder / name)  # its kind follows from the model
            assert f"# ALBERT: SavedModel, {kind}" in card_of(folder / name)
            made[name] = model, tf.saved_model.load(folder / name), folder / name
        return made[name]

    return get


@pytest.mark.slow
def test_classifier(finetuned):
    model, loaded, folder = finetuned("text", "classifier")
    logits = model.predict(LINES, verbose=0)
    outputs = loaded(tf.constant(LINES))
    np.testing.assert_allclose(outputs["probabilities"], tf.nn.softmax(logits), atol=1e-5)
    best = [model.labels[i] for i in logits.argmax(-1)]
    assert [label.decode() for label in outputs["label"].numpy()] == best
    assert outputs["labels"].numpy().tolist() == [[b"small", b"big"]] * len(LINES)
    served = loaded.signatures["serving_default"](text=tf.constant(LINES))
    np.testing.assert_array_equal(served["probabilities"], outputs["probabilities"])
    assert loaded(tf.zeros([0], tf.string))["probabilities"].shape == (0, 2)
    pairs = LINES, LINES[::-1]
    expected = tf.nn.softmax(model.predict(pairs, verbose=0))
    np.testing.assert_allclose(loaded.pair(*map(tf.constant, pairs))["probabilities"], expected, atol=1e-5)
    ids = [features["input_ids"].tolist() for features in model.preprocessor.features(LINES)]
    messages = tf.constant([serialized(input_ids=row) for row in ids])
    found = loaded.signatures["examples"](examples=messages)
    np.testing.assert_allclose(found["probabilities"], outputs["probabilities"], atol=1e-6)
    too_long = serialized(input_ids=[2] * (CONFIG.max_position_embeddings + 1))
    with pytest.raises(tf.errors.InvalidArgumentError, match="Rows must have from 1 to"):
        loaded.examples(tf.constant([too_long]))
    assert (folder / "assets.extra" / "tf_serving_warmup_requests").is_file()
    card = card_of(folder)
    assert "labels small, big" in card
    assert "pipeline_tag: text-classification" in card
    assert weights_hash(open_model(folder.parent / "text.keras")) in card  # as `albert convert` counts it


@pytest.mark.very_slow
@pytest.mark.filterwarnings("ignore:Layer LayerNorm does not have a `quantize` method")
def test_quantized_classifier(model_file, tmp_path):
    """Its kind follows from the model, as without Keras' `quantize`."""
    model, _ = saved("text", model_file, tmp_path)
    model.quantize("int8")
    model.save(tmp_path / "int8.keras")
    export_model(tmp_path / "int8.keras", tmp_path / "saved")
    outputs = tf.saved_model.load(tmp_path / "saved")(tf.constant(LINES))
    expected = tf.nn.softmax(model.predict(LINES, verbose=0))
    np.testing.assert_allclose(outputs["probabilities"], expected, atol=1e-5)
    assert "pipeline_tag: text-classification" in card_of(tmp_path / "saved")


@pytest.mark.very_slow
def test_the_card_describes_what_is_exported(model_file, tmp_path):
    """Vectors of a fine-tuned model have neither its head nor its scores."""
    _, file = saved("text", model_file, tmp_path)
    file = file.rename(tmp_path / "model.keras")
    (tmp_path / "settings.json").write_text('{"task": "sst-2"}')
    (tmp_path / "results.json").write_text('{"dev": {"accuracy": 0.9}}')
    export_model(file, tmp_path / "saved", "embedding")
    card = card_of(tmp_path / "saved")
    assert "pipeline_tag: feature-extraction" in card
    assert "0.9" not in card.partition("## Source")[0]
    assert "head for classification" not in card


@pytest.mark.very_slow
def test_classifier_with_several_labels(finetuned):
    model, loaded, folder = finetuned("topics", "classifier")
    outputs = loaded(tf.constant(LINES))
    assert set(outputs) == {"has_label", "labels", "probabilities"}
    probabilities = tf.sigmoid(model.predict(LINES, verbose=0))
    np.testing.assert_allclose(outputs["probabilities"], probabilities, atol=1e-5)
    np.testing.assert_array_equal(
        outputs["has_label"], outputs["probabilities"] >= np.array(model.thresholds)
    )
    assert outputs["labels"].numpy().tolist() == [[b"apples", b"captain", b"clocks"]] * len(LINES)
    assert 0 < np.mean(outputs["has_label"]) < 1
    note = "MultiLabelClassifier, labels apples, captain, clocks, thresholds 0.5, 0.25, 0.75"
    assert note in card_of(folder)


@pytest.mark.very_slow
def test_regressor_of_pairs(finetuned):
    model, loaded, _ = finetuned("pair", "classifier")
    pairs = LINES, [*LINES[1:], LONG]
    scores = model.predict(pairs, verbose=0)
    np.testing.assert_allclose(loaded.pair(*map(tf.constant, pairs))["score"], scores, atol=1e-5)
    served = loaded.signatures["pair"](text=tf.constant(pairs[0]), text_pair=tf.constant(pairs[1]))
    np.testing.assert_allclose(served["score"], scores, atol=1e-5)


@pytest.mark.slow
def test_multiple_choice(finetuned):
    model, loaded, _ = finetuned("choice", "multiple-choice")
    passages = [LONG, "", *LINES[:20]]
    questions = ["who painted _ ?", "why?", *[f"{line} _" for line in LINES[:20]]][: len(passages)]
    options = [["the captain", "", f"{line} {line}"] for line in LINES[: len(passages)]]
    logits = model.predict((passages, questions, options), verbose=0)
    outputs = loaded(*map(tf.constant, (passages, questions, options)))
    np.testing.assert_allclose(outputs["probabilities"], tf.nn.softmax(logits), atol=1e-5)
    choices = outputs["choice"].numpy()
    np.testing.assert_array_equal(choices, np.argmax(outputs["probabilities"], axis=-1))
    answers = [option[choice] for option, choice in zip(options, choices, strict=True)]
    assert [answer.decode() for answer in outputs["answer"].numpy()] == answers
    served = loaded.signatures["serving_default"](
        passage=tf.constant(passages[:2]),
        question=tf.constant(questions[:2]),
        options=tf.constant(options[:2]),
    )
    np.testing.assert_allclose(served["probabilities"], outputs["probabilities"][:2], atol=1e-6)


@pytest.mark.slow
def test_serialized_examples_of_choices(finetuned):
    """One message for each option."""
    model, loaded, _ = finetuned("choice", "multiple-choice")
    strings = LINES[:8], ["why?"] * 8, [["the captain", "", f"{line} {line}"] for line in LINES[:8]]
    names = ("input_ids", "input_mask", "token_type_ids")
    messages = [
        [
            serialized(**{name: features[name][option].tolist() for name in names})
            for option in range(len(features["input_ids"]))
        ]
        for features in model.preprocessor.features(strings)
    ]
    expected = loaded(*map(tf.constant, strings))
    outputs = loaded.signatures["examples"](examples=tf.constant(messages))
    np.testing.assert_allclose(outputs["probabilities"], expected["probabilities"], atol=1e-5)
    np.testing.assert_array_equal(outputs["choice"], expected["choice"])
    assert set(outputs) == {"choice", "probabilities"}
    with pytest.raises(tf.errors.InvalidArgumentError, match="Each example must have `input_ids`"):
        loaded.examples(tf.constant([[messages[0][0], b""]]))


@pytest.mark.slow
def test_token_classification(finetuned):
    """Words, their bytes and their labels, which equal the model's where a text fits one sequence."""
    model, loaded, _ = finetuned("words", "token-classification")
    texts = ["", " \u3000 ", LONG, *LINES]
    outputs = {name: array.numpy() for name, array in loaded(tf.constant(texts)).items()}
    for i, text in enumerate(texts):
        words, size = text.split(), len(text.split())
        assert [word.decode() for word in outputs["words"][i, :size]] == words
        spans = zip(outputs["begins"][i, :size], outputs["ends"][i, :size], strict=True)
        assert [text.encode()[begin:end].decode() for begin, end in spans] == words
        assert (outputs["words"][i, size:] == b"").all() and (outputs["begins"][i, size:] == -1).all()
        if words:
            logits, places = _in_windows(model, words)
            best = [model.labels[place] for place in logits.argmax(-1)]
            assert [label.decode() for label in outputs["labels"][i, :size]] == best, places
            probabilities = tf.reduce_max(tf.nn.softmax(logits), axis=-1)
            np.testing.assert_allclose(outputs["probabilities"][i, :size], probabilities, atol=1e-5)
    served = loaded.signatures["serving_default"](text=tf.constant(texts))
    np.testing.assert_array_equal(served["labels"], outputs["labels"])
    assert loaded(tf.zeros([0], tf.string))["words"].shape == (0, 0)


@pytest.mark.slow
def test_serialized_examples_of_words(finetuned):
    """The ids of texts that `albert finetune` would read give its labels; padding has none."""
    model, loaded, _ = finetuned("words", "token-classification")
    features = model.preprocessor.features([line.split() for line in LINES[:20] if line.split()])
    rows = [row["input_ids"].tolist() for row in features]
    outputs = loaded.signatures["examples"](examples=tf.constant([serialized(input_ids=row) for row in rows]))
    for i, row in enumerate(rows):
        probabilities = tf.nn.softmax(np.asarray(model({"input_ids": np.array([row])}))[0])
        np.testing.assert_allclose(outputs["probabilities"][i, : len(row)], probabilities, atol=1e-5)
        best = [model.labels[place] for place in np.argmax(probabilities, axis=-1)]
        assert [label.decode() for label in outputs["labels"][i, : len(row)].numpy()] == best
        assert not np.any(outputs["probabilities"][i, len(row) :])
        assert (outputs["labels"][i, len(row) :].numpy() == b"").all()
    assert len(set(map(len, rows))) > 1
    assert loaded.examples(tf.zeros([0], tf.string))["labels"].shape[0] == 0


def _in_windows(model, words: list[str]) -> tuple[np.ndarray, list[int]]:
    """The logits of each word's first piece in its window, and the windows."""
    tokenizer, room = model.preprocessor.tokenizer, model.preprocessor.max_seq_length - 2
    pieces = [list(ids) or [tokenizer.unk_id] for ids in tokenizer.encode_batch(words)]
    ids = [piece for word in pieces for piece in word]
    starts = np.cumsum([0, *map(len, pieces)])[:-1]
    begins = [0]
    while begins[-1] + room < len(ids):
        begins.append(begins[-1] + room // 2)
    rows = [[tokenizer.cls_id, *ids[begin : begin + room], tokenizer.sep_id] for begin in begins]
    T = max(map(len, rows))
    batch = {
        "input_ids": np.array([row + [tokenizer.pad_id] * (T - len(row)) for row in rows], "int32"),
        "input_mask": np.array([[1] * len(row) + [0] * (T - len(row)) for row in rows], "int32"),
    }
    windows = [min(max(start - room // 4, 0) // (room // 2), len(begins) - 1) for start in starts]
    places = [1 + start - begins[window] for start, window in zip(starts, windows, strict=True)]
    return np.asarray(model(batch))[windows, places], windows


@pytest.mark.very_slow
def test_inputs_of_unequal_length_are_refused(finetuned):
    """Otherwise rows would be dropped or paired with others."""
    for name, kind, method, arguments in (
        ("pair", "classifier", "pair", (["a", "b"], ["a"])),
        ("choice", "multiple-choice", "__call__", (["a"], ["b"], [["c", "d"]] * 2)),
        ("span", "question-answering", "__call__", (["a"], ["b", "c", "d"])),
    ):
        _, loaded, _ = finetuned(name, kind)
        call = getattr(loaded, method)
        with pytest.raises(tf.errors.InvalidArgumentError, match="must have the same number of rows."):
            call(*map(tf.constant, arguments))
        assert call.experimental_get_tracing_count() == 1


def test_options_are_filled_into_questions():
    questions = ["a _ b", "_", "a", "", "__", "x _ y _", "é _", " _ "]
    options = ["1", "2", "3", "4", "_", "ß", "é", ""]
    found = asked(tf.constant(questions), tf.constant(options)).numpy()
    expected = [asked_in_python(*pair) for pair in zip(questions, options, strict=True)]
    assert [text.decode() for text in found] == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param("span", marks=pytest.mark.very_slow), "span or none"])
def test_question_answering_equals_the_model(finetuned, name):
    """Answers, their positions, scores and null odds, for contexts of many windows and of none."""
    model, loaded, _ = finetuned(name, "question-answering")
    contexts = ["", " \u3000 ", LONG, "the captain painted", *[line for line in LINES if line]]
    questions = [*(["who painted the lighthouse?", ""] * len(contexts))[: len(contexts) - 4], *LINES[:4]]
    found = model.best_answers(questions, contexts, n_best=20)
    outputs = {
        name: array.numpy() for name, array in loaded(tf.constant(questions), tf.constant(contexts)).items()
    }
    texts = list(found.texts(threshold=0.0 if found.null_odds else None).values())
    assert [text.decode() for text in outputs["answer"]] == texts
    for i, (answers, text) in enumerate(zip(found.n_best.values(), texts, strict=True)):
        assert outputs["begin"][i] == (answers[0].answer_start if text else -1)
        score = answers[0].start_score + answers[0].end_score if answers[0].text else -1e30
        np.testing.assert_allclose(outputs["score"][i], score, rtol=1e-4, atol=1e-4)
    if found.null_odds:
        np.testing.assert_allclose(outputs["null_odds"], list(found.null_odds.values()), atol=1e-4)
    assert len([text for text in texts if text]) > len(texts) / 4
    assert loaded(*[tf.zeros([0], tf.string)] * 2)["answer"].shape == (0,)


@pytest.mark.very_slow
def test_null_odds_above_the_threshold_mean_no_answer(finetuned, tokenizer):
    model = finetuned("span or none", "question-answering")[0]
    contexts = [line for line in LINES if line][:12]
    questions = ["who painted the lighthouse?"] * len(contexts)
    found = model.best_answers(questions, contexts)
    odds = sorted(odds for id_, odds in found.null_odds.items() if found.n_best[id_][0].text)
    threshold = (odds[2] + odds[3]) / 2
    export = task_export(spans_from_strings(model, tokenizer, null_threshold=threshold), model)
    outputs = export.signatures["serving_default"](tf.constant(questions), tf.constant(contexts))
    texts = list(found.texts(threshold).values())
    assert texts != list(found.texts(0.0).values())
    assert [text.decode() for text in outputs["answer"].numpy()] == texts
    assert [begin >= 0 for begin in outputs["begin"].numpy()] == [text != "" for text in texts]
    np.testing.assert_allclose(outputs["null_odds"], list(found.null_odds.values()), atol=1e-4)


@pytest.mark.very_slow
def test_the_check_of_a_model_that_finds_no_span(model_file, tokenizer, monkeypatch):
    monkeypatch.setattr("albert_tf.tasks.spans.serving._CONTEXT", " ")
    model = CASES["span"].build(model_file)
    export = task_export(spans_from_strings(model, tokenizer), model)
    found, expected = export.check(export.signatures["serving_default"])["score"]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param("span", marks=pytest.mark.very_slow), "span or none"])
def test_serialized_examples_of_windows(finetuned, name):
    """The scores are the model's, to which `albert finetune` names the tokens that cannot answer."""
    model, loaded, _ = finetuned(name, "question-answering")
    strings = ["who painted the lighthouse?", ""], [LONG, "the captain painted"]
    windows = model.preprocessor.windows(model.preprocessor.examples(strings))
    messages = [
        serialized(input_ids=window.input_ids.tolist(), segment_ids=window.token_type_ids.tolist())
        for window in windows
    ]
    outputs = loaded.signatures["examples"](examples=tf.constant(messages))
    assert len(windows) > 100
    rows = defaultdict(list)
    for i, window in enumerate(windows):
        rows[len(window.input_ids)].append(i)
    inputs = list(model.preprocessor.inputs(windows))
    for equally_long in rows.values():  # without padding
        alone = model({name: np.stack([inputs[i][name] for i in equally_long]) for name in inputs[0]})
        assert set(outputs) == set(alone)
        for name, array in alone.items():
            ours = np.asarray(array)
            found = outputs[name].numpy()[equally_long]
            found = found[:, : ours.shape[1]] if ours.ndim > 1 else found
            scores = np.asarray(alone[name.replace("index", "log_probs")])
            can_answer = scores > -10_000  # elsewhere an index is that of any other token
            np.testing.assert_allclose(
                np.where(can_answer, found, 0), np.where(can_answer, ours, 0), atol=1e-4
            )
            assert all(np.any(row) for row in can_answer)


ALONE = {  # an export -> what is called, and returned
    "encoder": "model({name: tf.ones((1, 3), tf.int32) for name in NAMES})['pooled_output']",
    "preprocessor": "model.tokenize(tf.constant(['The captain sailed past 300 apples, in 1987.'])).to_tensor()",
    "fill-mask": "model(tf.constant(['The captain [MASK] past']))['pieces']",
    "embedding": "model(tf.constant(['a', 'b']))['embedding']",
    "text": "model(tf.constant(['a']))['probabilities']",
    "span or none": "model(tf.constant(['who?']), tf.constant(['the captain']))['answer']",
    "choice": "model(tf.constant(['a']), tf.constant(['b']), tf.constant([['c', 'd']]))['probabilities']",
}


@pytest.mark.very_slow
def test_every_kind_runs_in_a_process_without_this_package(exported, finetuned, tmp_path):
    options = {
        "preprocessor": {"seq_length": 12},
        "fill-mask": {"top_k": 3},
        "embedding": {"pooling": "mean"},
    }
    kinds = {"text": "classifier", "span or none": "question-answering", "choice": "multiple-choice"}
    names = "NAMES = ('input_word_ids', 'input_mask', 'input_type_ids')"
    program, expected = [names], []
    for name, call in ALONE.items():
        folder = finetuned(name, kinds[name])[2] if name in kinds else exported(name, **options.get(name, {}))
        program.append(f"model = tf.saved_model.load({str(folder)!r}); print({call}.numpy().tolist())")
        here = {"tf": tf, "model": tf.saved_model.load(folder), "NAMES": TEXT_INPUTS}
        expected.append(eval(call, here).numpy())
    printed = run_alone("\n".join(program), tmp_path).splitlines()
    for line, array in zip(printed, expected, strict=True):
        found = np.array(ast.literal_eval(line))
        if array.dtype == np.float32:
            np.testing.assert_allclose(found, array, rtol=1e-5)
        else:
            assert found.tolist() == array.tolist()


@pytest.mark.very_slow
def test_command_on_the_folder_of_a_run(model_file, tmp_path, capsys):
    """The best seed's model is exported."""
    run = tmp_path / "run"
    (run / "seed_1").mkdir(parents=True)
    _, file = saved("text", model_file, tmp_path)
    file.rename(run / "seed_1" / "model.keras")
    (run / "results.json").write_text('{"best_seed": 1}')
    (run / "seed_1" / "settings.json").write_text('{"task": "sst-2"}')
    (run / "seed_1" / "results.json").write_text('{"dev": {"accuracy": 0.75, "examples": 8}}')
    flags = ["export", "--kind=classifier", f"--model_dir={run}", f"--output={tmp_path}/saved"]
    assert cli.main(flags) == 0
    assert (tmp_path / "saved" / "saved_model.pb").is_file()
    assert "| accuracy | 0.7500 |" in card_of(tmp_path / "saved")


@pytest.mark.slow
def test_models_that_cannot_be_exported(model_file, tmp_path):
    _, file = saved("words", model_file, tmp_path)
    CASES["text"].build(None).save(tmp_path / "none.keras")
    (tmp_path / "damaged.keras").write_bytes(file.read_bytes()[:1000])
    litert = functools.partial(export_for_runtime, format="litert")
    for export, source, options, message in (
        (export_model, file, {"kind": "classifier"}, "TextClassifier or .*Received a TokenClassifier"),
        (export_model, tmp_path / "none.keras", {}, "needs a vocabulary"),
        (export_model, tmp_path / "damaged.keras", {}, "is not a complete .keras file"),
        (export_model, tmp_path / "nowhere", {"kind": "classifier"}, "There is no checkpoint at"),
        (export_model, file, {"max_answer_length": 3}, "--max_answer_length belongs to --kind=question"),
        (litert, file, {"max_answer_length": 3}, "--max_answer_length is for exports that find the answer"),
    ):
        with pytest.raises(InputError, match=message):
            export(source, tmp_path / "saved", **options)
    assert not (tmp_path / "saved").exists()
    with pytest.raises(InputError, match="only once. Received x 2 times"):
        SourceFlags(labels="x, x")


def test_harmful_files(model_file, tmp_path):
    _, file = saved("text", model_file, tmp_path)
    with zipfile.ZipFile(file) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    canary = tmp_path / "canary"

    def refused(description, message):
        with zipfile.ZipFile(file, "w") as archive:
            for name, content in {**files, "config.json": json.dumps(description).encode()}.items():
                archive.writestr(name, content)
        with pytest.raises(InputError, match=message):
            export_model(file, tmp_path / "saved", "classifier")

    described = json.loads(files["config.json"])
    with pytest.warns(UserWarning, match="This is unsafe"):
        code = keras.saving.serialize_keras_object(lambda path=str(canary): __import__("os").mkdir(path))
    described["config"]["preprocessor"] = code
    refused(described, "text.keras: ")
    described["config"]["encoder"]["config"]["vocab_size"] = 5 * 10**12
    refused(described, "`vocab_size` must be a whole number from 1 to")
    described["registered_name"] = "keras>Functional"
    refused(described, "must hold a model of albert_tf. Received keras>Functional")
    assert not canary.exists()
    assert not (tmp_path / "saved").exists()
