import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.examples.manifest import Manifest
from data_prep.examples.prepare_flags import PrepareSettings
from data_prep.inspection.example_batches import read_batches
from data_prep.prepare.local import prepare
from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer
from data_prep.tokenizers.normalization import normalize
from data_prep.tokenizers.vocabulary_flags import VocabularySettings
from data_prep.tokenizers.vocabulary_training import train_vocabulary
from data_prep.tokenizers.word_starts import word_starts
from tests.reference import masking as reference

# Without punctuation, so that white space alone shows the words.
WORDS = {
    "russian": "капитан корабль подводный путешествие возвращался неожиданно вечером разговаривали",
    "greek": "καπετάνιος θάλασσα ταξίδι επέστρεφε ξαφνικά απόγευμα συζητούσαν καράβι",
    "hindi": "जहाज़ समुद्र यात्रा कप्तान अचानक शाम बातचीत लौटना",
    "korean": "선장은 바다에서 돌아왔다 저녁에 갑자기 이야기를 배가 항해했다",
}


@given(st.text(min_size=1, max_size=6))
def test_the_originals_rule_equals_the_oracle(piece):
    assert word_starts((piece,), "original").tolist() == [reference.starts_word(piece)]


def test_pieces_of_many_scripts():
    starting = "▁при ▁ <unk> [CLS] , « — ¿ € + 日本 は カ ไทย ລາວ ខ្មែរ མི <0xE4>"
    continuing = "вет ing s 5 é λό 장은 यात् ा ь <0xB8>"
    pieces = (*starting.split(), *continuing.split())
    expected = [True] * len(starting.split()) + [False] * len(continuing.split())
    found = word_starts(pieces, "unicode").tolist()
    assert dict(zip(pieces, found, strict=True)) == dict(zip(pieces, expected, strict=True))


def _prepared(folder, text, **settings) -> Manifest:
    (folder / "text.txt").write_text(text, encoding="utf-8")
    size = (
        len(set(normalize(text))) + 16
    )  # little more than the symbols and characters: words have many pieces
    vocabulary = VocabularySettings(
        str(folder / "text.txt"), str(folder / "spm"), vocab_size=size, character_coverage=1.0
    )
    model = train_vocabulary(vocabulary)
    output = str(folder / "train.tfrecord")
    flags = {"dupe_factor": 3, "max_seq_length": 64, **settings}
    return prepare(
        PrepareSettings(str(folder / "text.txt"), output, str(model), **flags), show_progress=False
    )


def _words_masked_in_part(folder) -> tuple[int, int]:
    """Of the words that are masked, how many are masked in part, and how many in all."""
    tokenizer = AlbertTokenizer(folder / "spm.model")
    in_part = masked = 0
    for batch in read_batches(folder / "train.tfrecord"):
        for i in range(len(batch.values["input_ids"])):
            example = {name: values[i] for name, values in batch.values.items()}
            ids, real = example["input_ids"].copy(), example["masked_lm_weights"] > 0
            positions = example["masked_lm_positions"][real]
            ids[positions] = example["masked_lm_ids"][real]
            # Independent of the library's rule: a word begins at "▁" and after a symbol.
            begins = [
                tokenizer.pieces[each].startswith("▁") or bool(tokenizer.is_special[each]) for each in ids
            ]
            words = np.cumsum(np.array(begins) | np.append(True, tokenizer.is_special[ids[:-1]]))
            for word in set(words[positions]):
                whole = np.flatnonzero(words == word)
                in_part += not set(whole) <= set(positions)
                masked += 1
    return in_part, masked


@pytest.mark.parametrize("language", WORDS)
def test_no_word_is_masked_in_part(language, tmp_path):
    words, rng = WORDS[language].split(), np.random.default_rng(0)
    lines = [" ".join(rng.choice(words, 8)) for _ in range(60)]
    text = "\n".join(line + ("\n" if i % 10 == 9 else "") for i, line in enumerate(lines))
    assert _prepared(tmp_path, text).settings.word_boundaries == "unicode"
    in_part, masked = _words_masked_in_part(tmp_path)
    assert in_part == 0 and masked > 200
    _prepared(tmp_path, text, word_boundaries="original", overwrite=True)
    assert _words_masked_in_part(tmp_path)[0] > 0.3 * masked


def test_the_released_vocabulary_has_the_originals_rule(real_model_file, tmp_path):
    (tmp_path / "text.txt").write_text("A café.\nOpen at 5.\n")
    output = str(tmp_path / "train.tfrecord")
    settings = PrepareSettings(str(tmp_path / "text.txt"), output, str(real_model_file), dupe_factor=1)
    assert prepare(settings, show_progress=False).settings.word_boundaries == "original"
    assert re.search('"word_boundaries": "original"', (tmp_path / "manifest.json").read_text())
