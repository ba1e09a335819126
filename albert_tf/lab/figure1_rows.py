"""Figure 1's numbers as a table, and what they say about sharing."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from albert_tf.lab.layer_changes import MEASURES
from albert_tf.lab.results import Column, Comparison, Row, compare, mean_and_spread

COLUMNS = (
    Column("l2", "L2 distance", decimals=2, higher_is_better=None),
    Column("cosine", "cosine similarity", decimals=4, higher_is_better=None),
    Column("degrees", "angle", "degrees", 2, None),
    Column("l2_change", "change of L2 distance", "", 2, None),
    Column("degrees_change", "change of angle", "degrees", 2, None),
)
ROUGHNESS = ("l2_change", "degrees_change")
SHARED, NOT_SHARED = "all shared", "nothing shared"


def rows_of(measured: Mapping[str, Sequence[np.ndarray]], sharing: Mapping[str, str]) -> list[Row]:
    """A row of means for each model and a row for each of its layers.

    Args:
      measured: name -> one (L, 3) a seed, as `layer_changes` gives it.
      sharing: name -> in words.
    """
    means, layers = [], []
    for name, seeds in measured.items():
        tables = np.stack([_with_changes(seed) for seed in seeds])  # (seeds, L, 5)
        with np.errstate(invalid="ignore"):
            first = np.nanmean(tables, axis=1) if tables.shape[1] > 1 else tables[:, 0]
        means.append(Row(name, f"{name} ({sharing[name]}), mean", {}, _values(first)))
        layers += [
            Row(f"{name}/{layer + 1}", f"{name}, layer {layer + 1}", {}, _values(tables[:, layer]))
            for layer in range(tables.shape[1])
        ]
    return means + layers


def comparisons(rows: Sequence[Row], sharing: Mapping[str, str]) -> list[Comparison]:
    """Whether each model that shares all changes less from layer to layer than each that shares nothing."""
    pairs = [(a, b, column) for a, b in _pairs(sharing) for column in ROUGHNESS]
    found = [compare(rows, shared, other, column) for shared, other, column in pairs]
    return [dataclasses.replace(each, paper="lower") for each in found if each is not None]


def finding(rows: Sequence[Row], sharing: Mapping[str, str], found: Sequence[Comparison]) -> str:
    """What the numbers say to the paper's finding, in a sentence or two."""
    sentences = []
    for shared, other in _pairs(sharing):
        of_pair = [each for each in found if (each.row, each.than) == (shared, other)]
        if len(of_pair) == len(ROUGHNESS):
            sentences.append(_sentence(rows, shared, other, of_pair))
    if sentences:
        return " ".join(sentences)
    return (
        "The paper's finding is about models that share all layers beside models that share none, of several "
        f"layers each. Here are: {', '.join(f'{name} ({kind})' for name, kind in sharing.items())}."
    )


def _sentence(rows: Sequence[Row], shared: str, other: str, found: Sequence[Comparison]) -> str:
    by_name = {row.name: row for row in rows}
    (l2, degrees), (other_l2, other_degrees) = (
        [mean_and_spread(by_name[name].ours[column])[0] for column in ROUGHNESS] for name in (shared, other)
    )
    numbers = (
        f"From one layer to the next the L2 distance changes by {l2:.3g} in {shared} (all shared) and by "
        f"{other_l2:.3g} in {other} (nothing shared), the angle by {degrees:.3g} and {other_degrees:.3g} degrees"
    )
    smoother = {each.difference < 0 for each in found}
    if len(smoother) > 1:
        return f"{numbers}: smoother by one measure and not by the other, so no finding."
    verdict = (
        "smoother where layers are shared, as in the paper"
        if smoother.pop()
        else ("not smoother where layers are shared, other than in the paper")
    )
    if found[0].spread is None:
        return (
            f"{numbers}: of these checkpoints the transitions are {verdict}. Whether other seeds agree can't be "
            "told from one of each."
        )
    if all(each.verdict != "can't tell" for each in found):
        return f"{numbers}: the transitions are {verdict}."
    return f"{numbers}: the spread over the seeds covers the difference, so can't tell."


def _pairs(sharing: Mapping[str, str]) -> list[tuple[str, str]]:
    shared = [name for name, kind in sharing.items() if kind == SHARED]
    return [(a, b) for a in shared for b, kind in sharing.items() if kind == NOT_SHARED]


def _with_changes(measured: np.ndarray) -> np.ndarray:
    """(L, 3) -> (L, 5): how far L2 distance and angle are from the layer before; NaN in the first layer."""
    l2, degrees = MEASURES.index("l2"), MEASURES.index("degrees")
    changes = np.abs(np.diff(measured[:, [l2, degrees]], axis=0, prepend=np.nan))
    return np.concatenate([measured, changes], axis=1)


def _values(table: np.ndarray) -> dict[str, list[float]]:
    """(seeds, 5) -> column -> a value a seed; without the columns that have none."""
    columns = zip(COLUMNS, table.T, strict=True)
    return {column.name: values.tolist() for column, values in columns if not np.isnan(values).any()}
