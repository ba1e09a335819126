"""Flags of fine-tuning that need each other."""

import pytest

from albert_tf.finetuning.flags import FinetuningFlags
from data_prep.errors import InputError


@pytest.mark.parametrize(("file", "flag"), [("dev_file", "do_eval"), ("test_file", "do_predict")])
def test_a_file_that_no_step_reads_is_refused(file, flag):
    train = {"train_file": "train.csv", "do_train": True, "init_checkpoint": "base"}
    FinetuningFlags("classification", "run", **train, **{file: "other.csv", flag: True})
    with pytest.raises(InputError, match=f"--{file} needs --{flag}. Received other.csv without it; add"):
        FinetuningFlags("classification", "run", **train, **{file: "other.csv"})
