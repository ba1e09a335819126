import os
import signal

import pytest
import tensorflow as tf

from albert_tf.training.interruptions import Preemption
from data_prep.errors import Preempted
from data_prep.signals import signal_handler


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def preemption():
    """Of a process with one device, outside which Ctrl-C raises KeyboardInterrupt, as in a terminal."""
    opened = Preemption(tf.distribute.get_strategy())
    with signal_handler(signal.default_int_handler, signal.SIGINT), opened:
        yield opened


def test_sigterm_is_recorded(preemption):
    assert not preemption.agreed()
    os.kill(os.getpid(), signal.SIGTERM)
    assert preemption.agreed()
    stop = preemption.stop(7)
    assert str(stop).startswith("received SIGTERM: step 7 is saved, and the same command resumes")
    assert stop.number == signal.SIGTERM
    assert str(preemption.stop(0)) == "received SIGTERM: no step was taken yet"


def test_a_second_ctrl_c_ends_at_once(preemption, capfd):
    with pytest.raises(KeyboardInterrupt), preemption.or_ctrl_c():
        press_ctrl_c()
        assert preemption.agreed()
        assert "Ctrl-C again ends at once, without saving" in capfd.readouterr().err
        press_ctrl_c()
    stop = preemption.stop(7)
    assert (str(stop).partition(":")[0], stop.number) == ("received SIGINT", signal.SIGINT)


def test_ctrl_c_ends_what_saves_nothing(preemption):
    with preemption.or_ctrl_c():
        pass
    with pytest.raises(KeyboardInterrupt):
        press_ctrl_c()
    assert not preemption.agreed()


def test_ctrl_c_stays_ignored_in_the_background():
    opened = Preemption(tf.distribute.get_strategy())
    with signal_handler(signal.SIG_IGN, signal.SIGINT), opened, opened.or_ctrl_c():
        press_ctrl_c()
        assert not opened.agreed()


def test_evaluations_end_when_a_signal_arrives(preemption):
    batches = preemption.watched(range(9), 4)
    assert next(batches) == 0
    os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(Preempted, match="step 4 is saved"):
        next(batches)
