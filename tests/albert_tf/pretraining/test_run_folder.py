"""What a run's folder tells about a command that resumes it."""

import json

import pytest

from albert_tf.checkpoints.run_files import SETTINGS_FILE
from albert_tf.pretraining.run_folder import notes_on_other_files
from albert_tf.training.device_flags import settings_json
from tests.albert_tf.pretraining.resolved import resolved

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
        ({"num_examples": None}, []),  # as in runs of earlier versions
    ],
)
def test_notes_on_other_files(tmp_path, before, notes):
    settings = resolved((16, 3), (32, 5), phase=TWO)
    assert notes_on_other_files(settings, tmp_path) == []
    stored = json.loads(settings_json(settings))
    stored["phases"][1] |= before
    (tmp_path / SETTINGS_FILE).write_text(json.dumps(stored))
    found = notes_on_other_files(settings, tmp_path)
    assert [note.startswith(start) for note, start in zip(found, notes, strict=True)] == [True] * len(notes)
