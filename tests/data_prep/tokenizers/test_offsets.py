"""The stored tables of offsets. What they compute: test_albert_tokenizer.py."""

import io
import zipfile

import numpy as np
import pytest

from data_prep.errors import InputError
from data_prep.tokenizers.normalization import FoldingTable
from data_prep.tokenizers.offsets import OffsetTables


@pytest.mark.parametrize("shape", [(1 << 40,), (1 << 27,), (1 << 62, 1 << 62)])
def test_tables_of_more_bytes_than_the_file_has(tmp_path, shape):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|b1", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(tmp_path / "tables.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("rows.npy", header.getvalue() + bytes(min(shape[0], 1 << 27)))
    with pytest.raises(InputError, match="must hold the tables of a tokenizer. It does not: .*bytes"):
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
