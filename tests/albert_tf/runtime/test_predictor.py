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
from albert_tf.tasks.spans.answers import Answer, SquadPredictions
from albert_tf.tasks.spans.kind import SPANS
from albert_tf.tasks.spans.rows import QuestionExample
from tests.commands import answers, refused

pytestmark = pytest.mark.slow

SHORT = {"num_train_steps": 4, "log_steps": 4, "do_predict": True}


@pytest.fixture(scope="module")
def classifier(finetuning_files, tmp_path_factory) -> Path:
    """A run whose best seed is its second; there is nothing of the first."""
    run = tmp_path_factory.mktemp("classifier") / "run"
    assert cli.main(finetuning_files.flags(run, **SHORT)) == 0
    (run / "seed_0").rename(run / "seed_1")
    results = json.loads((run / "results.json").read_text())
    (run / "results.json").write_text(json.dumps({**results, "best_seed": 1}))
    return run


def texts_of(finetuning_files) -> list[str]:
    """The texts of the test set."""
    lines = (finetuning_files.folder / "classification-test.csv").read_text().splitlines()[1:]
    return [line.rpartition(",")[0] for line in lines]


def test_lines_get_the_best_seeds_predictions_of_the_test_set(
    classifier, finetuning_files, capfd, standard_input
):
    best = json.loads((classifier / "results.json").read_text())["best_seed"]
    expected = read_probabilities(classifier / f"seed_{best}" / "test_probabilities.jsonl")
    texts = texts_of(finetuning_files)
    found = answers(capfd, standard_input, "\n".join(texts), f"--model_dir={classifier}", "--batch_size=3")
    assert [answer["label"] for answer in found] == expected.predictions()
    for answer, value in zip(found, expected.values, strict=True):
        assert list(answer["probabilities"].values()) == pytest.approx(value.tolist(), abs=1e-6)
        assert answer["probability"] == max(answer["probabilities"].values())


def test_objects_and_tables_of_one_seed(classifier, finetuning_files, capfd, standard_input):
    """Texts alone, JSON objects, the test file, and a table whose columns are named."""
    texts = texts_of(finetuning_files)
    rows = [{"text": text, "more": 1} for text in texts]
    rows[1] |= {"label": "of another task"}
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    flag, table = f"--model_dir={classifier}/seed_1", finetuning_files.folder / "classification-test.csv"
    expected = answers(capfd, standard_input, "".join(f"{text}\n" for text in texts), flag)
    assert answers(capfd, standard_input, lines, flag) == expected
    assert answers(capfd, standard_input, table.read_bytes(), flag) == expected
    named = pd.DataFrame({"id": range(len(texts)), "critique": texts}).to_csv(index=False)
    assert answers(capfd, standard_input, named, flag, "--column_names=text=critique") == expected
    standard_input(named.encode())
    assert "only: id, critique" in refused(capfd, "predict", flag)
    standard_input(b'text,label\n"a,1\n')  # the end of the input is a mistake, too
    assert "The one in line 2 never does" in refused(capfd, "predict", flag, "--input_format=csv")


@pytest.mark.very_slow
def test_a_pair_and_a_text_with_a_tab(classifier, capfd, standard_input):
    pair, text = (
        answers(capfd, standard_input, "the captain\tthe lighthouse\n", f"--model_dir={classifier}", *flags)
        for flags in ([], ["--input_format=text"])
    )
    assert pair != text
    spaces = answers(capfd, standard_input, "the captain the lighthouse\n", f"--model_dir={classifier}")
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


def test_refused_lines(classifier, capfd, standard_input):
    standard_input(b"caf\xe9\n")
    assert "Text must be UTF-8. Line 1" in refused(capfd, "predict", f"--model_dir={classifier}")


def test_refused_flags(capfd):
    assert "There is no checkpoint at nothing" in refused(capfd, "predict", "--model_dir=nothing")
    message = "--batch_tokens and --max_answer_length must be at least 1"
    assert message in refused(capfd, "predict", "--model_dir=.", "--batch_size=0")


def test_a_damaged_model(classifier, tmp_path, capfd):
    (tmp_path / "model.keras").write_bytes(
        (classifier / "seed_1" / "model.keras").read_bytes()[:1000],
    )
    assert cli.main(["predict", f"--model_dir={tmp_path}"]) == 2
    assert "is not a complete .keras file" in capfd.readouterr().err


def test_predictions_that_are_not_finite(classifier, tmp_path, capfd, standard_input):
    """Finite weights can be too large to compute with; NaN is not JSON."""
    model = read_finetuned(classifier / "seed_1" / "model.keras").model
    for variable in model.trainable_variables:
        variable.assign(np.full(variable.shape, 3e38))
    model.save(tmp_path / "model.keras")
    standard_input(b"the captain\n")
    assert cli.main(["predict", f"--model_dir={tmp_path}"]) == 2
    out, error = capfd.readouterr()
    assert "NaN" not in out
    assert "Predictions must be finite numbers. Received NaN or infinity" in error


def test_no_answer_has_no_probability():
    """The probability is that of the best text, which the threshold rejects."""
    found = SquadPredictions({"1": [Answer("sea", 4, 1.0, 2.0, 3.0)]}, {"1": 0.5})
    examples = [QuestionExample("1", "what?", "the sea")]
    (none,), (some,) = (list(SPANS.lines(examples, found, threshold)) for threshold in (0.0, 1.0))
    assert none == {"answer": "", "null_odds": 0.5}
    assert some == {"answer": "sea", "probability": 1.0, "answer_start": 4, "null_odds": 0.5}
