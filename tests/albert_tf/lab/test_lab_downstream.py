"""The data of the downstream tasks, and the flags of their fine-tuning; test_lab_run.py fine-tunes."""

import pytest

from albert_tf.lab.downstream import Downstream
from data_prep.errors import InputError
from tests.albert_tf.lab.recorder import recorded_laboratory


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("glue_dir", "--glue_dir must hold SST-2/train.tsv or MNLI/train.tsv. Received .*typo, which"),
        ("squad_dir", "--squad_dir must hold train-v1.1.json and dev-v1.1.json, or those of v2.0. Received"),
        ("race_dir", "--race_dir must hold RACE as downloaded, with its folder train. Received"),
    ],
)
def test_a_flag_must_name_data(tmp_path, flag, message):
    with pytest.raises(InputError, match=message):
        Downstream(recorded_laboratory(tmp_path, **{flag: str(tmp_path / "typo")})).check()


def test_some_of_the_data_will_do(tmp_path):
    (tmp_path / "SST-2").mkdir()
    (tmp_path / "SST-2" / "train.tsv").touch()
    (tmp_path / "RACE" / "train").mkdir(parents=True)
    for part in ("train", "dev"):
        (tmp_path / f"{part}-v2.0.json").touch()
    flags = dict.fromkeys(("glue_dir", "squad_dir", "race_dir"), str(tmp_path))
    found = Downstream(recorded_laboratory(tmp_path, **flags))
    found.check()
    assert set(found.tasks) == {"sst-2", "squad2.0", "race"}


@pytest.mark.parametrize("flags", [{"tpu": "local"}, {"strategy": "mirrored", "num_devices": 2}])
def test_fine_tuning_has_the_devices_and_starts_from_the_checkpoint(tmp_path, flags):
    (tmp_path / "train").mkdir()
    found = Downstream(recorded_laboratory(tmp_path, race_dir=str(tmp_path), **flags))
    assert found.score("race", tmp_path / "run", "run/checkpoints/ckpt-4", seed=3) == 50
    settings = found.lab.programs.settings["finetune"]
    assert {name: getattr(settings, name) for name in flags} == flags
    assert (settings.init_checkpoint, settings.seed) == ("run/checkpoints/ckpt-4", 3)
