"""Commands for the predictions of fine-tuned models: predict, evaluate, ensemble, submission."""

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from albert_cli.commands.portable_models import is_portable_model
from albert_cli.commands.streams import input_stream, output_stream
from albert_cli.commands.terminal import import_tensorflow, print_message, print_notes
from albert_tf.checkpoints.sources import NO_FLAGS, SourceFlags, names_in
from albert_tf.runtime.engine_flags import USUAL_ENGINE, EngineSettings
from albert_tf.tasks.columns import LABEL_SEPARATOR, Columns
from data_prep.console import working
from data_prep.errors import InputError, check_given_once
from data_prep.files import read_json_object

if TYPE_CHECKING:
    from albert_tf.runtime.trained_model import TrainedModel
    from albert_tf.tasks.kind import Kind, Task
    from albert_tf.tasks.problems import Problems

# What an ensemble reads of a run, as `fetched` takes it.
_KEPT = (
    "*settings.json",
    "*results.json",
    "*_probabilities.jsonl",
    "*_nbest_predictions.json",
    "*_null_odds.json",
)


def predict(
    *,
    model_dir: str,
    input_file: str = "-",
    output_file: str = "-",
    task: str | None = None,
    flags: Annotated[SourceFlags, Parameter(name="*")] = NO_FLAGS,
    input_format: Literal["auto", "text", "tsv", "csv", "jsonl"] = "auto",
    column_names: str = "",
    batch_size: int = 64,
    batch_tokens: int | None = None,
    max_answer_length: int | None = None,
    portable: Annotated[EngineSettings, Parameter(name="*")] = USUAL_ENGINE,
) -> None:
    """Apply a fine-tuned model to each line of a file or of standard input; its predictions are JSON lines.

    For example:

      albert predict --model_dir=runs/sst-2 < reviews.txt

      albert predict --model_dir=runs/mine < new.csv

      albert predict --model_dir=runs/mine --column_names=text=review < reviews.csv

      albert predict --model_dir=runs/squad < questions.jsonl

      albert predict --model_dir=hf://OWNER/NAME < reviews.txt

      albert predict --model_dir=runs/mine --input_file=s3://bucket/new.csv \\
          --output_file=s3://bucket/answers.jsonl

      albert predict --model_dir=portable --requests=2 --batch_tokens=2048 \\
          < reviews.txt

    Args:
      model_dir: fine-tuned model: the --output_dir of `albert finetune` (of several seeds, the one with the best
        result on the dev set); the output of `albert export --format=onnx`, which runs without TensorFlow; or
        any other source that `albert convert` reads, such as a .keras file, a Hugging Face directory or an
        address.
      input_file: file to read, or its address. Default: standard input.
      output_file: file to write when all lines are answered, or its address. Default: standard output, where each
        line is answered as it arrives.
      task: what a fine-tuned model is for, where its files leave it open, as --task of `albert finetune`:
        regression or multiple-choice for a TF1 checkpoint with one output, ordinal-classification for classes
        that are ordered.
      flags: supply what the model's files lack.
      input_format: layout of the lines. "text" has one text per line; "tsv", texts separated by tabs (two
        texts; a question and its context; a passage, a question and options); "jsonl", a JSON object with the
        columns of your own data; "csv", a table whose first line names these columns. "auto" decides from the
        first line, and recognizes tables with tabs, too.
      column_names: names of the columns of a table or of objects, for example text=review; see `albert finetune
        --help`. Default: those of the model's training data, or the known ones.
      batch_size: maximum number of lines per batch.
      batch_tokens: maximum number of tokens per batch, padding included; a single line may have more. Default:
        no limit.
      max_answer_length: maximum length of an answer, in tokens. Default: that of the model's training or export,
        or 30.
      portable: how a portable model runs.
    """
    if any(given is not None and given < 1 for given in (batch_size, batch_tokens, max_answer_length)):
        raise InputError(
            "--batch_size, --batch_tokens and --max_answer_length must be at least 1. "
            f"Received {batch_size}, {batch_tokens} and {max_answer_length}."
        )
    named = Columns.named(column_names)
    from albert_tf.tasks.task import find_task

    kind = find_task(task).kind if task else None
    with input_stream(input_file) as source, output_stream(output_file) as sink:
        model = _read_model(model_dir, flags, kind, portable)
        from albert_tf.runtime.predictor import Predictor, predict_stream
        from albert_tf.tasks.splits import BatchSize

        size = BatchSize(batch_size, batch_tokens)
        predictor = Predictor(model, size=size, max_answer_length=max_answer_length)
        predict_stream(predictor, source, sink, input_format, named)


