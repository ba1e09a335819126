"""The experiments as data: the models that each trains, what it measures, and what the paper claims."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from albert_tf import parameter_tables
from albert_tf.config import ParameterSharing
from experiments.paper import numbers
from experiments.paper.models import SentenceObjective, Variant
from experiments.paper.results import Column


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
        Column("worker_speed", "Speed with workers", "examples a second, BERT-large without workers = 1", 2),
        Column("squad1.1", "SQuAD 1.1", "mean of F1 and EM", 1),
        Column("squad2.0", "SQuAD 2.0", "mean of F1 and EM", 1),
        Column("mnli", "MNLI-m", "% correct", 1),
        Column("sst-2", "SST-2", "% correct", 1),
        Column("race", "RACE", "% correct", 1),
        Column("average", "Avg", "of the five tasks", 1),
    )
}
# Sentence tasks on which fresh heads are trained.
PROBED: tuple[SentenceObjective, ...] = ("nsp", "sop")
_QUALITY = ("parameters", "masked_lm", "own_sentence")
_E_NOTE = "E is the paper's. A smaller scale replaces it with a smaller value and keeps the order."
_BERT_NOTE = (
    "BERT is trained like ALBERT here, with sentence order and with the same optimizer and batches, so that only "
    "the architecture differs."
)
_BERT_LARGE, _XXLARGE = Variant("large", 1024, "none"), Variant("xxlarge")
_LESS_DATA, _DROPOUT = Variant(text="part"), Variant("xxlarge", dropout=True)


def _rows(
    models: Mapping[str, tuple[str, Variant]], values: Mapping[str, Mapping[str, float]]
) -> list[PlannedRow]:
    """Rows from name -> (title, variant) and name -> the paper's values."""
    return [
        PlannedRow(name, title, variant, values.get(name, {})) for name, (title, variant) in models.items()
    ]


def _base_rows(scores: Mapping[tuple[ParameterSharing, int], Mapping[str, float]]) -> list[PlannedRow]:
    """Rows of base-sized models from (sharing, E) -> the paper's scores."""
    return [
        PlannedRow(
            f"{sharing}-{E}",
            f"E={E}, {parameter_tables.SHARING_IN_WORDS[sharing]}",
            Variant("base", E, sharing),
            {"parameters": (parameter_tables.TABLE_3 | parameter_tables.TABLE_4)[sharing, E], **row},
        )
        for (sharing, E), row in scores.items()
    ]


def _deeper_rows() -> list[PlannedRow]:
    """Rows of Table 11, in which each model starts from the weights of the one before."""
    rows: list[PlannedRow] = []
    shallower = None
    for layers, scores in numbers.TABLE_11.items():
        variant = Variant("large", width=1024, layers=layers, start=shallower)
        values = {"parameters": numbers.TABLE_11_PARAMETERS, **scores}
        rows.append(PlannedRow(f"layers-{layers}", f"{layers} layers", variant, values))
        shallower = variant
    return rows


def _claims_of_growth(names: Iterable[str]) -> list[PaperClaim]:
    """Claims that compare each row with the one before."""
    return [PaperClaim(larger, smaller) for smaller, larger in itertools.pairwise(names)]


