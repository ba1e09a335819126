"""Fine-tuned models from elsewhere, in every command that takes a run of ours."""

import base64
import csv
import dataclasses
import json
import shutil
import tarfile
import zipfile
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_cli import cli
from albert_tf import TokenClassifier
from albert_tf.checkpoints.sources import SourceFlags
from albert_tf.conversion.convert import convert
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.runtime.finetuned import read_finetuned
from albert_tf.tasks.texts.kind import NUMBERS
from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Vocabulary
from export.evaluation import task_evaluation
from tests.albert_tf.tasks.files import write_checkpoint
from tests.albert_tf.tasks.task_models import CASES, CONFIG, N
from tests.commands import answers, refused, report
from tests.selection import all_but_very_slow

TASKS = {
    "text": "classification",
    "stars": "ordinal-classification",
    "topics": "multi-label-classification",
    "pair": "regression",
    "choice": "multiple-choice",
    "words": "token-classification",
    "span": "question-answering",
    "span or none": "squad2.0",
}
COLUMNS = {
    "text": ("text", "label"),
    "stars": ("text", "label"),
    "topics": ("text", "labels"),
    "pair": ("text_a", "text_b", "label"),
    "choice": ("passage", "question", "options", "label"),
    "words": ("words", "labels"),
    "span": ("question", "context", "answer", "answer_start"),
    "span or none": ("question", "context", "answer", "answer_start"),
}
FORMATS = {
    "text": ("huggingface", "kerashub", "keras", "tf1"),
    "stars": ("huggingface",),
    "topics": ("huggingface", "keras"),
    "pair": ("huggingface", "kerashub", "tf1"),
    "choice": ("huggingface", "tf1"),
    "words": ("huggingface",),
    "span": ("huggingface", "tf1"),
    "span or none": ("tf1", "keras"),
}
HELD = [(name, to) for name, formats in FORMATS.items() for to in formats]
FEW = (  # each format, and each class of models
    *(("text", "huggingface"), ("pair", "kerashub"), ("choice", "tf1"), ("span or none", "keras")),
)


def rows_of(name: str) -> list[dict]:
    """The examples of a case as rows of own data."""
    case = CASES[name]
    parts = [*(case.x if isinstance(case.x, tuple) else (case.x,))]
    parts += case.y if isinstance(case.y, tuple) else (case.y,)
    parts = [part.tolist() if isinstance(part, np.ndarray) else part for part in parts]
    return [dict(zip(COLUMNS[name], values, strict=True)) for values in zip(*parts, strict=True)]


@pytest.fixture(scope="module")
def sources(model_file, tmp_path_factory):
    """A function of a case and a format: the folder of the same model, of our own run for None."""
    folder = tmp_path_factory.mktemp("sources")
    vocabulary = Vocabulary.read(model_file)

    def get(name: str, to: str | None = None) -> Path:
        run = folder / name / "run"
        if not run.exists():
            run.mkdir(parents=True)
            has_windows = name.startswith("span")
            length = None if has_windows else CONFIG.max_position_embeddings
            preprocessor = CASES[name].model.new_preprocessor(vocabulary, length, CONFIG)
            model = CASES[name].build(None, preprocessor=preprocessor)
            rng = np.random.default_rng(1)
            for weight in model.trainable_variables:
                weight.assign(weight.numpy() + rng.normal(0, 0.2, weight.shape))
            model.save(run / "model.keras")
        if to and not (folder / name / to).exists():
            convert(run, folder / name / to, to, verify=False)
        return folder / name / to if to else run

    return get


