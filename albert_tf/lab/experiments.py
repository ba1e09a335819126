"""The experiments: which models each trains, what it measures of them, and what the paper claims."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from albert_tf.lab import paper
from albert_tf.lab.results import Column
from albert_tf.lab.variants import Objective, Variant


@dataclass(frozen=True)
class PlannedRow:
    """A row of a table that is to be filled.

    Attributes:
      name: its key in comparisons.
      title: what it is called in the paper.
      variant: its model.
      paper: column -> the paper's value.
    """

    name: str
    title: str
    variant: Variant
    paper: dict[str, float]


@dataclass(frozen=True)
class Claim:
    """Something that the paper says of two rows.

    Attributes:
      row: a row's name.
      than: another one's.
      column: the measure to ask with; the paper is asked with `paper_column`.
      paper_column: by default the average of its downstream tasks.
    """

    row: str
    than: str
    column: str = "masked_lm"
    paper_column: str = "average"


@dataclass(frozen=True)
class Experiment:
    """One of the paper's tables or figures.

    Attributes:
      name: of the command.
      title: one line.
      paper: where in the paper.
      question: one sentence.
      rows: in the paper's order.
      measures: names of COLUMNS, before those of downstream tasks.
      claims: of the paper.
      notes: on how to read the numbers.
      over_time: whether its curves are drawn against time in place of steps.
    """

    name: str
    title: str
    paper: str
    question: str
    rows: Sequence[PlannedRow]
    measures: Sequence[str]
    claims: Sequence[Claim]
    notes: Sequence[str] = field(default_factory=tuple)
    over_time: bool = False


COLUMNS = {
    column.name: column
    for column in (
        Column("parameters", "Parameters", "millions", 1, None),
        Column("steps", "Steps", "", 0, None),
        Column("hours", "Time", "hours", 2, None),
        Column("masked_lm", "MLM", "% right, held out", 1),
        Column("own_sentence", "SOP", "% right, held out", 1),
        Column("nsp", "NSP", "% right, fresh head", 1),
        Column("sop", "SOP", "% right, fresh head", 1),
        Column("speed", "Speed", "times BERT-large's examples a second", 2),
        Column("squad1.1", "SQuAD 1.1", "mean of F1 and EM", 1),
        Column("squad2.0", "SQuAD 2.0", "mean of F1 and EM", 1),
        Column("mnli", "MNLI-m", "% right", 1),
        Column("sst-2", "SST-2", "% right", 1),
        Column("race", "RACE", "% right", 1),
        Column("average", "Avg", "of the five tasks", 1),
    )
}
PROBED: tuple[Objective, ...] = ("nsp", "sop")
_QUALITY = ("parameters", "masked_lm", "own_sentence")
_SHARING = {"all": "all shared", "attention": "shared attention", "ffn": "shared FFN", "none": "not shared"}
_E_NOTE = "E is the paper's; a smaller scale has a smaller one in its place, in the same order."
_BERT_NOTE = (
    "BERT is trained like ALBERT here, with sentence order, the same optimizer and batches, so that only the "
    "architecture differs."
)
_BERT_LARGE, _XXLARGE = Variant("large", 1024, "none"), Variant("xxlarge")


def _table_2() -> Experiment:
    variants = {
        "bert-base": ("BERT base", Variant("base", 768, "none"), 108),
        "bert-large": ("BERT large", _BERT_LARGE, 334),
        "albert-base": ("ALBERT base", Variant("base"), 12),
        "albert-large": ("ALBERT large", Variant("large"), 18),
        "albert-xlarge": ("ALBERT xlarge", Variant("xlarge"), 60),
        "albert-xxlarge": ("ALBERT xxlarge", _XXLARGE, 235),
    }
    return Experiment(
        name="table2",
        title="BERT and ALBERT by size",
        paper="Table 2",
        question="How good are the sizes of BERT and ALBERT after equally many steps, and how fast do they train?",
        rows=[
            PlannedRow(name, title, variant, {"parameters": millions, **paper.TABLE_2[name]})
            for name, (title, variant, millions) in variants.items()
        ],
        measures=(*_QUALITY, "speed"),
        claims=[
            Claim("albert-xxlarge", "bert-large"),
            Claim("albert-large", "bert-large"),
            Claim("albert-large", "albert-base"),
            Claim("albert-xlarge", "albert-large"),
            Claim("albert-xxlarge", "albert-xlarge"),
            Claim("bert-large", "bert-base"),
        ],
        notes=[_BERT_NOTE],
    )


def _table_3() -> Experiment:
    millions = {"none": (87, 89, 93, 108), "all": (10, 12, 16, 31)}
    rows = [
        PlannedRow(
            f"{sharing}-{E}",
            f"E={E}, {_SHARING[sharing]}",
            Variant("base", E, sharing),
            {"parameters": number, **paper.TABLE_3[sharing, E]},
        )
        for sharing in ("none", "all")
        for E, number in zip((64, 128, 256, 768), millions[sharing], strict=True)
    ]
    return Experiment(
        name="table3",
        title="Embedding size",
        paper="Table 3",
        question="How wide must the word embeddings be, where layers share their parameters and where they don't?",
        rows=rows,
        measures=_QUALITY,
        claims=[
            Claim("all-128", "all-64"),
            Claim("all-128", "all-256"),
            Claim("all-128", "all-768"),
            Claim("none-768", "none-64"),
            Claim("none-768", "none-128"),
            Claim("none-768", "none-256"),
        ],
        notes=[_E_NOTE],
    )


def _table_4() -> Experiment:
    millions = {768: (31, 83, 57, 108), 128: (12, 64, 38, 89)}
    rows = [
        PlannedRow(
            f"{sharing}-{E}",
            f"E={E}, {title}",
            Variant("base", E, sharing),  # type: ignore[arg-type]
            {"parameters": number, **paper.TABLE_4[sharing, E]},
        )
        for E, numbers in millions.items()
        for (sharing, title), number in zip(_SHARING.items(), numbers, strict=True)
    ]
    return Experiment(
        name="table4",
        title="Sharing parameters across layers",
        paper="Table 4",
        question="What does it cost that all layers share their attention, their feed-forward part, or both?",
        rows=rows,
        measures=_QUALITY,
        claims=[
            Claim(f"{sharing}-{E}", f"none-{E}")
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
        question="Does predicting the order of sentences teach what predicting the next one doesn't?",
        rows=[
            PlannedRow(
                name,
                title,
                Variant(objective=name),
                paper.TABLE_5[name],
            )
            for name, title in titles.items()
        ],
        measures=("masked_lm", *PROBED),
        claims=[
            Claim("sop", "nsp", "sop", "sop"),
            Claim("sop", "none", "sop", "sop"),
            Claim("nsp", "none", "sop", "sop"),
            Claim("sop", "none", "nsp", "nsp"),
            Claim("nsp", "sop", "nsp", "nsp"),
            Claim("sop", "none", "average"),
            Claim("sop", "nsp", "average"),
        ],
        notes=[
            "NSP and SOP are asked of all three models alike: a fresh head, a tanh layer and a classifier as "
            "ALBERT has them, is trained on the encoder's vector of [CLS]; the encoder is frozen.",
            "MLM is on held-out examples of the model's own kind, whose second segments differ.",
        ],
    )


def _table_6() -> Experiment:
    equal_time = Variant("large", 1024, "none", equal_time_with=_XXLARGE)
    return Experiment(
        name="table6",
        title="Equal time in place of equal steps",
        paper="Table 6",
        question="Is ALBERT-xxlarge better than a BERT-large that trained for as long, hence for more steps?",
        rows=[
            PlannedRow("bert-large-steps", "BERT large, as many steps", _BERT_LARGE, {}),
            PlannedRow("bert-large", "BERT large, as long", equal_time, paper.TABLE_6["bert-large"]),
            PlannedRow("albert-xxlarge", "ALBERT xxlarge", _XXLARGE, paper.TABLE_6["albert-xxlarge"]),
        ],
        measures=("steps", "hours", "masked_lm", "own_sentence"),
        claims=[
            Claim("albert-xxlarge", "bert-large"),
            Claim("albert-xxlarge", "bert-large-steps"),
            Claim("bert-large", "bert-large-steps"),
        ],
        notes=[
            _BERT_NOTE,
            "BERT-large's steps follow from how long the first seed's runs of both models took on this device, "
            "evaluations left out.",
        ],
        over_time=True,
    )


def _table_11() -> Experiment:
    rows: list[PlannedRow] = []
    before = None
    for depth in paper.TABLE_11:
        variant = Variant("large", width=1024, layers=depth, start=before)
        rows.append(
            PlannedRow(
                f"layers-{depth}", f"{depth} layers", variant, {"parameters": 18, **paper.TABLE_11[depth]}
            )
        )
        before = variant
    return Experiment(
        name="table11",
        title="Depth",
        paper="Table 11",
        question="Do more applications of the one shared layer help, and until when?",
        rows=rows,
        measures=_QUALITY,
        claims=[Claim(deeper.name, shallower.name) for shallower, deeper in itertools.pairwise(rows)],
        notes=[
            "As in the paper each model starts from the weights of the one before it; so the deeper ones have "
            "been trained for more steps, too."
        ],
    )


def _table_12() -> Experiment:
    millions = {1024: 18, 2048: 60, 4096: 225, 6144: 499}
    rows = [
        PlannedRow(
            f"width-{width}",
            f"H={width}",
            Variant("large", width=width, layers=3),
            {"parameters": number, **paper.TABLE_12[width]},
        )
        for width, number in millions.items()
    ]
    return Experiment(
        name="table12",
        title="Width",
        paper="Table 12",
        question="Do wider layers help a model of three layers, and until when?",
        rows=rows,
        measures=_QUALITY,
        claims=[Claim(wider.name, narrower.name) for narrower, wider in itertools.pairwise(rows)],
        notes=[
            "H is the paper's; a smaller scale has a smaller one in its place, in the same order. All start from "
            "fresh weights; the paper's H=1024 is its 3-layer model of Table 11, which does not."
        ],
    )


def _figure_2() -> Experiment:
    less, dropout = Variant(text="part"), Variant("xxlarge", dropout=True)
    variants = {
        "less-data": ("No additional data", less),
        "data-added": ("With additional data", Variant(start=less, fork=True)),
        "dropout": ("With dropout", dropout),
        "dropout-removed": ("Dropout removed", Variant("xxlarge", dropout=False, start=dropout, fork=True)),
    }
    return Experiment(
        name="figure2",
        title="More text and no dropout, late in training",
        paper="Figure 2, Tables 7 and 8",
        question="What do more text and the removal of dropout in the middle of training bring?",
        rows=[
            PlannedRow(name, title, variant, paper.FIGURE_2[name])
            for name, (title, variant) in variants.items()
        ],
        measures=("masked_lm", "own_sentence"),
        claims=[Claim("data-added", "less-data"), Claim("dropout-removed", "dropout")],
        notes=[
            "The second model of each pair goes on from the middle of the first one's run, with its moments and "
            "schedule. Without additional data means with a quarter of the files. The first pair is of base size, "
            "the second of xxlarge.",
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