def evaluate(
    *,
    gold: str,
    task: str | None = None,
    predictions: str | None = None,
    model_dir: str | None = None,
    flags: Annotated[SourceFlags, Parameter(name="*")] = NO_FLAGS,
    null_odds: str | None = None,
    na_prob_thresh: float = 1.0,
    column_names: str = "",
    label_separator: str = LABEL_SEPARATOR,
    label_order: str = "",
    portable: Annotated[EngineSettings, Parameter(name="*")] = USUAL_ENGINE,
) -> None:
    """Print the official metrics of a file of predictions, or of a fine-tuned model, as a JSON object.

    For example:

      albert evaluate --task=squad2.0 --predictions=predictions.json \\
          --null_odds=null_odds.json --gold=dev-v2.0.json

      albert evaluate --task=mrpc --predictions=MRPC.tsv --gold=glue/MRPC/dev.tsv

      albert evaluate --model_dir=runs/mine --gold=test.csv

      albert evaluate --task=sst-2 --model_dir=hf://OWNER/NAME --gold=glue/SST-2

    Args:
      gold: file with the correct labels, or folder of the task as downloaded, whose dev set is used; or its
        address, as for --predictions and --null_odds.
      task: task of `albert finetune`; with --predictions also "glue", for a folder that holds CoLA.tsv,
        SST-2.tsv and so on. Default, with --model_dir: the task that the run was trained on, or own data of the
        model's kind.
      predictions: file with predictions. GLUE: TSV with the header index and prediction. SQuAD:
        predictions.json. Multiple choice: a JSON object of letters by id. Multi-label and token classification:
        a JSON object of lists of labels by id, or CoNLL columns.
      model_dir: fine-tuned model to evaluate in place of --predictions; see `albert predict --help`.
      flags: supply what the model's files lack.
      null_odds: file null_odds.json of SQuAD 2.0; adds the best thresholds and the scores with them.
      na_prob_thresh: null odds above which a prediction for SQuAD 2.0 counts as "no answer", as in SQuAD's own
        script.
      column_names: names of your columns if they differ from the known ones; see `albert finetune --help`.
        Default, with --model_dir: those that the run was trained on.
      label_separator: separator between the labels of a text in multi-label classification, unless the labels
        are a list. Default, with --model_dir: that of the run.
      label_order: with --predictions, classes of an ordinal classification from lowest to highest, for example
        "bad,fair,good". Default: the order of numbers, if the classes are numbers.
      portable: how a portable model runs.
    """
    if label_order:
        from albert_tf.tasks.kinds import check_order

        check_order(task)
        if predictions is None:
            raise InputError(
                f"--label_order needs --task={task} and --predictions. Received it with --model_dir; leave it out."
            )
    columns = Columns.named(column_names, label_separator, names_in(label_order))
    if (predictions is None) == (model_dir is None):
        raise InputError(
            "albert evaluate needs --predictions or --model_dir. Received "
            f"{'neither' if model_dir is None else 'both'}."
        )
    if model_dir is not None:
        if null_odds is not None or na_prob_thresh != 1:
            raise InputError(
                "--null_odds and --na_prob_thresh need --predictions; a model computes its own null odds. "
                f"Received {null_odds} and {na_prob_thresh} with --model_dir; leave them out."
            )
        from albert_tf.tasks.task import find_task

        found_task = find_task(task) if task else None
        model = _read_model(model_dir, flags, found_task, portable)
        metrics = _evaluate_model(model, found_task or model.task, gold, columns)
    else:
        if task is None:
            raise InputError("--predictions needs --task, which the file does not name. Received no --task.")
        if changed := _changed(flags, NO_FLAGS) + _changed(portable, USUAL_ENGINE):
            raise InputError(
                f"Flags about a model need --model_dir. Received {', '.join(changed)} with --predictions; leave "
                "them out."
            )
        metrics = _score_file(task, str(predictions), gold, null_odds, na_prob_thresh, columns)
    print(json.dumps(metrics, indent=2))


def _changed(settings: Any, usual: Any) -> list[str]:
    """The flags of a dataclass that differ from the usual values."""
    return [f"--{name}={value}" for name, value in vars(settings).items() if value != getattr(usual, name)]


