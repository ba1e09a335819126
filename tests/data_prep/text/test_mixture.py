import numpy as np
import pytest

from data_prep.errors import InputError
from data_prep.text.mixture import Mixture, whole_passes
from data_prep.text.sources import expand_files


@pytest.mark.parametrize(
    ("flags", "shares"),
    [
        (("a,b,c", "3,1,1", None), [0.6, 0.2, 0.2]),
        (("a,b,c", None, 1.0), [0.1, 0.4, 0.5]),
        (("a,b,c", None, 0.0), [1 / 3] * 3),
        (("a,b,c", None, 0.3), np.power([100, 400, 500], 0.3) / np.power([100, 400, 500], 0.3).sum()),
    ],
)
def test_passes_give_the_shares(flags, shares):
    mixture, sizes = Mixture.of(*flags), {0: 100, 1: 400, 2: 500}
    np.testing.assert_allclose(mixture.shares(sizes), shares, rtol=1e-12)
    text = np.multiply(mixture.passes(sizes, 10), [100, 400, 500])
    np.testing.assert_allclose(text / text.sum(), shares, rtol=1e-12)
    assert text.sum() == pytest.approx(10 * 1000)


def test_without_weights_there_is_one_corpus():
    mixture = Mixture.of("a,b", None, None)
    assert not mixture.is_mixed
    assert mixture.passes({}, 40) == (40.0,)


def test_a_fraction_of_a_pass_is_a_probability():
    rng = np.random.default_rng(0)
    drawn = [whole_passes(2.3, rng.random) for _ in range(20_000)]
    assert set(drawn) == {2, 3}
    assert np.mean(drawn) == pytest.approx(2.3, abs=4 * np.sqrt(0.3 * 0.7 / 20_000))
    assert whole_passes(3.0, None) == 3, "without a draw"


@pytest.mark.parametrize(
    ("files", "weights", "exponent", "message"),
    [
        ("a,b", "0,0", None, "must be numbers above 0, separated by commas. Received '0,0'"),
        ("a,b", "1,-1", None, "above 0"),
        ("a,b", "1,nan", None, "above 0"),
        ("a,b", "1,inf", None, "above 0"),
        ("a,b", "1e308,1e308", None, "above 0"),
        ("a,b", "1,two", None, "above 0"),
        ("a,b", "", None, "above 0"),
        ("a,b", "1,2,3", None, "one number for each pattern of --input_file. Received 3 for 2: a, b"),
        ("a,b", None, 1.5, "--input_exponent must lie between 0 and 1. Received 1.5"),
        ("a,b", None, float("nan"), "between 0 and 1"),
        ("a,b", "1,2", 0.3, "exclude each other"),
        ("a*", None, 0.3, "needs several patterns in --input_file, separated by commas"),
    ],
)
def test_bad_flags(files, weights, exponent, message):
    with pytest.raises(InputError, match=message):
        Mixture.of(files, weights, exponent)


def test_a_file_belongs_to_one_corpus(tmp_path):
    for name in "ab":
        (tmp_path / name).write_text("Text.\n")
    mixture = Mixture.of(f"{tmp_path}/a, {tmp_path}/b", "1,1", None)
    assert mixture.corpora(expand_files) == [[tmp_path / "a"], [tmp_path / "b"]]
    with pytest.raises(InputError, match=r"must belong to one corpus. .*a belongs to several"):
        Mixture.of(f"{tmp_path}/a,{tmp_path}/*", "1,1", None).corpora(expand_files)
