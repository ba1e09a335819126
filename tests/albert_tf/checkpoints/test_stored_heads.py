"""The heads of fine-tuned models under the names of the original and of Hugging Face."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from albert_tf.checkpoints.heads import Head, from_task_model, with_classes
from albert_tf.checkpoints.huggingface import write_huggingface
from albert_tf.checkpoints.names import HEADS, HeadSize, parameters
from albert_tf.checkpoints.open_model import open_model
from albert_tf.checkpoints.stored import StoredModel
from albert_tf.checkpoints.tf1 import read_arrays, write_tf1
from albert_tf.checkpoints.weights import to_theirs
from albert_tf.runtime.pretrained import load_pretrained
from albert_tf.tasks.kinds import find_kind
from albert_tf.tasks.open_task import kinds_of
from albert_tf.tasks.spans.model import QuestionAnswering
from data_prep.errors import InputError
from tests.albert_tf.checkpoints.random_models import (
    CONFIGS,
    VOCABULARY,
    assert_same_weights,
    random_weights,
    save_tf1,
)

CONFIG, H = CONFIGS["one group"], 24
# Names and shapes in the checkpoints of run_classifier.py, run_race.py, run_squad_v1.py and run_squad_v2.py.
GOOGLE = {
    HeadSize("sequence_head", 3): {"output_weights": (3, H), "output_bias": (3,)},
    HeadSize("sequence_head", 1): {"output_weights": (1, H), "output_bias": (1,)},
    HeadSize("span_head", 0): {"cls/squad/output_weights": (2, H), "cls/squad/output_bias": (2,)},
    HeadSize("conditional_span_head", 0): {
        "start_logits/dense/kernel": (H, 1),
        "start_logits/dense/bias": (1,),
        "end_logits/dense_0/kernel": (2 * H, H),
        "end_logits/dense_0/bias": (H,),
        "end_logits/LayerNorm/gamma": (H,),
        "end_logits/LayerNorm/beta": (H,),
        "end_logits/dense_1/kernel": (H, 1),
        "end_logits/dense_1/bias": (1,),
        "answer_class/dense_0/kernel": (2 * H, H),
        "answer_class/dense_0/bias": (H,),
        "answer_class/dense_1/kernel": (H, 1),
    },
}
KINDS = {
    HeadSize("sequence_head", 3): ("classification",),
    HeadSize("sequence_head", 1): ("regression", "multiple_choice"),
    HeadSize("span_head", 0): ("question_answering",),
    HeadSize("conditional_span_head", 0): ("question_answering",),
}
HUGGING_FACE = {
    "classification": ("AlbertForSequenceClassification", "classifier", HeadSize("sequence_head", 3)),
    "multi_label_classification": (
        *("AlbertForSequenceClassification", "classifier"),
        HeadSize("sequence_head", 3),
    ),
    "regression": ("AlbertForSequenceClassification", "classifier", HeadSize("sequence_head", 1)),
    "multiple_choice": ("AlbertForMultipleChoice", "classifier", HeadSize("sequence_head", 1)),
    "question_answering": ("AlbertForQuestionAnswering", "qa_outputs", HeadSize("span_head", 0)),
    "token_classification": ("AlbertForTokenClassification", "classifier", HeadSize("token_head", 3)),
}
LABELS = ("negative", "neutral", "positive")


def random_head(size: HeadSize, *kinds: str, labels=(), dropout=None) -> Head:
    rng = np.random.default_rng(7)
    rows = [row for row in parameters(CONFIG, "keras", size) if row.part == size.part]
    weights = {row.ours: rng.standard_normal(row.shape).astype("float32") for row in rows}
    uses = tuple(filter(None, (find_kind(kind).use for kind in kinds)))
    return Head(size, uses, weights, labels, dropout, kind=kinds[0] if len(kinds) == 1 else "")


def kinds_in(head: Head) -> tuple[str, ...]:
    return tuple(kind.name for kind in kinds_of(head))


def stored_with(head: Head) -> StoredModel:
    weights = random_weights(CONFIG, "masked_lm", "sentence_order")
    return StoredModel("run", Path("nowhere"), CONFIG, weights, VOCABULARY, head=head)


def google_arrays(size: HeadSize) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    return {name: rng.standard_normal(shape).astype("float32") for name, shape in GOOGLE[size].items()}


def write_google(folder: Path, *sizes: HeadSize, scope: str = "", **changed) -> dict[str, np.ndarray]:
    """A checkpoint as the original's Saver writes it after fine-tuning; returns the arrays of the heads."""
    encoder = to_theirs(random_weights(CONFIG, "masked_lm", "sentence_order"), CONFIG, "tf1")
    heads = {name: array for size in sizes for name, array in google_arrays(size).items()} | changed
    arrays = {f"{scope}{name}": array for name, array in encoder.items()} | heads
    slots = {f"{name}/{slot}": array for name, array in arrays.items() for slot in ("adam_m", "adam_v")}
    save_tf1(folder / "model.ckpt-800", {**arrays, **slots, "global_step": np.int64(800)})
    CONFIG.to_json_file(folder / "albert_config.json")
    return heads


