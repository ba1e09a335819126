from pathlib import Path

import numpy as np
import pytest

from data_prep.console import NO_SUGGESTIONS
from data_prep.errors import InputError
from data_prep.text.documents import Document
from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer
from data_prep.tokenizers.vocabulary_flags import VocabularySettings
from data_prep.tokenizers.vocabulary_training import train_vocabulary
from examples.demo import corpus
from examples.demo.__main__ import (
    Paths,
    count_tokens,
    fill_masks,
    heldout_masks,
    main,
    make_corpus,
    phase_steps,
    vocabulary_flags,
)
from examples.demo.corpus import write_corpus
from tests.processes import run_python
from tests.story import write_story


def test_little_text_is_read_less_often_in_long_sequences():
    assert phase_steps(10_000_000, None) == {32: 1400, 128: 2100}
    assert phase_steps(200_000, None) == {32: 1171, 128: 781}  # 12 and 8 passes of 2,048 tokens a step
    assert phase_steps(200_000, 100) == {32: 60, 128: 40}
    assert phase_steps(1_000, None) == {32: 50, 128: 50}


@pytest.mark.slow
def test_a_vocabulary_has_room_for_the_characters(tmp_path):
    """Of a script with thousands, like Chinese; a text in Latin letters has pieces by its size."""
    rng = np.random.default_rng(0)
    ideographs = [chr(0x4E00 + i) for i in range(2500)]
    for name, letters, size in (("Chinese", ideographs, 60_000), ("Latin", [*"abcdefgh "], 100_000)):
        frequencies = 1 / np.arange(1, len(letters) + 1)
        text = "".join(rng.choice(letters, size, p=frequencies / frequencies.sum()))
        sentences = [text[i : i + 40] for i in range(0, size, 40)]
        documents = [Document(tuple(sentences[i : i + 50]), f"{i}") for i in range(0, len(sentences), 50)]
        written = write_corpus(documents, tmp_path / name)
        vocab_size, flags = vocabulary_flags(written)
        settings = VocabularySettings(
            f"{written.train}", f"{tmp_path / name}/spm", vocab_size=vocab_size, **flags
        )
        train_vocabulary(settings)
        assert flags == ({"character_coverage": 0.9995} if name == "Chinese" else {})
        assert 2000 < vocab_size < 4000 if name == "Chinese" else vocab_size == written.num_bytes // 500


def test_text_without_spaces_has_no_words_to_mask(tmp_path, capsys):
    (tmp_path / "heldout.txt").write_text("今天天气很好我们去公园散步。\n他说他明天会来看我们。\n", "utf-8")
    assert [*heldout_masks(tmp_path / "heldout.txt")] == []
    fill_masks(Paths(tmp_path), [])
    assert capsys.readouterr().out == "no held-out sentence has 6 to 14 words, so none is shown\n"


def test_the_folder_of_an_interrupted_demo_is_a_demos(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    paths, text = Paths(tmp_path / "demo"), tmp_path / "text.txt"
    text.write_text("Only one.")
    with pytest.raises(InputError):
        make_corpus(text, paths)
    assert not paths.root.exists()
    text.write_text("\n\n".join(f"This is sentence {i}. It goes on." for i in range(200)))
    monkeypatch.setattr(corpus, "Counter", interrupt)
    with pytest.raises(KeyboardInterrupt):
        make_corpus(text, paths)
    assert [*paths.corpus.iterdir()]
    paths.check()


@pytest.fixture
def folder(tmp_path) -> Path:
    """Holds a user's text, in a folder of its own."""
    (tmp_path / "text").mkdir()
    write_story(tmp_path / "text" / "story [draft].txt", documents=30)
    return tmp_path


def assert_shows_the_whole_journey(folder: Path, masking: str) -> None:
    """A demo of ten steps on the user's text."""
    flags = (f"--output={folder}/demo", "--steps=10", f"--masking={masking}")
    printed = run_python("-m", "examples.demo", f"--text={folder}/text", *flags, timeout=500)
    assert "sentence-order accuracy" in printed
    assert "(story [draft].txt, piece" in printed
    assert printed.count("[MASK]") == 5
    made = {path.name for path in (folder / "demo").iterdir()}
    assert made >= {"corpus", "vocabulary", "examples", "run", "learning_curve.png", "saved_model"}
    assert (folder / "demo" / "learning_curve.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.very_slow
@pytest.mark.journey
def test_the_whole_journey_on_the_users_text(folder):
    assert_shows_the_whole_journey(folder, "dynamic")


@pytest.mark.very_slow
def test_another_demo_replaces_the_files(folder):
    """And its steps follow the text, not the copies of it."""
    paths = Paths(folder / "demo")
    make_corpus(folder / "text", paths)
    for old in (paths.run, paths.examples):
        old.mkdir()
        (old / "old").touch()
    assert_shows_the_whole_journey(folder, "static")
    assert not [*paths.root.rglob("old")]
    encode = AlbertTokenizer(paths.spm_model_file).encode
    text = (paths.corpus / "train.txt").read_text("utf-8")
    assert count_tokens(paths) == sum(len(encode(line)) for line in text.splitlines())


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--output={}/mine", "--output must be a new or empty folder"),
        ("--output={}/demo --text={}/none.txt", "There is no input file"),
        ("--output={}/demo --text={}/one.txt", "of two sentences or more"),
        ("--output={}/demo --txt=a", "Did you mean --text?"),
        ("--output={}/demo --steps=1", "--steps must be at least 2. Received 1."),
        ("--output={}/de,mo", "--output must have none of the characters"),
    ],
)
def test_bad_input(flags, message, tmp_path, monkeypatch, capfd):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    (tmp_path / "one.txt").write_text("Only one sentence.")
    monkeypatch.setenv(NO_SUGGESTIONS, "1")  # which `main` sets
    monkeypatch.setattr("sys.argv", ["demo", *flags.replace("{}", str(tmp_path)).split()])
    assert main() == 2
    assert message in " ".join(capfd.readouterr().err.split())
    assert not (tmp_path / "demo").exists()
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "years of work"
