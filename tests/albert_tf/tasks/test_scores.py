"""`albert evaluate` on files of every task, and mistakes in them; scores of tasks and GLUE's average."""

import json

import pytest

from albert_tf.tasks.scores import GLUE_TASKS, glue_average, task_score
from albert_tf.tasks.spans.metrics import evaluate_squad2
from albert_tf.tasks.task import find_task
from tests.commands import run
from tests.reference import classification

HEADER = "index\tprediction\n"


def evaluate(capfd, **flags) -> tuple[int, str, str]:
    return run(capfd, "evaluate", *(f"--{name}={value}" for name, value in flags.items()))


def metrics(capfd, **flags) -> dict:
    status, out, error = evaluate(capfd, **flags)
    assert (status, error) == (0, "")
    return json.loads(out)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"model_dir": "m", "null_odds": "x.json"}, "Received x.json and 1.0 with --model_dir"),
        (
            {"model_dir": "m", "na_prob_thresh": 0.5},
            "Received None and 0.5 with --model_dir; leave them out.",
        ),
        ({"predictions": "p", "engine": "openvino", "labels": "a,b"}, "--labels=a,b, --engine=openvino with"),
        ({"predictions": "p", "task": ""}, "--predictions needs --task"),
    ],
)
def test_flags_without_effect_or_need(capfd, flags, message):
    flags = {
        name: value for name, value in {"task": "squad2.0", "gold": "dev.json", **flags}.items() if value
    }
    status, _, error = evaluate(capfd, **flags)
    assert (status, message in error) == (2, True), error


NLI = ("entailment", "not_entailment", "entailment")
LAYOUTS = {
    "CoLA": ("", "x\t{}\t\ttext\n"),
    "SST-2": ("sentence\tlabel\n", "text\t{}\n"),
    "MRPC": ("\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n", "{}\t1\t2\ta\tb\n"),
    "QQP": ("id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n", "{i}\t1\t2\ta\tb\t{}\n"),
    "WNLI": ("index\tsentence1\tsentence2\tlabel\n", "{i}\ta\tb\t{}\n"),
    "STS-B": ("index\tsentence1\tsentence2\tscore\n", "{i}\ta\tb\t{}\n"),
    "RTE": ("index\tsentence1\tsentence2\tlabel\n", "{i}\ta\tb\t{}\n"),
    "QNLI": ("index\tquestion\tsentence\tlabel\n", "{i}\ta\tb\t{}\n"),
    "MNLI-m": ("index\tsentence1\tsentence2\tgold_label\n", "{i}\ta\tb\t{}\n"),
    "MNLI-mm": ("index\tsentence1\tsentence2\tgold_label\n", "{i}\ta\tb\t{}\n"),
}
GOLD = {
    **dict.fromkeys(("CoLA", "SST-2", "MRPC", "QQP", "WNLI"), ("1", "0", "1")),
    **dict.fromkeys(("RTE", "QNLI"), NLI),
    "STS-B": ("5.000", "0.200", "2.500"),
    "MNLI-m": ("neutral", "contradiction", "entailment"),
    "MNLI-mm": ("contradiction", "contradiction", "entailment"),
}


@pytest.fixture
def glue(tmp_path):
    """GLUE's download with three dev rows for each task, and a folder of predictions, two of them correct."""
    gold, predictions = tmp_path / "glue", tmp_path / "predictions"
    predictions.mkdir()
    for name, (header, row) in LAYOUTS.items():
        split = {"MNLI-m": "dev_matched", "MNLI-mm": "dev_mismatched"}.get(name, "dev")
        file = gold / name.split("-m")[0] / f"{split}.tsv"
        file.parent.mkdir(parents=True, exist_ok=True)
        rows = [row.format(label, i=i) for i, label in enumerate(GOLD[name])]
        file.write_text(header + "".join(rows), encoding="utf-8")
        lines = [f"{i}\t{GOLD[name][min(i, 1)]}\n" for i in range(3)]
        (predictions / f"{name}.tsv").write_text(HEADER + "".join(lines))
    return gold, predictions


