"""Batches for any number of hosts and replicas."""

from dataclasses import replace

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.pretraining.flags import PretrainingFlags
from albert_tf.pretraining.phase_data import read_phases
from albert_tf.pretraining.run_folder import write_run_folder
from albert_tf.training.tensorflow_devices import TensorFlowDevices
from data_prep.tokenizers.vocabulary import Vocabulary
from tests.albert_tf.pretraining.plans import plan_of


def test_evaluation_batches_are_padded_with_rows_that_do_not_count(pretraining_files):
    flags = PretrainingFlags(
        "run",
        str(pretraining_files.albert_config_file),
        pretraining_files.train,
        eval_file=pretraining_files.heldout,
        do_eval=True,
        eval_batch_size=7,
    )
    (data,) = read_phases(flags, AlbertConfig.from_json_file(pretraining_files.albert_config_file))
    batches = list(data.eval_batches(data.heldout, TensorFlowDevices(), flags.eval_batch_size))
    assert {values.shape[0] for batch in batches for values in batch.values()} == {7}
    rows = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
    real = rows["input_mask"].any(axis=1)
    assert real.all() or not real[np.argmin(real) :].any(), "only at the end"
    assert not any(values[~real].any() for values in rows.values())
    assert len(real) - 7 < real.sum() <= len(real)


def test_no_batch_is_larger_than_the_data(pretraining_files):
    config = AlbertConfig.from_json_file(pretraining_files.albert_config_file)
    flags = PretrainingFlags(
        "run",
        str(pretraining_files.albert_config_file),
        pretraining_files.train,
        eval_file=pretraining_files.heldout,
        do_train=True,
        do_eval=True,
        train_batch_size=10**6,
        eval_batch_size=10**6,
        gradient_accumulation_steps=4,
    )
    (data,) = read_phases(flags, config)
    assert 0 <= data.phase.train_batch_size - data.phase.num_examples < 4
    (batch,) = data.eval_batches(data.heldout, TensorFlowDevices(), flags.eval_batch_size)
    assert batch["input_mask"].numpy().any(axis=1).all()  # no padding


def test_the_vocabulary_is_stored_under_the_name_of_its_kind(tmp_path):
    """spm.model or vocab.txt, where readers of a run expect them."""
    for name, kept in (("30k.model", "spm.model"), ("chinese.txt", "vocab.txt")):
        (tmp_path / name).write_text(name)
        plan = plan_of((16, 2), output_dir=str(tmp_path / "run"))
        write_run_folder(replace(plan, vocabulary=Vocabulary.read(tmp_path / name)))
        assert (tmp_path / "run" / kept).read_text() == name
