"""The experiments as data: the models that each trains, what it measures, and what the paper claims."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from albert_tf.config import ParameterSharing
from albert_tf.lab import paper
from albert_tf.lab.results import Column
from albert_tf.lab.variants import Objective, Variant


@dataclass(frozen=True)
class PlannedRow:
    """A row of an experiment's table, before anything is measured.

    Attributes:
      name: identifies the row in claims and comparisons.
      title: the model's name in the paper.
      variant: the model to train.
      paper: column -> the paper's value.
    """

    name: str
    title: str
    variant: Variant
    paper: Mapping[str, float]


@dataclass(frozen=True)
class PaperClaim:
    """Two rows that the paper compares.

    Attributes:
      row: a row's name.
      than: the name of the row to compare it with.
      column: the column in which our values are compared.
      paper_column: the column in which the paper's values are compared.
    """

    row: str
    than: str
    column: str = "masked_lm"
    paper_column: str = "average"


@dataclass(frozen=True)
class Experiment:
    """One of the paper's tables or figures.

    Attributes:
      name: the command's name.
      title: a heading.
      paper: where it is in the paper.
      question: what it asks, in one sentence.
      rows: in the paper's order.
      measures: names of the COLUMNS to measure; downstream tasks follow them.
      claims: the comparisons that the paper makes.
      notes: sentences on how to read the numbers.
      over_time: whether learning curves are drawn against time instead of steps.
    """

    name: str
    title: str
    paper: str
    question: str
    rows: Sequence[PlannedRow]
    measures: Sequence[str]
    claims: Sequence[PaperClaim]
    notes: Sequence[str] = ()
    over_time: bool = False


COLUMNS = {
    column.name: column
    for column in (
        Column("parameters", "Parameters", "millions", 1),
        Column("steps", "Steps", "", 0),
        Column("hours", "Time", "hours", 2),
        Column("masked_lm", "MLM", "% correct, held out", 1),
        Column("own_sentence", "SOP", "% correct, held out", 1),
        Column("nsp", "NSP", "% correct, fresh head", 1),
        Column("sop", "SOP", "% correct, fresh head", 1),
        Column("speed", "Speed", "examples a second, BERT-large = 1", 2),
        Column("squad1.1", "SQuAD 1.1", "mean of F1 and EM", 1),
        Column("squad2.0", "SQuAD 2.0", "mean of F1 and EM", 1),
        Column("mnli", "MNLI-m", "% correct", 1),
        Column("sst-2", "SST-2", "% correct", 1),
        Column("race", "RACE", "% correct", 1),
        Column("average", "Avg", "of the five tasks", 1),
    )
}
# Sentence tasks on which fresh heads are trained.
PROBED: tuple[Objective, ...] = ("nsp", "sop")
_QUALITY = ("parameters", "masked_lm", "own_sentence")
_SHARING: dict[ParameterSharing, str] = {
    "all": "all shared",
    "attention": "shared attention",
    "ffn": "shared FFN",
    "none": "not shared",
}
_E_NOTE = "E is the paper's. A smaller scale replaces it with a smaller value and keeps the order."
_BERT_NOTE = (
    "BERT is trained like ALBERT here, with sentence order and with the same optimizer and batches, so that only "
    "the architecture differs."
)
_BERT_LARGE, _XXLARGE = Variant("large", 1024, "none"), Variant("xxlarge")


def _table_2() -> Experiment:
    variants = {
        "bert-base": ("BERT base", Variant("base", 768, "none")),
        "bert-large": ("BERT large", _BERT_LARGE),
        "albert-base": ("ALBERT base", Variant("base")),
        "albert-large": ("ALBERT large", Variant("large")),
        "albert-xlarge": ("ALBERT xlarge", Variant("xlarge")),
        "albert-xxlarge": ("ALBERT xxlarge", _XXLARGE),
    }
    return Experiment(
        name="table2",
        title="BERT and ALBERT by size",
        paper="Table 2",
        question="How good are BERT and ALBERT of each size after equally many steps, and how fast do they train?",
        rows=[
            PlannedRow(
                name,
                title,
                variant,
                {"parameters": paper.TABLE_1[name]["parameters"], **paper.TABLE_2[name]},
            )
            for name, (title, variant) in variants.items()
        ],
        measures=(*_QUALITY, "speed"),
        claims=[
            PaperClaim("albert-xxlarge", "bert-large"),
            PaperClaim("albert-large", "bert-large"),
            PaperClaim("albert-large", "albert-base"),
            PaperClaim("albert-xlarge", "albert-large"),
            PaperClaim("albert-xxlarge", "albert-xlarge"),
            PaperClaim("bert-large", "bert-base"),
        ],
        notes=[_BERT_NOTE],
    )


def _base_rows(scores: Mapping[tuple[ParameterSharing, int], Mapping[str, float]]) -> list[PlannedRow]:
    """Rows of Tables 3 and 4: base-sized models by (sharing, E)."""
    return [
        PlannedRow(
            f"{sharing}-{E}",
            f"E={E}, {_SHARING[sharing]}",
            Variant("base", E, sharing),
            {"parameters": paper.PARAMETERS[sharing, E], **row},
        )
        for (sharing, E), row in scores.items()
    ]


def _table_3() -> Experiment:
    return Experiment(
        name="table3",
        title="Embedding size",
        paper="Table 3",
        question="How wide must the word embeddings be, with and without parameter sharing across layers?",
        rows=_base_rows(paper.TABLE_3),
        measures=_QUALITY,
        claims=[
            PaperClaim("all-128", "all-64"),
            PaperClaim("all-128", "all-256"),
            PaperClaim("all-128", "all-768"),
            PaperClaim("none-768", "none-64"),
            PaperClaim("none-768", "none-128"),
            PaperClaim("none-768", "none-256"),
        ],
        notes=[_E_NOTE],
    )


def _table_4() -> Experiment:
    return Experiment(
        name="table4",
        title="Sharing parameters across layers",
        paper="Table 4",
        question="What does it cost to share attention, the feed-forward part, or both across all layers?",
        rows=_base_rows(paper.TABLE_4),
        measures=_QUALITY,
        claims=[
            PaperClaim(f"{sharing}-{E}", f"none-{E}")
            for E in (768, 128)
            for sharing in ("all", "attention", "ffn")
        ],
        notes=[_E_NOTE],
    )


def _table_5() -> Experiment:
    titles: dict[Objective, str] = {"none": "None", "nsp": "NSP", "sop": "SOP"}
    return Experiment(
        name="table5",
        title="Sentence objectives",
        paper="Table 5",
        question="Does predicting sentence order teach what predicting the next sentence does not?",
        rows=[
            PlannedRow(name, title, Variant(objective=name), paper.TABLE_5[name])
            for name, title in titles.items()
        ],
        measures=("masked_lm", *PROBED),
        claims=[
            PaperClaim("sop", "nsp", "sop", "sop"),
            PaperClaim("sop", "none", "sop", "sop"),
            PaperClaim("nsp", "none", "sop", "sop"),
            PaperClaim("sop", "none", "nsp", "nsp"),
            PaperClaim("nsp", "sop", "nsp", "nsp"),
            PaperClaim("sop", "none", "average"),
            PaperClaim("sop", "nsp", "average"),
        ],
        notes=[
            "NSP and SOP are measured alike for all three models: the encoder is frozen, and a fresh head, a tanh "
            "layer and a classifier as in ALBERT, is trained on its [CLS] vector.",
            "MLM is measured on held-out examples prepared with the model's own objective, so the second segments "
            "differ between models.",
        ],
    )


def _table_6() -> Experiment:
    equal_time = Variant("large", 1024, "none", equal_time_with=_XXLARGE)
    return Experiment(
        name="table6",
        title="Equal time instead of equal steps",
        paper="Table 6",
        question="Is ALBERT-xxlarge better than a BERT-large that trains for the same time, hence for more steps?",
        rows=[
            PlannedRow("bert-large-steps", "BERT large, same steps", _BERT_LARGE, {}),
            PlannedRow("bert-large", "BERT large, same time", equal_time, paper.TABLE_6["bert-large"]),
            PlannedRow("albert-xxlarge", "ALBERT xxlarge", _XXLARGE, paper.TABLE_6["albert-xxlarge"]),
        ],
        measures=("steps", "hours", "masked_lm", "own_sentence"),
        claims=[
            PaperClaim("albert-xxlarge", "bert-large"),
            PaperClaim("albert-xxlarge", "bert-large-steps"),
            PaperClaim("bert-large", "bert-large-steps"),
        ],
        notes=[
            _BERT_NOTE,
            "BERT-large's number of steps follows from the training time, without evaluations, of both models' "
            "first seeds on this device.",
        ],
        over_time=True,
    )


def _table_11() -> Experiment:
    rows: list[PlannedRow] = []
    shallower = None
    for layers, scores in paper.TABLE_11.items():
        variant = Variant("large", width=1024, layers=layers, start=shallower)
        values = {"parameters": paper.TABLE_11_PARAMETERS, **scores}
        rows.append(PlannedRow(f"layers-{layers}", f"{layers} layers", variant, values))
        shallower = variant
    return Experiment(
        name="table11",
        title="Depth",
        paper="Table 11",
        question="Does applying the one shared layer more often help, and up to what depth?",
        rows=rows,
        measures=_QUALITY,
        claims=[PaperClaim(deeper.name, shallower.name) for shallower, deeper in itertools.pairwise(rows)],
        notes=[
            "As in the paper, each model starts from the weights of the one before it, so the deeper models have "
            "also trained for more steps."
        ],
    )


def _table_12() -> Experiment:
    rows = [
        PlannedRow(f"width-{width}", f"H={width}", Variant("large", width=width, layers=3), values)
        for width, values in paper.TABLE_12.items()
    ]
    return Experiment(
        name="table12",
        title="Width",
        paper="Table 12",
        question="Do wider layers help a model of three layers, and up to what width?",
        rows=rows,
        measures=_QUALITY,
        claims=[PaperClaim(wider.name, narrower.name) for narrower, wider in itertools.pairwise(rows)],
        notes=[
            "H is the paper's. A smaller scale replaces it with a smaller value and keeps the order. All models "
            "start from fresh weights; the paper's H=1024 is the 3-layer model of Table 11, which does not."
        ],
    )


def _figure_2() -> Experiment:
    less_data, dropout = Variant(text="part"), Variant("xxlarge", dropout=True)
    variants = {
        "less-data": ("No additional data", less_data),
        "data-added": ("With additional data", Variant(start=less_data, fork=True)),
        "dropout": ("With dropout", dropout),
        "dropout-removed": ("Dropout removed", Variant("xxlarge", dropout=False, start=dropout, fork=True)),
    }
    return Experiment(
        name="figure2",
        title="More text and no dropout, late in training",
        paper="Figure 2, Tables 7 and 8",
        question="What is gained by adding text, or removing dropout, in the middle of training?",
        rows=[
            PlannedRow(name, title, variant, paper.FIGURE_2[name])
            for name, (title, variant) in variants.items()
        ],
        measures=("masked_lm", "own_sentence"),
        claims=[PaperClaim("data-added", "less-data"), PaperClaim("dropout-removed", "dropout")],
        notes=[
            "The second model of each pair forks from the middle of the first model's run, with its optimizer "
            "state and schedule. Without additional data, a model trains on a quarter of the files. The first "
            "pair is of base size, the second of xxlarge size.",
        ],
    )


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        _table_2(),
        _table_3(),
        _table_4(),
        _table_5(),
        _table_6(),
        _table_11(),
        _table_12(),
        _figure_2(),
    )
}
