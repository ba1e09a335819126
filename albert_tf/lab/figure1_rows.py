"""Figure 1's numbers as a table, and what they say to the paper's finding.

The paper finds that with shared parameters the transitions from layer to layer are "much smoother", that both
measures are lower, and that they do not converge to 0 (section 3.1). Not smooth is read here as: up and down. A
layer's zigzag is how far its value lies outside the range of its two neighbours'; a curve that only falls, however
steeply, has none.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from albert_tf.lab.layer_changes import MEASURES
from albert_tf.lab.results import Column, Comparison, Row, compare, mean_and_spread

COLUMNS = (
    Column("l2", "L2 distance", decimals=2, higher_is_better=None),
    Column("cosine", "cosine similarity", decimals=4, higher_is_better=None),
    Column("degrees", "angle", "degrees", 2, None),
    Column("l2_zigzag", "zigzag of L2 distance", "", 3, None),
    Column("degrees_zigzag", "zigzag of angle", "degrees", 3, None),
)
ZIGZAG = ("l2_zigzag", "degrees_zigzag")
SHARED, NOT_SHARED = "all shared", "nothing shared"


def rows_of(measured: Mapping[str, Sequence[np.ndarray]], sharing: Mapping[str, str]) -> list[Row]:
    """A row of means over its layers for each model, and after these a row for each layer.

    Args:
      measured: name -> one (L, 3) a seed, as `layer_changes` gives it.
      sharing: name -> in words.
    """
    means, layers = [], []
    for name, seeds in measured.items():
        tables = [_with_zigzag(seed) for seed in seeds]
        means.append(Row(name, f"{name} ({sharing[name]})", {}, _values([_mean(table) for table in tables])))
        layers += [
            Row(f"{name}/{i + 1}", f"{name}, layer {i + 1}", {}, _values([table[i] for table in tables]))
            for i in range(len(tables[0]))
        ]
    return means + layers


def comparisons(rows: Sequence[Row], sharing: Mapping[str, str]) -> list[Comparison]:
    """Whether each model that shares all is smoother, and moves its input less, than each that shares nothing."""
    columns = (*ZIGZAG, "l2", "degrees")
    found = [compare(rows, a, b, column) for a, b in _pairs(sharing) for column in columns]
    return [dataclasses.replace(each, paper="lower") for each in found if each is not None]


def finding(rows: Sequence[Row], sharing: Mapping[str, str], found: Sequence[Comparison]) -> str:
    """What the numbers say to the paper's finding, in a sentence or two for each pair of models."""
    sentences = []
    for pair in _pairs(sharing):
        of_pair = [each for each in found if (each.row, each.than) == pair and each.column in ZIGZAG]
        if of_pair:
            sentences.append(f"{_numbers(rows, *pair)}: {_judgement(of_pair)}")
    if sentences:
        return " ".join(sentences)
    return (
        "The paper's finding is about models that share all layers beside models that share none, of at least "
        f"three layers. Here are: {', '.join(f'{name} ({kind})' for name, kind in sharing.items())}."
    )


def _numbers(rows: Sequence[Row], shared: str, other: str) -> str:
    by_name = {row.name: row.ours for row in rows}
    (l2, degrees), (other_l2, other_degrees) = (
        [mean_and_spread(by_name[name][column])[0] for column in ZIGZAG] for name in (shared, other)
    )
    return (
        f"A layer's L2 distance lies {l2:.3g} outside the range of its neighbours' in {shared} (all shared) and "
        f"{other_l2:.3g} in {other} (nothing shared), its angle {degrees:.3g} and {other_degrees:.3g} degrees"
    )


def _judgement(found: Sequence[Comparison]) -> str:
    signs = {np.sign(each.difference) for each in found}
    if len(signs) > 1:
        return "smoother by one measure and not by the other, so no finding."
    if signs == {0}:
        return "equally smooth, so no finding."
    if signs == {-1}:
        verdict = "the transitions are smoother where layers are shared, as in the paper"
    else:
        verdict = "the transitions are not smoother where layers are shared, other than in the paper"
    if any(each.spread is None for each in found):
        return f"of these checkpoints, {verdict}. Whether other seeds agree can't be told from one of each."
    if any(each.verdict == "can't tell" for each in found):
        return "the spread over the seeds covers the difference, so can't tell."
    return f"{verdict}."


def _pairs(sharing: Mapping[str, str]) -> list[tuple[str, str]]:
    shared = [name for name, kind in sharing.items() if kind == SHARED]
    return [(a, b) for a in shared for b, kind in sharing.items() if kind == NOT_SHARED]


def _with_zigzag(measured: np.ndarray) -> np.ndarray:
    """(L, 3) -> (L, 5): how far L2 distance and angle lie outside their neighbours' range; NaN at both ends."""
    values = measured[:, [MEASURES.index("l2"), MEASURES.index("degrees")]]
    zigzag = np.full_like(values, np.nan)
    before, here, after = values[:-2], values[1:-1], values[2:]
    above, below = here - np.maximum(before, after), np.minimum(before, after) - here
    zigzag[1:-1] = np.maximum(0.0, np.maximum(above, below))
    return np.concatenate([measured, zigzag], axis=1)


def _mean(table: np.ndarray) -> np.ndarray:
    """(L, 5) -> (5,): over the layers that have a number; NaN where none has."""
    return np.array([np.mean(c[~np.isnan(c)]) if not np.isnan(c).all() else np.nan for c in table.T])


def _values(seeds: Sequence[np.ndarray]) -> dict[str, list[float]]:
    """(5,) a seed -> column -> a value a seed; without the columns that have none."""
    columns = zip(COLUMNS, np.stack(seeds).T, strict=True)
    return {column.name: values.tolist() for column, values in columns if not np.isnan(values).any()}
