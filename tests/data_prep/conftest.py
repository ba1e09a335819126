"""A small generated text and its vocabulary, for all data tests."""

from pathlib import Path

import numpy as np
import pytest

from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer
from data_prep.tokenizers.vocabulary_training import VocabularySettings, train_vocabulary

SUBJECTS = ["the captain", "our old gardener", "a quiet neighbour", "her youngest brother", "the café owner"]
VERBS = ["sailed past", "looked after", "had forgotten", "would never sell", "painted", "carefully unpacked"]
OBJECTS = ["the lighthouse", "twelve empty bottles", "an unremarkable letter", "300 apples", "those clocks"]
ENDS = [".", "!", ", in 1987.", " (without asking).", "; nobody noticed.", ", for £3,000.", " on 24 or 56."]


def write_story(path: Path, documents: int = 12, sentences: int = 25, seed: int = 0) -> Path:
    """Writes documents of 2 to `sentences` sentences in the "lines" format."""
    rng = np.random.default_rng(seed)
    with path.open("w", encoding="utf-8") as file:
        for _ in range(documents):
            for _ in range(rng.integers(2, sentences + 1)):
                words = " ".join(str(rng.choice(part)) for part in (SUBJECTS, VERBS, OBJECTS))
                file.write(words.capitalize() + str(rng.choice(ENDS)) + "\n")
            file.write("\n")
    return path


@pytest.fixture(scope="session")
def story(tmp_path_factory) -> Path:
    return write_story(tmp_path_factory.mktemp("story") / "story.txt")


@pytest.fixture(scope="session")
def model_file(story, tmp_path_factory) -> Path:
    prefix = tmp_path_factory.mktemp("vocabulary") / "story"
    return train_vocabulary(VocabularySettings(str(story), str(prefix), vocab_size=100))


@pytest.fixture(scope="session")
def tokenizer(model_file) -> AlbertTokenizer:
    return AlbertTokenizer(model_file)


@pytest.fixture(scope="session")
def real_model_file() -> Path:
    path = Path(__file__).parents[3] / "shared/data/albert_vocab/30k-clean.model"
    if not path.is_file():
        pytest.skip(f"the released ALBERT vocabulary is not at {path}")
    return path
