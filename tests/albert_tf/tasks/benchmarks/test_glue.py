"""Small files in the layout of GLUE's download."""

import pytest

from albert_tf.tasks.task import find_task
from albert_tf.tasks.texts.rows import TextExample
from data_prep.errors import InputError
from tests.albert_tf.tasks.reading import read

# task -> header of the training file, one of its rows and the example that it is
TRAIN = {
    "cola": (None, 'gj04\t0\t*\tThey "made him.', TextExample("0", 'They "made him.', None, "0")),
    "sst-2": ("sentence\tlabel", "a charm \t1", TextExample("0", "a charm ", None, "1")),
    "mrpc": (
        "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String",
        '1\t70\t71\tHe said " no\t" No',
        TextExample("0", 'He said " no', '" No', "1"),
    ),
    "sts-b": (
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
        "7\tcaptions\tMSRvid\t2012\t1\tnone\tnone\tA plane.\tAn air plane.\t3.800",
        TextExample("7", "A plane.", "An air plane.", 3.8),
    ),
    "qqp": (
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
        "9\t1\t2\tWhy?\tWhy not?\t0",
        TextExample("9", "Why?", "Why not?", "0"),
    ),
    "mnli": (
        "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\t"
        "sentence2_parse\tsentence1\tsentence2\tlabel1\tgold_label",
        "0\t3\t3n\tgov\t(\t(\t(\t(\tIt has two.\tTwo.\tneutral\tentailment",
        TextExample("0", "It has two.", "Two.", "entailment"),
    ),
    "qnli": (
        "index\tquestion\tsentence\tlabel",
        "0\tWhen?\tIn May.\tnot_entailment",
        TextExample("0", "When?", "In May.", "not_entailment"),
    ),
    "rte": (
        "index\tsentence1\tsentence2\tlabel",
        "0\tAll.\tSome.\tentailment",
        TextExample("0", "All.", "Some.", "entailment"),
    ),
    "wnli": (
        "index\tsentence1\tsentence2\tlabel",
        "0\tI pinned it.\tIt was pinned.\t1",
        TextExample("0", "I pinned it.", "It was pinned.", "1"),
    ),
}
TEST = {
    "cola": ("index\tsentence", "0\tBill went.", TextExample("0", "Bill went.")),
    "qqp": ("id\tquestion1\tquestion2", "3\tWhy?\tHow?", TextExample("3", "Why?", "How?")),
    "sts-b": (
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2",
        "5\tc\tM\t2012\t1\tn\tn\tA girl.\tA boy.",
        TextExample("5", "A girl.", "A boy."),
    ),
    "mrpc": (
        "index\t#1 ID\t#2 ID\t#1 String\t#2 String",
        "4\t1\t2\tYes .\tNo .",
        TextExample("4", "Yes .", "No ."),
    ),
}


def write(folder, task, name, *lines):
    path = folder / find_task(task).folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(line for line in lines if line is not None) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("task", TRAIN)
def test_training_files(tmp_path, task):
    header, row, example = TRAIN[task]
    path = write(tmp_path, task, "train.tsv", header, row)
    for data in (tmp_path, path.parent, path):
        examples, problems = read(task, data, "train")
        assert examples == [example]
        assert problems.lines() == []


@pytest.mark.parametrize("task", TEST)
def test_test_files_have_no_labels(tmp_path, task):
    header, row, example = TEST[task]
    write(tmp_path, task, "test.tsv", header, row)
    examples, problems = read(task, tmp_path, "test")
    assert examples == [example]
    assert problems.lines() == []


def test_both_development_sets_of_mnli(tmp_path):
    header, row, example = TRAIN["mnli"]
    header = header.replace("label1", "label1\tlabel2\tlabel3\tlabel4\tlabel5")
    row = row.replace("neutral", "\t".join(["neutral"] * 5))
    for split in find_task("mnli").splits["dev"]:
        write(tmp_path, "mnli", f"{split}.tsv", header, row)
        assert read("mnli", tmp_path, split)[0] == [example]


