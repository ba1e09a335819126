"""Batches for any number of hosts and replicas."""

import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.pretraining.flags import PretrainingFlags
from albert_tf.pretraining.phase_data import read_inputs
from albert_tf.pretraining.run_folder import write_run_folder
from data_prep.tokenizers.vocabulary import Vocabulary
from tests.albert_tf.pretraining.resolved import resolved


def test_evaluation_batches_are_padded_with_rows_that_do_not_count(pretraining_files):
    settings = PretrainingFlags(
        "run",
        str(pretraining_files.albert_config_file),
        pretraining_files.train,
        eval_file=pretraining_files.heldout,
        do_eval=True,
        eval_batch_size=7,
    )
    (inputs,) = read_inputs(settings, AlbertConfig.from_json_file(pretraining_files.albert_config_file))
    batches = list(inputs.eval_batches(tf.distribute.get_strategy()))
    assert {values.shape[0] for batch in batches for values in batch.values()} == {7}
    rows = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
    real = rows["input_mask"].any(axis=1)
    assert real.all() or not real[np.argmin(real) :].any(), "only at the end"
    assert not any(values[~real].any() for values in rows.values())
    assert len(real) - 7 < real.sum() <= len(real)


def test_no_batch_is_larger_than_the_data(pretraining_files):
    config = AlbertConfig.from_json_file(pretraining_files.albert_config_file)
    settings = PretrainingFlags(
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
    (inputs,) = read_inputs(settings, config)
    assert 0 <= inputs.phase.train_batch_size - inputs.phase.num_examples < 4
    (batch,) = inputs.eval_batches(tf.distribute.get_strategy())
    assert batch["input_mask"].numpy().any(axis=1).all()  # no padding


def test_the_vocabulary_is_stored_under_the_name_of_its_kind(tmp_path):
    """spm.model or vocab.txt, where readers of a run expect them."""
    settings = resolved((16, 2), output_dir=str(tmp_path / "run"))
    for name, kept in (("30k.model", "spm.model"), ("chinese.txt", "vocab.txt")):
        (tmp_path / name).write_text(name)
        run = write_run_folder(settings, AlbertConfig(), Vocabulary.read(tmp_path / name), None)
        assert (run / kept).read_text() == name
