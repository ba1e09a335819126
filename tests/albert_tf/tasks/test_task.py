"""The table of tasks and their names."""

import pytest

from albert_tf.tasks.task import all_tasks, find_task
from data_prep.errors import InputError


@pytest.mark.parametrize("name", all_tasks())
def test_every_task_is_found_by_its_name(name):
    assert find_task(name.upper()).name == name
    assert find_task(name.replace("-", "_")).name == name


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("squad2", "squad2.0"), ("sst2", "sst-2"), ("MNLI-m", "mnli"), ("regresion", "regression")],
)
def test_a_misspelt_name(name, nearest):
    with pytest.raises(InputError, match=f"Did you mean {nearest}\\?"):
        find_task(name)


def test_an_unknown_name():
    with pytest.raises(InputError, match="must be one of cola, .*Received 'xyzzy'.$"):
        find_task("xyzzy")
