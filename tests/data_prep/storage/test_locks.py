"""One holder at a time; dead ones are replaced by one other."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from data_prep.errors import InputError
from data_prep.storage import locks
from data_prep.storage.locks import Lock
from data_prep.storage.objects import files_below, read, write


@pytest.fixture
def elsewhere(monkeypatch):
    """Locks of another machine, whose processes cannot be seen from here."""
    monkeypatch.setattr(locks, "_machine", lambda: "")


def quick(url):
    return Lock(url, beat=0.02, stale=0.2)


def test_one_process_at_a_time(url):
    with Lock(url) as held:
        (name,) = files_below(f"{url}/.lock")
        holder = json.loads(read(f"{url}/.lock/{name}"))
        assert holder["process"] == os.getpid() and holder["id"]
        sentence = (
            f"{url}. It is in use by process {os.getpid()} on {holder['host']}; wait until it has ended"
        )
        with pytest.raises(InputError, match=sentence), Lock(url):
            raise AssertionError
        held.check()
    assert not files_below(url)
    with Lock(url):
        assert files_below(url)


def test_the_heartbeat_keeps_a_lock(url, elsewhere):
    with quick(url) as held:
        time.sleep(0.5)
        with pytest.raises(InputError, match="in use by"), quick(url):
            raise AssertionError
        held.check()


def test_a_fast_clock_takes_no_lock(url, elsewhere, monkeypatch):
    """The heartbeat is old by this machine's clock, and moves."""
    with quick(url):
        now = time.time
        taker = quick(url)
        monkeypatch.setattr(locks.time, "time", lambda: now() + 3600 * (threading.current_thread() is main))
        main = threading.current_thread()
        with pytest.raises(InputError, match="in use by"), taker:
            raise AssertionError


def left_behind(url, **changes):
    """The lock of a killed process."""
    holder = {"host": "elsewhere", "process": 1, "machine": "", "id": "dead", "beat": 0.0, **changes}
    write(f"{url}/.lock/000004.json", json.dumps(holder).encode())


def test_a_stale_lock_is_taken_over(url):
    left_behind(url)
    with quick(url):
        assert list(files_below(f"{url}/.lock")) == ["000005.json"]
    assert not files_below(url)
    write(f"{url}/.lock/000001.json", b"not a lock")
    with quick(url):
        assert list(files_below(f"{url}/.lock")) == ["000002.json"]


def test_one_of_many_takes_a_stale_lock_over(url, elsewhere):
    for _ in range(5):
        left_behind(url)
        held, refused, done = [], [], threading.Event()

        def contend(held=held, refused=refused, done=done):
            try:
                with quick(url) as mine:
                    held.append(mine)
                    done.wait(10)
            except InputError:
                refused.append(1)

        threads = [threading.Thread(target=contend) for _ in range(6)]
        for thread in threads:
            thread.start()
        ended = time.monotonic() + 10
        while len(held) + len(refused) < 6 and time.monotonic() < ended:
            time.sleep(0.01)
        assert (len(held), len(refused)) == (1, 5)
        done.set()
        for thread in threads:
            thread.join()
        assert not files_below(url)


def test_a_late_taker_yields(url, monkeypatch):
    """It saw a stale lock; before it creates its own, another process took over, ended, and a third one began."""
    left_behind(url)
    create = locks.create

    def late(address, content):
        locks.remove(f"{url}/.lock/000004.json")
        left = {"host": "third", "process": 3, "machine": "", "id": "third", "beat": time.time()}
        write(f"{url}/.lock/000001.json", json.dumps(left).encode())
        return create(address, content)

    monkeypatch.setattr(locks, "create", late)
    with pytest.raises(InputError, match="in use by process 3 on third"), quick(url):
        raise AssertionError
    assert list(files_below(f"{url}/.lock")) == ["000001.json"]


def test_a_holder_that_slept_too_long_notices(url):
    with quick(url) as held:
        (name,) = files_below(f"{url}/.lock")
        left_behind(url, id="new", beat=time.time())
        ended = time.monotonic() + 10
        with pytest.raises(InputError, match="It was taken over by process 1 on elsewhere"):
            while time.monotonic() < ended:
                held.check()
                time.sleep(0.01)
        assert name not in files_below(f"{url}/.lock")
    assert list(files_below(f"{url}/.lock")) == ["000004.json"]


def test_a_process_that_was_stopped_looks_before_it_writes(url):
    """Its thread has not noticed yet that another process took the lock over."""
    with Lock(url, beat=60) as held:
        held.check()
        held._me.beat -= 600
        left_behind(url, id="new", beat=time.time())
        with pytest.raises(InputError, match="It was taken over by process 1 on elsewhere"):
            held.check()


HOLD = """
import sys, time
from data_prep.storage.locks import Lock
with Lock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere nothing tells a machine's processes from others'"
)
def test_a_killed_holder_on_this_machine_is_replaced_at_once(tmp_path):
    address = f"file://{tmp_path}/run"
    with subprocess.Popen([sys.executable, "-c", HOLD, address], stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline()
        with pytest.raises(InputError, match=f"process {holder.pid} "), Lock(address):
            raise AssertionError
        holder.send_signal(signal.SIGKILL)
    with Lock(address):
        pass
    with contextlib.suppress(FileNotFoundError):
        assert not files_below(address)
