"""The `albert` command. Each subcommand turns flags into settings and calls the library.

Heavy imports wait until a command runs: `albert --help` and a mistyped flag answer at once.
"""

import difflib
import json
import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import cyclopts
from cyclopts import App, Parameter
from rich.console import Console
from rich.table import Table

from albert_tf.errors import InputError, Preempted
from albert_tf.finetuning.settings import FinetuningSettings
from albert_tf.training.settings import PretrainingSettings
from data_prep.inspection_settings import InspectSettings
from data_prep.prepare_settings import PrepareSettings
from data_prep.vocabulary import VocabularySettings

# Flags have the original's names: --input_file, not --input-file; --nodo_train is absl's --do_train=false.
_FLAGS = Parameter(name_transform=lambda name: name, negative_bool="no", show_env_var=False)
_SETTINGS = Parameter(name="*")
_INSPECT = InspectSettings()

app = App(
    name="albert",
    help="ALBERT from raw text to a SavedModel: vocab, tokenize, prepare, inspect, pretrain, plot, convert, "
    "export, evaluate, ensemble, submission.",
    default_parameter=_FLAGS,
    help_format="plaintext",
    version_flags=["--version"],
    suppress_keyboard_interrupt=False,
)


def main(arguments: list[str] | None = None) -> int:
    """Runs the `albert` command and returns its exit status."""
    return run(app, arguments)


