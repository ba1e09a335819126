"""Runs `albert lab`; writes experiments to report on."""

import dataclasses
from pathlib import Path

from matplotlib.figure import Figure

from albert_cli import cli
from albert_tf.lab.results import Column, Plot, ResultRow, Results, compare_rows


def lab(*words) -> int:
    """Runs `albert lab ...`; returns the exit status."""
    return cli.main(["lab", *(str(word) for word in words)])


COLUMNS = (
    Column("nsp", "NSP", "accuracy"),
    Column("sop", "SOP", "accuracy"),
    Column("parameters", "parameters", decimals=0),
    Column("race", "RACE", "", 1),
)
ROWS = (
    ResultRow(
        "nsp",
        "NSP <b>& next</b>",
        {"nsp": 0.905, "sop": 0.52},
        {"nsp": [0.8, 0.81], "sop": [0.5, 0.53], "parameters": [11683584]},
    ),
    ResultRow("sop", "SOP", {"nsp": 0.789, "sop": 0.865}, {"nsp": [0.6, 0.6], "sop": [0.7, 0.72]}),
)


def results(**changes) -> Results:
    """Two rows with two seeds each and two comparisons."""
    values: dict = {
        "experiment": "table5",
        "title": "Sentence objectives",
        "paper": "Table 5",
        "question": "Does order teach <i>more</i>?",
        "scale": "tiny",
        "seeds": [1, 2],
        "command": "albert lab table5 --text='a & <b>.txt'",
        "settings": {
            "steps": 10,
            "files": {"a.txt": "sha256:" + "0" * 64},
            "tasks": ["rte", {"name": "mrpc"}],
        },
        "environment": {"python": "3.11", "machine": "<script>alert(1)</script>"},
        "columns": COLUMNS,
        "rows": ROWS,
        "comparisons": [compare_rows(ROWS, "sop", "nsp", "sop"), compare_rows(ROWS, "nsp", "sop", "nsp")],
        "notes": ["Notes hold & too."],
    }
    return Results(**{**values, **changes})


def write_experiment(folder: Path, results: Results) -> None:
    """Writes what an experiment writes: results.json and its pictures."""
    folder = folder / results.experiment
    folder.mkdir(parents=True)
    for plot in results.plots:
        figure = Figure(figsize=(8, 3))
        figure.subplots().plot([1, 2, 3])
        figure.savefig(folder / plot.file)
    results.write(folder)


def write_laboratory(folder: Path) -> Path:
    """Three experiments: one with a picture, one with many rows, one with many columns."""
    write_experiment(folder, results(plots=[Plot("curves.png", 'Curves of "both" & more.')]))
    rows = [ResultRow(f"layer {i}", f"ALBERT-xxlarge, layer {i}", {}, {"sop": [i / 40]}) for i in range(40)]
    figure = dataclasses.replace(results(), experiment="figure1", paper="Figure 1", rows=rows, comparisons=())
    write_experiment(folder, figure)
    columns = [Column(f"task{i}", f"Task {i}", "accuracy") for i in range(12)]
    wide = [ResultRow("one", "A row of many columns", {}, {column.name: [0.5, 0.6] for column in columns})]
    write_experiment(
        folder, results(experiment="table10", paper="Table 10", columns=columns, rows=wide, comparisons=())
    )
    return folder