@pytest.fixture
def data(tmp_path):
    def write(name: str) -> Path:
        path = tmp_path / f"{name.replace(' ', '-')}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows_of(name)))
        return path

    return write


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "lengths"),
    [
        pytest.param("text", {"max_seq_length": 9}, marks=pytest.mark.very_slow),
        pytest.param("choice", {"max_seq_length": 15, "max_qa_length": 7}, marks=pytest.mark.very_slow),
        ("span", {"max_seq_length": 14, "max_query_length": 4, "doc_stride": 5}),
    ],
)
def test_texts_are_cut_as_in_training(name, lengths, model_file, tmp_path):
    """After `from_pretrained` and a conversion to .keras, unless another length is given."""
    model_class, vocabulary = CASES[name].model, Vocabulary.read(model_file)
    preprocessor = model_class.preprocessor_class(vocabulary, **lengths)
    assert preprocessor.lengths == lengths
    (tmp_path / "run").mkdir()
    CASES[name].build(None, preprocessor=preprocessor).save(tmp_path / "run" / "model.keras")
    convert(tmp_path / "run", tmp_path / "keras", "keras", verify=False)
    for folder in (tmp_path / "run", tmp_path / "keras"):
        assert model_class.from_pretrained(folder).preprocessor.lengths == lengths
        assert model_class.from_pretrained(folder, max_seq_length=13).preprocessor.max_seq_length == 13
    other = TokenClassifier.from_pretrained(tmp_path / "run", labels=("a", "b"))  # with a new head
    assert other.preprocessor.max_seq_length == min(128, CONFIG.max_position_embeddings)


def flags_of(name: str, to: str | None) -> list[str]:
    """What the files leave open."""
    labels = CASES[name].arguments.get("labels") if to in ("tf1", "kerashub") else None
    kind = TASKS[name].replace("-", "_")
    is_open = (to == "tf1" and name in ("pair", "choice")) or (to == "huggingface" and name == "stars")
    return [*([f"--labels={','.join(labels)}"] if labels else []), *([f"--task={kind}"] if is_open else [])]


def assert_same(first, second) -> None:
    """Equal but for the last digits of numbers."""
    if isinstance(first, dict):
        assert first.keys() == second.keys()
        for key, value in first.items():
            assert_same(value, second[key])
    elif isinstance(first, float) or (isinstance(first, list) and first and isinstance(first[0], float)):
        assert second == pytest.approx(first, abs=1e-6)
    else:
        assert second == first


@pytest.mark.very_slow
@pytest.mark.parametrize("to", ["huggingface", "kerashub", "tf1"])
def test_the_precision_that_keras_is_set_to_does_not_matter(to, sources):
    flags = SourceFlags(labels="small,big") if to != "huggingface" else SourceFlags()
    texts = CASES["text"].x
    expected = read_finetuned(sources("text", to), flags).model.predict(texts, verbose=0)
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        found = read_finetuned(sources("text", to), flags).model.predict(texts, verbose=0)
    finally:
        keras.config.set_dtype_policy("float32")
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "to"), all_but_very_slow(HELD, FEW))
def test_predictions_are_those_of_our_run(name, to, sources, data, capfd, standard_input):
    lines = data(name).read_bytes()
    expected = answers(capfd, standard_input, lines, f"--model_dir={sources(name)}")
    found = answers(capfd, standard_input, lines, f"--model_dir={sources(name, to)}", *flags_of(name, to))
    assert len(found) == N
    for ours, theirs in zip(expected, found, strict=True):
        assert_same(ours, theirs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "to"),
    all_but_very_slow(
        [("stars", "huggingface"), ("pair", "tf1"), ("choice", "tf1"), ("span", "huggingface")],
        [("pair", "tf1"), ("choice", "tf1")],
    ),
)
def test_metrics_are_those_of_our_run(name, to, sources, data, capfd):
    command = ["evaluate", f"--task={TASKS[name]}", f"--gold={data(name)}"]
    expected = report(capfd, *command, f"--model_dir={sources(name)}")
    assert expected["examples"] == N
    assert_same(expected, report(capfd, *command, f"--model_dir={sources(name, to)}"))