def test_the_diagnostic_set_without_and_with_labels(tmp_path):
    write(tmp_path, "ax", "diagnostic.tsv", "index\tsentence1\tsentence2", "8\tA cat.\tNo cat.")
    assert read("ax", tmp_path, "test")[0] == [TextExample("8", "A cat.", "No cat.")]
    full = write(
        tmp_path,
        "ax",
        "diagnostic-full.tsv",
        "Logic\tDomain\tPremise\tHypothesis\tLabel",
        "Negation\tArtificial\tA cat.\tNo cat.\tcontradiction",
    )
    assert read("ax", full, "dev")[0] == [TextExample("0", "A cat.", "No cat.", "contradiction")]


def test_question_pairs_without_a_header(tmp_path):
    path = tmp_path / "new_dev.tsv"
    path.write_text("9\t1\t2\tWhy?\tWhy not?\t0\n8\t3\t4\tbroken 0\n7\t5\t6\tA?\tB?\t1\n", encoding="utf-8")
    examples, problems = read("qqp", path, "dev")
    assert [example.id for example in examples] == ["9", "7"]
    assert problems.lines() == [f"1 row: wrong number of columns, left out ({path}:2: received 4 of 6: '8')"]


def test_microsofts_files_of_the_paraphrase_corpus(tmp_path):
    header = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String"
    for name in ("train", "test"):
        write(tmp_path, "mrpc", f"msr_paraphrase_{name}.txt", header, "1\t7\t8\tA.\tB.", "0\t9\t8\tC.\tD.")
    write(tmp_path, "mrpc", "dev_ids.tsv", "9\t8")
    assert [example.text_a for example in read("mrpc", tmp_path, "train")[0]] == ["A."]
    assert [example.text_a for example in read("mrpc", tmp_path, "dev")[0]] == ["C."]
    assert [example.label for example in read("mrpc", tmp_path, "test")[0]] == [None, None]


def test_unusable_rows_are_reported_and_left_out_of_training(tmp_path):
    rows = ["good\t1", " \t1", "odd label\tmaybe", "no label\t", "cut off", "good too\t0"]
    path = write(tmp_path, "sst-2", "train.tsv", "sentence\tlabel", *rows)
    examples, problems = read("sst-2", tmp_path, "train")
    assert [example.text_a for example in examples] == ["good", "good too"]
    assert [example.id for example in examples] == ["0", "5"]
    assert problems.lines() == [
        f"1 row: empty text, left out ({path}:3: received ' ' in 'sentence')",
        f"1 row: label outside the set, left out ({path}:4: received 'maybe', allowed 0, 1)",
        f"2 rows: no label, left out ({path}:5: received '' in 'label'; {path}:6: received None in 'label')",
    ]


def test_every_row_of_a_test_set_is_kept(tmp_path):
    path = write(
        tmp_path, "rte", "test.tsv", "index\tsentence1\tsentence2", "0\tA.\tB.", "1\tC.\t", "2\tD.\tE."
    )
    examples, problems = read("rte", tmp_path, "test")
    assert [(example.id, example.text_b) for example in examples] == [("0", "B."), ("1", ""), ("2", "E.")]
    assert problems.lines() == [
        f"1 row: empty text, kept for prediction ({path}:3: received '' in 'sentence2')"
    ]


def test_scores_that_are_not_numbers(tmp_path):
    header, row, _ = TRAIN["sts-b"]
    write(
        tmp_path, "sts-b", "train.tsv", header, row, row.replace("3.800", "high"), row.replace("3.800", "nan")
    )
    examples, problems = read("sts-b", tmp_path, "train")
    assert len(examples) == 1
    assert problems.counts == {"label that is not a number, left out": 1, "no label, left out": 1}


def test_missing_files_and_splits(tmp_path):
    with pytest.raises(InputError, match=r"rte must have the file .*RTE/train\.tsv .*There is none"):
        read("rte", tmp_path, "train")
    with pytest.raises(InputError, match="no file or folder .*nowhere"):
        read("rte", tmp_path / "nowhere", "train")
    with pytest.raises(InputError, match="must be one of train, dev_matched, .*Received 'dev'"):
        read("mnli", tmp_path, "dev")
    path = write(tmp_path, "rte", "train.tsv", "index\tsentence1\tsentence2\tlabel", "0\tA\tB\tperhaps")
    with pytest.raises(InputError, match=f"none to use: 1 row: label outside the set, left out \\({path}:2"):
        read("rte", tmp_path, "train")
