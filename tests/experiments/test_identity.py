import numpy as np
import pytest

from experiments.identity import HARD, SYLLABLES, compared, lines_by_rule
from experiments.identity_consumers import Missing, Outputs, run_javascript, run_peer


def test_lines_follow_a_rule():
    texts = lines_by_rule(800)
    assert texts == lines_by_rule(800)
    assert {language: len(lines) for language, lines in texts.items()} == dict.fromkeys(SYLLABLES, 100)
    joined = " ".join(line for lines in texts.values() for line in lines)
    assert sum(hard in joined for hard in HARD) > 20


def test_rows_are_compared_where_ids_are_equal():
    ids, types = [[2, 5, 3], [2, 6, 3], [2, 5, 3, 6, 3]], [[0, 0, 0], [0, 0, 0], [0, 0, 0, 1, 1]]
    ours = Outputs("ours", np.eye(3), ids, types)
    theirs = Outputs("theirs", np.add(np.eye(3), [[0], [5], [1e-6]]), [ids[0], [2, 1, 3], ids[2]], types)
    cells, share, largest = compared(theirs, ours, 2)
    assert cells[:4] == ["theirs", "50.00%", "100.00%", "1.0e-06"]
    assert (share, largest) == (pytest.approx(2 / 3), pytest.approx(1e-6))
    assert compared(Outputs("ids", np.eye(3)), ours, 2)[0][1:4] == ["takes ids", "takes ids", "0.0e+00"]
    without_types = theirs._replace(types=[[0] * len(row) for row in ids])
    assert compared(without_types, ours, 2)[0][2] == "0.00%"
    assert compared(Outputs("lines", np.eye(3)[:2], ids[:2], types[:2]), ours, 2)[0][2] == "none"


def test_what_is_not_installed_is_skipped(tmp_path):
    with pytest.raises(Missing, match="--transformers_js is not given"):
        run_javascript("", tmp_path, [])
    with pytest.raises(Missing, match="no-such-library is not installed for --peers="):
        run_peer("python3", "no_such_library", tmp_path, [])
