import multiprocessing
import os
import signal
import threading
import time

import pytest

from data_prep.errors import InputError
from data_prep.prepare.workers import Workers
from data_prep.signals import signal_handler


def square(number):
    return number * number


def process(_):
    return os.getpid()


def die(number):
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def wait_long(folder):
    (folder / "started").touch()
    time.sleep(120)
    (folder / "finished").touch()


def fail(number):
    raise InputError(f"number {number}")


@pytest.mark.slow
def test_results_come_in_order():
    with Workers(2) as workers:
        assert list(workers.run(square, range(50))) == [i * i for i in range(50)]
        assert os.getpid() not in set(workers.run(process, range(9)))


@pytest.mark.slow
def test_jobs_are_taken_when_they_are_needed():
    taken = []

    def jobs():
        for i in range(100):
            taken.append(i)
            yield i

    with Workers(2) as workers:
        results = workers.run(square, jobs())
        next(results)
        assert len(taken) == 4


@pytest.mark.parametrize(("number", "jobs"), [(1, 3), (4, 1)])
def test_one_worker_or_one_job_needs_no_other_process(number, jobs):
    with Workers(number) as workers:
        assert set(workers.run(process, range(jobs))) == {os.getpid()}
        assert list(workers.run(process, [])) == []


def test_a_killed_worker_is_an_error():
    with (
        Workers(2) as workers,
        pytest.raises(InputError, match="One ended early.*with --workers below 2"),
    ):
        list(workers.run(die, range(20)))


@pytest.mark.slow
def test_ctrl_c_ends_running_jobs(tmp_path):
    """They would otherwise run to their end; a second Ctrl-C would leave processes that wait for each other."""

    def interrupt_when_started():
        while not (tmp_path / "started").exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    with signal_handler(signal.default_int_handler, signal.SIGINT):
        threading.Thread(target=interrupt_when_started).start()
        with pytest.raises(KeyboardInterrupt), Workers(2) as workers:
            list(workers.run(wait_long, [tmp_path] * 4))
    assert not multiprocessing.active_children()
    assert not (tmp_path / "finished").exists()


def test_errors_of_jobs_are_raised():
    with Workers(2) as workers, pytest.raises(InputError, match="number 0"):
        list(workers.run(fail, range(20)))
