"""Results under other conditions are not shown as those of the command."""

import dataclasses

import pytest

from data_prep.errors import InputError
from experiments import albert_small_en, learning_curve, small_budgets
from experiments.albert_small_en import SmallModelSettings
from experiments.conditions import check_conditions, facts_of
from experiments.downstream import split_by_article
from experiments.learning_curve import CurveSettings
from experiments.small_budgets import BudgetSettings


def test_a_folder_has_the_conditions_of_its_first_command(tmp_path):
    folder = tmp_path / "new" / "output"
    for _ in range(2):
        check_conditions(folder, "one", {"rate": 0.1, "precision": None})
    check_conditions(folder, "other", {"rate": 0.2})
    with pytest.raises(
        InputError, match=r"holds results with --rate of 0.1. Received 0.2; use another --output"
    ):
        check_conditions(folder, "one", {"rate": 0.2, "precision": None})


def test_facts_of_files(tmp_path):
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    one.write_text("a")
    two.write_text("bc")
    assert facts_of([one, two]) == facts_of([two, one])
    assert facts_of([one, two]).startswith("2 files, 3 bytes (")
    before = facts_of([one])
    one.rename(tmp_path / "other.txt")
    assert facts_of([tmp_path / "other.txt"]) != before


def test_budgets_do_not_mix_precisions_or_texts(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("One.\n")
    settings = BudgetSettings(str(text), str(text), tmp_path / "budgets")
    small_budgets.check_same(settings)
    small_budgets.check_same(settings)
    other = BudgetSettings(str(text), str(text), tmp_path / "budgets", mixed_precision="bfloat16")
    with pytest.raises(InputError, match="--mixed_precision of None. Received bfloat16"):
        small_budgets.check_same(other)
    text.write_text("One. Two.\n")
    with pytest.raises(InputError, match="--train_file of 1 files, 5 bytes .* Received 1 files, 10 bytes"):
        small_budgets.check_same(settings)


def test_results_are_not_shown_as_those_of_other_flags(tmp_path, monkeypatch):
    class StoppedError(Exception):
        """In place of the work after the check."""

    def stop(*_):
        raise StoppedError

    monkeypatch.setattr(learning_curve, "link_books", stop)
    monkeypatch.setattr(albert_small_en, "link_files", stop)
    for name in ("a.txt", "b.txt", "c.txt"):
        (tmp_path / name).write_text("One. Two.\n")
    books, output = f"{tmp_path}/*.txt", tmp_path / "output"
    for main, settings in (
        (learning_curve.main, CurveSettings(books, output)),
        (albert_small_en.main, SmallModelSettings(books, books, output)),
    ):
        for _ in range(2):
            with pytest.raises(StoppedError):
                main(settings)
        with pytest.raises(InputError, match=r"holds results with --learning_rate of 0\.\d+. Received 0.5"):
            main(dataclasses.replace(settings, learning_rate=0.5))


def test_another_squad_file_is_not_ignored(tmp_path):
    def squad(name, version="1.1"):
        articles = ",".join(f'{{"title": "{name}{i}", "paragraphs": []}}' for i in range(5))
        path = tmp_path / f"{name}.json"
        path.write_text(f'{{"version": "{version}", "data": [{articles}]}}')
        return path

    files = split_by_article(squad("a"), tmp_path / "out")
    assert split_by_article(squad("a"), tmp_path / "out") == files
    with pytest.raises(InputError, match="holds results with --squad_file"):
        split_by_article(squad("longer"), tmp_path / "out")
    with pytest.raises(InputError, match="--squad_file must be of SQuAD 1.1"):
        split_by_article(squad("b", "v2.0"), tmp_path / "second")
