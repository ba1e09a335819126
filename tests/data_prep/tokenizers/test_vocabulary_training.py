import dataclasses
import errno
import json
from pathlib import Path
from textwrap import wrap

import numpy as np
import pytest

from albert_cli.cli import main
from data_prep.errors import InputError
from data_prep.tokenizers import vocabulary_training
from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer
from data_prep.tokenizers.normalization import RELEASED, Normalization
from data_prep.tokenizers.vocabulary import Vocabulary
from data_prep.tokenizers.vocabulary_report import measure_vocabulary, report_table
from data_prep.tokenizers.vocabulary_training import (
    Reservoir,
    VocabularySettings,
    _samples,
    read_report,
    train_vocabulary,
)

FIRST = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", "(", ")", '"', "-", ".", "–", "£", "€"]


def test_symbols_equal_the_released_vocabulary(model_file, real_model_file):
    assert list(AlbertTokenizer(model_file).pieces[:13]) == FIRST
    assert list(AlbertTokenizer(real_model_file).pieces[:13]) == FIRST


def test_size_and_listing(model_file):
    tokenizer = AlbertTokenizer(model_file)
    assert tokenizer.vocab_size == 100
    rows = [row.split("\t") for row in model_file.with_suffix(".vocab").read_text("utf-8").splitlines()]
    assert [row[0] for row in rows] == list(tokenizer.pieces)
    assert rows[2] == ["[CLS]", "0"]
    assert float(rows[20][1]) < 0


def test_text_is_normalized_before_training(model_file, story, tmp_path):
    pieces = AlbertTokenizer(model_file).pieces
    assert not any("É" in piece or "é" in piece or piece.lower() != piece for piece in pieces[13:])
    cased = VocabularySettings(str(story), str(tmp_path / "cased"), vocab_size=100, do_lower_case=False)
    assert any(piece.lower() != piece for piece in AlbertTokenizer(train_vocabulary(cased)).pieces[13:])


def test_accents_are_kept_on_request(tmp_path):
    text = tmp_path / "text.txt"
    lines = "Schöne Bücher, süße Früchte\nschöne süße Äpfel\nGrüße über Grüße\nこれが これが ある\n"
    text.write_text(lines * 50)
    for keep, letters in ((True, "öüäが"), (False, "ouaか")):
        settings = VocabularySettings(str(text), f"{tmp_path}/own{keep}", vocab_size=42, keep_accents=keep)
        vocabulary = Vocabulary.read(train_vocabulary(settings))
        assert vocabulary.normalization == Normalization(keep_accents=keep)
        assert read_report(Path(vocabulary.file)).unknown_rate == 0
        pieces = "".join(vocabulary.tokenizer().pieces)
        assert set(letters) <= set(pieces) and ("ö" in pieces) == keep


def test_the_measured_sentences_do_not_decide_the_vocabulary(tmp_path):
    """Not even if both are samples of more."""
    text = tmp_path / "text.txt"
    text.write_text("".join(f"{i:x} {i * i:x} {i**3:x}\n" for i in range(3000)))

    def model(most):
        prefix = str(tmp_path / f"measured{most}")
        settings = VocabularySettings(str(text), prefix, 60, max_sentences=200, max_eval_sentences=most)
        return train_vocabulary(settings).read_bytes()

    assert model(1) == model(1000)


def test_same_text_same_bytes(model_file, story, tmp_path):
    again = train_vocabulary(VocabularySettings(str(story), str(tmp_path / "new" / "again"), vocab_size=100))
    assert again == tmp_path / "new" / "again.model"
    assert again.read_bytes() == model_file.read_bytes()
    names = sorted(path.name for path in again.parent.iterdir())
    assert names == ["again.model", "again.report.json", "again.vocab"]


def sampled_from(items, size, seed):
    reservoir = Reservoir(size, np.random.default_rng(seed))
    for item in items:
        reservoir.add(item)
    return reservoir.sample


def test_samples():
    sentences = [str(i) for i in range(100)]
    assert sampled_from(sentences, 100, 0) == sentences
    assert sampled_from([], 5, 0) == []
    times = np.zeros(100)
    for seed in range(400):
        sample = sampled_from(iter(sentences), 10, seed)
        assert len(set(sample)) == 10
        times[[int(sentence) for sentence in sample]] += 1
    # 40 each, with a standard deviation of 6.
    assert 15 < times.min() <= times.max() < 70