@pytest.mark.parametrize("size", GOOGLE)
def test_tf1_names_and_shapes_are_googles(size):
    rows = [row for row in parameters(CONFIG, "tf1", size) if row.part in HEADS]
    assert {row.theirs: row.their_shape for row in rows} == GOOGLE[size]


@pytest.mark.parametrize("scope", ["", "module/"])
@pytest.mark.parametrize("size", GOOGLE)
def test_fine_tuned_checkpoints_of_the_original_are_read_and_written(size, scope, tmp_path):
    expected = write_google(tmp_path / "tf1", size, scope=scope)
    stored = open_model(tmp_path / "tf1")
    assert (stored.head.size, kinds_in(stored.head), stored.head.labels) == (size, KINDS[size], ())
    assert_same_weights(stored.weights, random_weights(CONFIG, "masked_lm", "sentence_order"))
    (tmp_path / "again").mkdir()
    write_tf1(stored, tmp_path / "again")
    arrays = read_arrays(tmp_path / "again" / "model.ckpt-best")
    assert (arrays["global_step"].dtype, arrays["global_step"].shape) == (np.int64, ())
    assert_same_weights({name: arrays[name] for name in expected}, expected)
    original = read_arrays(tmp_path / "tf1" / "model.ckpt-800", lambda name: "/adam_" not in name)
    assert {name.removeprefix("module/") for name in original} == arrays.keys()


def test_every_head_leaves_the_encoder_for_other_tasks(tmp_path):
    write_google(tmp_path, HeadSize("conditional_span_head", 0))
    loaded = load_pretrained(tmp_path)
    assert loaded.missing == ("masked_lm", "sentence_order")
    assert kinds_in(loaded.head) == ("question_answering",)


@pytest.mark.parametrize(
    ("sizes", "changed", "message"),
    [
        ((HeadSize("sequence_head", 3), HeadSize("span_head", 0)), {}, "the head of one task"),
        (
            (HeadSize("sequence_head", 3),),
            {"output_weights": (3, H + 1)},
            r"\[3, 25\] and should have \[3, 24\]",
        ),
        ((HeadSize("sequence_head", 3),), {"output_bias": (2,)}, r"\[3, 24\] and should have \[2, 24\]"),
        ((), {"output_bias": (2,)}, "1 name missing: output_weights"),
    ],
)
def test_two_heads_and_wrong_shapes_are_refused(sizes, changed, message, tmp_path):
    arrays = {name: np.ones(shape, "float32") for name, shape in changed.items()}
    write_google(tmp_path, *sizes, **arrays)
    with pytest.raises(InputError, match=message):
        open_model(tmp_path)


def write_hugging_face(folder: Path, kind: str, **changed) -> Head:
    _, _, size = HUGGING_FACE[kind]
    labels = LABELS if kind.endswith("classification") else ()
    head = random_head(size, kind, labels=labels, dropout=0.25)
    folder.mkdir()
    write_huggingface(stored_with(head), folder)
    values = json.loads((folder / "config.json").read_text()) | changed
    (folder / "config.json").write_text(json.dumps({k: v for k, v in values.items() if v is not None}))
    return head


def test_ordered_classes_become_classes(tmp_path):
    head = random_head(HeadSize("sequence_head", 3), "ordinal_classification", labels=("1", "2", "3"))
    write_huggingface(stored_with(head), tmp_path)
    stored = open_model(tmp_path)
    assert (kinds_in(stored.head), stored.head.labels) == (("classification",), ("1", "2", "3"))


@pytest.mark.parametrize("kind", HUGGING_FACE)
def test_names_in_hugging_face_directories(kind, tmp_path):
    head = write_hugging_face(tmp_path / "hf", kind)
    architecture, name, size = HUGGING_FACE[kind]
    tensors = safetensors.numpy.load_file(tmp_path / "hf" / "model.safetensors")
    values = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert values["architectures"] == [architecture]
    assert values["classifier_dropout_prob"] == 0.25
    kernel = next(iter(head.weights.values()))
    np.testing.assert_array_equal(tensors[f"{name}.weight"], kernel.T)
    assert {key for key in tensors if not key.startswith("albert.")} == {f"{name}.weight", f"{name}.bias"}
    stored = open_model(tmp_path / "hf")
    assert (stored.head.size, kinds_in(stored.head)) == (size, (kind,))


