"""The stored tables of offsets. What they compute: test_albert_tokenizer.py."""

import io
import zipfile

import numpy as np
import pytest
import sentencepiece

from data_prep.errors import InputError
from data_prep.tokenizers.charsmap import SEPARATOR
from data_prep.tokenizers.normalization import FoldingTable
from data_prep.tokenizers.offsets import OffsetTables, normalized_characters, visible_characters


@pytest.mark.parametrize("shape", [(1 << 40,), (1 << 27,), (1 << 62, 1 << 62)])
def test_tables_of_more_bytes_than_the_file_has(tmp_path, shape):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|b1", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(tmp_path / "tables.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("rows.npy", header.getvalue() + bytes(min(shape[0], 1 << 27)))
    with pytest.raises(InputError, match="must hold the tables of a tokenizer. It does not: .*bytes"):
        OffsetTables.read(tmp_path / "tables.npz", "a vocabulary")


@pytest.mark.parametrize(
    "changed",
    [
        {"rows": np.zeros((3, 3), np.int32)},
        {"rows": np.zeros(0, np.int32)},
        {"rows": np.zeros(9, np.int64)},
        {"rows": np.full(9, 1, np.int32)},
        {"rows": np.full(9, -1, np.int32)},
        {"splits": np.array([1, 9], np.int32)},
        {"splits": np.array([0, 8], np.int32)},
        {"splits": np.array([0, 9, 8, 9], np.int32)},
        {"visible": np.ones(9, np.int32)},
    ],
)
def test_other_arrays_are_refused(changed, tmp_path):
    arrays = {"rows": np.zeros(9, np.int32), "splits": np.array([0, 9], np.int32)}
    arrays |= {"values": np.arange(9, dtype=np.int32), "visible": np.ones(9, bool)} | changed
    folding = FoldingTable(arrays["rows"], arrays["splits"], arrays["values"])
    OffsetTables(folding, arrays["visible"]).write(tmp_path / "tables.npz", "a vocabulary")
    with pytest.raises(InputError, match="It holds other arrays"):
        OffsetTables.read(tmp_path / "tables.npz", "a vocabulary")


@pytest.mark.slow
@pytest.mark.parametrize("flipped", [0, 6])
def test_damaged_tables(tmp_path, flipped):
    """A flipped bit is an InputError, unless it is in a date or in the like."""
    numbers = np.arange(9, dtype=np.int32)
    path = tmp_path / "tables.npz"
    folding = FoldingTable(numbers * 0, np.array([0, 9], np.int32), numbers)
    OffsetTables(folding, np.ones(9, bool)).write(path, "a vocabulary")
    good = path.read_bytes()
    for place in range(len(good)):
        path.write_bytes(good[:place] + bytes([good[place] ^ 1 << flipped]) + good[place + 1 :])
        try:
            np.testing.assert_array_equal(OffsetTables.read(path, "a vocabulary").folding.values, numbers)
        except InputError as error:
            assert "must hold the tables of" in str(error)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["nmt_nfkc_cf", pytest.param("identity", marks=pytest.mark.very_slow)])
def test_characters_that_are_left_out_are_unchanged(rule):
    """Against the model's own normalization of every character."""
    output = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        **{"sentence_iterator": iter(["a b"]), "model_writer": output, "model_type": "char", "vocab_size": 6},
        **{"normalization_rule_name": rule, "user_defined_symbols": ["\u00bd"], "minloglevel": 2},
    )
    model = sentencepiece.SentencePieceProcessor(model_proto=output.getvalue())
    characters = [chr(i) for i in range(0x110000) if not 0xD800 <= i < 0xE000 and chr(i) != SEPARATOR]
    texts = model.normalize(SEPARATOR + SEPARATOR.join(characters) + SEPARATOR).split(SEPARATOR)[1:-1]
    normalized, visible = normalized_characters(model), visible_characters(model)
    for character, text in zip(characters, texts, strict=True):
        assert normalized.get(character, character) == text
        assert visible[min(ord(character), len(visible) - 1)] == bool(text.replace("\u2581", "").strip())
