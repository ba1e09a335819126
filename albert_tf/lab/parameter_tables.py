"""Exact parameter counts beside the paper's: Table 1 as results, and what `albert params` prints."""

from dataclasses import dataclass

from albert_tf.config import AlbertConfig
from albert_tf.lab import paper
from albert_tf.lab.environment import describe_environment
from albert_tf.lab.experiments import EXPERIMENTS
from albert_tf.lab.results import Column, ResultRow, Results
from albert_tf.lab.scales import PAPER
from albert_tf.lab.settings import LabSettings
from albert_tf.parameters import count_parameters, counted_as_in_the_paper

COMMAND = "table1"
QUESTION = "How many parameters exactly do the paper's models have?"
_COLUMNS = (
    Column("parameters", "Parameters", "millions", 3),
    Column("layers", "Layers", "", 0),
    Column("hidden", "Hidden", "", 0),
    Column("embedding", "Embedding", "", 0),
    Column("exact", "Exactly", "parameters", 0),
    Column("with_heads", "With heads", "parameters", 0),
)


@dataclass(frozen=True)
class CountedModel:
    """A model of the paper's Table 1, 3 or 4.

    Attributes:
      table: the table's number.
      key: the row's name in the experiment.
      name: the model's name.
      config: the model at the paper's scale.
      millions: parameters as the paper prints them.
    """

    table: int
    key: str
    name: str
    config: AlbertConfig
    millions: float

    @property
    def parameters(self) -> int:
        """Parameters, counted as the paper does."""
        return counted_as_in_the_paper(self.config)

    @property
    def with_heads(self) -> int:
        """Parameters of the whole pretraining model: embeddings, layers, pooler and both heads."""
        return count_parameters(self.config).pretrainer


def counted_models() -> list[CountedModel]:
    """The models of Tables 1, 3 and 4, in the paper's order."""
    # Table 2 scores the models whose sizes Table 1 lists.
    return [
        CountedModel(
            table,
            row.name,
            prefix + row.title,
            row.variant.config(PAPER, PAPER.vocab_size, PAPER.max_seq_length),
            row.paper["parameters"],
        )
        for table, experiment, prefix in (
            (1, "table2", ""),
            (3, "table3", "ALBERT base "),
            (4, "table4", "ALBERT base "),
        )
        for row in EXPERIMENTS[experiment].rows
    ]


def table_1(settings: LabSettings) -> Results:
    """The results of Table 1, by arithmetic; nothing is trained."""
    return Results(
        experiment=COMMAND,
        title="Configurations and parameters",
        paper="Table 1",
        question=QUESTION,
        scale="paper",
        seeds=[],
        command=settings.command(COMMAND),
        settings={"vocab_size": PAPER.vocab_size},
        environment=describe_environment(),
        columns=_COLUMNS,
        rows=[_row(model) for model in counted_models() if model.table == 1],
        notes=[
            "Counted as the paper does: with the pooler if the model shares parameters, without it if not.",
            "The paper prints 60M for xlarge and 235M for xxlarge; every implementation has 58.7M and 222.6M.",
        ],
    )


def _row(model: CountedModel) -> ResultRow:
    ours = {
        "parameters": model.parameters / 1e6,
        "layers": model.config.num_hidden_layers,
        "hidden": model.config.hidden_size,
        "embedding": model.config.embedding_size,
        "exact": model.parameters,
        "with_heads": model.with_heads,
    }
    return ResultRow(
        model.key, model.name, paper.TABLE_1[model.key], {name: [value] for name, value in ours.items()}
    )
