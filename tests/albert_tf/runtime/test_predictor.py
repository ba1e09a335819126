"""`albert predict` from a stream to a stream."""

import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from albert_cli import cli
from albert_tf.runtime.finetuned import read_finetuned
from albert_tf.runtime.predictor import Predictor, predict_stream
from albert_tf.tasks.probabilities import read_probabilities
from albert_tf.tasks.spans.answer_files import read_n_best
from albert_tf.tasks.spans.answers import Answer, SquadPredictions
from albert_tf.tasks.spans.kind import SPANS
from albert_tf.tasks.spans.rows import QuestionExample

pytestmark = pytest.mark.slow

SHORT = {"num_train_steps": 4, "log_steps": 4, "do_predict": True}


@pytest.fixture(scope="module")
def classifier(finetuning_files, tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("classifier") / "run"
    assert cli.main(finetuning_files.flags(run, **SHORT, seeds=2)) == 0
    return run


def texts_of(finetuning_files) -> list[str]:
    """The texts of the test set."""
    lines = (finetuning_files.folder / "classification-test.csv").read_text().splitlines()[1:]
    return [line.rpartition(",")[0] for line in lines]


def answered(capfd, standard_input, text: str | bytes, *flags: str) -> list[dict]:
    content = text.encode() if isinstance(text, str) else text
    standard_input(content)
    capfd.readouterr()
    assert cli.main(["predict", *flags]) == 0
    return [json.loads(line) for line in capfd.readouterr().out.splitlines()]


def test_lines_get_the_best_seeds_predictions_of_the_test_set(
    classifier, finetuning_files, capfd, standard_input
):
    best = json.loads((classifier / "results.json").read_text())["best_seed"]
    expected = read_probabilities(classifier / f"seed_{best}" / "test_probabilities.jsonl")
    texts = texts_of(finetuning_files)
    answers = answered(capfd, standard_input, "\n".join(texts), f"--model_dir={classifier}", "--batch_size=3")
    assert [answer["label"] for answer in answers] == expected.predictions()
    for answer, value in zip(answers, expected.values, strict=True):
        assert list(answer["probabilities"].values()) == pytest.approx(value.tolist(), abs=1e-6)
        assert answer["probability"] == max(answer["probabilities"].values())


def test_json_lines_of_one_seed(classifier, finetuning_files, capfd, standard_input):
    texts = texts_of(finetuning_files)
    rows = [{"text": text, "more": 1} for text in texts]
    rows[1] |= {"label": "of another task"}
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    flag = f"--model_dir={classifier}/seed_1"
    plain = "".join(f"{text}\n" for text in texts)
    assert answered(capfd, standard_input, lines, flag) == answered(capfd, standard_input, plain, flag)


def test_the_test_file_itself(classifier, finetuning_files, capfd, standard_input):
    table = (finetuning_files.folder / "classification-test.csv").read_bytes()
    plain = "".join(f"{text}\n" for text in texts_of(finetuning_files))
    flag = f"--model_dir={classifier}/seed_1"
    assert answered(capfd, standard_input, table, flag) == answered(capfd, standard_input, plain, flag)
    standard_input(b'text,label\n"a,1\n')
    assert cli.main(["predict", flag, "--input_format=csv"]) == 2
    assert "The one in line 2 never does" in capfd.readouterr().err


def test_columns_of_a_table(classifier, finetuning_files, capfd, standard_input):
    texts = texts_of(finetuning_files)
    table = pd.DataFrame({"id": range(len(texts)), "topic": "a", "critique": texts}).to_csv(index=False)
    flag = f"--model_dir={classifier}/seed_1"
    from_table = answered(capfd, standard_input, table, flag, "--column_names=text=critique")
    from_lines = answered(capfd, standard_input, "\n".join(texts), flag)
    expected = [line["probability"] for line in from_lines]
    assert [line["probability"] for line in from_table] == pytest.approx(expected, abs=1e-6)
    for model in (flag, f"{flag}/model.keras"):
        standard_input(table.encode())
        assert cli.main(["predict", model]) == 2
        out, err = capfd.readouterr()
        assert (out, "only: id, topic, critique" in err) == ("", True)


def test_a_pair_and_a_text_with_a_tab(classifier, capfd, standard_input):
    pair, text = (
        answered(capfd, standard_input, "the captain\tthe lighthouse\n", f"--model_dir={classifier}", *flags)
        for flags in ([], ["--input_format=text"])
    )
    assert pair != text
    spaces = answered(capfd, standard_input, "the captain the lighthouse\n", f"--model_dir={classifier}")
    assert text == spaces


def test_lines_are_answered_as_they_arrive(classifier):
    """As through a pipe: each line is answered before more is read."""
    sink = io.BytesIO()

    class Pipe(io.BytesIO):
        lines = iter([b"the captain sailed\nour old", b" gardener\n", b""])

        def read1(self, size=-1):
            answered.append(sink.getvalue().count(b"\n"))
            return next(self.lines)

    answered: list[int] = []
    predict_stream(Predictor(read_finetuned(classifier)), Pipe(), sink)
    assert answered == [0, 1, 2]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\tb\tc\n", "A line must have text_a and text_b, with a tab between them, or be a JSON object"),
        (
            b'{"text": "a"}\n{"text": \n',
            "Every line must be a JSON object. Received line 2: Expecting value",
        ),
        (b'{"text": "a"}\n[1]\n', "Every line must be a JSON object. Received line 2: '[1]'"),
        (b'{"texts": "a"}\n', "A column for `text_a` is needed"),
        (b"caf\xe9\n", "Text must be UTF-8. Line 1"),
    ],
)
def test_refused_lines(classifier, capfd, standard_input, content, message):
    standard_input(content)
    capfd.readouterr()
    assert cli.main(["predict", f"--model_dir={classifier}"]) == 2
    error = capfd.readouterr().err
    assert message in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--model_dir=nothing"], "There is no checkpoint at nothing"),
        (["--model_dir=.", "--batch_size=0"], "--batch_tokens and --max_answer_length must be at least 1"),
    ],
)
def test_refused_flags(capfd, flags, message):
    assert cli.main(["predict", *flags]) == 2
    assert message in capfd.readouterr().err


