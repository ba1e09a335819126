import pytest

from albert_tf.tasks.choice.kind import OPTIONS
from albert_tf.tasks.texts.kind import NUMBERS
from data_prep.errors import InputError
from export.kinds import kind_for


def test_the_kind_of_a_head_whose_task_is_open():
    """As in TF1 checkpoints with one output."""
    with pytest.raises(InputError, match="Give --kind=classifier or --kind=multiple-choice"):
        kind_for((NUMBERS, OPTIONS))
