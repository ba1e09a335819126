import importlib.util
import json
import os
import subprocess
import sys
import threading
import types
from pathlib import Path

import pytest

from data_prep.errors import InputError
from data_prep.text.documents import read_documents
from data_prep.text.hub_rows import read_hub
from data_prep.text.sources import expand_files
from tests.data_prep.text.dataset_hub import COMMIT, DatasetHub

needs_datasets = pytest.mark.skipif(
    not importlib.util.find_spec("datasets"), reason="needs the extra [datasets]: datasets"
)
LINES = [
    {"text": "She came in. It was schön.\n\nHe left.", "title": "One", "year": 1},
    {"text": "An old house\r\nby the sea. “Why?” she asked.", "title": "Two", "year": 2},
    {"text": None, "title": "Three", "year": 3},
    {"text": "Ключ лежит на столе. Он старый. \U0001f511", "title": "Four", "year": 4},
    {"text": "It ends. So it does.", "title": "Five", "year": 5},
]
TABLES = {
    language: [{"text": f"{language} story {i}. It is old.\n\nThe end."} for i in range(700)]
    for language in ("en", "de")
}
# In a process of its own, because the packages read HF_ENDPOINT when they are imported.
READ = """
import dataclasses, json, os, sys
from data_prep.errors import InputError
from data_prep.text.documents import read_documents
from data_prep.text.sources import expand_files

results = []
for name, field, token in json.loads(sys.argv[1]):
    os.environ["HF_TOKEN"] = token
    try:
        documents = read_documents(expand_files(name), text_field=field)
        results.append([dataclasses.astuple(document) for document in documents])
    except InputError as error:
        results.append(str(error))
    if token:  # leaves the dataset in the cache of the package
        import datasets
        datasets.load_dataset("team/gated")
print("results " + json.dumps(results))
"""
RUN = """
import json, sys
from albert_cli.cli import main

if __name__ == "__main__":
    print([main(command) for command in json.loads(sys.argv[1])])
"""
ERRORS = {
    "team/lines:valid": "The split must be one of train, test. Received valid in hf://datasets/team/lines:valid.",
    "team/lines": "The split must be one of train, test. Received none in hf://datasets/team/lines.",
    "team/lines:train[:9]": "The split must be one of train, test. Received train[:9] in",
    "team/lines/en:train": "The configuration must be one of default. Received en in hf://datasets/team/lines.",
    "team/tables:train": "The configuration must be one of en, de. Received none in hf://datasets/team/tables.",
    "team/tables/fr:train": "The configuration must be one of en, de. Received fr in",
    "team/none:train": "'team/none' doesn't exist on the Hub or cannot be accessed. Check the name; a private or",
    "team/gated:train": "'team/gated' is a gated dataset on the Hub. Visit the dataset page at",
    "team/lines@none:train": "Revision 'none' doesn't exist for dataset 'team/lines' on the Hub.",
    "team/empty:train": "hf://datasets/team/empty:train cannot be read: ",
    "team/code:train": "Dataset scripts are no longer supported, but found code.py",
    "team/damaged:train": "JSON parse error",
}
FIELDS = {
    "year": "hf://datasets/team/lines:train has no text 'year', only: text, title.",
    "body": "hf://datasets/team/lines:train has no text 'body', only: text, title.",
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra [datasets]: datasets")
    import pyarrow

    folder = tmp_path_factory.mktemp("hub")
    for name in ("lines", "gated", "empty", "code", "damaged", "tables/en", "tables/de"):
        (folder / name).mkdir(parents=True)
    write_lines(folder / "lines" / "train-00001.jsonl", LINES[2:])
    write_lines(folder / "lines" / "train-00000.jsonl", LINES[:2])
    write_lines(folder / "lines" / "test.jsonl", LINES[:1])
    write_lines(folder / "gated" / "train.jsonl", LINES)
    (folder / "code" / "code.py").write_text("import os\nos.abort()\n")
    (folder / "damaged" / "train.jsonl").write_text('{"text": "One."}\n{"text": \n')
    for language, rows in TABLES.items():
        for number, half in enumerate((rows[:400], rows[400:])):
            file = folder / "tables" / language / f"train-{number:05d}-of-00002.parquet"
            parquet.write_table(pyarrow.Table.from_pylist(half), file, row_group_size=150)
    configs = "".join(f"- config_name: {name}\n  data_files: {name}/*.parquet\n" for name in TABLES)
    (folder / "tables" / "README.md").write_text(f"---\nconfigs:\n{configs}---\n")
    server = DatasetHub(folder)
    threading.Thread(target=server.serve_forever).start()
    yield server
    server.shutdown()
    server.server_close()


def write_lines(file: Path, rows: list[dict]) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def run(hub: DatasetHub, home: Path, *arguments: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, **hub.environment(home)}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def read(hub, home):
    """What was read for each name, text field and token: documents, or a message."""
    names = [
        f"team/lines@{COMMIT}:train",
        "team/lines:test",
        *(f"team/tables/{name}:train" for name in TABLES),
    ]
    cases = [(name, "text", "") for name in (*names, *ERRORS)]
    cases += [("team/lines:train", field, "") for field in ("title", *FIELDS)]
    cases += [("team/gated:train", "text", "a token"), ("team/gated@main:train", "text", "")]
    process = run(
        hub, home, "-c", READ, json.dumps([(f"hf://datasets/{name}", *rest) for name, *rest in cases])
    )
    succeed(process)
    (line,) = (line for line in process.stdout.splitlines() if line.startswith("results "))
    return dict(zip(cases, json.loads(line.removeprefix("results ")), strict=True))


def sentences(documents) -> list[tuple[str, ...]]:
    return [tuple(document[0]) for document in documents]


def local_sentences(folder: Path, rows: list[dict], field: str = "text") -> list[tuple[str, ...]]:
    write_lines(folder / "local.jsonl", rows)
    return [document.sentences for document in read_documents([folder / "local.jsonl"], text_field=field)]


@needs_datasets
@pytest.mark.slow
def test_rows_are_those_of_a_local_file(read, tmp_path):
    lines = read[f"team/lines@{COMMIT}:train", "text", ""]
    assert sentences(lines) == local_sentences(tmp_path, LINES)
    assert [document[1] for document in lines] == [
        f"hf://datasets/team/lines@{COMMIT}:train, example {number}" for number in (1, 2, 4, 5)
    ]
    assert sum(document[2] for document in lines) == sum(len((row["text"] or "").encode()) for row in LINES)
    assert sentences(read["team/lines:test", "text", ""]) == local_sentences(tmp_path, LINES[:1])
    assert sentences(read["team/lines:train", "title", ""]) == local_sentences(tmp_path, LINES, "title")
    for language, rows in TABLES.items():
        assert sentences(read[f"team/tables/{language}:train", "text", ""]) == local_sentences(tmp_path, rows)


@needs_datasets
@pytest.mark.slow
def test_a_token_opens_a_gated_dataset(read, tmp_path):
    """Without it, the package would read what is in its cache, of whatever revision."""
    assert sentences(read["team/gated:train", "text", "a token"]) == local_sentences(tmp_path, LINES)
    message = read["team/gated@main:train", "text", ""]
    assert (
        message == "hf://datasets/team/gated@main cannot be read: the Hub does not answer or refuses access."
    )


@needs_datasets
@pytest.mark.slow
@pytest.mark.parametrize("name", ERRORS)
def test_errors(read, name):
    assert ERRORS[name] in read[name, "text", ""]


@needs_datasets
@pytest.mark.slow
@pytest.mark.parametrize("field", FIELDS)
def test_fields_without_text(read, field):
    assert FIELDS[field] in read["team/lines:train", field, ""]


@needs_datasets
@pytest.mark.slow
def test_commands_give_the_same_bytes_as_a_local_file(hub, tmp_path):
    """The text is read twice for the pairs, and no row stays on disk."""
    home, local = tmp_path / "home", tmp_path / "local.jsonl"
    write_lines(local, TABLES["en"])
    texts = ["hf://datasets/team/tables/en:train", str(local)]
    commands = []
    for number, text in enumerate(texts):
        folder = tmp_path / str(number)
        vocab = [f"--input_file={text}", "--vocab_size=40", f"--output_prefix={folder / 'spm'}"]
        prepare = [f"--input_file={text}", f"--output_file={folder / 'out'}", "--sentence_objective=nsp"]
        prepare += [f"--spm_model_file={tmp_path / '0' / 'spm.model'}", "--dupe_factor=2", "--workers=1"]
        commands += [["vocab", *vocab], ["prepare", *prepare]]
    commands.append(["prepare", "--input_file=hf://datasets/team/tables", *prepare[1:], "--overwrite"])
    process = run(hub, home, "-c", RUN, json.dumps(commands))
    succeed(process)
    assert process.stdout.splitlines()[-1] == "[0, 0, 0, 0, 2]"
    assert "The configuration must be one of en, de. Received none" in process.stderr.splitlines()[-1]

    for number, text in enumerate(texts):
        manifest = json.loads((tmp_path / str(number) / "manifest.json").read_text())
        assert manifest["inputs"] == [{"file": text, "bytes": local.stat().st_size if number else 0}]
    for name in ("spm.model", "out"):
        assert (tmp_path / "0" / name).read_bytes() == (tmp_path / "1" / name).read_bytes()
    kept = [file for file in home.rglob("*") if file.is_file()]
    assert kept and not [file for file in kept if b"story" in file.read_bytes()]


def succeed(process: subprocess.CompletedProcess) -> None:
    assert process.returncode == 0, process.stderr[-3000:]


@pytest.mark.parametrize(
    "name", ["hf://team/lines:train", "hf://datasets/lines:train", "hf://datasets/team/lines/en/us:x"]
)
def test_names_of_another_form(name):
    (path,) = expand_files(name)
    with pytest.raises(InputError, match=f'must be written "hf://datasets/OWNER/NAME.* Received {name!r}'):
        list(read_documents([path]))


@pytest.mark.parametrize(
    "module", [None, types.SimpleNamespace(__version__="3.6.0"), types.ModuleType("datasets")]
)
def test_missing_package(monkeypatch, module):
    """A release that runs code counts as missing, and so does a folder of that name."""
    monkeypatch.setitem(sys.modules, "datasets", module)
    with pytest.raises(InputError, match=r"needs the package datasets>=4.*pip install '.\[datasets\]'"):
        list(read_hub("hf://datasets/team/lines:train", "text"))
