"""A small WordPiece vocabulary of 96 pieces, the number of embeddings of the tests' models."""

import pytest

from data_prep.tokenizers.wordpiece_tokenizer import SYMBOLS

PIECES = """
我 喜 欢 在 北 京 transform ##ers ##er ##s cafe caf ##e ou est il the captain apple ##apple 300 30 ##0
un ##aff ##able i a b ##b f ##i ##re 5 , . ! ? - ' " [ ] ， 。 ( ) $ ^ σ ##ς ##σ ο ##δ ##ο ##ss ß が Σ
"""


@pytest.fixture(scope="session")
def vocab_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("wordpiece") / "vocab.txt"
    letters = [*"abcdefghijklmnopqrstuvwxyz", *(f"##{letter}" for letter in "acdhklnort")]
    path.write_text("\n".join(dict.fromkeys([*SYMBOLS, *PIECES.split(), *letters])) + "\n", encoding="utf-8")
    return path
