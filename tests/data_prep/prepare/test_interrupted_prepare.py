"""`albert prepare` that is killed, has a full disk, or is started again with other settings."""

import dataclasses
import errno
import fcntl
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from albert_cli.cli import main
from data_prep.errors import InputError
from data_prep.examples.prepare_flags import PrepareSettings
from data_prep.prepare import local, unfinished
from data_prep.prepare.local import prepare
from data_prep.prepare.parts import Part
from data_prep.text import documents as text_documents
from data_prep.text.documents import Document, Text, cut_document, read_texts, text_stretches
from tests.selection import all_but_very_slow
from tests.story import write_story

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    """Makes parts so small that the text has about ten."""
    return write_story(tmp_path_factory.mktemp("long") / "long.txt", documents=300, seed=1)


@pytest.fixture(scope="module")
def expected(text, model_file, tmp_path_factory) -> dict[str, bytes]:
    """The shards of an uninterrupted process that makes a single part."""
    folder = tmp_path_factory.mktemp("whole")
    prepare(make_settings(text, model_file, folder), show_progress=False)
    return without_manifest(contents(folder))


@pytest.fixture
def settings(text, model_file, tmp_path) -> PrepareSettings:
    own = tmp_path / "long.txt"
    own.write_bytes(text.read_bytes())
    return make_settings(own, model_file, tmp_path / "out")


def make_settings(text, model_file, folder) -> PrepareSettings:
    return PrepareSettings(
        input_file=str(text),
        output_file=str(folder / "train.tfrecord"),
        spm_model_file=str(model_file),
        num_shards=2,
        max_seq_length=48,
        dupe_factor=2,
        workers=1,
    )


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(local, "_PART_BYTES", 60_000)


def folder(settings):
    return Path(settings.output_file).parent


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def without_manifest(files):
    return {name: content for name, content in files.items() if name != "manifest.json"}


def command(settings):
    """`albert prepare` in its own process, with parts as small as in `small_parts`."""
    flags = [f"--{name}={value}" for name, value in dataclasses.asdict(settings).items() if value is not None]
    flags = [flag for flag in flags if "do_lower_case" not in flag]
    program = "import sys; from albert_cli.cli import main; from data_prep.prepare import local; "
    program += "local._PART_BYTES = 60_000; sys.exit(main())"
    return [sys.executable, "-c", program, "prepare", *flags]


@pytest.mark.slow
@pytest.mark.parametrize("workers", all_but_very_slow([1, 2, 5], [2]))
def test_the_bytes_do_not_depend_on_the_workers(settings, expected, small_parts, workers):
    prepare(dataclasses.replace(settings, workers=workers), show_progress=False)
    assert without_manifest(contents(folder(settings))) == expected
    assert "workers" not in json.loads((folder(settings) / "manifest.json").read_text("utf-8"))["settings"]


@pytest.mark.very_slow
@pytest.mark.parametrize("workers", [1, 2])
def test_killed_at_any_moment_and_run_again(settings, expected, workers):
    settings = dataclasses.replace(settings, workers=workers)
    out = folder(settings)
    scratch = out / ".train.tfrecord.scratch"
    for seen in (1, 2, 4, 6, 8):
        run = subprocess.Popen(command(settings), cwd=ROOT, stderr=subprocess.DEVNULL)
        while run.poll() is None and len(list(scratch.glob("0*.json"))) < seen:
            time.sleep(0.002)
        run.send_signal(signal.SIGKILL)
        run.wait()
        assert not (out / "manifest.json").exists() or run.returncode == 0
    assert len(list(scratch.glob("0*.json"))) >= 4
    subprocess.run(command(settings), cwd=ROOT, check=True)
    assert without_manifest(contents(out)) == expected
    assert not scratch.exists()


@pytest.mark.slow
def test_finished_work_is_not_done_again(settings, expected, small_parts, monkeypatch):
    made = []

    def stop_after_four(job):
        if len(made) == 4:
            raise KeyboardInterrupt
        made.append(job.part.number)
        return make_part(job)

    make_part = local._make_part
    monkeypatch.setattr(local, "_make_part", stop_after_four)
    with pytest.raises(KeyboardInterrupt):
        prepare(settings, show_progress=False)
    monkeypatch.setattr(local, "_make_part", make_part)
    document_examples = local.document_examples
    texts = []

    def noted(document, *rest):
        texts.append(document)
        return document_examples(document, *rest)

    monkeypatch.setattr(local, "document_examples", noted)
    prepare(settings, show_progress=False)
    assert without_manifest(contents(folder(settings))) == expected
    assert 50 < len(texts) < 250