def _score_file(
    task: str, predictions: str, gold: str, null_odds: str | None, na_prob_thresh: float, columns: Columns
) -> Mapping[str, Any]:
    """The metrics of a file of predictions."""
    from albert_tf.tasks.scores import score_predictions
    from data_prep.storage.copies import fetched

    with _noted_problems() as problems, contextlib.ExitStack() as stack:
        local = stack.enter_context(fetched(gold))
        stack.callback(problems.rename, str(local), gold)
        return score_predictions(
            task,
            stack.enter_context(fetched(predictions)),
            local,
            problems,
            null_odds=stack.enter_context(fetched(null_odds)) if null_odds else None,
            na_prob_thresh=na_prob_thresh,
            columns=columns,
        )


@contextlib.contextmanager
def _noted_problems() -> Iterator["Problems"]:
    """Collects unusable rows, and prints them at the end, also after an error."""
    from albert_tf.tasks.problems import Problems

    problems = Problems()
    try:
        yield problems
    finally:
        print_notes(problems.lines())


def _read_model(
    model_dir: str, flags: SourceFlags, task: "Task | Kind | None", settings: EngineSettings
) -> "TrainedModel":
    """A fine-tuned model of any format; TensorFlow is imported unless it is portable."""
    if is_portable_model(model_dir, flags, settings):
        from albert_tf.runtime.portable_loading import load_trained
        from albert_tf.tasks.kind import Kind
        from albert_tf.tasks.task import wrong_kind

        model = load_trained(model_dir, settings)
        if isinstance(task, Kind) and task is not model.kind:
            raise wrong_kind(task, model_dir, model.kind)
        return model
    import_tensorflow()
    from albert_tf.runtime.finetuned import read_finetuned

    return read_finetuned(model_dir, flags, task)


def _evaluate_model(model: "TrainedModel", task: "Task", gold: str, columns: Columns) -> Mapping[str, float]:
    """The metrics of a fine-tuned model on a dev set."""
    from albert_tf.runtime.trained_model import predict_task

    with _noted_problems() as problems, working(f"evaluating on {gold}"):
        found = predict_task(model, task, gold, problems, columns=model.columns.replaced_by(columns))
    if not found.metrics:
        raise InputError(f"--gold must have labels. Received {gold}, which has none.")
    return found.metrics


def ensemble(
    *runs: str,
    task: str | None = None,
    split: Literal["dev", "test"] = "dev",
    data_dir: str | None = None,
    flags: Annotated[SourceFlags, Parameter(name="*")] = NO_FLAGS,
    gold: str | None = None,
    threshold: float | None = None,
    output_dir: str | None = None,
) -> None:
    """Average the predictions of fine-tuned models, and print the metrics of each and of the ensemble as JSON.

    For example:

      albert ensemble runs/rte runs/rte_large

      albert ensemble runs/squad2 --gold=dev-v2.0.json --output_dir=runs/squad2/all

      albert ensemble runs/rte hf://OWNER/NAME --data_dir=glue

    Args:
      runs: output folders of `albert finetune`, where a folder with several seeds stands for those that have not
        failed; and other fine-tuned models, as for `albert predict`, which predict --split now.
      task: task that the models were trained on. Default: that of the runs.
      split: "dev" measures the ensemble; "test" only writes its predictions.
      data_dir: folder or file of the task, for models that have no predictions yet. Default: the data that a run
        was trained with.
      flags: supply what the files of models from elsewhere lack.
      gold: file with the correct answers of questions: SQuAD's JSON file, or a file of your own data.
      threshold: null odds above which SQuAD 2.0 has no answer. Default: the best threshold for --gold, or 0
        without it.
      output_dir: folder to write the ensemble's predictions to, or its address. Default: print the metrics only.
    """
    from albert_tf.tasks.benchmarks.ensemble import check_has_runs, report_runs
    from albert_tf.tasks.task import find_task
    from data_prep.storage.copies import fetched, pushed

    check_has_runs(runs)
    with _noted_problems() as problems, contextlib.ExitStack() as stack:
        runs = tuple(run.rstrip("/") for run in runs)
        copies = {run: stack.enter_context(_with_predictions(run)) for run in runs if "://" in run}
        folders = [
            folder
            for place in (copies.get(run, Path(run)) for run in runs)
            for folder in (place, *place.glob("seed_*"))
        ]
        found_task = find_task(task or _task_of(runs, folders))
        if not found_task.kind.needs_gold and (gold is not None or threshold is not None):
            raise InputError(
                "--gold and --threshold are for questions, such as --task=squad2.0. Received them with "
                f"--task={found_task.name}; leave them out."
            )
        columns = Columns.of_run(_settings_of(folders))

        def predict_member(member: str):
            import_tensorflow()
            from albert_tf.runtime import finetuned

            with working(f"predicting with {member}"):
                return finetuned.predict_member(member, found_task, split, data_dir, flags, problems, columns)

        for folder in folders:
            _check_task(folder, found_task.name)
        report = report_runs(
            found_task,
            runs,
            split,
            predict_member,
            copies=copies,
            gold=stack.enter_context(fetched(gold)) if gold else None,
            columns=columns,
            problems=problems,
            threshold=threshold,
            output_dir=Path(stack.enter_context(pushed(output_dir))) if output_dir else None,
        )
    print(json.dumps(report, indent=2))
    if output_dir:
        print_message(f"the ensemble's predictions are in {output_dir}")