@pytest.mark.slow
def test_tasks_name_the_classes_that_files_do_not(sources, tmp_path, capfd):
    """A TF1 checkpoint of SST-2 has the classes in the order of the original's reader."""
    rows = "".join(f"{row['text']}\t{int(row['label'] == 'big')}\n" for row in rows_of("text"))
    (tmp_path / "dev.tsv").write_text("sentence\tlabel\n" + rows)
    command = ["evaluate", "--task=sst-2", f"--gold={tmp_path}/dev.tsv"]
    found = report(capfd, *command, f"--model_dir={sources('text', 'tf1')}")
    named = report(capfd, *command, f"--model_dir={sources('text', 'huggingface')}", "--labels=0,1")
    assert found == named
    error = refused(capfd, *command, f"--model_dir={sources('text', 'huggingface')}")
    assert "The classes of sst-2 are 0, 1." in error
    assert "has small, big; --labels gives them other names" in error


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "to"), all_but_very_slow([("text", "huggingface"), ("span", "tf1")], [("text", "huggingface")])
)
def test_ensembles_take_them(name, to, sources, data, capfd, tmp_path):
    """A member without predictions predicts; the mean of two equal members is each of them."""
    members = [sources(name), sources(name, to)]
    task = "squad1.1" if name == "span" else TASKS[name]
    file = data(name)
    found = report(capfd, "ensemble", *members, f"--task={task}", f"--data_dir={file}")
    assert list(found["members"]) == [str(member) for member in members]
    if name == "text":
        first, second = found["members"].values()
        assert first == second == found["ensemble"]
        assert first["accuracy"] > 0
    error = refused(capfd, "ensemble", *members, f"--task={task}")
    assert "has no predictions for the dev set yet. Name the task's folder" in error
    (tmp_path / "run").mkdir()
    shutil.copy(sources(name) / "model.keras", tmp_path / "run")
    settings = {"task": task, "column_names": "", "dev_file": str(file)}
    (tmp_path / "run" / "settings.json").write_text(json.dumps(settings))
    known = report(capfd, "ensemble", tmp_path / "run", f"--task={task}")
    assert known["ensemble"] == found["ensemble"]
    if name == "text":  # the other member's data have the columns of the run, too
        settings["column_names"] = "text=review"
        (tmp_path / "run" / "settings.json").write_text(json.dumps(settings))
        file.write_text(file.read_text().replace('"text"', '"review"'))
        named = report(capfd, "ensemble", tmp_path / "run", sources(name, to), f"--data_dir={file}")
        assert named["ensemble"] == found["ensemble"]


@pytest.mark.very_slow
@pytest.mark.parametrize(
    ("name", "to", "kind"),
    [
        ("text", "huggingface", "classifier"),
        ("choice", "tf1", "multiple-choice"),
    ],
)
def test_exports_are_those_of_our_run(name, to, kind, sources, tmp_path, capfd):
    """The kind says what the one output of a TF1 checkpoint is for."""
    output = tmp_path / "saved"
    flags = [flag for flag in flags_of(name, to) if flag.startswith("--labels")]
    command = ["export", f"--kind={kind}", f"--model_dir={sources(name, to)}", f"--output={output}", *flags]
    assert cli.main(command) == 0
    loaded, model = tf.saved_model.load(output), read_finetuned(sources(name)).model
    x = CASES[name].x
    found = loaded(*[tf.constant(part) for part in (x if isinstance(x, tuple) else (x,))])
    expected = tf.nn.softmax(model.predict(x, verbose=0))
    np.testing.assert_allclose(found["probabilities"], expected, atol=1e-5)


def test_the_folder_above_says_nothing_of_a_model(sources, data, tmp_path):
    """A Hugging Face directory in the folder of some run is evaluated as own data."""
    shutil.copytree(sources("text", "huggingface"), tmp_path / "run" / "hf")
    (tmp_path / "run" / "settings.json").write_text('{"task": "mnli", "column_names": ""}')
    found = read_finetuned(tmp_path / "run" / "hf")
    evaluation = task_evaluation(str(data("text")), found.model, found)
    assert (evaluation.metric, evaluation.counted) == ("accuracy", f"{N} examples")


