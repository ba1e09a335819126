"""Commands about training: pretrain, finetune, plot, params."""

import contextlib
import json
import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.table import Table

from albert_cli.commands.terminal import import_tensorflow, print_next
from albert_tf.checkpoints.run_files import METRICS_FILE, RESULTS_FILE
from albert_tf.finetuning.flags import FinetuningFlags
from albert_tf.pretraining.flags import PretrainingFlags
from albert_tf.training.device_flags import DeviceFlags
from data_prep.console import open_console
from data_prep.errors import needs_extra
from data_prep.files import is_remote

_FLAGS = Parameter(name="*")


def pretrain(*, flags: Annotated[PretrainingFlags, _FLAGS]) -> None:
    """Pretrain an ALBERT model with masked-LM and sentence-order losses.

    The same command resumes an interrupted run.

    For example:

      albert pretrain --do_train --input_file='data/train.tfrecord*' \\
          --do_eval --eval_file='heldout_data/heldout.tfrecord*' \\
          --albert_config_file=albert_config.json --output_dir=runs/base
    """
    import_backend(flags)
    from albert_tf.pretraining import pretrain as program

    program.pretrain(flags)
    print(flags.output_dir)
    print_next(
        f"albert plot {flags.output_dir}",
        f"albert finetune --init_checkpoint={flags.output_dir} --help",
        f"albert export --model_dir={flags.output_dir} --output=saved_model",
    )


def finetune(*, flags: Annotated[FinetuningFlags, _FLAGS]) -> None:
    """Fine-tune a pretrained model on a task of the paper or on your own data; evaluate it and predict with it.

    The defaults for the paper's tasks come from its Table 14. The same command resumes an interrupted run.

    For example:

      albert finetune --task=rte --data_dir=glue \\
          --init_checkpoint=albert_base_v2 --output_dir=runs/rte \\
          --do_train --do_eval --do_predict --seeds=5

      albert finetune --task=classification --train_file=train.csv \\
          --dev_file=dev.csv --do_train --do_eval --init_checkpoint=albert_small_en \\
          --output_dir=runs/mine
    """
    import_backend(flags)
    from albert_tf.finetuning import finetune as program
    from albert_tf.tasks.task import find_task

    program.finetune(flags)
    run = flags.output_dir
    print(f"{run.rstrip('/')}/{RESULTS_FILE}" if is_remote(run) else Path(run) / RESULTS_FILE)
    is_one_text = find_task(flags.task).kind.is_one_text
    print_next(
        f"albert predict --model_dir={flags.output_dir} < {'texts.txt' if is_one_text else 'examples.jsonl'}",
        f"albert plot {flags.output_dir}",
    )


def import_backend(flags: DeviceFlags) -> None:
    """Imports TensorFlow, which reads the examples, after choosing the backend with which Keras starts."""
    if flags.uses_jax:
        with needs_extra("--backend=jax", "jax", "jax"):
            import jax  # noqa: F401
    os.environ["KERAS_BACKEND"] = flags.chosen_backend
    import_tensorflow()


def plot(
    *runs: str,
    output: str = "learning_curves.png",
) -> None:
    """Plot the learning curves of runs in one picture: training as lines, evaluations as dots.

    For example:

      albert plot runs/base runs/without_sop --output=curves.png

    Args:
      runs: folders of pretraining or fine-tuning runs (their --output_dir), or their addresses; all seeds of a
        fine-tuning run are drawn.
      output: picture to write, or its address: a .png, .pdf or .svg file.
    """
    from albert_tf.training.plot import plot_runs
    from data_prep.storage.copies import fetched, pushed

    with contextlib.ExitStack() as stack:
        folders = [stack.enter_context(fetched(run, [f"*{METRICS_FILE}"])) for run in runs]
        plot_runs(folders, Path(stack.enter_context(pushed(output))))
    print(output)


def params(*, json_: Annotated[bool, Parameter(name="--json", negative="")] = False) -> None:
    """Print the exact parameter counts of all models in the paper's Tables 1, 3 and 4.

    For example:

      albert params --json

    Args:
      json_: print a list of JSON objects {table, name, parameters, with_heads} instead of a table.
    """
    from albert_tf.parameter_tables import counted_models

    models = counted_models()
    if json_:
        fields = ("table", "name", "parameters", "with_heads")
        print(json.dumps([{field: getattr(model, field) for field in fields} for model in models], indent=2))
        return
    table = Table("table", "model", "paper", "parameters", "with heads", title="Parameters (V = 30,000)")
    for model in models:
        table.add_row(
            str(model.table),
            model.name,
            f"{model.millions}M",
            f"{model.parameters:,}",
            f"{model.with_heads:,}",
        )
    console = open_console()
    console.print(table)
    console.print(
        "Counted as in the paper: with the pooler, but without it for models that share no parameters. With "
        "heads: the complete pretraining model. The paper rounds xlarge (58.7M) and xxlarge (222.6M) to 60M and "
        "235M.",
        highlight=False,
    )