def run(program: App, arguments: list[str] | None = None) -> int:
    """Runs a command line; 2 for the user's mistakes, told in one sentence, 130 for Ctrl-C, 143 for SIGTERM."""
    console = Console(stderr=True)
    try:
        program(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except (InputError, cyclopts.CycloptsError) as error:
        console.print(
            f"albert: {_message(error)}", style="bold red", markup=False, highlight=False, soft_wrap=True
        )
        return 2
    except KeyboardInterrupt:
        console.print("albert: interrupted", style="bold red")
        return 130
    except Preempted as stop:
        console.print(f"albert: {stop}", style="bold", markup=False, highlight=False, soft_wrap=True)
        return 143
    return 0


def _message(error: Exception) -> str:
    """What to tell of an error; a misspelt flag comes before the flags that are missing."""
    if isinstance(error, cyclopts.MissingArgumentError) and error.app and error.command_chain is not None:
        command = error.app
        known = [
            name
            for argument in command.assemble_argument_collection(default_parameter=_FLAGS)
            for name in argument.names
        ]
        for token in error.unused_tokens or ():
            flag = token.split("=")[0]
            if flag.startswith("--") and flag not in known:
                (nearest,) = difflib.get_close_matches(flag, known, n=1, cutoff=0.0)
                return f"Unknown option: {flag}. Did you mean {nearest}?"
    return str(error)


def _import_tensorflow() -> None:
    """Imports TensorFlow without the notes on CUDA and oneDNN that it writes from C++ while starting."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.stderr.flush()
    saved = os.dup(2)
    try:
        with Path(os.devnull).open("wb") as silence:
            os.dup2(silence.fileno(), 2)
        import tensorflow as tf

        tf.config.list_physical_devices()
    finally:
        os.dup2(saved, 2)
        os.close(saved)


@app.command
def vocab(*, settings: Annotated[VocabularySettings, _SETTINGS]) -> None:
    """Train a SentencePiece vocabulary with ALBERT's symbols.

    For example:

      albert vocab --input_file='text/*.txt' --output_prefix=vocab/30k
    """
    if "tfds:" in f"{settings.input_file},{settings.eval_file}":
        _import_tensorflow()  # tensorflow-datasets will
    from data_prep.vocabulary import read_report, train_vocabulary
    from data_prep.vocabulary_report import report_table

    model_file = train_vocabulary(settings)
    Console(stderr=True).print(report_table(read_report(model_file)))
    print(model_file)


@app.command
def tokenize(
    *,
    spm_model_file: str | None = None,
    vocab_file: str | None = None,
    do_lower_case: bool = True,
    pieces: bool = False,
    offsets: bool = False,
) -> None:
    """Turn lines of text on standard input into JSON arrays of ids, one a line, without [CLS] and [SEP].

    For example:

      albert tokenize --spm_model_file=vocab/30k.model < text.txt

    Args:
      spm_model_file: a SentencePiece model.
      vocab_file: a WordPiece vocab.txt, as the Chinese checkpoints have, in place of a SentencePiece model.
      do_lower_case: --nodo_lower_case for a cased vocabulary.
      pieces: print the pieces rather than their ids.
      offsets: print [begin, end] of each piece in its line, in characters (code points).
    """
    from data_prep.token_stream import Output, load_tokenizer, tokenize_stream

    if pieces and offsets:
        raise InputError("`pieces` and `offsets` are two ways to print. Received both; name one.")
    tokenizer = load_tokenizer(spm_model_file, vocab_file, do_lower_case)
    output: Output = "pieces" if pieces else "offsets" if offsets else "ids"
    try:
        tokenize_stream(tokenizer, sys.stdin.buffer, sys.stdout.buffer, output)
    except BrokenPipeError:  # `| head` has seen enough; nor is there anyone to flush for at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@app.command
def prepare(*, settings: Annotated[PrepareSettings, _SETTINGS]) -> None:
    """Write SOP and masked-LM examples of a text as TFRecord shards with a manifest.json.

    For example:

      albert prepare --input_file='text/*.txt' --max_seq_length=512 \\
          --spm_model_file=vocab/30k.model --output_file=data/train.tfrecord

      albert prepare --runner=FlinkRunner --pipeline_options='--flink_master=host:8081' \\
          --input_file='gs://bucket/text/*.txt' --num_shards=256 \\
          --spm_model_file=vocab/30k.model --output_file=gs://bucket/data/train.tfrecord
    """
    if settings.runner == "local":
        from data_prep.writer import prepare as write_examples
    else:
        from data_prep.cluster import prepare_on_cluster as write_examples
    write_examples(settings)


@app.command
def inspect(
    *files: Annotated[str, Parameter(help="TFRecord files of examples, plain or GZIP; globs allowed.")],
    settings: Annotated[InspectSettings, _SETTINGS] = _INSPECT,
) -> None:
    """Show what is in files of pretraining examples; count it; check that they are whole.

    For example:

      albert inspect data/train.tfrecord-* --stats --verify
    """
    _import_tensorflow()
    from data_prep.inspection import inspect as inspect_files

    inspect_files(list(files), settings, Console())


@app.command
def pretrain(*, settings: Annotated[PretrainingSettings, _SETTINGS]) -> None:
    """Pretrain an ALBERT with masked-LM and sentence-order losses.

    The same command again goes on with an interrupted run.

    For example:

      albert pretrain --do_train --input_file='data/train.tfrecord*' \\
          --do_eval --eval_file='heldout_data/heldout.tfrecord*' \\
          --albert_config_file=albert_config.json --output_dir=runs/base
    """
    _import_tensorflow()
    import run_pretraining

    run_pretraining.pretrain(settings)


@app.command
def finetune(*, settings: Annotated[FinetuningSettings, _SETTINGS]) -> None:
    """Fine-tune a pretrained ALBERT on a task of the paper or on your own data; evaluate and predict with it.

    What is not said is as in the paper's Table 14. The same command again goes on with an interrupted run.

    For example:

      albert finetune --task=rte --data_dir=glue --init_checkpoint=albert_base_v2.tar.gz \\
          --output_dir=runs/rte --do_train --do_eval --do_predict --seeds=5

      albert finetune --task=classification --train_file=train.csv --dev_file=dev.csv --do_train --do_eval \\
          --init_checkpoint=runs/base --output_dir=runs/mine
    """
    _import_tensorflow()
    import run_finetuning

    run_finetuning.finetune(settings)
    print(Path(settings.output_dir) / "results.json")


@app.command
def predict(
    *,
    model_dir: str,
    input_format: Literal["auto", "text", "tsv", "jsonl"] = "auto",
    batch_size: int = 64,
    max_answer_length: int = 30,
) -> None:
    """Answer lines of standard input with a fine-tuned model: a JSON object for each, as they come.

    For example:

      albert predict --model_dir=runs/sst-2 < reviews.txt

      albert predict --model_dir=runs/squad < questions.jsonl

    Args:
      model_dir: what --output_dir was in `albert finetune`; of several seeds the best on the dev set answers.
      input_format: what a line is: a text; texts with tabs between them (two texts; question and context; passage,
        question and options); or a JSON object with the columns of own data.
        auto goes by the first line.
      batch_size: lines that are answered together, if so many have come.
      max_answer_length: tokens of the longest answer to a question.
    """
    if batch_size < 1 or max_answer_length < 1:
        raise InputError(
            "--batch_size and --max_answer_length must be at least 1. "
            f"Received {batch_size} and {max_answer_length}."
        )
    _import_tensorflow()
    from albert_tf.finetuning.predict import Predictor, predict_stream

    predictor = Predictor(model_dir, batch_size=batch_size, max_answer_length=max_answer_length)
    try:
        predict_stream(predictor, sys.stdin.buffer, sys.stdout.buffer, input_format)
    except BrokenPipeError:  # as in `tokenize`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@app.command
def plot(
    *runs: str,
    output: str = "learning_curves.png",
) -> None:
    """Draw and compare the learning curves of runs: training as lines, evaluation as dots.

    For example:

      albert plot runs/base runs/without_sop --output=curves.png

    Args:
      runs: run folders, what --output_dir was in pretraining or fine-tuning; of the latter all seeds are drawn.
      output: the PNG to write.
    """
    from albert_tf.training.plot import plot_runs

    plot_runs([Path(run) for run in runs], Path(output))
    print(output)


@app.command
def export(
    *,
    model_dir: str,
    output: str,
    kind: Literal["encoder", "preprocessor", "fill-mask", "embedding"] = "encoder",
    seq_length: int | None = None,
    top_k: int | None = None,
    pooling: Literal["mean", "pooled"] | None = None,
    format: Literal["savedmodel", "onnx", "litert"] = "savedmodel",  # noqa: A002
    dtype: Literal["float32", "bfloat16"] = "float32",
    quantize: Literal["none", "float16", "int8"] = "none",
    eval_file: str | None = None,
) -> None:
    """Write a model as a SavedModel; all kinds but the encoder take text. Or the encoder as ONNX or LiteRT.

    For example:

      albert export --model_dir=runs/base --output=saved_model

      albert export --kind=fill-mask --model_dir=albert_base_v2.tar.gz --output=models/albert/1

      albert export --format=litert --quantize=int8 --eval_file='heldout/*.tfrecord' --model_dir=runs/base \\
          --output=phone

    Args:
      model_dir: a run's folder, what --output_dir was in pretraining; or anything that `albert convert` reads.
      output: a new folder, or an earlier export to replace.
      kind: encoder (ids to vectors, with the heads), preprocessor (text to the encoder's inputs), fill-mask (text
        with [MASK] to the best pieces) or embedding (text to one vector).
      seq_length: of the preprocessor; 128 unless told.
      top_k: how many pieces fill-mask gives; 5 unless told.
      pooling: of embedding: the mean of all tokens' vectors, or the pooled output; mean unless told.
      format: of the encoder: a SavedModel, model.onnx for ONNX Runtime and others, or model.tflite for LiteRT.
      dtype: of a SavedModel: bfloat16 halves it and computes in bfloat16, faster where the processor can.
      quantize: of onnx and litert: float16 halves the file; int8 quarters it and multiplies in 8 bits.
      eval_file: of onnx and litert: pretraining examples on which the masked-LM accuracy before and after is
        measured.
    """
    _import_tensorflow()
    from export.run import export_model

    given = {"seq_length": seq_length, "top_k": top_k, "pooling": pooling}
    options = {name: value for name, value in given.items() if value is not None}
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if format == "savedmodel":
        if quantize != "none" or eval_file:
            raise InputError("--quantize and --eval_file belong to --format=onnx and --format=litert.")
        result = export_model(model_dir, output, kind, dtype, **options)
    else:
        from export.runtimes import export_for_runtime

        if kind != "encoder" or options or dtype != "float32":
            raise InputError(f"--format={format} is of --kind=encoder, in float32, without further options.")
        result = export_for_runtime(model_dir, output, format, quantize, eval_file)
    for note in result.notes:
        console.print(f"note: {note}", markup=False)
    console.print(result.comparison.sentence, markup=False)
    print(output)


@app.command
def convert(
    source: str,
    destination: str,
    /,
    *,
    to: Literal["tf1", "huggingface", "keras", "kerashub"],
    verify: bool = True,
) -> None:
    """Write a pretrained model in another format, and check that it computes the same.

    For example:

      albert convert albert_base_v2.tar.gz albert_base_hf --to=huggingface

    Args:
      source: a run's folder or checkpoint, Google's TF1 checkpoint (folder, prefix or .tar.gz), a TF-Hub
        SavedModel, a Hugging Face or KerasHub directory, hf://OWNER/NAME, or what this command wrote.
      destination: a new or empty folder.
      to: tf1 (for google-research/albert), huggingface, keras (a .keras file of ours) or kerashub.
      verify: compare the outputs of source and result on random input. --noverify leaves it out.
    """
    _import_tensorflow()
    from albert_tf.pretrained.conversion import convert as convert_model

    result = convert_model(source, destination, to, verify=verify)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    for note in result.notes:
        console.print(f"note: {note}", markup=False)
    if result.comparison:
        console.print(result.comparison.sentence, markup=False)
    print(destination)


@app.command
def evaluate(
    *,
    task: str,
    predictions: str,
    gold: str,
    null_odds: str | None = None,
    na_prob_thresh: float = 1.0,
) -> None:
    """Print the official metrics of predictions as one JSON object; needs no model.

    For example:

      albert evaluate --task=squad2.0 --predictions=predictions.json --null_odds=null_odds.json \\
          --gold=dev-v2.0.json

      albert evaluate --task=mrpc --predictions=MRPC.tsv --gold=glue/MRPC/dev.tsv

    Args:
      task: what albert finetune takes, or glue for a folder with CoLA.tsv, SST-2.tsv and so on.
      predictions: GLUE's TSV with the header index and prediction; SQuAD's predictions.json; for RACE and other
        multiple choice a JSON object of letters by id; for words one of lists of labels, or CoNLL's columns.
      gold: the file with the right answers, or the folder of the task's download, of which the dev set is taken.
      null_odds: for SQuAD 2.0, null_odds.json; adds the best threshold and what it gives.
      na_prob_thresh: predictions with null odds above it count as no answer, as in SQuAD's own script.
    """
    from albert_tf.finetuning.evaluation import evaluate as evaluate_files
    from data_prep.tasks.problems import Problems

    problems = Problems()
    odds = Path(null_odds) if null_odds else None
    try:
        metrics = evaluate_files(
            task, Path(predictions), Path(gold), problems, null_odds=odds, na_prob_thresh=na_prob_thresh
        )
    finally:
        _print_notes(problems.lines())
    print(json.dumps(metrics, indent=2))


@app.command
def ensemble(
    *runs: str,
    task: str,
    split: Literal["dev", "test"] = "dev",
    gold: str | None = None,
    threshold: float | None = None,
    output_dir: str | None = None,
) -> None:
    """Average the predictions of fine-tuned models; print the metrics of each and of the whole as JSON.

    For example:

      albert ensemble runs/rte runs/rte_large --task=rte

      albert ensemble runs/squad2 --task=squad2.0 --gold=dev-v2.0.json --output_dir=runs/squad2/all

    Args:
      runs: folders of albert finetune; one with several seeds stands for all of them.
      task: what they were trained on.
      split: dev, or test to write predictions.
      gold: SQuAD's JSON file with the right answers.
      threshold: of SQuAD 2.0, null odds above which there is no answer. Default: the best by --gold, or 0.
      output_dir: where to write the ensemble's predictions.
    """
    from albert_tf.finetuning.ensemble_report import report_runs
    from data_prep.tasks.task import find_task

    report = report_runs(
        find_task(task),
        [Path(run) for run in runs],
        split,
        gold=Path(gold) if gold else None,
        threshold=threshold,
        output_dir=Path(output_dir) if output_dir else None,
    )
    print(json.dumps(report, indent=2))


@app.command
def submission(*runs: str, output: str) -> None:
    """Write the zip that GLUE's server takes.

    For example:

      albert submission cola=runs/cola mnli=runs/mnli ax=runs/mnli --output=glue.zip

    Args:
      runs: TASK=FOLDER of each task, with its test set predicted.
      output: the zip to write.
    """
    from albert_tf.finetuning.submission import write_glue_zip

    pairs = [run.partition("=") for run in runs]
    if not pairs or not all(folder for _, _, folder in pairs):
        raise InputError(f"Runs must be given as TASK=FOLDER. Received {' '.join(runs) or 'none'}.")
    missing = write_glue_zip(Path(output), {task: Path(folder) for task, _, folder in pairs})
    _print_notes([f"GLUE's server wants all tasks; {output} lacks {', '.join(missing)}."] if missing else [])
    print(output)


def _print_notes(notes: list[str]) -> None:
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    for note in notes:
        console.print(f"note: {note}", markup=False)


@app.command
def params(*, json_: Annotated[bool, Parameter(name="--json", negative="")] = False) -> None:
    """Print exact parameter counts of all models in the paper's Tables 1, 3 and 4.

    For example:

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