def numbered_text(tmp_path, lines=3000):
    words = ["river", "mountain", "winter", "garden", "letter", "captain", "evening", "window"]
    rng = np.random.default_rng(0)
    text = (f"the {rng.choice(words)} of {rng.choice(words)} number {i}.\n" for i in range(lines))
    (tmp_path / "numbered.txt").write_text("".join(text) * 2)
    return tmp_path / "numbered.txt"


def test_report_on_held_out_sentences(tmp_path):
    file = numbered_text(tmp_path)
    settings = VocabularySettings(str(file), str(tmp_path / "v"), vocab_size=60, max_sentences=500)
    report = read_report(train_vocabulary(settings))
    assert report.measured_on == "held-out sentences"
    assert report.trained_sentences == 500
    # One line in a hundred; each occurs twice, both times on the same side.
    assert 2 * 10 < report.sentences < 2 * 60
    assert report.sentences % 2 == 0
    assert report.words == 6 * report.sentences
    assert report.character_coverage == 1
    assert report.unknown_rate == 0
    assert report.pieces_per_word == report.pieces / report.words > 1


def test_a_mixture_is_sampled_by_its_weights(tmp_path):
    """Of the sample's characters, not of its sentences."""
    short, long = ("The river froze.", "An evening in the garden, with letters from a captain.")
    for name, sentence, number in (("short", short, 300), ("long", long, 2000)):
        (tmp_path / name).write_text(f"{sentence}\n" * number)
    settings = VocabularySettings(f"{tmp_path}/short,{tmp_path}/long", "unused", input_weights="3,1")
    for most in (10_000_000, 500):
        settings = dataclasses.replace(settings, max_sentences=most, eval_file=f"{tmp_path}/short")
        sample, _, _ = _samples(settings)
        counts = np.array([sample.count(short), sample.count(long)])
        assert counts.sum() == min(most, len(sample))
        share = counts[0] * len(short) / (counts @ [len(short), len(long)])
        assert share == pytest.approx(0.75, abs=0.05)
    assert sample == _samples(settings)[0]


def test_report_on_another_text(tmp_path):
    file = numbered_text(tmp_path)
    (tmp_path / "other.txt").write_text("The river \u5b57\u5b57 of Ω.\n")
    settings = VocabularySettings(str(file), f"{tmp_path}/v", 60, eval_file=f"{tmp_path}/other.txt")
    report = read_report(train_vocabulary(settings))
    assert (report.measured_on, report.trained_sentences, report.sentences) == ("eval_file", 6000, 1)
    assert report.unknown_characters == {"\u5b57": 2, "ω": 1}
    assert report.character_coverage == 1 - 3 / 14
    assert report.unknown_rate == 2 / report.pieces  # adjacent unknown characters are one <unk>
    assert "unknown characters" in [str(cell) for cell in report_table(report).columns[0].cells]


def test_a_short_text_is_measured_on_itself(tmp_path):
    (tmp_path / "t").write_text("A river. The mountain is high.\n")
    settings = VocabularySettings(str(tmp_path / "t"), str(tmp_path / "v"), 27, random_seed=-1)
    report = read_report(train_vocabulary(settings))
    assert (report.measured_on, report.sentences) == ("training sentences", 1)
    nothing = measure_vocabulary((tmp_path / "v.model").read_bytes(), [], RELEASED, "eval_file", 5)
    assert (nothing.character_coverage, nothing.unknown_rate, nothing.pieces_per_word) == (1, 0, 0)


@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        ("de", "Der Bär {} wohnt schön über dem großen Fluß."),
        ("zh", "第{}天，我们走过了很长的路。他说：你好！"),
        ("ja", "吾輩は{}匹の猫である。名前はまだ無い。"),
    ],
)
def test_other_languages(tmp_path, language, sentence):
    (tmp_path / "t.jsonl").write_text(
        "".join(json.dumps({"body": sentence.format(i) * 3}) + "\n" for i in range(400))
    )
    flags = {"vocab_size": 58, "language": language, "text_field": "body", "character_coverage": 0.9995}
    model_file = train_vocabulary(VocabularySettings(f"{tmp_path}/t.jsonl", f"{tmp_path}/v", **flags))
    report = read_report(model_file)
    assert report.trained_sentences >= 800
    assert report.character_coverage == 1
    assert AlbertTokenizer(model_file).encode(sentence.format(7))