@contextlib.contextmanager
def _with_predictions(run: str) -> Iterator[Path]:
    """A copy of the settings and predictions of a run in an object store; none of other models."""
    from albert_tf.checkpoints.downloads import SCHEMES
    from data_prep.storage.copies import fetched
    from data_prep.storage.objects import files_below

    if run.partition("://")[0] in SCHEMES or not files_below(run):
        yield Path(run)
        return
    with fetched(run, _KEPT) as copy:
        yield copy


def submission(*runs: str, output: str) -> None:
    """Write the zip file that GLUE's server takes as a submission.

    For example:

      albert submission cola=runs/cola mnli=runs/mnli ax=runs/mnli \\
          --output=glue.zip

    Args:
      runs: TASK=FOLDER for each task, where the run in FOLDER, which may be an address, was given --do_predict. Of
        several seeds, the one with the best result on the dev set is used.
      output: zip file to write, or its address.
    """
    from albert_tf.tasks.benchmarks.submission import write_glue_zip
    from data_prep.storage.copies import fetched, pushed

    pairs = [run.partition("=") for run in runs]
    if not pairs or not all(folder for _, _, folder in pairs):
        raise InputError(f"Runs must be given as TASK=FOLDER. Received {' '.join(runs) or 'none'}.")
    names = [task.lower() for task, _, _ in pairs]
    check_given_once("task", names)
    with contextlib.ExitStack() as stack:
        folders = dict[str, Path]()
        for task, (_, _, run) in zip(names, pairs, strict=True):
            local = stack.enter_context(fetched(run, ["*.json", "*_probabilities.jsonl"]))
            folders[task] = _predicted_folder(task, local)
            print_notes([f"{task} from {str(folders[task]).replace(str(local), run.rstrip('/'))}"])
        missing = write_glue_zip(Path(stack.enter_context(pushed(output))), folders)
    if missing:
        print_notes([f"GLUE's server requires all tasks; {output} lacks {', '.join(missing)}."])
    print(output)


def _predicted_folder(task: str, run: Path) -> Path:
    """The folder with a run's predictions: that of a seed.

    Raises:
      InputError: the run was trained on another task.
    """
    from albert_tf.checkpoints.run_files import best_seed_folder

    folder = best_seed_folder(run) or run
    _check_task(folder, task)
    return folder


def _check_task(folder: Path, task: str) -> None:
    """Raises InputError if a folder's settings name another task; runs of MNLI also predict AX."""
    trained = _settings_in(folder).get("task") or task
    if trained not in (task, "mnli" if task == "ax" else task):
        raise InputError(
            f"Predictions must come from a run of their task. Received {task} and {folder}, a run of {trained}."
        )


def _task_of(runs: Iterable[str], folders: Iterable[Path]) -> str:
    """The task of the first folder that belongs to a run.

    Raises:
      InputError: none does.
    """
    task = _settings_of(folders).get("task")
    if task is None:
        for run in runs:
            if not ("://" in run or Path(run).exists() or Path(f"{run}.index").exists()):
                raise InputError(f"There is no folder {run}. Name the --output_dir of `albert finetune`.")
        raise InputError(
            "--task must name the task of models that are not runs of `albert finetune`. Received none."
        )
    return task


def _settings_of(folders: Iterable[Path]) -> Mapping[str, Any]:
    """The settings of the first folder that belongs to a run; empty if none does."""
    return next(filter(None, map(_settings_in, folders)), {})


def _settings_in(folder: Path) -> dict[str, Any]:
    """The settings in a folder; empty without any."""
    from albert_tf.checkpoints.run_files import SETTINGS_FILE

    return read_json_object(folder / SETTINGS_FILE) if (folder / SETTINGS_FILE).exists() else {}
