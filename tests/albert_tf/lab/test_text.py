"""The parts of the text; test_lab_run.py prepares examples."""

import dataclasses
import os

import pytest

from albert_tf.lab.laboratory import Laboratory
from albert_tf.lab.scales import TINY
from albert_tf.lab.settings import LabSettings
from albert_tf.lab.subprocesses import ProgramRunner
from albert_tf.lab.text import LabText, link_files, split_files
from data_prep.errors import InputError


@pytest.fixture
def books(tmp_path):
    folder = tmp_path / "books"
    folder.mkdir()
    for number in range(45):
        (folder / f"book, {number}.txt").write_text(f"Book number {number}.\n")
    return folder


def text(settings: LabSettings) -> LabText:
    return LabText(Laboratory(settings.resolved(TINY), TINY, ProgramRunner()))


def test_one_file_in_twenty_is_held_out_reproducibly(books):
    paths = sorted(books.iterdir())
    train, heldout = split_files(paths)
    assert (len(train), len(heldout)) == (43, 2)
    assert {*train, *heldout} == set(paths)
    assert split_files(paths[::-1]) == (train, heldout)
    assert [len(part) for part in split_files(paths[:3])] == [1, 2]


def test_two_files_cannot_be_split(books):
    with pytest.raises(InputError, match="at least 3 files, of which 2 are held out. Received 2"):
        split_files(sorted(books.iterdir())[:2])


def test_too_few_files_suggest_a_heldout_file(books, tmp_path):
    book = next(books.iterdir())
    with pytest.raises(InputError, match="held out, or set --heldout_file to another text. Received 1"):
        text(LabSettings(str(tmp_path / "lab"), str(book))).paths("train")


def test_a_next_sentence_needs_another_document(books, tmp_path):
    own = tmp_path / "own.txt"
    own.write_text("Held out.\n")
    of_lab = text(LabSettings(str(tmp_path / "lab"), f"{books}/*.txt", heldout_file=str(own)))
    of_lab.check({"train", "heldout"}, {"sop", "none"})
    with pytest.raises(InputError, match="two files to train on and two to hold out. Received 1"):
        of_lab.check({"train", "heldout"}, {"sop", "nsp"})
    lines = text(
        dataclasses.replace(of_lab.lab.settings, input_format="lines")
    )  # a file may have many documents
    lines.check({"train", "heldout"}, {"nsp"})


def test_part_of_the_text_is_a_quarter_of_the_training_text(books, tmp_path):
    of_lab = text(LabSettings(str(tmp_path / "lab"), f"{books}/*.txt"))
    part, train, heldout = (set(of_lab.paths(name)) for name in ("part", "train", "heldout"))
    assert part < train
    assert (len(part), len(train)) == (11, 43)
    assert not train & heldout
    assert not (tmp_path / "lab").exists()


def test_a_given_heldout_file(books, tmp_path):
    own = tmp_path / "own.txt"
    own.write_text("Held out.\n")
    of_lab = text(LabSettings(str(tmp_path / "lab"), f"{books}/*.txt", heldout_file=str(own)))
    assert of_lab.paths("heldout") == [own]
    assert len(of_lab.paths("train")) == 45


def test_heldout_files_are_not_trained_on(books, tmp_path):
    settings = LabSettings(str(tmp_path / "lab"), f"{books}/*.txt", heldout_file=f"{books}/book? 3?.txt")
    of_lab = text(settings)
    train, heldout = of_lab.paths("train"), of_lab.paths("heldout")
    assert (len(train), len(heldout)) == (35, 10)
    assert not set(train) & set(heldout)
    with pytest.raises(InputError, match="--input_file must name files to train on .* all are held out"):
        text(dataclasses.replace(settings, heldout_file=f"{books}/*")).check({"train", "heldout"}, {"sop"})


def test_links_are_to_these_files_and_have_no_commas(books, tmp_path):
    link_files(sorted(books.iterdir())[5:9], tmp_path / "links")  # from an earlier command
    namesake = tmp_path / "book, 1.txt"
    namesake.write_text("Another one of that name.\n")
    paths = [*sorted(books.iterdir())[:3], namesake]
    assert link_files(paths, tmp_path / "links") == f"{tmp_path}/links/*"
    links = sorted((tmp_path / "links").iterdir())
    assert [link.resolve() for link in links] == [path.resolve() for path in paths]
    assert not any("," in link.name for link in links)


def test_names_of_files_need_not_be_utf8(books, tmp_path):
    (books / os.fsdecode(b"caf\xe9.txt")).write_text("A book from an old archive.\n")
    of_lab = text(LabSettings(str(tmp_path / "lab"), f"{books}/*.txt"))
    assert of_lab.check({"train", "heldout"}, {"sop"})


def test_the_hash_identifies_the_files(books, tmp_path):
    of_lab = text(LabSettings(str(tmp_path / "lab"), f"{books}/*.txt"))
    before = of_lab.check({"train", "heldout"}, {"sop"})
    assert of_lab.check({"train", "heldout", "part"}, {"sop"}) == before
    (books / "book, 7.txt").write_text("Book number 7, second edition.\n")
    assert of_lab.check({"train", "heldout"}, {"sop"}) != before


def test_a_quarter_of_three_files_is_none(books, tmp_path):
    glob = link_files(sorted(books.iterdir())[:5], tmp_path / "few")  # two of which are held out
    of_lab = text(LabSettings(str(tmp_path / "lab"), glob))
    with pytest.raises(InputError, match="must be at least 4 to train on. Received 3"):
        of_lab.check({"train", "heldout", "part"}, {"sop"})


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({}, "--input_file must name text. Received none."),
        ({"input_file": "nowhere/*.txt"}, "nowhere"),
        ({"input_file": "tfds:imdb_reviews:train"}, "--input_file must name files, .* Received tfds:imdb"),
        ({"input_file": "books/*", "heldout_file": "-"}, "--heldout_file must name files, .* Received -."),
        ({"input_file": "books/*", "spm_model_file": "no.model"}, "There is no file no.model"),
        ({"input_file": "books/*", "max_seq_length": 3}, "--max_seq_length must be at least 5"),
    ],
)
def test_mistakes_are_reported_before_anything_is_written(books, monkeypatch, flags, message):
    monkeypatch.chdir(books.parent)
    with pytest.raises(InputError, match=message):
        text(LabSettings("lab", **flags)).check({"train", "heldout"}, {"sop"})
    assert list(books.parent.iterdir()) == [books]