def test_gold_in_a_folder_of_folders_a_folder_or_a_file(capfd, glue):
    gold, predictions = glue
    for right in (gold, gold / "RTE", gold / "RTE" / "dev.tsv"):
        received = metrics(capfd, task="rte", predictions=predictions / "RTE.tsv", gold=right)
        assert received == pytest.approx({"accuracy": 2 / 3})


def test_mnli(capfd, glue):
    """Each dev set, and both."""
    gold, predictions = glue
    for name, where in (("MNLI-m", gold), ("MNLI-mm", gold / "MNLI" / "dev_mismatched.tsv")):
        received = metrics(capfd, task="mnli", predictions=predictions / f"{name}.tsv", gold=where)
        assert received == pytest.approx({"accuracy": 2 / 3})
    (predictions / "MNLI-mm.tsv").write_text(f"{HEADER}0\tneutral\n1\tneutral\n2\tentailment\n")
    both = metrics(capfd, task="mnli", predictions=predictions, gold=gold)
    assert both == pytest.approx({"accuracy": 0.5, "accuracy_m": 2 / 3, "accuracy_mm": 1 / 3})


def test_all_of_glue(capfd, glue):
    gold, predictions = glue
    received = metrics(capfd, task="glue", predictions=predictions, gold=gold)
    two, sides = {"accuracy": 2 / 3}, ((5.0, 0.2, 0.2), (5.0, 0.2, 2.5))
    correlations = {"pearson": classification.pearson(*sides), "spearman": classification.spearman(*sides)}
    expected = {
        "cola": {"accuracy": 2 / 3, "matthews": 0.5},
        **dict.fromkeys(("sst-2", "qnli", "rte", "wnli"), two),
        **{task: {"accuracy": 2 / 3, "f1": 2 / 3} for task in ("mrpc", "qqp")},
        "sts-b": correlations,
        "mnli": {"accuracy": 2 / 3, "accuracy_m": 2 / 3, "accuracy_mm": 2 / 3},
    }
    average = 100 * (7 * 2 / 3 + 0.5 + sum(correlations.values()) / 2) / 9
    assert received.pop("average") == pytest.approx(average)
    assert received == {task: pytest.approx(values, abs=1e-9) for task, values in expected.items()}
    (predictions / "QQP.tsv").unlink()
    received = metrics(capfd, task="glue", predictions=predictions, gold=gold)
    assert not {"qqp", "average"} & set(received)
    assert "CoLA.tsv" in evaluate(capfd, task="glue", predictions=gold, gold=gold)[2]


def test_rows_with_empty_texts_count(capfd, glue):
    gold, predictions = glue
    file = gold / "RTE" / "dev.tsv"
    file.write_text("index\tsentence1\tsentence2\tlabel\n0\t\tb\tentailment\n1\tc\td\tentailment\n")
    (predictions / "RTE.tsv").write_text(f"{HEADER}0\tentailment\n1\tnot_entailment\n")
    status, out, error = evaluate(capfd, task="rte", predictions=predictions / "RTE.tsv", gold=file)
    assert (status, json.loads(out)) == (0, {"accuracy": 0.5})
    assert "empty text" in error


def test_the_diagnostic_set(capfd, tmp_path):
    gold, predictions = tmp_path / "diagnostic-full.tsv", tmp_path / "AX.tsv"
    gold.write_text(
        "Logic\tPremise\tHypothesis\tLabel\n\ta\tb\tneutral\n\tc\td\tentailment\n\te\tf\tneutral\n"
    )
    predictions.write_text(f"{HEADER}0\tneutral\n1\tentailment\n2\tentailment\n")
    received = metrics(capfd, task="ax", predictions=predictions, gold=gold)
    assert received == pytest.approx({"accuracy": 2 / 3, "matthews": 0.5})
    gold.write_text("Logic\tPremise\tHypothesis\tLabel\n\ta\tb\tyes\n")
    assert "diagnostic set are" in evaluate(capfd, task="ax", predictions=predictions, gold=gold)[2]


