"""A real scheduler and workers, in processes of their own."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from data_prep.errors import InputError
from data_prep.examples.prepare_flags import PrepareSettings
from data_prep.prepare import dask_workers, local
from data_prep.prepare.local import prepare
from data_prep.storage import objects
from tests.story import write_story

pytest.importorskip("distributed", reason="an extra: pip install '.[dask]'")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PATHS = (str(ROOT), os.environ.get("PYTHONPATH"))
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, PATHS))}


class Cluster:
    """A scheduler on a free port, and workers of one thread."""

    def __init__(self, folder: Path):
        self.folder, self.workers = folder, []
        self.scheduler = self._start("scheduler", "--host=127.0.0.1", "--port=0", "--no-dashboard")
        self.address = self._address()

    def _start(self, program: str, *arguments: str) -> subprocess.Popen:
        command = [sys.executable, "-m", f"distributed.cli.dask_{program}", *arguments]
        with (self.folder / f"{program}.log").open("ab") as log:
            return subprocess.Popen(command, stderr=log, stdout=log, cwd=self.folder, env=ENVIRONMENT)

    def _address(self) -> str:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            log = (self.folder / "scheduler.log").read_text()
            if "Scheduler at:" in log:
                return "dask://" + log.partition("Scheduler at:")[2].split()[0].removeprefix("tcp://")
            time.sleep(0.1)
        raise TimeoutError(log)

    def add_worker(self) -> subprocess.Popen:
        address = self.address.removeprefix("dask://")
        flags = ("--nthreads=1", "--no-dashboard", f"--local-directory={self.folder}")
        self.workers.append(self._start("worker", address, *flags))
        return self.workers[-1]

    def close(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.terminate()
        for process in (*self.workers, self.scheduler):
            process.wait(60)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    for _ in range(2):
        cluster.add_worker()
    yield cluster
    cluster.close()


@pytest.fixture
def settings(tmp_path, model_file, monkeypatch):
    """Of text with about ten parts, and paths that are relative to this process."""
    monkeypatch.setattr(local, "_PART_BYTES", 100_000)
    monkeypatch.chdir(tmp_path)
    write_story(Path("text.txt"), documents=150)
    flags = {"max_seq_length": 64, "dupe_factor": 2, "num_shards": 3}
    return lambda name, **changes: PrepareSettings(
        "text.txt", f"{name}/train.tfrecord", os.path.relpath(model_file), **flags, **changes
    )


def contents(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).glob("train.tfrecord*")}


def test_the_bytes_are_the_local_runners(cluster, settings):
    prepare(settings("local", workers=1), show_progress=False)
    manifest = prepare(settings("dask", cluster=cluster.address), show_progress=False)
    assert manifest.counts.examples > 100
    assert contents("dask") == contents("local") and len(contents("dask")) == 3
    assert not [path for path in Path("dask").iterdir() if path.name.startswith(".")]


@pytest.mark.very_slow
def test_nsp_draws_the_same_partners(cluster, settings):
    prepare(settings("local", workers=1, sentence_objective="nsp"), show_progress=False)
    prepare(settings("dask", cluster=cluster.address, sentence_objective="nsp"), show_progress=False)
    assert contents("dask") == contents("local")


@pytest.mark.parametrize("objective", ["sop", "nsp"])
def test_parts_pass_through_the_store_of_the_output(cluster, settings, objective, tmp_path, monkeypatch):
    """The workers write nothing else; a driver that was killed goes on with the parts that have arrived."""
    url = f"file://{tmp_path}/store"
    monkeypatch.setenv("ALBERT_TF_CACHE", str(tmp_path / "cache"))
    prepare(settings("local", workers=1, sentence_objective=objective), show_progress=False)
    on_cluster = settings(url, cluster=cluster.address, sentence_objective=objective)
    arrived = []

    def download(address, path):
        arrived.append(address.removeprefix(f"{url}/.train.tfrecord/parts/"))
        if len(arrived) == 7:
            raise KeyboardInterrupt
        objects.download(address, path)

    monkeypatch.setattr("data_prep.prepare.parts_in_store.download", download)
    with pytest.raises(KeyboardInterrupt):
        prepare(on_cluster, show_progress=False)
    assert arrived[:4] == ["000000.records", "000000.index", "000000.json", "000001.records"]
    prepare(on_cluster, show_progress=False)
    assert arrived[6:8] == ["000002.records", "000002.records"]
    assert contents(tmp_path / "store") == contents("local")
    assert not [name for name in objects.files_below(url) if "parts" in name]


def test_users_errors_come_from_the_workers(cluster, settings):
    settings("bad")
    Path("text.txt").write_text("One.\nTwo.\n" * 50_000 + "\n")
    wrong = settings("bad", cluster=cluster.address, input_format="prose", language="../en")
    with pytest.raises(InputError, match="`language` must be an ISO 639 code"):
        prepare(wrong, show_progress=False)


def _in_a_process(settings: PrepareSettings) -> subprocess.Popen:
    program = (
        "import sys, os; from data_prep.prepare import local; from data_prep.errors import InputError\n"
        "from data_prep.examples.prepare_flags import PrepareSettings\n"
        "local._PART_BYTES = 100_000\n"
        f"try: local.prepare({settings!r}, show_progress=False)\n"
        "except InputError as error: sys.exit(str(error))"
    )
    return subprocess.Popen(
        [sys.executable, "-c", program], env=ENVIRONMENT, stderr=subprocess.PIPE, text=True
    )


def _wait_for_parts(folder: Path, number: int, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 120
    while len(list(folder.glob(".train.tfrecord.scratch/*.records"))) < number:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.very_slow
@pytest.mark.parametrize("killed", ["worker", "driver", "scheduler"])
def test_killed_in_the_middle(killed, settings, tmp_path):
    write_story(Path("text.txt"), documents=1500)
    prepare(settings("local", workers=1), show_progress=False)
    cluster = Cluster(tmp_path)
    workers = [cluster.add_worker(), cluster.add_worker()]
    on_cluster = settings("dask", cluster=cluster.address)
    try:
        with _in_a_process(on_cluster) as process:
            _wait_for_parts(Path("dask"), 5, process)
            if killed == "worker":  # its nanny starts another one
                subprocess.run(["pkill", "-KILL", "-P", str(workers[0].pid)], check=False)
            else:
                {"driver": process, "scheduler": cluster.scheduler}[killed].kill()
            error = process.communicate(timeout=180)[1]
        if killed == "worker":
            assert process.returncode == 0, error
        elif killed == "driver":
            assert not contents("dask")
            prepare(on_cluster, show_progress=False)
        else:
            assert "The scheduler at" in error
            prepare(settings("dask", workers=1), show_progress=False)  # resumes without the cluster
        assert contents("dask") == contents("local")
    finally:
        cluster.close()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cluster": "host:8786"}, "must be written dask://HOST:PORT"),
        ({"cluster": "dask://127.0.0.1:9", "workers": 2}, "Received --workers=2, too"),
        ({"cluster": "dask://127.0.0.1:9"}, "does not answer"),
    ],
)
def test_bad_input(changes, message, settings, monkeypatch):
    monkeypatch.setattr(dask_workers, "_SECONDS_TO_CONNECT", 1)
    with pytest.raises(InputError, match=message):
        prepare(settings("bad", **changes), show_progress=False)
    assert not Path("bad").exists()


@pytest.mark.very_slow
def test_a_cluster_without_workers(settings, tmp_path, monkeypatch):
    monkeypatch.setattr(dask_workers, "_SECONDS_FOR_WORKERS", 1)
    cluster = Cluster(tmp_path)
    try:
        with pytest.raises(InputError, match="has had none for 1 seconds"):
            prepare(settings("bad", cluster=cluster.address), show_progress=False)
    finally:
        cluster.close()
