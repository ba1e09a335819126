"""Fine-tuned models of every kind for ONNX Runtime and LiteRT: ids in, and what the model computes out."""

import itertools
import json
import re

import numpy as np
import pytest
from scipy.special import expit, softmax

from albert_tf.tasks.features import IMPOSSIBLE
from albert_tf.tasks.hub_names import to_hub_names
from albert_tf.tasks.inference import Inference
from albert_tf.tasks.kinds import find_kind
from albert_tf.tasks.problems import Problems
from albert_tf.tasks.reading import read_examples
from albert_tf.tasks.runner import FunctionRunner
from albert_tf.tasks.served import MASKED_LOGIT
from albert_tf.tasks.splits import BatchSize
from albert_tf.tasks.string_batches import predict_batches
from albert_tf.tasks.task import own_data_task
from export.litert import LITERT, litert_runner
from export.onnx import ONNX, onnx_runner
from export.write import export_for_runtime
from tests.albert_tf.tasks.files import write_questions
from tests.albert_tf.tasks.task_models import CASES
from tests.cards import card_of, examples_of, printed_by
from tests.export.test_finetuned import saved
from tests.selection import all_but_very_slow

pytestmark = pytest.mark.slow

pytest.importorskip("onnxruntime", reason="an extra: pip install '.[onnx]'")
pytest.importorskip("tf2onnx", reason="an extra: pip install '.[onnx]'")
pytest.importorskip("ai_edge_litert", reason="an extra: pip install '.[litert]'")

KINDS = {
    "topics": "classifier",
    "choice": "multiple-choice",
    "words": "token-classification",
    "span": "question-answering",
    "span or none": "question-answering",
}
RUNTIMES = {"onnx": (ONNX.file, onnx_runner), "litert": (LITERT.file, litert_runner)}
HELD = itertools.product(RUNTIMES, KINDS)
FEW = (
    *(("onnx", name) for name in ("topics", "choice", "words", "span or none")),
    ("litert", "topics"),
)
EVERY_EXPORT = pytest.mark.parametrize(("runtime", "name"), all_but_very_slow(HELD, FEW))


@pytest.fixture(scope="module")
def models(model_file, tmp_path_factory):
    """Each model with its .keras file."""
    folder = tmp_path_factory.mktemp("models")
    return {name: saved(name, model_file, folder) for name in KINDS}


@pytest.fixture(scope="module")
def exported(models, tmp_path_factory):
    """A function that exports a model at most once, with its metric before and after; returns folder and note."""
    folder = tmp_path_factory.mktemp("runtimes")
    made: dict = {}

    def get(name, runtime):
        if (name, runtime) not in made:
            file, output = dev_file(name, folder), folder / f"{name} {runtime}"
            result = export_for_runtime(models[name][1], output, runtime, "none", str(file), KINDS[name])
            made[name, runtime] = output, next(note for note in result.notes if " before, " in note)
        return made[name, runtime]

    return get