def squad(*questions) -> str:
    qas = [
        {"id": id_, "question": "who?", "answers": [{"text": a, "answer_start": 0} for a in answers]}
        for id_, answers in questions
    ]
    return json.dumps({"version": "x", "data": [{"paragraphs": [{"context": "x", "qas": qas}]}]})


def test_squad(capfd, tmp_path):
    gold, predictions, odds = (
        tmp_path / name for name in ("gold.json", "predictions.json", "null_odds.json")
    )
    answers = {"1": ("Denver Broncos",), "2": ("Carolina", "Panthers"), "3": ()}
    texts = {"1": "the Denver", "2": "panthers", "3": "x"}
    null_odds = {"1": -1.0, "2": 0.5, "3": 2.0}
    predictions.write_text(json.dumps(texts))
    odds.write_text(json.dumps(null_odds))
    gold.write_text(squad(*list(answers.items())[:2]))
    extra = evaluate(capfd, task="squad1.1", predictions=predictions, gold=gold)
    assert extra[0] == 2
    assert "1 not in the gold file, first 3" in extra[2]
    gold.write_text(squad(*answers.items()))
    flags = {"task": "squad2.0", "predictions": predictions, "gold": gold}
    assert metrics(capfd, **flags) == pytest.approx(evaluate_squad2(answers, texts))
    expected = evaluate_squad2(answers, texts, null_odds)
    assert metrics(capfd, **flags, null_odds=odds) == pytest.approx(expected)
    expected = evaluate_squad2(answers, texts, null_odds, na_prob_thresh=0.0)
    assert metrics(capfd, **flags, null_odds=odds, na_prob_thresh=0.0) == pytest.approx(expected)
    # Own data with such a question is evaluated like SQuAD 2.0, without one like SQuAD 1.1.
    flags["task"] = "question-answering"
    assert metrics(capfd, **flags) == pytest.approx(evaluate_squad2(answers, texts))
    predictions.write_text(json.dumps({"1": "the Denver", "2": "panthers"}))
    gold.write_text(squad(*list(answers.items())[:2]))
    expected = {"exact_match": 50.0, "f1": pytest.approx(100 * (2 / 3 + 1) / 2)}
    assert metrics(capfd, **flags) == expected
    assert metrics(capfd, **{**flags, "task": "squad1.1"}) == expected
    table = tmp_path / "gold.csv"
    table.write_text(
        "id,question,context,answer\n1,who?,Denver Broncos,Denver Broncos\n2,who?,Panthers,Panthers\n"
    )
    assert metrics(capfd, **{**flags, "gold": table}) == expected
    status, _, error = evaluate(capfd, **{**flags, "task": "squad1.1"}, null_odds=odds)
    assert (status, "--null_odds is for tasks whose questions may have no answer" in error) == (2, True)


@pytest.mark.parametrize(
    ("task", "file", "content"),
    [
        ("squad1.1", "dev-v1.1.json", squad(("1", ["Denver"]))),
        (
            "question-answering",
            "dev.jsonl",
            '{"id": "1", "question": "?", "context": "Denver", "answer": "Denver"}',
        ),
    ],
)
def test_a_folder_of_questions(capfd, tmp_path, task, file, content):
    """Its dev set counts, whatever else there is."""
    (tmp_path / file).write_text(content)
    (tmp_path / file.replace("dev", "test")).write_text(content.replace('"1"', '"9"'))
    predictions = tmp_path / "predictions.json"
    predictions.write_text('{"1": "Denver"}')
    expected = {"exact_match": 100.0, "f1": 100.0}
    assert metrics(capfd, task=task, predictions=predictions, gold=tmp_path) == expected