def test_hugging_face_configurations_say_what_the_outputs_mean(tmp_path):
    write_hugging_face(tmp_path / "classes", "classification")
    values = json.loads((tmp_path / "classes" / "config.json").read_text())
    assert values["id2label"] == {"0": "negative", "1": "neutral", "2": "positive"}
    assert values["label2id"] == {"negative": 0, "neutral": 1, "positive": 2}
    assert values["problem_type"] == "single_label_classification"
    write_hugging_face(tmp_path / "number", "regression")
    assert json.loads((tmp_path / "number" / "config.json").read_text())["problem_type"] == "regression"


def test_what_hugging_face_leaves_out_of_a_configuration(tmp_path):
    write_hugging_face(tmp_path / "number", "regression", problem_type=None, id2label=None)
    assert kinds_in(open_model(tmp_path / "number").head) == ("regression",)
    write_hugging_face(tmp_path / "classes", "classification", problem_type=None, id2label=None)
    assert open_model(tmp_path / "classes").head.labels == ("LABEL_0", "LABEL_1", "LABEL_2")


def test_a_head_of_another_kind_is_left_out_with_a_note(tmp_path):
    write_hugging_face(tmp_path / "hf", "classification", problem_type="ranking")
    stored = open_model(tmp_path / "hf")
    assert stored.head is None
    assert stored.notes[-1] == "left out: a head for ranking with 3 outputs"
    write_hugging_face(tmp_path / "numbers", "classification", problem_type="regression")
    stored = open_model(tmp_path / "numbers")
    assert (stored.head, stored.notes[-1]) == (None, "left out: a head for regression with 3 outputs")


@pytest.mark.parametrize("kind", ["classification", "regression", "multiple_choice"])
def test_a_head_on_the_pooler_needs_the_pooler(kind, tmp_path):
    write_hugging_face(tmp_path / "hf", kind)
    arrays = safetensors.numpy.load_file(tmp_path / "hf" / "model.safetensors")
    arrays = {name: array for name, array in arrays.items() if ".pooler." not in name}
    safetensors.numpy.save_file(arrays, tmp_path / "hf" / "model.safetensors")
    with pytest.raises(InputError, match=r"2 names missing: albert\.pooler\.bias, albert\.pooler\.weight"):
        open_model(tmp_path / "hf")


IN_CONFIG = r"config.json: Expected .* at `\$"


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("classification", {"id2label": {"0": "bad", "1": "good"}}, "each of the 3 outputs"),
        ("classification", {"id2label": {"0": "x", "1": "y", "2": "x"}}, "different names"),
        ("multi_label_classification", {"label_thresholds": [0.5, 0.5]}, "one threshold for each class"),
        *(
            ("multi_label_classification", {"label_thresholds": [odd] * 3}, f"{IN_CONFIG}.label_thresholds")
            for odd in ("half", True, float("nan"))
        ),
        *(
            ("classification", {"classifier_dropout_prob": odd}, f"{IN_CONFIG}.classifier_dropout_prob")
            for odd in ("abc", True, float("nan"))
        ),
        ("classification", {"classifier_dropout_prob": 1.5}, "must be at least 0 and below 1"),
    ],
)
def test_configurations_that_do_not_fit_the_head(kind, changes, message, tmp_path):
    write_hugging_face(tmp_path / "hf", kind, **changes)
    with pytest.raises(InputError, match=message):
        open_model(tmp_path / "hf")


def test_a_number_in_place_of_a_heads_matrix(tmp_path):
    arrays = {"classifier/output_dense/vars/0": np.array(1, "float32")}
    with pytest.raises(InputError, match=r"x.keras"):
        from_task_model(arrays, CONFIG, "sequence_head", "x.keras")


