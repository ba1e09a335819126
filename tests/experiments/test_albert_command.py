"""The commands that experiments run."""

import pytest

from experiments.albert_command import albert


@pytest.mark.slow
def test_flags_without_a_value_are_left_out(capfd):
    albert("models", mixed_precision=None)
    out = capfd.readouterr().out
    assert out.startswith("$ albert models\n")
    assert "albert_small_en" in out


def test_a_mistake_ends_the_experiment(capfd):
    with pytest.raises(SystemExit) as ended:
        albert("models", mixed_precision="bfloat16")
    assert ended.value.code == 2
    assert "mixed_precision" in capfd.readouterr().err