def test_tables_of_own_questions(capfd, tmp_path):
    """Some have no answer; without a column of answers none would seem to have one."""
    gold, predictions = tmp_path / "dev.csv", tmp_path / "predictions.json"
    gold.write_text("id,question,context,answer\n1,who?,Denver,Denver\n2,why?,Denver,\n")
    predictions.write_text('{"1": "Denver", "2": ""}')
    flags = {"task": "question-answering", "predictions": predictions, "gold": gold}
    for task in ("squad2.0", "question-answering"):
        scores = metrics(capfd, **{**flags, "task": task})
        assert scores["HasAns_f1"] == scores["NoAns_f1"] == 100.0
    predictions.write_text('{"1": "Denver"}')
    gold.write_text("id,frage,context,answer\n1,who?,Denver,Denver\n")
    assert metrics(capfd, **flags, column_names="question=frage")["f1"] == 100.0
    gold.write_text("id,question,context,reply\n1,who?,Denver,Denver\n")
    status, _, error = evaluate(capfd, **flags)
    assert (status, "A column for `answer` is needed" in error) == (2, True)
    assert "has only: id, question, context, reply" in error


def test_race(capfd, tmp_path):
    for school, name, answers in (("middle", "1.txt", ["A", "C"]), ("high", "2.txt", ["D"])):
        folder = tmp_path / "RACE" / "dev" / school
        folder.mkdir(parents=True)
        passage = {
            "id": f"{school}{name}",
            "article": "x",
            "questions": ["what?"] * len(answers),
            "options": [["a", "b", "c", "d"]] * len(answers),
            "answers": answers,
        }
        (folder / name).write_text(json.dumps(passage))
    predictions = tmp_path / "race.json"
    predictions.write_text('{"middle1.txt-0": "A", "middle1.txt-1": "B", "high2.txt-0": "D"}')
    expected = {"accuracy": 2 / 3, "accuracy_middle": 0.5, "accuracy_high": 1.0}
    for gold in (tmp_path / "RACE", tmp_path / "RACE" / "dev"):
        assert metrics(capfd, task="race", predictions=predictions, gold=gold) == pytest.approx(expected)


def test_own_data(capfd, tmp_path):
    gold, predictions = tmp_path / "dev.csv", tmp_path / "predictions.tsv"
    gold.write_text("id,text,label\nx,fine,good\ny,dull,bad\nz,ok,so so\n")
    predictions.write_text(f"{HEADER}x\tgood\ny\tgood\nz\tso so\n")
    received = metrics(capfd, task="classification", predictions=predictions, gold=gold)
    assert received == pytest.approx({"accuracy": 2 / 3, "macro_f1": (2 / 3 + 0 + 1) / 3})
    gold.write_text("text,label\nfine,1\ndull,2.5\nso,3\n")
    predictions.write_text(f"{HEADER}0\t10\n1\t25\n2\t30\n")
    received = metrics(capfd, task="regression", predictions=predictions, gold=gold)
    assert received == pytest.approx({"pearson": 1.0, "spearman": 1.0})
    gold = tmp_path / "dev.jsonl"
    gold.write_text('{"question": "what?", "options": ["a", "b", "c"], "label": "C"}\n')
    predictions = tmp_path / "predictions.json"
    predictions.write_text('{"0": "C"}')
    received = metrics(capfd, task="multiple-choice", predictions=predictions, gold=gold)
    assert received == {"accuracy": 1.0}


def test_classes_that_pandas_made_numbers(capfd, tmp_path):
    """1.0 in one file is 1 in the other."""
    gold, predictions = tmp_path / "dev.csv", tmp_path / "predictions.tsv"
    gold.write_text("text,label\nfine,1.0\ndull,0.0\nok,1.0\n")
    predictions.write_text(f"{HEADER}0\t1\n1\t0\n2\t0\n")
    received = metrics(capfd, task="classification", predictions=predictions, gold=gold)
    assert received == pytest.approx({"accuracy": 2 / 3, "macro_f1": 2 / 3})
    lists = tmp_path / "predictions.json"
    lists.write_text('{"0": ["1"], "1": ["0"], "2": ["1", "2"]}')
    received = metrics(capfd, task="multi-label-classification", predictions=lists, gold=gold)
    assert received["accuracy"] == pytest.approx(2 / 3)


