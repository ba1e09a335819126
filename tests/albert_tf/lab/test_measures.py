"""What is measured of a trained run; test_lab_run.py measures real ones."""

import json

import pytest

from albert_tf.lab.downstream import Downstream
from albert_tf.lab.experiments import EXPERIMENTS
from albert_tf.lab.measures import Measures
from albert_tf.lab.pretraining_runs import PretrainingRuns
from albert_tf.lab.text import LabText
from tests.albert_tf.lab.recorder import recorded_laboratory


def test_a_row_is_about_one_checkpoint(tmp_path):
    """The last evaluation's, even if an earlier checkpoint was better on held-out text."""
    (tmp_path / "SST-2").mkdir()
    (tmp_path / "SST-2" / "train.tsv").touch()
    lab = recorded_laboratory(tmp_path, num_train_steps=20, glue_dir=str(tmp_path))
    runs, experiment = PretrainingRuns(LabText(lab)), EXPERIMENTS["table5"]
    row = experiment.rows[0]
    run = runs.folder(row.variant, 1)
    run.mkdir(parents=True)
    (run / "best.json").write_text('{"step": 10}')
    phase = {"start_step": 0, "num_train_steps": 20, "train_batch_size": 8, "max_seq_length": 4}
    settings = {"phases": [phase], "num_train_steps": 20, "init_optimizer": False}
    (run / "settings.json").write_text(json.dumps(settings))
    names = ("eval_masked_lm_accuracy", "eval_sentence_order_accuracy")
    lines = [{"step": step, **dict.fromkeys(names, step / 100)} for step in (10, 20)]
    lines.append({"step": 20, "tokens_per_second": 9.0})
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    values = Measures(runs, Downstream(lab)).of_seed(experiment, row, 1)
    assert values == {"masked_lm": pytest.approx(20), "nsp": 75, "sop": 75, "sst-2": 50}
    last = str(run / "checkpoints" / "ckpt-20")
    assert lab.programs.requests["albert_tf.lab.sentence_probe"]["checkpoint"] == last
    assert lab.programs.settings["finetune"].init_checkpoint == last
