"""What a run's folder tells about a command that resumes it."""

import json

import pytest

from albert_tf.checkpoints.run_files import SETTINGS_FILE
from albert_tf.pretraining.run_folder import notes_on_changes, write_run_folder
from albert_tf.training.device_flags import settings_json
from tests.albert_tf.pretraining.plans import plan_of

TWO = ("input_file=short num_train_steps=10", "input_file=long num_train_steps=10")


@pytest.mark.parametrize(
    ("before", "notes"),
    [
        ({}, []),
        (
            {"num_examples": 900, "num_bytes": 90_000},
            ["warning: long held 900 examples in 90,000 bytes when this run last started"],
        ),
        ({"num_bytes": 99_999}, ["warning: long held 1,000 examples in 99,999 bytes"]),  # others, as many
    ],
)
def test_notes_on_changes(tmp_path, before, notes):
    plan = plan_of((16, 3), (32, 5), phase=TWO, output_dir=str(tmp_path))
    assert list(notes_on_changes(plan)) == []
    stored = json.loads(settings_json(plan))
    stored["phases"][1] |= before
    (tmp_path / SETTINGS_FILE).write_text(json.dumps(stored))
    found = list(notes_on_changes(plan))
    assert [note.startswith(start) for note, start in zip(found, notes, strict=True)] == [True] * len(notes)
    write_run_folder(plan)
    assert list(notes_on_changes(plan)) == []  # each is told once
