"""Fine-tuning at an address of an object store equals fine-tuning in a local folder."""

import shutil
from pathlib import Path

import pytest

from albert_cli import cli
from albert_tf.runtime.finetuned import read_finetuned
from data_prep.storage import objects
from data_prep.storage.objects import files_below
from tests.albert_tf.finetuning.test_finetune import assert_same_run


class Killed(BaseException):
    """As after kill -9, nothing more is pushed."""


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path) -> Path:
    monkeypatch.setenv("ALBERT_TF_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.very_slow
def test_killed_between_the_best_weights_and_their_line(
    finetuning_files, tmp_path, cache, monkeypatch, capfd
):
    """The same command, on another machine, evaluates again; also from an encoder at an address."""
    url, upload, names = f"file://{tmp_path}/store/run", objects.upload, [""]
    files = {"do_predict": True, "init_checkpoint": f"file://{finetuning_files.checkpoint}"}

    def killed(path, address):
        if path.name == "metrics.jsonl" and "model.keras" in names:
            raise Killed
        names.append(path.name)
        return upload(path, address)

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr("data_prep.storage.folders.upload", killed)
        cli.main(finetuning_files.flags(url, **files))
    assert {"seed_0/model.keras", "seed_0/settings.json"} <= files_below(url).keys()
    shutil.rmtree(cache)
    capfd.readouterr()
    assert cli.main(finetuning_files.flags(url, **files)) == 0
    out, err = capfd.readouterr()
    assert out == f"{url}/results.json\n"
    assert f" of {url}/seed_0" in err
    whole, run = tmp_path / "whole", tmp_path / "store/run"
    assert cli.main(finetuning_files.flags(whole, do_predict=True)) == 0
    assert_same_run(run / "seed_0", whole / "seed_0")
    kept = {name for name in files_below(url) if not name.startswith((".lock", "seed_0/tensorboard"))}
    assert kept == {"results.json"} | {f"seed_0/{path.name}" for path in (whole / "seed_0").glob("*.*")}
    for name in ("results.json", "seed_0/test_probabilities.jsonl", "seed_0/test_predictions.tsv"):
        assert (run / name).read_bytes() == (whole / name).read_bytes()
    assert read_finetuned(url).facts.settings["output_dir"] == url
    capfd.readouterr()
    assert cli.main(finetuning_files.flags(url, **files)) == 0
    assert f"{url}/seed_0 is already trained" in capfd.readouterr().err
