"""The record of a training and the card that is made of records."""

import json
import re
from pathlib import Path

import pytest

from albert_tf.checkpoints.card import weights_hash
from albert_tf.checkpoints.huggingface import write_huggingface
from albert_tf.checkpoints.open_model import read
from albert_tf.checkpoints.stored import StoredModel
from albert_tf.config import AlbertConfig
from data_prep.errors import InputError
from experiments import albert_small_en, albert_small_en_card
from experiments.albert_small_en import SmallModelSettings
from experiments.albert_small_en_card import CardSettings
from tests.albert_tf.checkpoints.random_models import random_weights
from tests.story import write_story

EVALUATION = {
    "step": 7,
    "max_seq_length": 32,
    "eval_examples": 50,
    "eval_masked_lm_accuracy": 0.25,
    "eval_sentence_order_accuracy": 0.75,
    "most_frequent_piece": 0.06,
}


def record_of(steps, evaluated_at):
    """A record of a training in one phase."""
    return {
        "flags": {
            "init_checkpoint": None,
            "optimizer": "adamw",
            "learning_rate": "0.001",
            "num_warmup_steps": "1000",
            "seed": "3",
        },
        "text": {
            "books": {"files": 116, "bytes": 50_000_000},
            "documents": {"bytes": 9_000_000},
            "heldout": {"files": ["Jules Verne__A Journey"], "bytes": 1_000_000},
        },
        "phases": [{"max_seq_length": 32, "num_train_steps": steps, "train_batch_size": 4}],
        "cores": 2,
        "hours": 1.5,
        "evaluations": [{**EVALUATION, "step": step} for step in evaluated_at],
        "finished": [EVALUATION],
    }


def test_card(tmp_path):
    """Two runs, of which the second continues the first: steps, tokens and hours add up."""
    records = []
    for number, record in enumerate((record_of(100, [50, 100]), record_of(200, [200]))):
        records.append(tmp_path / f"{number}.json")
        records[-1].write_text(json.dumps(record))
    model = tmp_path / "model"
    model.mkdir()
    config = AlbertConfig(vocab_size=100, hidden_size=16, num_hidden_layers=2, num_attention_heads=2)
    stored = StoredModel("run", tmp_path, config, random_weights(config))
    write_huggingface(stored, model, "float16")
    score = {"metric": "accuracy", "baseline": 0.5, "minutes": 2.0}
    score["results"] = {"dev": {"accuracy": {"median": 0.8, "min": 0.7, "max": 0.9}}}
    report = tmp_path / "downstream.json"
    report.write_text(json.dumps({"tasks": {"sst-2": {"conditions": {"seeds": 5}, **score}}}))
    albert_small_en_card.main(CardSettings(records, model, report))
    card = (model / "README.md").read_text()
    assert "The 2 runs took 300 steps (0 million tokens, 3.0 hours of two CPU cores). Each run but" in card
    assert "| batch | optimizer | peak rate |" in card
    assert "| 4 | adamw | 0.001 |" in card
    assert "116 English books that are out of copyright (50.0 MB)" in card
    assert "1 books (1.0 MB): Jules Verne, A Journey." in card
    assert re.findall(r"^\| (\d+) \| 32 \| 0.250 \| 0.750 \|$", card, re.MULTILINE) == ["50", "100", "300"]
    assert "--init_checkpoint=small_en_1/albert_small_en" in card
    assert "| sst-2 | accuracy | 0.500 | 0.800 | 0.700 to 0.900 | 5 | 2.0 |" in card
    assert f"`{weights_hash(read(model))}`" in card
    assert "an earlier version" not in card
    continued = record_of(100, [100])
    continued["flags"]["init_checkpoint"] = "albert_small_en"
    continued["cores"] = 1
    records[0].write_text(json.dumps(continued))
    albert_small_en_card.main(CardSettings(records, model))
    card = (model / "README.md").read_text()
    assert "2.2 hours of two CPU cores)." in card  # half of 1.5 on one core, and 1.5
    assert "The first of them continued an earlier version of this model" in card
    assert "Not yet measured with these weights." in card
    assert "--init_checkpoint=earlier_version --optimizer=adamw" in card
    alone = albert_small_en_card.summary([continued])
    assert alone.startswith("The last run took 100 steps (0 million tokens, 0.8 hours of two CPU cores). It")
    assert "but the first" not in alone
    scratch = albert_small_en_card.summary([record_of(100, [])])
    assert scratch == "The run took 100 steps (0 million tokens, 1.5 hours of two CPU cores)."


def test_a_model_to_train_further_has_a_vocabulary(tmp_path):
    with pytest.raises(InputError, match="--init_checkpoint must be a folder of .* Received albert_small_en"):
        SmallModelSettings("books", "documents", tmp_path, init_checkpoint=Path("albert_small_en"))


@pytest.mark.very_slow
def test_tiny_training(tmp_path, monkeypatch):
    """From text to a model and its record; the same command again trains nothing."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "books").mkdir()
    for seed in range(4):
        write_story(tmp_path / "books" / f"{seed}.txt", seed=seed)
    write_story(tmp_path / "documents.txt", seed=9)
    settings = SmallModelSettings(
        books="books/*.txt",
        documents="documents.txt",
        output=tmp_path / "a small one",
        steps=10,
        tokens_per_step=512,
        vocab_size=100,
        embedding_size=8,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_warmup_steps=2,
        save_checkpoints_steps=4,
    )
    albert_small_en.main(settings)
    record = json.loads((settings.output / "record.json").read_text())
    assert [phase["max_seq_length"] for phase in record["phases"]] == [32, 32, 128, 512]
    assert sum(phase["num_train_steps"] for phase in record["phases"]) == 10
    assert [line["max_seq_length"] for line in record["finished"]] == [32, 128, 512]
    assert record["evaluations"][-1]["step"] == 10
    weights = (settings.output / "albert_small_en" / "model.safetensors").stat().st_mtime_ns
    albert_small_en.main(settings)
    assert (settings.output / "albert_small_en" / "model.safetensors").stat().st_mtime_ns == weights
