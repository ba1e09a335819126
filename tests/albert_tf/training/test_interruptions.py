import os
import signal
import subprocess
import sys

import pytest
import tensorflow as tf

from albert_tf.training.interruptions import Preemption, as_input_errors
from albert_tf.training.tensorflow_devices import TensorFlowDevices
from data_prep.errors import InputError, Preempted
from data_prep.signals import signal_handler
from data_prep.storage.access import StorageError


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def preemption():
    """Of a process with one device, outside which Ctrl-C raises KeyboardInterrupt, as in a terminal."""
    opened = Preemption(TensorFlowDevices())
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
    opened = Preemption(TensorFlowDevices())
    with signal_handler(signal.SIG_IGN, signal.SIGINT), opened, opened.or_ctrl_c():
        press_ctrl_c()
        assert not opened.agreed()


def test_evaluations_end_when_a_signal_arrives(preemption):
    batches = preemption.watched(range(9), 4)
    assert next(batches) == 0
    os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(Preempted, match="step 4 is saved"):
        next(batches)


def test_a_lost_worker_is_reported_as_one(tmp_path):
    lost = "Collective ops is aborted by: /job:worker/replica:0/task:1 is down"
    message = f"^Another worker stopped, so this one stops too: {lost}"
    with pytest.raises(InputError, match=message), as_input_errors(tmp_path):
        raise tf.errors.UnavailableError(None, None, lost)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (
            "All 9 failed. Error executing an HTTP request: HTTP response code 403 with body 'x\ny'",
            "Error.* 'x",
        ),
        ("The specified path gs://bucket/file was not found.", "The specified .* was not found"),
    ],
)
def test_a_failing_store_is_not_a_lost_worker(words, reason, tmp_path):
    message = f"^gs://bucket/file could not be read: {reason}. Start again .* no checkpoint yet"
    with pytest.raises(InputError, match=message), as_input_errors(tmp_path):
        raise tf.errors.AbortedError(None, None, f"{words}\n\t when reading gs://bucket/file [Op:Next]")


def test_an_error_in_the_readers_thread_is_one_sentence(tmp_path):
    """Copying a shard to the cache fails: during an outage, or on a full disk."""

    def copied(_):
        raise StorageError("s3://bucket/shard could not be reached for 60 seconds: cut. Run it again.")

    examples = tf.data.Dataset.range(2).map(lambda number: tf.py_function(copied, [number], tf.string))
    message = r"^s3://bucket/shard could not be .* cut\. Run it again\. There is no checkpoint yet\.$"
    with pytest.raises(InputError, match=message), as_input_errors(tmp_path):
        list(examples.prefetch(1))


def test_a_cache_that_is_too_small(tmp_path, monkeypatch):
    monkeypatch.setenv("ALBERT_TF_CACHE", str(tmp_path))
    with pytest.raises(InputError, match="three files"), as_input_errors(tmp_path):
        list(tf.data.TFRecordDataset(str(tmp_path / "files/entry/shard")))


@pytest.mark.very_slow
def test_a_store_that_tensorflow_cannot_reach():
    """TensorFlow's own error. It reads its settings of gs:// once in a process."""
    program = (
        "import pathlib, tensorflow as tf; from albert_tf.training.interruptions import as_input_errors\n"
        "with as_input_errors(pathlib.Path('run')): list(tf.data.TFRecordDataset('gs://bucket/file'))"
    )
    settings = {
        "https_proxy": "http://127.0.0.1:9",
        "GCS_RETRY_CONFIG_MAX_RETRIES": "1",
        "GCS_RETRY_CONFIG_INIT_DELAY_TIME_US": "1000",
        "GOOGLE_AUTH_TOKEN_FOR_TESTING": "x",
        "NO_GCE_CHECK": "true",
    }
    ended = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | settings, capture_output=True, text=True
    )
    *_, last = ended.stderr.splitlines()
    assert "InputError: gs://bucket/file could not be read: Error executing an HTTP request: libcurl" in last
    assert "Start again with the same command when the store answers; there is no checkpoint yet." in last
