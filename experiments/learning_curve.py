"""Draws learning curves of the three sentence objectives on the same books, with books held out.

For example:

    python -m experiments.learning_curve --input_file='books/*.md' --output=curves

One book in 20 is held out. A small model first trains on short sequences, from which it learns much sooner to
predict a word from its neighbors (it does not learn sentence order from them). From there the same model
trains for the same number of steps with sentence-order prediction, with next-sentence prediction, and with masked
words alone: the rows of the paper's Table 5. Masks are redrawn in every epoch. Everything runs through the
`albert` command, on two virtual CPU devices; the short sequences run on one, because their steps are too small to
share. The experiment writes one PNG and one JSON file; the same command resumes it if it was interrupted.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from albert_cli import program
from albert_tf.config import AlbertConfig
from albert_tf.lab.pretraining_runs import evaluations, training_seconds
from albert_tf.lab.text import link_files, split_files
from data_prep.files import write_json
from data_prep.text.sources import expand_files
from experiments.albert_command import albert
from experiments.conditions import check_conditions, facts_of

OBJECTIVES = ("sop", "nsp", "none")


@dataclass(frozen=True)
class CurveSettings:
    """The flags.

    Attributes:
      input_file: text in prose, one book per file; globs and commas are allowed.
      output: folder for examples, runs, curves.png and learning_curve.json.
      short_steps: number of steps on short sequences, whose batches have half as many tokens.
      steps: number of steps of each later run.
      batch_size: number of examples per step.
      num_devices: number of virtual CPU devices.
      vocab_size: number of pieces in the vocabulary, V.
      short_seq_length: length of the short sequences in tokens.
      max_seq_length: length of the later runs' sequences in tokens.
      embedding_size: embedding size, E.
      hidden_size: hidden size, H; each attention head is 32 wide.
      num_hidden_layers: number of layers, L.
      learning_rate: peak learning rate of AdamW.
    """

    input_file: str
    output: Path
    short_steps: int = 12_000
    steps: int = 6_000
    batch_size: int = 16
    num_devices: int = 2
    vocab_size: int = 8000
    short_seq_length: int = 32
    max_seq_length: int = 128
    embedding_size: int = 128
    hidden_size: int = 128
    num_hidden_layers: int = 3
    learning_rate: float = 0.0015


def main(settings: CurveSettings) -> None:
    paths = expand_files(settings.input_file)
    flags = {name: value for name, value in vars(settings).items() if name not in ("input_file", "output")}
    check_conditions(settings.output, "learning_curve", {"input_file": facts_of(paths), **flags})
    books = link_books(paths, settings.output / "books")
    if not (settings.output / "vocabulary.model").is_file():
        prose = {"input_format": "prose", "vocab_size": settings.vocab_size}
        albert("vocab", input_file=books["train"], output_prefix=settings.output / "vocabulary", **prose)
    first = settings.output / "short"
    T, S = settings.max_seq_length, settings.short_seq_length
    B, devices = settings.batch_size, settings.num_devices
    stages = {"short": Stage("sop", S, settings.short_steps, B * T // S // 2, 1)}
    stages |= {name: Stage(name, T, settings.steps, B, devices, first) for name in OBJECTIVES}
    rows = {}
    for name, stage in stages.items():
        files = {part: prepare(settings, stage, part, books[part]) for part in books}
        pretrain(settings, stage, files, settings.output / name)
        rows[name] = last_evaluation(settings.output / name)
        print(name, json.dumps(rows[name]), flush=True)
    albert("plot", *(settings.output / name for name in OBJECTIVES), output=settings.output / "curves.png")
    report = {
        "settings": flags,
        "books": {part: len(expand_files(pattern)) for part, pattern in books.items()},
        "runs": rows,
    }
    write_json(settings.output / "learning_curve.json", report)
    print(json.dumps(report, indent=2))


def link_books(paths: list[Path], folder: Path) -> dict[str, str]:
    """Links the books to train on and those to hold out, one in 20, into folders; returns the globs of both."""
    train, heldout = split_files(paths)
    return {
        part: link_files(books, folder / part) for part, books in (("train", train), ("heldout", heldout))
    }


@dataclass(frozen=True)
class Stage:
    """A run.

    Attributes:
      objective: the sentence objective.
      max_seq_length: T.
      steps: the number of steps.
      batch_size: examples in a step.
      num_devices: virtual CPU devices.
      start: the run whose model it starts from.
    """

    objective: str
    max_seq_length: int
    steps: int
    batch_size: int
    num_devices: int
    start: Path | None = None


def model_config(settings: CurveSettings, T: int) -> AlbertConfig:
    H = settings.hidden_size
    return AlbertConfig(
        vocab_size=settings.vocab_size,
        embedding_size=settings.embedding_size,
        hidden_size=H,
        num_attention_heads=max(1, H // 32),
        intermediate_size=4 * H,
        num_hidden_layers=settings.num_hidden_layers,
        max_position_embeddings=T,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=round(0.8 * H**-0.5, 3),  # scaled from BERT's 0.02 at its width
    )


def prepare(settings: CurveSettings, stage: Stage, part: str, books: str) -> str:
    """Writes the examples of one stage unless they exist; returns their glob."""
    folder = settings.output / f"{stage.objective}-{stage.max_seq_length}-examples" / part
    output = folder / f"{part}.tfrecord"
    if not (folder / "manifest.json").is_file():
        albert(
            "prepare",
            input_file=books,
            input_format="prose",
            output_file=output,
            spm_model_file=settings.output / "vocabulary.model",
            max_seq_length=stage.max_seq_length,
            sentence_objective=stage.objective,
            # Training: other chunks in each of five passes. Held out: pairs and masks never change.
            dupe_factor=5 if part == "train" else 1,
            masking="dynamic" if part == "train" else "static",
        )
    return f"{output}*"


def pretrain(settings: CurveSettings, stage: Stage, files: dict[str, str], run: Path) -> None:
    config = settings.output / f"albert_config_{stage.max_seq_length}.json"
    model_config(settings, stage.max_seq_length).to_json_file(config)
    flags = ["--do_train", "--do_eval"]
    if stage.start:
        flags += [f"--init_checkpoint={stage.start}", "--resize_positions"]
    albert(
        "pretrain",
        *flags,
        input_file=files["train"],
        eval_file=files["heldout"],
        albert_config_file=config,
        spm_model_file=settings.output / "vocabulary.model",
        output_dir=run,
        num_devices=stage.num_devices,
        train_batch_size=stage.batch_size,
        num_train_steps=stage.steps,
        num_warmup_steps=stage.steps // 20,
        optimizer="adamw",
        learning_rate=settings.learning_rate,
        save_checkpoints_steps=-(-stage.steps // 10),
        log_steps=-(-stage.steps // 50),
        max_eval_steps=200,
    )


def last_evaluation(run: Path) -> dict:
    """The metrics of the last evaluation, and the training time in minutes."""
    last = evaluations(run)[-1]
    names = (
        "eval_masked_lm_loss",
        "eval_masked_lm_accuracy",
        "eval_sentence_order_accuracy",
        "eval_examples",
    )
    return {
        "step": last["step"],
        "minutes": round(training_seconds(run) / 60, 1),
        **{name: last[name] for name in names},
    }


if __name__ == "__main__":
    raise SystemExit(program.run_with_settings(main, CurveSettings, __doc__))
