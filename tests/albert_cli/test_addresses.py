"""Commands whose inputs and outputs are at addresses of object stores: the same bytes as on this machine."""

import json
import operator
from pathlib import Path

import pytest

from albert_cli import cli
from data_prep.storage.objects import files_below, read, upload, write
from tests.data_prep.storage.servers import s3_server

STORES = [
    "memory",
    pytest.param(
        "s3",
        marks=[
            pytest.mark.very_slow,
            # aiohttp's sessions end with the process.
            *(pytest.mark.filterwarnings(f"ignore::{name}") for name in ("ResourceWarning", "FutureWarning")),
            pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
            pytest.mark.filterwarnings("ignore::DeprecationWarning"),
        ],
    ),
]


@pytest.fixture(scope="module", params=STORES)
def store(request):
    """The address of a bucket."""
    if request.param == "memory":
        from fsspec.implementations.memory import MemoryFileSystem

        yield "memory://bucket"
        MemoryFileSystem.store.clear()
        return
    for package in ("s3fs", "moto", "flask"):
        pytest.importorskip(package, reason=f"{package} is for tests of s3://")
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}
    with s3_server() as port, pytest.MonkeyPatch.context() as environment:
        for name, value in (keys | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}).items():
            environment.setenv(name, value)
        from data_prep.storage.access import attempt

        attempt("s3://bucket", lambda file_system, path: file_system.mkdir(path))
        yield "s3://bucket"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ALBERT_TF_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def run(capfd, tmp_path, monkeypatch):
    """Runs a command in an empty folder, which it must leave empty; returns status, output and errors."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)

    def albert(*arguments) -> tuple[int, str, str]:
        capfd.readouterr()
        status = cli.main(list(map(str, arguments)))
        assert not list(work.iterdir())
        return status, *capfd.readouterr()

    return albert


def contents(folder: str | Path) -> dict[str, bytes]:
    if isinstance(folder, Path):
        return {
            str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()
        }
    return {name: read(f"{folder}/{name}") for name in files_below(folder)}


def test_a_vocabulary(store, story, run, tmp_path):
    flags = ("vocab", f"--input_file={story}")
    assert run(*flags, f"--output_prefix={tmp_path}/v/30k", "--vocab_size=90")[0] == 0
    status, out, _ = run(*flags, f"--output_prefix={store}/v/30k", "--vocab_size=90")
    assert (status, out) == (0, f"{store}/v/30k.model\n")
    assert contents(f"{store}/v") == contents(tmp_path / "v")
    status, _, error = run(*flags, f"--output_prefix={store}/v/30k", "--vocab_size=91")
    assert status == 2 and f"Received {store}/v/30k.model, trained with --vocab_size=90" in error
    assert contents(f"{store}/v") == contents(tmp_path / "v")


def test_metrics_of_predictions(store, run):
    write(f"{store}/dev.tsv", b"sentence\tlabel\ngood\t1\nbad\t0\nodd\t1\t2\n")
    write(f"{store}/SST-2.tsv", b"index\tprediction\n0\t1\n1\t1\n")
    files = (f"--gold={store}/dev.tsv", f"--predictions={store}/SST-2.tsv")
    status, out, error = run("evaluate", "--task=sst-2", *files)
    assert (status, json.loads(out)) == (0, {"accuracy": 0.5})
    assert f"wrong number of columns, left out ({store}/dev.tsv:4" in error
    status, _, error = run("evaluate", "--task=sst-2", files[0], f"--predictions={store}/none.tsv")
    missing = f"albert: {store}/none.tsv must be a file or a folder with files. It does not exist.\n"
    assert (status, error) == (2, missing)


def test_a_picture_and_a_submission_of_runs(store, run):
    pytest.importorskip("matplotlib")
    write(f"{store}/runs/a/metrics.jsonl", b'{"step": 1, "loss": 2.5}\n{"step": 2, "eval_accuracy": 0.5}\n')
    write(f"{store}/runs/a/settings.json", b'{"task": "rte"}')
    status, out, error = run("plot", f"{store}/runs/a", f"--output={store}/pictures/a.svg")
    assert (status, out) == (0, f"{store}/pictures/a.svg\n"), error
    assert read(f"{store}/pictures/a.svg").startswith(b"<?xml")
    status, _, error = run("submission", f"rte={store}/runs/a", f"--output={store}/glue.zip")
    assert status == 2 and f"{store}/runs/a/test_probabilities.jsonl" in error
    assert "glue.zip" not in files_below(store)


def test_what_an_address_lacks(run):
    status, out, error = run("doctor", "memory://bucket/new")
    assert (status, error) == (0, "")
    assert [line.split()[0] for line in out.splitlines()][:3] == ["list", "write", "read"]
    status, out, error = run("doctor", "nowhere://bucket")
    assert status == 2 and "Protocol not known: nowhere" in out
    assert error == "albert: nowhere://bucket must allow all of this. It does not: list, write, read.\n"
    status, _, error = run("doctor", "runs")
    assert status == 2 and error.startswith("albert: An address has a scheme")


@pytest.mark.slow
class TestWithModels:
    @pytest.mark.parametrize(
        "flags",
        [
            pytest.param(
                ("export", "--model_dir={model}", "--kind=preprocessor", "--seq_length=32", "--output={to}"),
                marks=pytest.mark.very_slow,
            ),
            ("convert", "{model}", "{to}", "--to=huggingface", "--noverify"),
        ],
        ids=operator.itemgetter(0),
    )
    def test_exports_and_conversions(self, store, finetuning_files, run, tmp_path, flags):
        model, name = finetuning_files.checkpoint, flags[0]
        status, _, error = run(*(flag.format(model=model, to=tmp_path / name) for flag in flags))
        assert status == 0, error
        status, out, error = run(*(flag.format(model=model, to=f"{store}/{name}") for flag in flags))
        assert (status, out) == (0, f"{store}/{name}\n"), error
        here, there = contents(tmp_path / name), contents(f"{store}/{name}")
        assert there.keys() == here.keys()
        # TensorFlow counts the functions of a process, in whose names the second graph differs.
        assert {name for name in here if here[name] != there[name]} <= {"saved_model.pb", "fingerprint.pb"}
        if name == "convert":
            status, _, error = run("convert", model, f"{store}/convert", "--to=tf1")
            assert status == 2 and f"{store}/convert" in error

    @pytest.fixture
    def rows(self, store, finetuning_files) -> tuple[dict, dict]:
        """The flags of a task's files on this machine, and of the same at addresses."""
        folder = finetuning_files.folder
        local = {f"{role}_file": folder / f"classification-{role}.csv" for role in ("train", "dev", "test")}
        for path in local.values():
            upload(path, f"{store}/rows/{path.name}")
        return local, {name: f"{store}/rows/{path.name}" for name, path in local.items()}

    @pytest.mark.very_slow
    def test_training_reads_the_same_rows(self, rows, finetuning_files, run, tmp_path):
        predicted = []
        for number, files in enumerate(rows):
            output = tmp_path / f"run-{number}"
            flags = finetuning_files.flags(output, num_train_steps=4, do_predict=True, **files)
            status, _, error = run(*flags)
            assert status == 0, error
            predicted.append(contents(output)["seed_0/test_probabilities.jsonl"])
        assert predicted[0] == predicted[1]

    def test_a_task(self, store, rows, finetuning_files, run, tmp_path):
        """Rows are read at addresses, which the settings name; answers are written there."""
        (local, remote), output = rows, tmp_path / "run"
        status, _, error = run(*finetuning_files.flags(output, num_train_steps=4, do_predict=True, **remote))
        assert status == 0, error
        settings = json.loads(contents(output)["seed_0/settings.json"])
        assert {name: settings[name] for name in remote} == remote

        flags = ("predict", f"--model_dir={output}")
        answers = tmp_path / "answers.jsonl"
        assert run(*flags, f"--input_file={local['test_file']}", f"--output_file={answers}")[0] == 0
        assert (
            run(*flags, f"--input_file={remote['test_file']}", f"--output_file={store}/answers.jsonl")[0] == 0
        )
        assert read(f"{store}/answers.jsonl") == answers.read_bytes() != b""
        status, _, error = run(*flags, f"--input_file={store}/none.csv", f"--output_file={store}/none.jsonl")
        assert status == 2 and f"{store}/none.csv" in error
        golds = (local["dev_file"], remote["dev_file"])
        first, second = (run("evaluate", f"--model_dir={output}", f"--gold={gold}")[1] for gold in golds)
        assert first == second != ""
