"""Without the folder `albert_tf/kernels/`, the library computes the same; tests/conformance has every model."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.training.tensorflow_devices import TensorFlowDevices
from export.write import export_model
from tests.albert_tf.pretraining.same_steps import train
from tests.albert_tf.pretraining.test_steps import assert_same
from tests.conformance.cases import without_kernels
from tests.export.conftest import write_source
from tests.test_floors import MODULES, imported_modules

FOLDER = "albert_tf.kernels"


def test_only_the_model_knows_the_folder():
    others = [name for name in MODULES if not name.startswith(FOLDER)]
    knowing = {name for name in others if any(each.startswith(FOLDER) for each in imported_modules(name))}
    assert knowing == {"albert_tf.model.layers"}


@pytest.mark.very_slow
def test_pretraining():
    expected = train(TensorFlowDevices())
    with without_kernels():
        assert_same(train(TensorFlowDevices()), expected)


@pytest.mark.very_slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_export(tmp_path, dtype):
    source = write_source(tmp_path / "source")
    ids = tf.constant([[2, 13, 1, 9, 3], [2, 7, 3, 0, 0]])
    inputs = {"input_word_ids": ids, "input_mask": tf.sign(ids), "input_type_ids": ids * 0}
    with without_kernels():
        export_model(source, tmp_path / "without", "encoder", dtype)
    export_model(source, tmp_path / "with", "encoder", dtype)
    one, other = (
        tf.saved_model.load(tmp_path / name)(inputs)["sequence_output"] for name in ("with", "without")
    )
    kept = tf.cast(inputs["input_mask"], "bool")
    np.testing.assert_allclose(one[kept], other[kept], atol=1e-4 if dtype == "float32" else 0.1)
