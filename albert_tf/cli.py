"""The `albert` command. Each subcommand turns flags into settings and calls the library.

Heavy imports wait until a command runs: `albert --help` and a mistyped flag answer at once.
"""

import json
import os
import sys
from typing import Annotated

import cyclopts
from cyclopts import App, Parameter
from rich.console import Console
from rich.table import Table

from albert_tf.errors import InputError
from albert_tf.training.settings import PretrainingSettings
from data_prep.inspection_settings import InspectSettings
from data_prep.vocabulary import VocabularySettings
from data_prep.writer import PrepareSettings

# Flags have the original's names: --input_file, not --input-file; --nodo_train is absl's --do_train=false.
_FLAGS = Parameter(name_transform=lambda name: name, negative_bool="no", show_env_var=False)
_SETTINGS = Parameter(name="*")
_INSPECT = InspectSettings()

app = App(
    name="albert",
    help="ALBERT from raw text to a SavedModel: vocab, prepare, inspect, pretrain, export.",
    default_parameter=_FLAGS,
    help_format="plaintext",
    version_flags=["--version"],
)


def main(arguments: list[str] | None = None) -> int:
    """Runs the `albert` command and returns its exit status."""
    return run(app, arguments)


def run(program: App, arguments: list[str] | None = None) -> int:
    """Runs a command line; status 2 for the user's mistakes, told in one sentence, 130 for Ctrl-C."""
    console = Console(stderr=True)
    try:
        program(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except (InputError, cyclopts.CycloptsError) as error:
        console.print(f"albert: {error}", style="bold red", markup=False, highlight=False, soft_wrap=True)
        return 2
    except KeyboardInterrupt:
        console.print("albert: interrupted", style="bold red")
        return 130
    return 0


def _import_tensorflow() -> None:
    """Imports TensorFlow without the notes on CUDA and oneDNN that it writes from C++ while starting."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.stderr.flush()
    saved = os.dup(2)
    try:
        with open(os.devnull, "wb") as silence:
            os.dup2(silence.fileno(), 2)
        import tensorflow as tf

        tf.config.list_physical_devices()
    finally:
        os.dup2(saved, 2)
        os.close(saved)


@app.command
def vocab(settings: Annotated[VocabularySettings, _SETTINGS]) -> None:
    """Train a SentencePiece vocabulary with ALBERT's symbols.

    Example:
      albert vocab --input_file='text/*.txt' --output_prefix=vocab/30k --vocab_size=30000
    """
    if "tfds:" in f"{settings.input_file},{settings.eval_file}":
        _import_tensorflow()  # tensorflow-datasets will
    from data_prep.vocabulary import read_report, train_vocabulary
    from data_prep.vocabulary_report import report_table

    model_file = train_vocabulary(settings)
    Console(stderr=True).print(report_table(read_report(model_file)))
    print(model_file)


@app.command
def prepare(settings: Annotated[PrepareSettings, _SETTINGS]) -> None:
    """Write SOP and masked-LM examples of a text as TFRecord shards with a manifest.json.

    Example:
      albert prepare --input_file='text/*.txt' --output_file=data/train.tfrecord \\
          --spm_model_file=vocab/30k.model --max_seq_length=512
    """
    _import_tensorflow()
    from data_prep.writer import prepare as write_examples

    write_examples(settings)


@app.command
def inspect(
    *files: Annotated[str, Parameter(help="TFRecord files of examples, plain or GZIP; globs allowed.")],
    settings: Annotated[InspectSettings, _SETTINGS] = _INSPECT,
) -> None:
    """Show what is in files of pretraining examples; count it; check that they are whole.

    Example:
      albert inspect data/train.tfrecord-* --stats --verify
    """
    _import_tensorflow()
    from data_prep.inspection import inspect as inspect_files

    inspect_files(list(files), settings, Console())


@app.command
def pretrain(settings: Annotated[PretrainingSettings, _SETTINGS]) -> None:
    """Pretrain an ALBERT with masked-LM and sentence-order losses.

    The same command again goes on with an interrupted run.

    Example:
      albert pretrain --input_file='data/train.tfrecord*' --eval_file='data/heldout.tfrecord*' \\
          --albert_config_file=albert_config.json --output_dir=runs/base --do_train --do_eval
    """
    _import_tensorflow()
    import run_pretraining

    run_pretraining.pretrain(settings)


@app.command
def export(*, model_dir: str, output: str) -> None:
    """Write a run's model as a SavedModel.

    Example:
      albert export --model_dir=runs/base --output=saved_model

    Args:
      model_dir: the run's folder, what --output_dir was in pretraining.
      output: a new folder, or an earlier export to replace.
    """
    _import_tensorflow()
    from export.run import export_run

    print(export_run(model_dir, output))


@app.command
def params(*, json_: Annotated[bool, Parameter(name="--json")] = False) -> None:
    """Print exact parameter counts of all models in the paper's Tables 1, 3 and 4.

    Example:
      albert params --json

    Args:
      json_: print a list of objects {table, name, parameters, with_heads} instead of a table.
    """
    from albert_tf.parameters import paper_rows

    rows = paper_rows()
    if json_:
        fields = ("table", "name", "parameters", "with_heads")
        print(json.dumps([{field: getattr(row, field) for field in fields} for row in rows], indent=2))
        return
    table = Table("table", "model", "paper", "parameters", "with heads", title="Parameters (V = 30,000)")
    for row in rows:
        table.add_row(
            str(row.table), row.name, f"{row.millions}M", f"{row.parameters:,}", f"{row.with_heads:,}"
        )
    console = Console()
    console.print(table)
    console.print(
        "Counted as the paper does: with the pooler, but without it where nothing is shared. With heads: the "
        "whole pretraining model. The paper rounds xlarge (58.7M) and xxlarge (222.6M) to 60M and 235M.",
        highlight=False,
    )


if __name__ == "__main__":
    sys.exit(main())
