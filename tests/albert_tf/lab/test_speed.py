"""How the speed column is measured, beside what test_running.py measures."""

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.lab.programs import Programs
from albert_tf.lab.scales import PAPER
from albert_tf.lab.speed import SpeedSettings, available_bytes, bytes_of_step, fits, measure_ratios
from albert_tf.lab.variants import Variant
from data_prep.errors import InputError

SETTINGS = SpeedSettings(batch_size=2, max_seq_length=16, dtype="float32", turns=2)


@pytest.fixture
def configs(tiny_config) -> dict[str, AlbertConfig]:
    return {"other": tiny_config, "bert-large": AlbertConfig(**{**vars(tiny_config), "num_hidden_layers": 5})}


@pytest.mark.slow
def test_a_model_that_cannot_be_built_is_told(configs, tmp_path):
    broken = SpeedSettings(batch_size=2, max_seq_length=17, dtype="float32")  # one more than positions
    with Programs() as programs, pytest.raises(InputError, match="could not be measured.*bert-large.log"):
        measure_ratios(configs, "bert-large", broken, tmp_path, programs)
    assert not (tmp_path / "speed.json").exists()


def test_memory_grows_with_what_takes_it():
    settings = SpeedSettings(4, 128, "float32")
    models = {size: Variant(size).config(PAPER, 30_000, 512) for size in ("base", "xxlarge")}
    small, large = (bytes_of_step(model, settings) for model in models.values())
    longer = bytes_of_step(models["base"], SpeedSettings(4, 512, "float32"))
    assert 1e9 < small < longer < large < 64e9
    assert available_bytes() > 0
    assert not fits(models, "base", SpeedSettings(10**6, 512, "float32"))
