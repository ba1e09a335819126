"""The comparison of tokenizers, on lines whose accents matter."""

import json

import pytest

from experiments import tokenizer_agreement
from experiments.tokenizer_agreement import KINDS, AgreementSettings, main, spread_lines


@pytest.mark.very_slow
def test_every_way_agrees_or_is_told(tmp_path, capsys, monkeypatch):
    (tmp_path / "a.txt").write_text("Schöne Bücher, 5, 6.\n\nDie Königin (groß) war müde.\n" * 20, "utf-8")
    kinds = [kind for kind in KINDS if kind.name in ("unigram, accents kept", "word")]
    monkeypatch.setattr(tokenizer_agreement, "KINDS", kinds)
    result = main(AgreementSettings((f"de={tmp_path}/*.txt",), vocab_size=12))
    table, _, values = capsys.readouterr().out.partition("\n{")
    assert json.loads("{" + values) == result
    assert len(table.splitlines()) == 2 + 4
    assert result["lines"] == {"de": 40}
    kept = result["unigram, accents kept"]
    assert [kept[way] for way in ("graph", "portable", "written", "written, read")] == ["equal"] * 4
    assert kept["of transformers, read"] == "told: de 20"  # those with parentheses
    assert result["word"]["written"] == "not written"
    assert "its type is WORD" in result["word"]["note"]


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