def test_hard_wrapped_text_is_reported(story, tmp_path, caplog):
    text = tmp_path / "novel.txt"
    text.write_text(
        "\n\n".join("\n".join(wrap(line * 3, 60)) for line in story.read_text("utf-8").split("\n"))
    )
    settings = VocabularySettings(str(text), str(tmp_path / "v"), vocab_size=60)
    train_vocabulary(settings)
    assert "break off inside a sentence" in caplog.text
    caplog.clear()
    train_vocabulary(dataclasses.replace(settings, input_format="prose", overwrite=True))
    assert not caplog.text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocab_size": 99_999_999_999_999}, "--vocab_size must be at most 10,000,000"),
        ({"vocab_size": 13}, "larger than ALBERT's 13 symbols. Received 13"),
        ({"vocab_size": 5000}, r"Received 5000; this text supports at most \d+"),
        ({"vocab_size": 20}, "room for the text's characters. Received 20"),
        ({"character_coverage": 0.5}, "`character_coverage` must lie"),
        ({"max_sentences": 0}, "--max_sentences must be at least 1"),
        ({"max_eval_sentences": 0}, "--max_eval_sentences must be at least 1"),
        ({"input_weights": "1"}, "A mixture needs several patterns"),
        ({"input_file": "-,/dev/null", "input_exponent": 0.3}, "A mixture reads the text twice"),
        ({"eval_file": "/nowhere.txt"}, "no input file /nowhere.txt"),
        ({"input_file": "/nowhere.txt"}, "no input file"),
        ({"output_prefix": "vocab/"}, "`output_prefix` must end with a name.*Received 'vocab/'"),
        ({"output_prefix": f"{__file__}/v"}, "must lie in a folder.*test_vocabulary_training.py is a file"),
    ],
)
def test_bad_settings(story, tmp_path, change, message):
    settings = {"input_file": str(story), "output_prefix": str(tmp_path / "bad"), "vocab_size": 100, **change}
    with pytest.raises(InputError, match=message):
        train_vocabulary(VocabularySettings(**settings))
    assert list(tmp_path.iterdir()) == []


def test_other_settings_replace_a_vocabulary_on_request_only(story, tmp_path):
    settings = VocabularySettings(str(story), str(tmp_path / "v"), vocab_size=100)
    path = train_vocabulary(settings)
    first = path.read_bytes()
    train_vocabulary(settings)  # the same command
    smaller = dataclasses.replace(settings, vocab_size=90)
    with pytest.raises(InputError, match="v.model, trained with --vocab_size=100, not 90. Add --overwrite"):
        train_vocabulary(smaller)
    measured = dataclasses.replace(settings, eval_file=str(story))
    with pytest.raises(InputError, match="v.model, trained with no --eval_file, which is given now. Add"):
        train_vocabulary(measured)  # on all sentences
    path.with_suffix(".report.json").rename(tmp_path / "report")
    with pytest.raises(InputError, match="without a report, .* Received .*v.model. Add --overwrite"):
        train_vocabulary(settings)
    (tmp_path / "report").rename(path.with_suffix(".report.json"))
    assert path.read_bytes() == first
    assert train_vocabulary(dataclasses.replace(smaller, overwrite=True)).read_bytes() != first


def test_a_full_disk_leaves_nothing(story, tmp_path, monkeypatch):
    def write_json(path, value):
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(vocabulary_training, "write_json", write_json)
    with pytest.raises(OSError, match="No space left"):
        train_vocabulary(VocabularySettings(str(story), str(tmp_path / "new" / "spm"), vocab_size=100))
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("name", "raw", "message"),
    [
        ("a.jsonl", b'{"text": "One."}\n{"txt": "Two."}\n', "a.jsonl, line 2 has no 'text', only: txt"),
        ("a.txt", "\u0301\n\u200b\n".encode(), "A vocabulary needs text"),
    ],
)
def test_bad_input_is_reported_in_one_line(tmp_path, capsys, name, raw, message):
    (tmp_path / name).write_bytes(raw)
    arguments = [f"--input_file={tmp_path}/{name}", f"--output_prefix={tmp_path}/new/v", "--vocab_size=50"]
    assert main(["vocab", *arguments]) == 2
    output, error = capsys.readouterr()
    assert (output, error.count("\n")) == ("", 1)
    assert message in error
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_the_command(tmp_path, story, capsys, standard_input):
    standard_input(story.read_bytes())
    assert main(["vocab", "--input_file=-", f"--output_prefix={tmp_path}/v", "--vocab_size=100"]) == 0
    output, error = capsys.readouterr()
    assert output == f"{tmp_path}/v.model\n"
    assert "character coverage" in error
    assert json.loads((tmp_path / "v.report.json").read_text("utf-8"))["vocab_size"] == 100