def dev_file(name, folder):
    """The examples of the case as own data."""
    case = CASES[name]
    if KINDS[name] == "question-answering":
        return write_questions(folder / f"{name}.json", 6, seed=0, impossible=name == "span or none")
    columns = {"topics": ("text", "label"), "words": ("words", "labels")}.get(
        name, ("passage", "question", "options", "label")
    )
    parts = case.x if name == "choice" else (case.x,)
    rows = zip(*parts, list(case.y), strict=True)
    lines = [json.dumps(dict(zip(columns, row, strict=True)), default=int) for row in rows]
    (folder / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder / f"{name}.jsonl"


def expected(name, model, batch):
    """The outputs of the model under the names of the file."""
    outputs = model(batch)
    if isinstance(outputs, dict):
        return {key: np.maximum(array, MASKED_LOGIT) for key, array in outputs.items()}
    logits = np.asarray(outputs)
    probabilities = expit(logits) if name == "topics" else softmax(logits, axis=-1)
    return {"probabilities": probabilities, "logits": np.maximum(logits, MASKED_LOGIT)}


@EVERY_EXPORT
def test_equals_the_model(name, runtime, models, exported):
    """On batches of several shapes; what cannot be an answer follows from the ids, without `p_mask`."""
    model, (folder, _) = models[name][0], exported(name, runtime)
    model.encoder.unpad = runtime == "onnx"
    file, runner = RUNTIMES[runtime]
    run = runner(folder / file)
    batches, _ = predict_batches(model.preprocessor.features(CASES[name].x), 8, equal_lengths=False)
    for batch in batches.as_numpy_iterator():
        wanted, found = expected(name, model, batch), run(to_hub_names(batch))
        assert set(found) == set(wanted)
        for key, array in wanted.items():
            assert found[key].shape == array.shape
            np.testing.assert_allclose(found[key], array, rtol=1e-5, atol=1e-5, err_msg=key)
    files = {"README.md", "albert_config.json", "spm.model", file}
    files |= {"portable.json", *["offsets.npz"] * name.startswith("span")} if runtime == "onnx" else set()
    assert {path.name for path in folder.iterdir()} == files


@pytest.mark.parametrize("name", all_but_very_slow(KINDS, KINDS.keys() - {"span"}))
def test_metric_before_and_after(name, models, exported):
    """The metric of the model's task on a file of own data is that of `albert evaluate`, and of the file."""
    model, (folder, note) = models[name][0], exported(name, "onnx")
    assert note in card_of(folder)
    metric, before, after = re.match(r"(\S+) on .*: ([\d.]+) before, ([\d.]+) in the file", note).groups()
    assert before == after
    task = own_data_task(find_kind(model.kind), getattr(model, "answerable", False))
    examples = read_examples(
        task, dev_file(name, folder.parent), task.splits["dev"][0], Problems(), labels=model.labels
    )
    split = model.preprocessor.split("dev", examples, model.labels)
    rows = FunctionRunner(Inference(model).of_batch).rows(split.features, BatchSize(8))
    predictions = task.kind.predictions(split, rows, model)
    assert metric == task.main_metric
    assert float(before) == pytest.approx(task.kind.measure(task, [split], [predictions])[metric], abs=1e-4)


@EVERY_EXPORT
def test_examples_of_the_card_run(name, runtime, exported):
    """With ids; in a portable model, also with texts."""
    folder, _ = exported(name, runtime)
    with_ids, *with_texts = examples_of(folder)
    assert len(with_texts) == (runtime == "onnx")
    for example in with_texts:
        assert "load_portable" in example
        printed_by(example, folder)
    shapes = {"topics": (1, 3), "choice": (1, 2), "words": (1, 5, 2), "span": (1, 7), "span or none": (1,)}
    assert printed_by(with_ids, folder) == str(shapes[name])


@pytest.mark.very_slow
def test_the_card_of_a_model_without_a_vocabulary_shows_ids(tmp_path):
    CASES["text"].build(None).save(tmp_path / "none.keras")
    export_for_runtime(tmp_path / "none.keras", tmp_path / "onnx", "onnx")
    card = card_of(tmp_path / "onnx")
    assert "load_portable" not in card
    assert "input_word_ids" in card


@pytest.mark.very_slow
def test_float16_cannot_hold_the_logit_of_impossible_tokens(models, tmp_path, capfd):
    """Masked logits are neither infinite nor NaN, nor are the others."""
    assert -IMPOSSIBLE > float(np.finfo("float16").max) > -MASKED_LOGIT
    model, file = models["span"]
    export_for_runtime(file, tmp_path / "saved", "litert", "float16", kind="question-answering")
    run = litert_runner(tmp_path / "saved" / LITERT.file)
    batches, _ = predict_batches(model.preprocessor.features(CASES["span"].x), 4, equal_lengths=True)
    batch = next(batches.as_numpy_iterator())
    wanted = expected("span", model, batch)
    found = run(to_hub_names(batch))
    assert "INFO:" not in capfd.readouterr().err  # of LiteRT's delegate
    for key, array in found.items():
        np.testing.assert_array_equal(array == MASKED_LOGIT, wanted[key] == MASKED_LOGIT)
        np.testing.assert_allclose(array, wanted[key], atol=0.05)