def test_a_damaged_model(classifier, tmp_path, capfd):
    (tmp_path / "model.keras").write_bytes(
        (classifier / "seed_0" / "model.keras").read_bytes()[:1000],
    )
    assert cli.main(["predict", f"--model_dir={tmp_path}"]) == 2
    assert "is not a complete .keras file" in capfd.readouterr().err


def test_predictions_that_are_not_finite(classifier, tmp_path, capfd, standard_input):
    """Finite weights can be too large to compute with; NaN is not JSON."""
    model = read_finetuned(classifier / "seed_0" / "model.keras").model
    for variable in model.trainable_variables:
        variable.assign(np.full(variable.shape, 3e38))
    model.save(tmp_path / "model.keras")
    standard_input(b"the captain\n")
    assert cli.main(["predict", f"--model_dir={tmp_path}"]) == 2
    out, error = capfd.readouterr()
    assert "NaN" not in out
    assert "Predictions must be finite numbers. Received NaN or infinity" in error


def run_of(finetuning_files, folder: Path, kind: str) -> Path:
    assert cli.main(finetuning_files.flags(folder / "run", kind, **SHORT)) == 0
    return folder / "run"


@pytest.mark.very_slow
def test_questions(finetuning_files, tmp_path, capfd, standard_input):
    run = run_of(finetuning_files, tmp_path, "squad2.0")
    content = json.loads((finetuning_files.folder / "squad2.0-test.json").read_text())
    paragraphs = content["data"][0]["paragraphs"]
    rows = [(paragraph["qas"][0]["question"], paragraph["context"]) for paragraph in paragraphs]
    tsv = "".join(f"{question}\t{context}\n" for question, context in rows)
    jsonl = "".join(
        json.dumps({"question": question, "context": context}) + "\n" for question, context in rows
    )
    answers = answered(capfd, standard_input, tsv, f"--model_dir={run}")
    assert answers == answered(capfd, standard_input, jsonl, f"--model_dir={run}")
    expected = json.loads((run / "seed_0" / "test_predictions.json").read_text())
    assert [answer["answer"] for answer in answers] == list(expected.values())
    odds = read_n_best(run / "seed_0", "test").null_odds
    assert odds is not None
    assert [answer["null_odds"] for answer in answers] == pytest.approx(list(odds.values()), abs=1e-5)
    for answer, (_, context) in zip(answers, rows, strict=True):
        if answer["answer"]:
            assert context[answer["answer_start"] :].startswith(answer["answer"])
            assert 0 < answer["probability"] <= 1


def test_no_answer_has_no_probability():
    """The probability is that of the best text, which the threshold rejects."""
    found = SquadPredictions({"1": [Answer("sea", 4, 1.0, 2.0, 3.0)]}, {"1": 0.5})
    examples = [QuestionExample("1", "what?", "the sea")]
    (none,), (some,) = (list(SPANS.lines(examples, found, threshold)) for threshold in (0.0, 1.0))
    assert none == {"answer": "", "null_odds": 0.5}
    assert some == {"answer": "sea", "probability": 1.0, "answer_start": 4, "null_odds": 0.5}


@pytest.mark.very_slow
def test_questions_with_different_numbers_of_options(finetuning_files, tmp_path, capfd, standard_input):
    run = run_of(finetuning_files, tmp_path, "multiple-choice")
    lines = "the captain\twhat ?\tyes\tno\nthe captain\twhat ?\tyes\tno\tboth\n"
    two, three = answered(capfd, standard_input, lines, f"--model_dir={run}")
    assert list(two["probabilities"]) == ["A", "B"]
    assert list(three["probabilities"]) == ["A", "B", "C"]
    assert two["option"] == {"A": "yes", "B": "no"}[two["label"]]


@pytest.mark.very_slow
def test_words_and_scores(finetuning_files, tmp_path, capfd, standard_input, caplog):
    run = run_of(finetuning_files, tmp_path / "words", "token-classification")
    (answer,) = answered(capfd, standard_input, "the captain sailed\n", f"--model_dir={run}")
    assert answer["words"] == ["the", "captain", "sailed"]
    assert len(answer["labels"]) == len(answer["probabilities"]) == 3
    assert set(answer["labels"]) <= {"B-PER", "I-PER", "O"}
    (answer,) = answered(capfd, standard_input, "the " * 100, f"--model_dir={run}")
    assert answer["labels"][62:] == ["O"] * 38
    assert "beyond the model's longest sequence, 64 tokens: " in caplog.text
    assert "; they are not read and get the label O:" in caplog.text
    run = run_of(finetuning_files, tmp_path / "scores", "regression")
    (answer,) = answered(capfd, standard_input, "the captain\tthe captain\n", f"--model_dir={run}")
    assert set(answer) == {"score"}