@pytest.mark.slow
def test_addresses_and_archives(sources, tmp_path, monkeypatch, standard_input, capfd):
    """Also of our own runs, whose settings then come along."""
    monkeypatch.setattr(
        "albert_tf.checkpoints.downloads._download_from_hub", lambda *_: sources("text", "huggingface")
    )
    lines = b"the captain\n"
    (found,) = answers(capfd, standard_input, lines, "--model_dir=hf://me/texts")
    (expected,) = answers(capfd, standard_input, lines, f"--model_dir={sources('text')}")
    assert_same(expected, found)
    shutil.copytree(sources("text"), tmp_path / "run")
    settings = {"task": "classification", "column_names": "text_a=review"}
    (tmp_path / "run" / "settings.json").write_text(json.dumps(settings))
    with tarfile.open(tmp_path / "run.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "run", "run")
    read = read_finetuned(tmp_path / "run.tar.gz")
    assert (read.task.name, read.columns.text_a) == ("classification", "review")
    (tmp_path / "run" / "model.keras").write_bytes(b"PK")
    with tarfile.open(tmp_path / "damaged.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "run", "run")
    assert f"{tmp_path}/damaged.tar.gz" in refused(capfd, "predict", f"--model_dir={tmp_path}/damaged.tar.gz")


@pytest.mark.slow
def test_what_files_leave_open(sources, model_file, tmp_path, capfd):
    folder = tmp_path / "tf1"
    shutil.copytree(sources("pair", "tf1"), folder)
    elsewhere = tmp_path / "elsewhere.json"
    (folder / "albert_config.json").rename(elsewhere)
    (folder / "spm.model").unlink()
    predict = ["predict", f"--model_dir={folder}"]
    assert "needs its configuration" in refused(capfd, *predict)
    predict += [f"--albert_config_file={elsewhere}"]
    assert "--task must name what the head is for, regression or multiple-choice" in refused(capfd, *predict)
    predict += ["--task=regression"]
    assert "Name the SentencePiece model or the WordPiece vocab.txt with --vocab_file" in refused(
        capfd, *predict
    )
    flags = SourceFlags(str(elsewhere), str(model_file))
    assert read_finetuned(folder, flags, NUMBERS).preprocessor.vocabulary.content == model_file.read_bytes()
    assert "--labels needs a model with classes" in refused(capfd, *predict, "--labels=a,b")
    run = f"--model_dir={sources('text')}"
    assert "a name for each class of the head, 2. Received a;" in refused(capfd, "predict", run, "--labels=a")
    message = "--vocab_file is for models without a vocabulary"
    assert message in refused(
        capfd, "predict", f"--model_dir={sources('text')}", f"--vocab_file={model_file}"
    )


@pytest.mark.slow
def test_a_keras_file_without_a_vocabulary_takes_long_texts(model_file, tmp_path):
    """As the same model in other formats: the usual 128 tokens would leave out half of these texts."""
    config = dataclasses.replace(CONFIG, max_position_embeddings=256)
    for name in ("text", "span"):
        CASES[name].model(AlbertEncoder(config, seed=3), **CASES[name].arguments).save(tmp_path / "a.keras")
        found = read_finetuned(tmp_path / "a.keras", SourceFlags(vocab_file=str(model_file)))
        assert found.preprocessor.max_seq_length == 256


@pytest.mark.slow
def test_flags_about_columns_replace_only_themselves(sources, tmp_path, capfd):
    """A run's names of the other columns, and its separator of labels, stay."""
    shutil.copytree(sources("topics"), tmp_path / "run")
    settings = {"task": TASKS["topics"], "column_names": "text=review,label=kinds", "label_separator": ";"}
    (tmp_path / "run" / "settings.json").write_text(json.dumps(settings))
    rows = [(row["text"], ";".join(row["labels"])) for row in rows_of("topics")]
    for column in ("kinds", "topics"):
        with (tmp_path / f"{column}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("review", column), *rows])
    command = ["evaluate", f"--model_dir={tmp_path}/run"]
    expected = report(capfd, *command, f"--gold={tmp_path}/kinds.csv")
    assert "accuracy" in expected
    renamed = ("--column_names=label=topics", f"--gold={tmp_path}/topics.csv")
    assert report(capfd, *command, *renamed) == expected


@pytest.mark.slow
def test_other_models(sources, tmp_path, capfd):
    """Pretrained ones, those for other tasks, and heads that find an answer to every question."""
    convert(sources("text"), tmp_path / "hf", "huggingface", verify=False)
    config = tmp_path / "hf" / "config.json"
    config.write_text(config.read_text().replace("AlbertForSequenceClassification", "AlbertModel"))
    assert "names left over: classifier" in refused(capfd, "predict", f"--model_dir={tmp_path}/hf")
    pretrained = write_checkpoint(tmp_path / "pretrained", None)
    assert "Received one without the head of a task" in refused(capfd, "predict", f"--model_dir={pretrained}")
    evaluate = ["evaluate", "--gold=dev.json", f"--model_dir={sources('span', 'huggingface')}"]
    assert "squad2.0 needs the head of SQuAD 2.0" in refused(capfd, *evaluate, "--task=squad2.0")
    ax = ("evaluate", "--gold=dev.json", f"--model_dir={sources('text')}", "--task=ax")
    assert "ax has no dev set. It only has a test set." in refused(capfd, *ax)
    assert "must name what the head is for, question-answering" in refused(
        capfd, *evaluate, "--task=regression"
    )
    run = f"--model_dir={sources('span')}"
    assert "holds one for question-answering" in refused(capfd, *evaluate[:2], run, "--task=regression")
    assert "needs --predictions or --model_dir. Received both" in refused(
        capfd, *evaluate, "--task=squad1.1", "--predictions=a.json"
    )


def change(source: Path, target: Path, edit) -> Path:
    """A copy of a .keras file whose description `edit` has changed."""
    with zipfile.ZipFile(source) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    description = json.loads(files["config.json"])
    edit(description["config"])
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in {**files, "config.json": json.dumps(description).encode()}.items():
            archive.writestr(name, content)
    return target


HOSTILE = {
    "wide": lambda c: c["encoder"]["config"].update(hidden_size=99_000, num_attention_heads=1),
    "large vocabulary": lambda c: c["encoder"]["config"].update(vocab_size=10**9),
    "many classes": lambda c: c.update(labels=[str(i) for i in range(200_000)]),
    "other classes": lambda c: c.update(labels=["a"]),
    "no encoder": lambda c: c.pop("encoder"),
    "encoder of another type": lambda c: c.update(encoder=[1]),
    "preprocessor of another type": lambda c: c.update(preprocessor=3),
    "vocabulary that is no model": lambda c: c["preprocessor"]["config"].update(
        content=base64.b64encode(b"x" * 100).decode()
    ),
    "vocabulary that is no text": lambda c: c["preprocessor"]["config"].update(content=7),
    "length of another type": lambda c: c["preprocessor"]["config"].update(max_seq_length="long"),
    "deep": lambda c: c.update(name=json.loads("[" * 400 + "]" * 400)),
    "unknown argument": lambda c: c.update(more=1),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused(name, sources, tmp_path, capfd):
    change(sources("text") / "model.keras", tmp_path / "model.keras", HOSTILE[name])
    error = refused(capfd, "predict", f"--model_dir={tmp_path}")
    assert str(tmp_path) in error


def test_damaged_files_are_refused(sources, tmp_path):
    """Any flipped byte, and any end that is cut off; what is not refused reads the same."""
    content = (sources("text") / "model.keras").read_bytes()
    expected = read_finetuned(sources("text")).model.get_weights()
    rng, file, read = np.random.default_rng(0), tmp_path / "model.keras", 0
    for number in range(60):
        damaged = bytearray(content)
        if number < 20:
            # the archive's directory is at its end
            place = (
                len(content) - 1 - int(rng.integers(400)) if number < 10 else int(rng.integers(len(content)))
            )
            damaged[place] ^= 1 << int(rng.integers(8))
        elif number < 40:
            place = int(rng.integers(len(content)))
            damaged[place : place + 8] = rng.bytes(8)
        else:
            damaged = damaged[: int(rng.integers(len(content)))]
        file.write_bytes(damaged)
        try:
            found = read_finetuned(file).model.get_weights()
        except InputError:
            continue
        read += 1
        assert all(map(np.array_equal, found, expected))
    assert read < 20