def test_ordered_classes(capfd, tmp_path):
    """Names count as their places in --label_order, which a model and other tasks do not need."""
    gold, predictions = tmp_path / "dev.csv", tmp_path / "predictions.tsv"
    gold.write_text("text,label\na,bad\nb,good\nc,fair\nd,good\n")
    predictions.write_text(f"{HEADER}0\tbad\n1\tfair\n2\tfair\n3\tbad\n")
    flags = {"task": "ordinal-classification", "gold": gold, "predictions": predictions}
    received = metrics(capfd, **flags, label_order="bad,fair,good")
    assert received == metrics(
        capfd, **{**flags, "task": "Ordinal-Classification"}, label_order="bad,fair,good"
    )
    assert received["accuracy"] == 0.5
    assert received["mean_absolute_error"] == (1 + 2) / 4
    status, _, error = evaluate(capfd, **flags)
    assert status == 2
    assert "or names in the order of --label_order. Received 'bad'" in error
    for others in ({"task": "classification"}, {"predictions": "", "model_dir": tmp_path}):
        given = {name: value for name, value in {**flags, **others}.items() if value}
        status, _, error = evaluate(capfd, **given, label_order="bad,fair,good")
        assert (status, "--label_order needs --task=ordinal-classification" in error) == (2, True)


def test_words(capfd, tmp_path):
    gold, as_json, as_columns = (
        tmp_path / "dev.conll",
        tmp_path / "predictions.json",
        tmp_path / "predictions.conll",
    )
    gold.write_text("Ann B-PER\nLee I-PER\nwent O\n\nRome B-LOC\n")
    as_columns.write_text("Ann B-PER\nLee I-PER\nwent O\n\nRome O\n")
    as_json.write_text('{"0": ["B-PER", "I-PER", "O"], "1": ["O"]}')
    expected = {"accuracy": 0.75, "precision": 1.0, "recall": 0.5, "f1": 2 / 3}
    for predictions in (as_json, as_columns):
        received = metrics(capfd, task="token-classification", predictions=predictions, gold=gold)
        assert received == pytest.approx(expected)
    flags = {"task": "token-classification", "predictions": as_json, "gold": gold}
    as_json.write_text('{"0": ["B-PER", "I-PER"], "1": ["O"]}')
    assert "2 for the 3 words of sentence 0" in evaluate(capfd, **flags)[2]
    as_json.write_text('{"0": "O"}')
    assert "must be a list of strings" in evaluate(capfd, **flags)[2]
    as_columns.write_text("Ann\nLee\n")
    assert "one predicted label" in evaluate(capfd, **{**flags, "predictions": as_columns})[2]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (f"{HEADER}0\tentailment\n", "2 missing, first 1"),
        (
            f"{HEADER}0\tentailment\n1\tentailment\n2\tentailment\n3\tentailment\n",
            "1 not in the gold file, first 3",
        ),
        (f"{HEADER}0\tyes\n", "one of entailment, not_entailment. Received 'yes'"),
        ("id\tlabel\n", "must begin with the header index and prediction"),
        (None, "must exist and be readable"),
    ],
)
def test_mistakes_of_the_command(capfd, glue, tmp_path, content, message):
    gold, _ = glue
    path = tmp_path / "x.tsv"
    if content is not None:
        path.write_text(content)
    status, out, error = evaluate(capfd, task="rte", predictions=path, gold=gold)
    assert (status, out, error.count("\n")) == (2, "", 1)
    assert message in error