_EXPERIMENTS = (
    Experiment(
        name="table2",
        title="BERT and ALBERT by size",
        paper="Table 2",
        question="How good are BERT and ALBERT of each size after equally many steps, and how fast do they train?",
        rows=_rows(
            {
                "bert-base": ("BERT base", Variant("base", 768, "none")),
                "bert-large": ("BERT large", _BERT_LARGE),
                "albert-base": ("ALBERT base", Variant("base")),
                "albert-large": ("ALBERT large", Variant("large")),
                "albert-xlarge": ("ALBERT xlarge", Variant("xlarge")),
                "albert-xxlarge": ("ALBERT xxlarge", _XXLARGE),
            },
            {
                name: {"parameters": millions, **row}
                for (name, row), millions in zip(
                    numbers.TABLE_2.items(), parameter_tables.TABLE_1.values(), strict=True
                )
            },
        ),
        measures=(*_QUALITY, "speed"),
        claims=[
            PaperClaim("albert-xxlarge", "bert-large"),
            PaperClaim("albert-large", "bert-large"),
            *_claims_of_growth(("albert-base", "albert-large", "albert-xlarge", "albert-xxlarge")),
            PaperClaim("bert-large", "bert-base"),
        ],
        notes=[_BERT_NOTE],
    ),
    Experiment(
        name="table3",
        title="Embedding size",
        paper="Table 3",
        question="How wide must the word embeddings be, with and without parameter sharing across layers?",
        rows=_base_rows(numbers.TABLE_3),
        measures=_QUALITY,
        claims=[
            *(PaperClaim("all-128", f"all-{E}") for E in (64, 256, 768)),
            *(PaperClaim("none-768", f"none-{E}") for E in (64, 128, 256)),
        ],
        notes=[_E_NOTE],
    ),
    Experiment(
        name="table4",
        title="Sharing parameters across layers",
        paper="Table 4",
        question="What does it cost to share attention, the feed-forward part, or both across all layers?",
        rows=_base_rows(numbers.TABLE_4),
        measures=_QUALITY,
        claims=[
            PaperClaim(f"{sharing}-{E}", f"none-{E}")
            for E in (768, 128)
            for sharing in ("all", "attention", "ffn")
        ],
        notes=[_E_NOTE],
    ),
    Experiment(
        name="table5",
        title="Sentence objectives",
        paper="Table 5",
        question="Does predicting sentence order teach what predicting the next sentence does not?",
        rows=_rows(
            {
                "none": ("None", Variant(objective="none")),
                "nsp": ("NSP", Variant(objective="nsp")),
                "sop": ("SOP", Variant()),
            },
            numbers.TABLE_5,
        ),
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
    ),
    Experiment(
        name="table6",
        title="Equal time instead of equal steps",
        paper="Table 6",
        question="Is ALBERT-xxlarge better than a BERT-large that trains for the same time, hence for more steps?",
        rows=_rows(
            {
                "bert-large-steps": ("BERT large, same steps", _BERT_LARGE),
                "bert-large": (
                    "BERT large, same time",
                    Variant("large", 1024, "none", equal_time_with=_XXLARGE),
                ),
                "albert-xxlarge": ("ALBERT xxlarge", _XXLARGE),
            },
            numbers.TABLE_6,
        ),
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
    ),
    Experiment(
        name="table11",
        title="Depth",
        paper="Table 11",
        question="Does applying the one shared layer more often help, and up to what depth?",
        rows=_deeper_rows(),
        measures=_QUALITY,
        claims=_claims_of_growth(f"layers-{layers}" for layers in numbers.TABLE_11),
        notes=[
            "As in the paper, each model starts from the weights of the one before it, so the deeper models have "
            "also trained for more steps."
        ],
    ),
    Experiment(
        name="table12",
        title="Width",
        paper="Table 12",
        question="Do wider layers help a model of three layers, and up to what width?",
        rows=[
            PlannedRow(f"width-{width}", f"H={width}", Variant("large", width=width, layers=3), values)
            for width, values in numbers.TABLE_12.items()
        ],
        measures=_QUALITY,
        claims=_claims_of_growth(f"width-{width}" for width in numbers.TABLE_12),
        notes=[
            "H is the paper's. A smaller scale replaces it with a smaller value and keeps the order. All models "
            "start from fresh weights; the paper's H=1024 is the 3-layer model of Table 11, which does not."
        ],
    ),
    Experiment(
        name="figure2",
        title="More text and no dropout, late in training",
        paper="Figure 2, Tables 7 and 8",
        question="What is gained by adding text, or removing dropout, in the middle of training?",
        rows=_rows(
            {
                "less-data": ("No additional data", _LESS_DATA),
                "data-added": ("With additional data", Variant(start=_LESS_DATA, fork=True)),
                "dropout": ("With dropout", _DROPOUT),
                "dropout-removed": (
                    "Dropout removed",
                    Variant("xxlarge", dropout=False, start=_DROPOUT, fork=True),
                ),
            },
            numbers.FIGURE_2,
        ),
        measures=("masked_lm", "own_sentence"),
        claims=[PaperClaim("data-added", "less-data"), PaperClaim("dropout-removed", "dropout")],
        notes=[
            "The second model of each pair forks from the middle of the first model's run, with its optimizer "
            "state and schedule. Without additional data, a model trains on a quarter of the files. The first "
            "pair is of base size, the second of xxlarge size.",
        ],
    ),
)
EXPERIMENTS = {experiment.name: experiment for experiment in _EXPERIMENTS}