@pytest.mark.slow
def test_a_limit_on_file_size_keeps_finished_work(settings):
    """The limit of the system stands in for a full disk; an incomplete part never counts as complete."""
    limited = ["bash", "-c", 'ulimit -f 40; exec "$@"', "-", *command(settings)]
    run = subprocess.run(limited, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert re.fullmatch(
        "albert: The disk needs space .* File too large. Finished work is kept; .*\n", run.stderr
    )
    assert list(folder(settings).glob("*")) == [folder(settings) / ".train.tfrecord.scratch"]


@pytest.mark.very_slow
def test_other_settings_are_refused(settings, expected, small_parts, monkeypatch):
    leave_unfinished(settings, monkeypatch)
    with pytest.raises(InputError, match="random_seed=12345. Received 7"):
        prepare(dataclasses.replace(settings, random_seed=7), show_progress=False)
    prepare(dataclasses.replace(settings, workers=2), show_progress=False)
    assert without_manifest(contents(folder(settings))) == expected


@pytest.mark.slow
@pytest.mark.parametrize("change", ["other", pytest.param("shorter", marks=pytest.mark.very_slow)])
def test_other_text_is_refused(settings, small_parts, monkeypatch, change):
    leave_unfinished(settings, monkeypatch)
    text = Path(settings.input_file)
    content = text.read_bytes()
    text.write_bytes(content.replace(b"gardener", b"plumber") if change == "other" else content[:2000])
    with pytest.raises(InputError, match="resumes with the text that it began with"):
        prepare(settings, show_progress=False)
    text.write_bytes(content)
    prepare(settings, show_progress=False)


@pytest.mark.slow
def test_an_interrupted_run_allows_no_other_to_replace_files(settings, small_parts, monkeypatch):
    prepare(settings, show_progress=False)
    before = contents(folder(settings))
    replacing, other = (dataclasses.replace(settings, ngram=n, overwrite=n == 1) for n in (1, 2))
    leave_unfinished(replacing, monkeypatch, at="read_corpora")  # before there is any work to resume
    with pytest.raises(InputError, match="written with --ngram=3, not 2. Add --overwrite"):
        prepare(other, show_progress=False)
    assert contents(folder(settings)) == before
    leave_unfinished(replacing, monkeypatch)
    with pytest.raises(InputError, match="holds unfinished work with ngram=1. Received 2"):
        prepare(other, show_progress=False)
    # What was begun with --overwrite resumes without it, too.
    assert prepare(dataclasses.replace(replacing, overwrite=False), show_progress=False).settings.ngram == 1


@pytest.mark.very_slow
def test_a_run_killed_while_it_deletes_its_folder_leaves_nothing_to_resume(
    settings, small_parts, tmp_path, monkeypatch
):
    """Finished parts without their plan would become examples of other settings."""

    def killed(scratch):
        assert not (scratch / "plan.json").exists()
        raise KeyboardInterrupt

    other = dataclasses.replace(settings, ngram=1)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(unfinished.shutil, "rmtree", killed)
        prepare(settings, show_progress=False)
    assert list((folder(settings) / ".train.tfrecord.scratch").glob("0*.json"))
    with pytest.raises(InputError, match="written with --ngram=3, not 1. Add --overwrite"):
        prepare(other, show_progress=False)
    prepare(dataclasses.replace(other, overwrite=True), show_progress=False)
    elsewhere = dataclasses.replace(other, output_file=str(tmp_path / "elsewhere" / "train.tfrecord"))
    prepare(elsewhere, show_progress=False)
    assert without_manifest(contents(folder(settings))) == without_manifest(contents(folder(elsewhere)))


@pytest.mark.very_slow
def test_files_that_a_power_failure_left_empty(settings, expected, small_parts, monkeypatch):
    for ngram, name in ((1, "plan.json"), (3, "000001.json")):  # without its plan, work is never resumed
        leave_unfinished(dataclasses.replace(settings, ngram=ngram), monkeypatch)
        (folder(settings) / ".train.tfrecord.scratch" / name).write_bytes(b"")
        prepare(settings, show_progress=False)
        assert without_manifest(contents(folder(settings))) == expected


@pytest.mark.slow
@pytest.mark.parametrize("workers", all_but_very_slow([1, 2], [1]))
def test_an_interrupted_mixture(settings, small_parts, monkeypatch, tmp_path, workers):
    """The second corpus gets so many passes that several parts share them."""
    small = write_story(tmp_path / "small.txt", documents=3, seed=2)
    mixed = dataclasses.replace(settings, input_file=f"{settings.input_file},{small}", input_weights="1,3")
    whole = dataclasses.replace(mixed, output_file=str(tmp_path / "whole" / "train.tfrecord"))
    prepare(whole, show_progress=False)
    monkeypatch.setattr(local, "_PASSES_TOGETHER", 7)
    leave_unfinished(mixed, monkeypatch)
    content = small.read_bytes()
    small.write_bytes(content + b"More.\nAnd more.\n")  # changes the passes over every document
    with pytest.raises(InputError, match=r"other text: it differs from .*long.txt, line 1 on"):
        prepare(mixed, show_progress=False)
    small.write_bytes(content)
    with pytest.raises(InputError, match="input_weights=1,3. Received 3,1"):
        prepare(dataclasses.replace(mixed, input_weights="3,1"), show_progress=False)
    prepare(dataclasses.replace(mixed, workers=workers), show_progress=False)
    assert without_manifest(contents(folder(mixed))) == without_manifest(contents(folder(whole)))


def leave_unfinished(settings, monkeypatch, at="_write_shards"):
    with monkeypatch.context() as patch:
        patch.setattr(local, at, interrupt)
        with pytest.raises(KeyboardInterrupt):
            prepare(settings, show_progress=False)


def interrupt(*_):
    raise KeyboardInterrupt


@pytest.mark.slow
def test_a_bad_file_keeps_what_is_finished(settings, expected, small_parts, tmp_path):
    """The text in three files, the one in the middle damaged at first."""
    text = Path(settings.input_file).read_bytes()
    cut = [0, *(text.index(b"\n\n", len(text) * i // 3) + 2 for i in (1, 2)), len(text)]
    names = [tmp_path / f"{name}.txt" for name in "abc"]
    for i, name in enumerate(names):
        name.write_bytes(text[cut[i] : cut[i + 1]])
    good = names[1].read_bytes()
    names[1].write_bytes(good[:-2] + b"\xff\n")
    settings = dataclasses.replace(settings, input_file=f"{tmp_path}/[abc].txt")
    with pytest.raises(
        InputError, match=f"b.txt has the byte 0xff at offset {len(good) - 2}.*Finished work is kept in"
    ):
        prepare(settings, show_progress=False)
    assert list(folder(settings).glob(".train.tfrecord.scratch/0*.json"))
    names[1].write_bytes(good)
    prepare(settings, show_progress=False)
    assert without_manifest(contents(folder(settings))) == expected


@pytest.mark.slow
def test_only_one_run_at_a_time(settings, monkeypatch):
    def second(*_):
        prepare(settings, show_progress=False)

    monkeypatch.setattr(local, "_write_shards", second)
    with pytest.raises(InputError, match="Only one run may write the same files"):
        prepare(settings, show_progress=False)


def test_a_long_document_is_cut_between_sentences():
    document = Document(tuple(f"Sentence {i}." for i in range(100)), "book", 1500)
    pieces = list(cut_document(document, 200))
    assert [s for piece in pieces for s in piece.sentences] == list(document.sentences)
    assert all(sum(map(len, piece.sentences)) <= 200 for piece in pieces)
    assert len(pieces) == 7
    assert sum(piece.num_bytes for piece in pieces) == 1500
    assert list(cut_document(Document(("x" * 300, "y")), 200)) == [Document(("x" * 300,)), Document(("y",))]


def test_stretches_of_texts():
    texts = [Text(("x" * 9,) * n) for n in (1, 3, 2, 1)]
    stretches = text_stretches(texts, 30, lambda text: text.num_characters)
    assert [[len(text.paragraphs) for text in stretch] for stretch in stretches] == [[1, 3], [2, 1]]
    assert list(text_stretches([], 30, lambda text: 1)) == []


def test_long_prose_is_cut_before_and_after_it_is_split(tmp_path, monkeypatch):
    monkeypatch.setattr(text_documents, "MAX_DOCUMENT_CHARACTERS", 200)
    monkeypatch.setattr(text_documents, "MAX_SENTENCES", 6)
    paragraphs = [f"Paragraph {i}. It has two sentences." for i in range(40)]
    (tmp_path / "book.txt").write_text("\n\n".join(paragraphs))
    texts = list(read_texts([tmp_path / "book.txt"], "prose"))
    assert [paragraph for text in texts for paragraph in text.paragraphs] == paragraphs
    assert all(text.num_characters <= 200 + len(paragraphs[-1]) for text in texts)
    documents = [document for text in texts for document in text.documents()]
    assert [s for document in documents for s in document.sentences] == " ".join(paragraphs).replace(
        ". ", ".\n"
    ).split("\n")
    assert max(len(document.sentences) for document in documents) == 6
    assert sum(document.num_bytes for document in documents) == (tmp_path / "book.txt").stat().st_size


def test_a_part_of_short_documents_has_no_more_records_than_others(settings, small_parts, monkeypatch):
    Path(settings.input_file).write_text("A captain.\nHe sailed.\n\n" * 60)  # two lines become 512 tokens
    written = []
    write = Part.write

    def watched(part, records, *others):
        written.append(sum(map(len, records)))
        write(part, records, *others)

    monkeypatch.setattr(Part, "write", watched)
    prepare(dataclasses.replace(settings, max_seq_length=512), show_progress=False)
    assert max(written) < 70_000
    assert len(written) > 4


@pytest.mark.slow
def test_a_worker_that_is_killed_fails_the_run(settings, small_parts, expected):
    settings = dataclasses.replace(settings, workers=2, dupe_factor=40)
    run = subprocess.Popen(command(settings), cwd=ROOT, stderr=subprocess.PIPE, text=True)
    scratch = folder(settings) / ".train.tfrecord.scratch"
    while not list(scratch.glob("0*.json")):
        assert run.poll() is None
        time.sleep(0.002)
    os.kill(a_worker_of(run.pid), signal.SIGKILL)
    _, error = run.communicate(timeout=60)
    assert run.returncode == 2
    assert error.startswith("albert: All worker processes must run until their work is done.")
    assert not contents(folder(settings))


def a_worker_of(pid):
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    (worker, *_) = [c for c in children if b"spawn_main" in Path(f"/proc/{c}/cmdline").read_bytes()]
    return int(worker)


@pytest.mark.slow
def test_a_corrupt_archive_in_the_middle_of_a_glob(settings, expected, tmp_path, small_parts, capsys):
    """The error names file and place, finished work is kept, and a good copy is enough to resume."""
    lines = Path(settings.input_file).read_bytes().split(b"\n\n")
    for number, part in enumerate((lines[:100], lines[100:200], lines[200:])):
        (tmp_path / f"part{number}.txt.gz").write_bytes(gzip.compress(b"\n\n".join(part) + b"\n\n"))
    good = (tmp_path / "part1.txt.gz").read_bytes()
    (tmp_path / "part1.txt.gz").write_bytes(good[:2000] + b"\xff" * 100 + good[2100:])
    globbed = dataclasses.replace(settings, input_file=f"{tmp_path}/part*.txt.gz")

    flags = [f"--{name}={value}" for name, value in dataclasses.asdict(globbed).items() if value is not None]
    flags = [flag for flag in flags if "=True" not in flag]
    assert main(["prepare", *flags]) == 2
    message = capsys.readouterr().err
    assert (
        f"{tmp_path}/part1.txt.gz is not a complete .gz file: it is damaged or cut off at or before byte"
        in message
    )
    assert list((folder(settings) / ".train.tfrecord.scratch").glob("0*.json"))
    assert not list(folder(settings).glob("train.tfrecord-*"))

    (tmp_path / "part1.txt.gz").write_bytes(good)
    assert main(["prepare", *flags]) == 0
    assert without_manifest(contents(folder(settings))) == expected


def test_a_file_system_without_locks(tmp_path, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", flock)
    with unfinished.unfinished_folder(tmp_path / "scratch", {}) as work:
        assert work.is_dir()
    assert not work.exists()