def test_gold_without_labels(capfd, glue):
    gold, predictions = glue
    (gold / "RTE" / "test.tsv").write_text("index\tsentence1\tsentence2\n0\ta\tb\n")
    flags = {"task": "rte", "predictions": predictions / "RTE.tsv"}
    status, _, error = evaluate(capfd, **flags, gold=gold / "RTE" / "test.tsv")
    assert (status, "1 without a label" in error) == (2, True)
    status, _, error = evaluate(capfd, **flags, gold=gold / "nowhere")
    assert (status, "There is no file or folder" in error) == (2, True)
    status, _, error = evaluate(capfd, **{**flags, "task": "rtee"}, gold=gold)
    assert (status, "Did you mean rte?" in error) == (2, True)


# The paper's Table 2: SQuAD1.1 F1/EM, SQuAD2.0 F1/EM, MNLI, SST-2, RACE and Avg.
TABLE_2 = {
    "BERT base": (90.4, 83.2, 80.4, 77.6, 84.5, 92.8, 68.2, 82.3),
    "BERT large": (92.2, 85.5, 85.0, 82.2, 86.6, 93.0, 73.9, 85.2),
    "ALBERT base": (89.3, 82.3, 80.0, 77.1, 81.6, 90.3, 64.0, 80.1),
    "ALBERT large": (90.6, 83.9, 82.3, 79.4, 83.5, 91.7, 68.5, 82.4),
    "ALBERT xlarge": (92.5, 86.1, 86.1, 83.1, 86.4, 92.4, 74.8, 85.5),
    "ALBERT xxlarge": (94.1, 88.3, 88.1, 85.1, 88.0, 95.2, 82.3, 88.7),
}


@pytest.mark.parametrize("row", TABLE_2)
def test_scores_average_to_the_papers(row):
    f1, exact_match, f1_2, exact_2, mnli, sst, race, average = TABLE_2[row]
    results = {
        "squad1.1": {"f1": f1, "exact_match": exact_match},
        "squad2.0": {"f1": f1_2, "exact": exact_2},
        "mnli": {"accuracy": mnli / 100},
        "sst-2": {"accuracy": sst / 100},
        "race": {"accuracy": race / 100, "accuracy_middle": 0.0},
    }
    received = [task_score(find_task(name), metrics) for name, metrics in results.items()]
    # The table's own numbers are rounded before and after averaging.
    assert sum(received) / 5 == pytest.approx(average, abs=0.1)


def test_glue_average():
    """ALBERT's ensemble on the leaderboard: 89.4."""
    results = {
        "cola": {"matthews": 0.691, "accuracy": 0.0},
        "sst-2": {"accuracy": 0.971},
        "mrpc": {"f1": 0.934, "accuracy": 0.912},
        "sts-b": {"pearson": 0.925, "spearman": 0.920},
        "qqp": {"f1": 0.742, "accuracy": 0.905},
        "mnli": {"accuracy": 0.0, "accuracy_m": 0.913, "accuracy_mm": 0.910},
        "qnli": {"accuracy": 0.992},
        "rte": {"accuracy": 0.892},
        "wnli": {"accuracy": 0.918},
    }
    assert set(results) == set(GLUE_TASKS)
    assert round(glue_average(results), 1) == 89.4
    assert glue_average({**results, "ax": {"matthews": 0.502}}) == glue_average(results)


def test_task_scores():
    assert task_score(find_task("squad2.0"), {"f1": 80.0, "exact": 77.1, "best_f1": 99.0}) == pytest.approx(
        78.55
    )
    assert task_score(find_task("mnli"), {"accuracy": 0.8}) == pytest.approx(80.0)
    parts = {"accuracy": 0.8, "accuracy_m": 0.7, "accuracy_mm": 0.4}
    assert task_score(find_task("mnli"), parts) == pytest.approx(55.0)
    assert task_score(find_task("sts-b"), {"pearson": 0.9, "spearman": 0.8}) == pytest.approx(85.0)
