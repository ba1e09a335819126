"""The comparison of tokenizers, on lines whose accents matter."""

import json

import pytest

from data_prep.errors import InputError
from experiments.tokenizer_agreement import AgreementSettings, differences_by_rule, main, spread_lines


@pytest.mark.very_slow
def test_class_graph_and_export_agree(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("Schöne Bücher, 5, 6.\n\nDie Königin (groß) war müde.\n" * 20, "utf-8")
    result = main(AgreementSettings((f"de={tmp_path}/*.txt",), vocab_size=36))
    assert json.loads(capsys.readouterr().out) == result
    found = result["de"]
    assert found["lines"] == 40
    assert found["pieces"] > 400
    assert found["graph"] == found["export"] == 0


def test_a_difference_is_counted_once():
    lines = ["5, (6)", "(7)", "``eight''", "nine", "ten"]
    found = differences_by_rule(lines, [[1], [2], [3], [4], [5]], [[0], [0], [0], [0], [5]])
    rules = [
        "digit and comma",
        "characters of added symbols",
        "quotes of backquotes or apostrophes",
        "no rule",
    ]
    assert found == dict.fromkeys(rules, 1)


@pytest.mark.parametrize(
    ("most", "chosen"),
    [
        (4, ["0", "25", "50", "75"]),
        (51, [str(i * 100 // 51) for i in range(51)]),
        (200, [*map(str, range(100))]),
    ],
)
def test_lines_are_spread(tmp_path, most, chosen):
    (tmp_path / "a.txt").write_text("\n".join(f" {number}\n" for number in range(100)))
    assert spread_lines([tmp_path / "a.txt"], most) == chosen


def test_a_language_needs_files():
    with pytest.raises(InputError, match="LANGUAGE=FILES. Received 'de'"):
        main(AgreementSettings(("de",)))
