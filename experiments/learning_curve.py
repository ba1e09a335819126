"""Draws learning curves of the three sentence objectives on the same books, with books held out.

For example:

    python -m experiments.learning_curve --input_file='books/*.md' --output=curves

One book in 20 is held out. A small model first trains on short sequences, from which it learns much sooner to
predict a word from its neighbors (it does not learn sentence order from them). From there the same model
trains for the same number of steps with sentence-order prediction, with next-sentence prediction, and with
masked words alone: the rows of the paper's Table 5. Masks are redrawn in every epoch. The experiment writes one
PNG and one JSON file; the same command resumes it if it was interrupted.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from albert_cli import program
from albert_tf.config import AlbertConfig
from benchmarks.processes import albert
from data_prep.examples.manifest import MANIFEST
from data_prep.files import write_json
from data_prep.text.sources import expand_files
from experiments.conditions import check_conditions, facts_of
from experiments.metrics import evaluations, training_seconds
from experiments.texts import link_files, split_files

OBJECTIVES = {"sop": "sentence order", "nsp": "next sentence", "none": "no sentence loss"}
_SHORT, _LONG = 32, 128  # T of the first run and of the others
_BATCH = 16  # rows of _LONG tokens; the first run has half as many tokens in a step
_SIZES = {"embedding_size": 128, "hidden_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4}
_PANELS = {
    "eval_masked_lm_loss": "masked-LM loss, held out",
    "eval_masked_lm_accuracy": "masked-LM accuracy, held out",
    "eval_sentence_order_accuracy": "sentence accuracy, held out",
}


@dataclass(frozen=True)
class CurveSettings:
    """The flags.

    Attributes:
      input_file: text in prose, one book per file; globs and commas are allowed.
      output: folder for examples, runs, curves.png and learning_curve.json.
      short_steps: number of steps on short sequences.
      steps: number of steps of each later run.
      vocab_size: number of pieces in the vocabulary, V.
      learning_rate: peak learning rate of AdamW.
      num_devices: number of virtual CPU devices; short sequences run on one, because their steps are too small.
    """

    input_file: str
    output: Path
    short_steps: int = 12_000
    steps: int = 6_000
    vocab_size: int = 8000
    learning_rate: float = 0.0015
    num_devices: int = 2


def main(settings: CurveSettings) -> None:
    """Trains the four models, and writes the picture and the metrics."""
    from experiments.paper.pictures import draw_curves

    paths, folder = expand_files(settings.input_file), settings.output
    flags = {name: value for name, value in vars(settings).items() if name not in ("input_file", "output")}
    check_conditions(folder, "learning_curve", {"input_file": facts_of(paths), **flags})
    split = zip(("train", "heldout"), split_files(paths), strict=True)
    books = {part: link_files(files, folder / "books" / part) for part, files in split}
    if not (folder / "vocabulary.model").is_file():
        prose = {"input_format": "prose", "vocab_size": settings.vocab_size}
        albert("vocab", input_file=books["train"], output_prefix=folder / "vocabulary", **prose)
    rows = {"short": train(settings, books, "sop", _SHORT, settings.short_steps, folder / "short")}
    for objective in OBJECTIVES:
        run, start = folder / objective, folder / "short"
        rows[objective] = train(settings, books, objective, _LONG, settings.steps, run, start)
    curves = {title: [evaluations(folder / name, name != "none")] for name, title in OBJECTIVES.items()}
    draw_curves(folder / "curves.png", curves, "step", _PANELS)
    write_json(folder / "learning_curve.json", {"settings": flags, "runs": rows})
    print(json.dumps(rows, indent=2))


def train(
    settings: CurveSettings,
    books: dict[str, str],
    objective: str,
    T: int,
    steps: int,
    run: Path,
    start: Path | None = None,
) -> dict[str, float]:
    """Trains a model, if need be; returns its last evaluation, and the training time in minutes."""
    config = run.parent / f"albert_config_{T}.json"
    AlbertConfig(
        vocab_size=settings.vocab_size,
        intermediate_size=4 * _SIZES["hidden_size"],
        max_position_embeddings=T,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.071,  # 0.8 / sqrt(H), as BERT's 0.02 at its width
        **_SIZES,
    ).to_json_file(config)
    albert(
        "pretrain",
        "--do_train",
        "--do_eval",
        *(["--resize_positions"] if start else []),
        init_checkpoint=start,
        input_file=examples(settings, books, objective, T, "train"),
        eval_file=examples(settings, books, objective, T, "heldout"),
        albert_config_file=config,
        spm_model_file=settings.output / "vocabulary.model",
        output_dir=run,
        num_devices=settings.num_devices if start else 1,
        train_batch_size=_BATCH if start else _BATCH * _LONG // _SHORT // 2,
        num_train_steps=steps,
        num_warmup_steps=steps // 20,
        optimizer="adamw",
        learning_rate=settings.learning_rate,
        save_checkpoints_steps=-(-steps // 10),
        log_steps=-(-steps // 50),
        max_eval_steps=200,
    )
    last, minutes = evaluations(run, objective != "none")[-1], round(training_seconds(run) / 60, 1)
    return {
        "step": last["step"],
        "minutes": minutes,
        **{name: last[name] for name in _PANELS if name in last},
    }


def examples(settings: CurveSettings, books: dict[str, str], objective: str, T: int, part: str) -> str:
    """The glob of a part's examples, which are written unless they exist."""
    folder = settings.output / f"{objective}-{T}-examples" / part
    if not (folder / MANIFEST).is_file():
        albert(
            "prepare",
            input_file=books[part],
            input_format="prose",
            output_file=folder / f"{part}.tfrecord",
            spm_model_file=settings.output / "vocabulary.model",
            max_seq_length=T,
            sentence_objective=objective,
            # Training: other chunks in each of five passes. Held out: pairs and masks never change.
            dupe_factor=5 if part == "train" else 1,
            masking="dynamic" if part == "train" else "static",
        )
    return f"{folder}/{part}.tfrecord*"


if __name__ == "__main__":
    raise SystemExit(program.run_with_settings(main, CurveSettings, __doc__))
