"""A kind of task stands in its own folder and in the list of kinds; nothing else knows it."""

import ast
import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from albert_cli import cli
from albert_tf import load_portable
from albert_tf.runtime.finetuned import read_finetuned
from albert_tf.tasks.kinds import KINDS
from tests.albert_tf.tasks.number_pairs import NUMBER_PAIRS, PairPreprocessor, PairRegressor

ROOT = Path(__file__).parents[3]
NAMES = {name for kind in KINDS.values() for name in (kind.name, kind.task_name, kind.export)}
NAMES -= {"classifier", "embedding"}  # also the name of a layer, and of the export of pretrained models
# The Hub has some of the same words.
OF_FORMATS = {"albert_tf/checkpoints/names.py"}


@pytest.mark.parametrize("folder", ["albert_tf", "export", "albert_cli", "data_prep", "benchmarks"])
def test_names_of_kinds_stand_in_their_folders_only(folder):
    """In code; the help of commands and the docstrings describe the kinds to their readers."""
    own = set((ROOT / "albert_tf/tasks").glob("*/")) - {ROOT / "albert_tf/tasks/benchmarks"}
    for path in (ROOT / folder).rglob("*.py"):
        if path.parent in own or path.relative_to(ROOT).as_posix() in OF_FORMATS:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        strings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        assert not NAMES & {text for text in strings if isinstance(text, str)}, path


@pytest.fixture
def eighth(monkeypatch):
    monkeypatch.setitem(KINDS, NUMBER_PAIRS.name, NUMBER_PAIRS)


def rows(path: Path, number: int, seed: int) -> Path:
    """Texts whose numbers are how often they have two words."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(number):
        words = rng.choice(["captain", "sailed", "lighthouse"], size=6)
        pair = [float(np.sum(words == name)) for name in ("captain", "sailed")]
        lines.append(json.dumps({"text": " ".join(words), "label": pair}) + "\n")
    path.write_text("".join(lines))
    return path


@pytest.mark.very_slow
def test_an_eighth_kind_needs_no_change_elsewhere(
    eighth, model_file, tmp_path, tiny_config, capsys, standard_input
):
    train, dev = rows(tmp_path / "train.jsonl", 32, 0), rows(tmp_path / "dev.jsonl", 8, 1)
    dataclasses.replace(tiny_config, vocab_size=100).to_json_file(tmp_path / "config.json")
    run = tmp_path / "run"
    flags = ["--task=number-pairs", f"--train_file={train}", f"--dev_file={dev}", f"--output_dir={run}"]
    flags += [f"--albert_config_file={tmp_path / 'config.json'}", f"--vocab_file={model_file}"]
    flags += ["--do_train", "--do_eval", "--max_seq_length=16", "--num_train_steps=4", f"--test_file={dev}"]
    assert cli.main(["finetune", *flags, "--do_predict"]) == 0
    results = json.loads((run / "seed_0/results.json").read_text())
    assert 0 < results["dev"]["closeness"] < 1

    found = read_finetuned(run)
    texts = ["captain sailed", "lighthouse"]
    expected = found.model.predict(texts, verbose=0)
    assert isinstance(found.model, PairRegressor)
    assert isinstance(found.preprocessor, PairPreprocessor)
    capsys.readouterr()
    standard_input("\n".join(texts).encode())
    assert cli.main(["predict", f"--model_dir={run}"]) == 0
    answers = [json.loads(line)["numbers"] for line in capsys.readouterr().out.splitlines()]
    np.testing.assert_allclose(answers, expected, atol=1e-5)
    assert cli.main(["evaluate", f"--model_dir={run}", f"--gold={dev}"]) == 0
    metrics = json.loads(capsys.readouterr().out)
    assert metrics["closeness"] == pytest.approx(results["dev"]["closeness"], abs=1e-5)
    predictions = run / "seed_0/dev_predictions.json"
    files = [f"--predictions={predictions}", f"--gold={dev}", "--task=number-pairs"]
    assert cli.main(["evaluate", *files]) == 0
    assert json.loads(capsys.readouterr().out)["closeness"] == pytest.approx(metrics["closeness"], abs=1e-5)

    assert cli.main(["convert", str(run), str(tmp_path / "keras"), "--to=keras"]) == 0
    again = PairRegressor.from_pretrained(tmp_path / "keras")
    np.testing.assert_allclose(again.predict(texts, verbose=0), expected, atol=1e-5)
    assert "head for number pairs" in (tmp_path / "keras/README.md").read_text()
    assert cli.main(["convert", str(run), str(tmp_path / "hf"), "--to=huggingface"]) == 2
    assert "Hugging Face has no model for number pairs" in capsys.readouterr().err

    assert cli.main(["export", f"--model_dir={run}", f"--output={tmp_path / 'saved'}"]) == 0
    saved = tf.saved_model.load(str(tmp_path / "saved"))
    np.testing.assert_allclose(saved(tf.constant(texts))["numbers"], expected, atol=1e-5)
    onnx = [f"--output={tmp_path / 'onnx'}", "--format=onnx"]
    assert cli.main(["export", f"--model_dir={run}", *onnx]) == 0
    portable = load_portable(tmp_path / "onnx", engine="onnxruntime")
    np.testing.assert_allclose(portable(texts)["numbers"], expected, atol=1e-4)
    capsys.readouterr()
    standard_input("\n".join(texts).encode())
    assert cli.main(["predict", f"--model_dir={tmp_path / 'onnx'}"]) == 0
    answers = [json.loads(line)["numbers"] for line in capsys.readouterr().out.splitlines()]
    np.testing.assert_allclose(answers, expected, atol=1e-4)
