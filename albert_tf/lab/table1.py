"""Table 1: the configurations and their exact parameters, by arithmetic."""

from albert_tf.lab.environment import describe_environment
from albert_tf.lab.results import Column, Results, Row
from albert_tf.lab.settings import LabSettings
from albert_tf.parameters import PaperRow, paper_rows

NAME, TITLE, PAPER = "table1", "Configurations and parameters", "Table 1"
QUESTION = "How many parameters have the models of the paper, exactly?"
_COLUMNS = (
    Column("parameters", "Parameters", "millions", 3, None),
    Column("layers", "Layers", "", 0, None),
    Column("hidden", "Hidden", "", 0, None),
    Column("embedding", "Embedding", "", 0, None),
    Column("exact", "Exactly", "parameters", 0, None),
    Column("with_heads", "With heads", "parameters", 0, None),
)
# As printed: layers, hidden, embedding.
_PRINTED = {
    "BERT base": (12, 768, 768),
    "BERT large": (24, 1024, 1024),
    "ALBERT base": (12, 768, 128),
    "ALBERT large": (24, 1024, 128),
    "ALBERT xlarge": (24, 2048, 128),
    "ALBERT xxlarge": (12, 4096, 128),
}


def table1(settings: LabSettings) -> Results:
    """The table; nothing is trained for it."""
    return Results(
        experiment=NAME,
        title=TITLE,
        paper=PAPER,
        question=QUESTION,
        scale="paper",
        seeds=[],
        command=settings.command(NAME),
        settings={"vocab_size": 30_000},
        environment=describe_environment(),
        columns=_COLUMNS,
        rows=[_row(row) for row in paper_rows() if row.table == 1],
        notes=[
            "Counted as the paper does: with the pooler in models that share parameters, without it in those that "
            "share nothing.",
            "The paper prints 60M for xlarge and 235M for xxlarge; every implementation has 58.7M and 222.6M.",
        ],
    )


def _row(row: PaperRow) -> Row:
    config = row.config
    layers, hidden, embedding = _PRINTED[row.name]
    printed = {"parameters": row.millions, "layers": layers, "hidden": hidden, "embedding": embedding}
    ours = {
        "parameters": row.parameters / 1e6,
        "layers": config.num_hidden_layers,
        "hidden": config.hidden_size,
        "embedding": config.embedding_size,
        "exact": row.parameters,
        "with_heads": row.with_heads,
    }
    return Row(
        row.name.lower().replace(" ", "-"), row.name, printed, {name: [value] for name, value in ours.items()}
    )
