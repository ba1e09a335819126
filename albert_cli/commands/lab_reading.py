"""Commands of the laboratory that read what is there: figure1, table9, table10, report."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from rich.console import Console

from albert_cli.commands.tensorflow_quietly import import_tensorflow
from data_prep.errors import InputError

_SEVERAL = Parameter(negative="")  # no --empty-model
# What reads checkpoints and runs that are there: name, where in the paper, what it asks.
READ = (
    ("figure1", "Figure 1", "How far does each layer of checkpoints move its input?"),
    ("table9", "Table 9", "What do fine-tuned runs and their ensemble come to on GLUE?"),
    ("table10", "Table 10", "What do fine-tuned runs and their ensemble come to on SQuAD and RACE?"),
)


def figure1(
    *,
    model: Annotated[list[str], _SEVERAL],
    text: str,
    output: str,
    spm_model_file: str | None = None,
    vocab_file: str | None = None,
    do_lower_case: bool = True,
    max_seq_length: int = 512,
    num_sequences: int = 32,
) -> None:
    """Measure how far each layer of some checkpoints moves its input: L2 distance and cosine similarity.

    For example:

      albert lab figure1 --model=albert_large.tar.gz --model=BERT=runs/none --text=book.txt --output=lab

    Args:
      model: PATH or NAME=PATH of anything that `albert convert` reads; may be given several times. A folder of
        seed-1, seed-2, ... stands for all of them, and so do several paths of one name.
      text: files to read, as --input_file in `albert prepare`.
      output: the laboratory's folder; the results are in its folder figure1.
      spm_model_file: a SentencePiece model, for checkpoints that come without their vocabulary.
      vocab_file: a WordPiece vocab.txt, likewise.
      do_lower_case: of these two; --nodo_lower_case for a cased vocabulary.
      max_seq_length: tokens of a sequence; fewer where a model has fewer positions.
      num_sequences: how many sequences are read, evenly spread over the text.
    """
    if spm_model_file and vocab_file:
        raise InputError("--spm_model_file and --vocab_file are two vocabularies. Received both; name one.")
    import_tensorflow()
    from albert_tf.lab.figure1 import figure1 as run_figure1

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    results = run_figure1(
        model,
        text,
        Path(output),
        vocab_file=spm_model_file or vocab_file,
        do_lower_case=do_lower_case,
        max_seq_length=max_seq_length,
        num_sequences=num_sequences,
        command=_typed(),
        say=lambda line: console.print(line, markup=False),
    )
    console.print(results.notes[0], markup=False)
    print(Path(output) / results.experiment)


def table9(*runs: str, output: str) -> None:
    """Tabulate fine-tuned models and their ensemble on GLUE beside the paper, from what they predicted.

    For example:

      albert lab table9 runs/rte runs/mrpc base=runs/cola_base --output=lab

    Args:
      runs: folders of albert finetune; one with several seeds stands for all of them. Runs from one checkpoint are
        a row; NAME=FOLDER names it.
      output: the laboratory's folder; the results are in its folder table9.
    """
    _leaderboard("table9", runs, output, [])


def table10(*runs: str, output: str, gold: Annotated[list[str] | None, _SEVERAL] = None) -> None:
    """Tabulate fine-tuned models and their ensemble on SQuAD and RACE beside the paper, from what they predicted.

    For example:

      albert lab table10 runs/squad2 runs/race --gold=squad2.0=dev-v2.0.json --output=lab

    Args:
      runs: folders of albert finetune; one with several seeds stands for all of them. Runs from one checkpoint are
        a row; NAME=FOLDER names it.
      output: the laboratory's folder; the results are in its folder table10.
      gold: squad1.1=FILE or squad2.0=FILE, SQuAD's JSON file with the right answers. Default: what the runs were
        evaluated on, if it is still there.
    """
    _leaderboard("table10", runs, output, gold or [])


def report(folder: str, /) -> None:
    """Write all experiments of a laboratory as one HTML page by itself: tables, plots, and how they were made.

    For example:

      albert lab report lab

    Args:
      folder: the laboratory's, what --output was; the page is report.html in it.
    """
    from albert_tf.lab.report import write_report

    print(write_report(Path(folder)))


def register(lab: App) -> None:
    """Adds the commands to `albert lab`."""
    for command in (figure1, table9, table10, report):
        lab.command(command)


def _leaderboard(name: str, runs: Sequence[str], output: str, gold: Sequence[str]) -> None:
    from albert_tf.lab.leaderboards import TABLE_9, TABLE_10, leaderboard, parse_gold

    table = {board.name: board for board in (TABLE_9, TABLE_10)}[name]
    results = leaderboard(table, runs, Path(output), gold=parse_gold(gold), command=_typed())
    for note in results.notes:
        Console(stderr=True, highlight=False, soft_wrap=True).print(f"note: {note}", markup=False)
    print(Path(output) / results.experiment)


def _typed() -> str:
    """The command line, for the page that shows how numbers were made."""
    return shlex.join(["albert", *sys.argv[1:]])
