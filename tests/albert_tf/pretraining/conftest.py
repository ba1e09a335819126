"""What several tests of pretraining train."""

import json
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def without_dropout(pretraining_files, tmp_path_factory) -> Path:
    """The configuration of the tests' model, without dropout."""
    config = json.loads(pretraining_files.albert_config_file.read_text())
    path = tmp_path_factory.mktemp("config") / "albert_config.json"
    path.write_text(json.dumps({**config, "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}))
    return path
