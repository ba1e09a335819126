"""Runs on a real server of S3: a process that is killed, several workers. tests/data_prep/storage has GCS, too."""

import tempfile
import time

import pytest

from albert_cli import cli
from albert_tf.checkpoints.open_model import open_model
from albert_tf.checkpoints.run_files import read_metrics
from albert_tf.training.cluster import loopback_clusters
from data_prep.storage.access import attempt
from data_prep.storage.folders import pull
from data_prep.storage.objects import files_below
from tests.albert_tf.checkpoints.random_models import assert_same_weights
from tests.albert_tf.training.test_run_place import assert_same_files
from tests.data_prep.storage.servers import Front, s3_server
from tests.processes import ROOT, Program, run_together

pytestmark = [
    pytest.mark.very_slow,
    # aiohttp's sessions end with the process.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}
BUCKET = "s3://bucket"


STUCK = """
import sys, time
from albert_cli.entry import main
from data_prep.storage import folders

def stuck(path, url):
    if path.name == "ckpt-8.index":
        print("stuck", flush=True)
        time.sleep(600)
    return upload(path, url)

upload, folders.upload = folders.upload, stuck
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def store(tmp_path):
    """A proxy before the server, and the environment of its clients."""
    for package in ("s3fs", "moto", "flask"):
        pytest.importorskip(package, reason=f"{package} is for tests of s3://")
    with s3_server() as port, Front(port).running() as front, pytest.MonkeyPatch.context() as patched:
        environment = {**CREDENTIALS, "AWS_ENDPOINT_URL": front.url}
        for name, value in environment.items():
            patched.setenv(name, value)
        patched.setenv("ALBERT_TF_CACHE", str(tmp_path / "cache"))
        attempt(BUCKET, lambda file_system, path: file_system.mkdir(path))
        yield front, environment


def test_killed_between_data_and_index(store, pretraining_files, tmp_path):
    """A second run is refused until the first one is killed; then it takes over, in spite of faults on the way."""
    front, environment = store
    url = f"{BUCKET}/runs/base"
    flags = pretraining_files.flags(url)
    command = [ROOT / "run_pretraining.py", *flags[1:]]
    assert cli.main(pretraining_files.flags(tmp_path / "local")) == 0
    with Program(["-c", STUCK, *flags], {**environment, "ALBERT_TF_CACHE": str(tmp_path / "one")}) as first:
        deadline = time.monotonic() + 300
        while "stuck" not in first.output() and first.poll() is None and time.monotonic() < deadline:
            time.sleep(0.2)
        with Program(command, {**environment, "ALBERT_TF_CACHE": str(tmp_path / "two")}) as second:
            _, error = second.communicate(timeout=200)
        assert second.returncode == 2, error
        (line,) = [line for line in error.splitlines() if line.startswith("albert: ")]
        assert f"One process at a time may use {url}. It is in use by process {first.pid} on " in line
        assert first.poll() is None
    front.inject("^(PUT|POST)", "503", 2)
    there = files_below(url)
    assert {"checkpoints/ckpt-8.data-00000-of-00001", "checkpoints/ckpt-4.index"} <= there.keys()
    assert "checkpoints/ckpt-8.index" not in there
    with Program(command, {**environment, "ALBERT_TF_CACHE": str(tmp_path / "two")}) as third:
        _, error = third.communicate(timeout=300)
    assert third.returncode == 0, error
    assert not front.faults_left
    assert f"resuming at step 4 of the run in {url}" in error
    pull(url, tmp_path / "copy")
    assert_same_files(tmp_path / "copy", tmp_path / "local")
    for model in ("", "/checkpoints/ckpt-12"):
        assert_same_weights(
            open_model(f"{url}{model}").weights, open_model(f"{tmp_path}/local{model}").weights
        )


def test_two_workers_resume_and_roll_back(store, pretraining_files, tmp_path):
    """Each on a machine of its own, with an empty cache for every start; as two workers in one local folder."""
    _, environment = store
    url, local = f"{BUCKET}/runs/two", tmp_path / "local"
    flags = {"log_steps": 2, "num_warmup_steps": 1, "eval_file": None, "do_eval": None}
    flags |= {"spike_factor": 1.2, "spike_intervals": 2, "max_rollbacks": 1}

    def train(place, **changes) -> list[str]:
        """The two workers' messages; both end with status 2 if the learning rate is too high."""
        command = [ROOT / "run_pretraining.py", *pretraining_files.flags(place, **flags, **changes)[1:]]
        caches = [{"ALBERT_TF_CACHE": tempfile.mkdtemp(dir=tmp_path)} for _ in range(2)]
        environments = [
            {**environment, **cache, "TF_CONFIG": cluster}
            for cache, cluster in zip(caches, loopback_clusters(2), strict=True)
        ]
        workers = run_together([command, command], environments, timeout=400)
        status = 2 if changes["learning_rate"] > 1 else 0
        for worker in workers:
            assert worker.returncode == status, worker.stderr
        return [worker.stderr for worker in workers]

    for place in (url, local):
        train(place, num_train_steps=12, learning_rate=0.001)
        messages = train(place, num_train_steps=100, learning_rate=30)
        assert f"resuming at step 12 of the run in {place}" in messages[0]
        for message in messages:
            assert "after 1 roll-backs. Training diverges: use a lower --learning_rate" in message
    pull(url, tmp_path / "copy")
    assert [line["rolled_back_to"] for line in read_metrics(local) if "rolled_back_to" in line] == [12, 8]
    assert_same_files(tmp_path / "copy", local)