def test_what_a_format_has_no_head_for_is_refused(tmp_path):
    for write, size, kind, message in (
        (write_huggingface, HeadSize("conditional_span_head", 0), "question_answering", "that of SQuAD 2.0"),
        (write_tf1, HeadSize("token_head", 3), "token_classification", "no token classification"),
        (write_tf1, HeadSize("sequence_head", 3), "multi_label_classification", "no multi-label"),
    ):
        with pytest.raises(InputError, match=message):
            write(stored_with(random_head(size, kind)), tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_head_of_squad2_computes_what_the_original_does(tmp_path):
    """The original's formulas (squad_utils.py) in NumPy, under its names; its logit is of "impossible"."""
    size = HeadSize("conditional_span_head", 0)
    arrays = write_google(tmp_path, size)
    model = QuestionAnswering.from_stored(open_model(tmp_path))
    sequence = np.random.default_rng(1).standard_normal((2, 5, H)).astype("float32")
    starts, nothing = np.array([1, 3]), np.zeros((2, 5), "int32")
    outputs = model.span(sequence, nothing, start_positions=starts)
    start = (sequence @ arrays["start_logits/dense/kernel"] + arrays["start_logits/dense/bias"])[..., 0]
    pairs = np.concatenate([sequence, np.repeat(sequence[[0, 1], starts][:, None], 5, axis=1)], axis=-1)
    hidden = np.tanh(pairs @ arrays["end_logits/dense_0/kernel"] + arrays["end_logits/dense_0/bias"])
    hidden = (hidden - hidden.mean(-1, keepdims=True)) / np.sqrt(hidden.var(-1, keepdims=True) + 1e-12)
    hidden = hidden * arrays["end_logits/LayerNorm/gamma"] + arrays["end_logits/LayerNorm/beta"]
    end = (hidden @ arrays["end_logits/dense_1/kernel"] + arrays["end_logits/dense_1/bias"])[..., 0]
    odds = np.exp(start) / np.exp(start).sum(-1, keepdims=True)
    summary = np.concatenate([np.einsum("bt,bth->bh", odds, sequence), sequence[:, 0]], axis=-1)
    summary = np.tanh(summary @ arrays["answer_class/dense_0/kernel"] + arrays["answer_class/dense_0/bias"])
    impossible = (summary @ arrays["answer_class/dense_1/kernel"])[:, 0]
    np.testing.assert_allclose(outputs["start_logits"], start, atol=1e-5)
    np.testing.assert_allclose(outputs["end_logits"], end, atol=1e-5)
    np.testing.assert_allclose(outputs["answerable_logits"], -impossible, atol=1e-5)


@pytest.mark.slow
def test_the_head_of_squad2_returns_to_the_original(tmp_path):
    """Through the file of a task model, which holds one of its layers as two, and the opposite of a logit."""
    size = HeadSize("conditional_span_head", 0)
    arrays = write_google(tmp_path / "tf1", size)
    QuestionAnswering.from_stored(open_model(tmp_path / "tf1")).save(tmp_path / "model.keras")
    back = to_theirs(open_model(tmp_path / "model.keras").head.weights, CONFIG, "tf1", size)
    assert_same_weights({name: back[name] for name in arrays}, arrays)


def test_classes_in_another_order():
    """An order of three is not its own inverse, as one of two is."""
    weights = {
        "sequence_head/kernel": np.array([[0.0, 1, 2], [3, 4, 5]]),
        "sequence_head/bias": np.arange(3.0),
    }
    labels, thresholds = ("a", "b", "c"), (0.1, 0.2, 0.3)
    head = Head(
        HeadSize("sequence_head", 3), ("multi_label_classification",), weights, labels, None, thresholds
    )
    changed = with_classes(head, ("c", "a", "b"))
    assert (changed.labels, changed.thresholds) == (("c", "a", "b"), (0.3, 0.1, 0.2))
    assert changed.weights["sequence_head/kernel"].tolist() == [[2, 0, 1], [5, 3, 4]]
    assert changed.weights["sequence_head/bias"].tolist() == [2, 0, 1]


def test_a_configuration_from_elsewhere(tmp_path):
    """It stands in for the one beside a TF1 checkpoint, and must agree with it if both exist, but for dropout."""
    write_google(tmp_path / "tf1", HeadSize("sequence_head", 3))
    beside, elsewhere = tmp_path / "tf1" / "albert_config.json", tmp_path / "albert_config.json"
    beside.rename(elsewhere)
    with pytest.raises(InputError, match="needs its configuration: .*--albert_config_file"):
        load_pretrained(tmp_path / "tf1")
    assert load_pretrained(tmp_path / "tf1", config=elsewhere).config == CONFIG
    elsewhere.rename(beside)
    dropout = dataclasses.replace(CONFIG, hidden_dropout_prob=0.2)
    assert load_pretrained(tmp_path / "tf1", config=dropout).config == dropout
    with pytest.raises(InputError, match="hidden_act is gelu, received relu"):
        load_pretrained(tmp_path / "tf1", config=dataclasses.replace(CONFIG, hidden_act="relu"))
