"""Handlers of signals."""

import os
import signal

import pytest

from data_prep.signals import signals_raise


class Stop(BaseException):
    pass


def test_a_second_signal_does_not_interrupt_what_the_first_one_ends():
    removed = []
    with pytest.raises(Stop), signals_raise({signal.SIGTERM: Stop}):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            removed.append("folder")
    assert removed == ["folder"]
