"""Writes the model card of albert_small_en from what its training and its fine-tuning measured.

For example, after two runs of experiments/albert_small_en.py, of which the second continues the first:

    python -m experiments.downstream --init_checkpoint=small_en_2/albert_small_en --output=downstream ...
    python -m experiments.albert_small_en_card --runs small_en small_en_2 \\
        --downstream=downstream/downstream.json --model_dir=albert_tf/models/albert_small_en

Every figure in the card comes from the runs' folders and from downstream.json.
"""

import json
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from albert_cli import program
from albert_tf.config import AlbertConfig
from albert_tf.lab.pretraining_runs import evaluations, training_seconds
from albert_tf.parameters import count_parameters
from albert_tf.pretrained.card import CARD_FILE, markdown_table
from albert_tf.training.run_files import SETTINGS_FILE
from data_prep.files import read_json_object, write_text
from data_prep.text.sources import expand_files
from experiments import downstream
from experiments.albert_small_en import HELDOUT_FILE, NAME

CURVE_POINTS = 16  # lines of the learning curve at most

CARD = """---
language: en
library_name: albert_tf
pipeline_tag: fill-mask
tags: [albert, albert_tf]
---

# {name}

A small English ALBERT ([Lan et al. 2020](https://arxiv.org/abs/1909.11942)) for trying things out, for
teaching and for tests: {parameters:,} parameters (L={L}, H={H}, E={E}, V={V:,}, up to {T} tokens, lower case),
trained from scratch by this repository's commands on two CPU cores.

```python
import albert_tf

model = albert_tf.load_pretrained("{name}").model
classifier = albert_tf.TextClassifier.from_pretrained("{name}", labels=("bad", "good"))
```

`--init_checkpoint={name}` fine-tunes it on the command line.

## Limits

It is a small model of old novels and Python documentation: it knows little of the world, nothing that is
recent, and only English. Its text has the prejudices of its time. It is not for decisions about people. For
results that matter, start from `albert_base_v2` or larger (`albert models`).

## Text

{text}

## Training

Masked-LM with n-grams of whole words and sentence-order prediction, both redrawn in every epoch
(`--masking=dynamic`), AdamW, bfloat16 activations and float32 weights. {summary} Each run but the first starts
from the model of the one before, with a new warm-up.

{runs}

```
{commands}
```

## Learning curve

On at most {eval_examples:,} examples of held-out books, of the length that is trained at that step:

{curve}

## Held-out books

All examples of the held-out books. "Most frequent piece" is the accuracy of always predicting it.

{heldout}

## Fine-tuned

By `experiments/downstream.py` with {seeds} seeds for each task, evaluated once, at the end of each run, on the
development sets. QNLI and SQuAD have only a fifth of theirs to evaluate on; the rest is their training data.
"Trivial" is the most frequent class; for STS-B, the share of common words; for SQuAD, the context's first
sentence; for RACE, the longest option.

{downstream}
"""


@dataclass(frozen=True)
class CardSettings:
    """The flags.

    Attributes:
      runs: output folders of experiments/albert_small_en.py, in the order in which the model was trained.
      downstream: downstream.json of experiments/downstream.py.
      model_dir: folder of the model, whose README.md is written.
    """

    runs: list[Path]
    downstream: Path
    model_dir: Path


@dataclass(frozen=True)
class Round:
    """One run of the training.

    Attributes:
      folder: output folder of experiments/albert_small_en.py.
      settings: the flags of its `albert pretrain`.
      hours: time of its steps, without evaluations.
    """

    folder: Path
    settings: dict
    hours: float

    @classmethod
    def read(cls, folder: Path) -> "Round":
        run = folder / "run"
        return cls(folder, read_json_object(run / SETTINGS_FILE), training_seconds(run) / 3600)

    @property
    def steps(self) -> int:
        return self.settings["num_train_steps"]

    def tokens(self) -> int:
        """Tokens read, padding included."""
        return sum(
            phase["num_train_steps"] * phase["train_batch_size"] * phase["max_seq_length"]
            for phase in self.settings["phases"]
        )


def main(settings: CardSettings) -> None:
    rounds = [Round.read(folder) for folder in settings.runs]
    config = AlbertConfig.from_json_file(settings.model_dir / "config.json")
    report = read_json_object(settings.downstream)
    card = CARD.format(
        name=NAME,
        parameters=count_parameters(config).pretrainer,
        L=config.num_hidden_layers,
        H=config.hidden_size,
        E=config.embedding_size,
        V=config.vocab_size,
        T=config.max_position_embeddings,
        text=describe_text(rounds[-1]),
        summary=summary(rounds),
        runs=runs_table(rounds),
        commands="\n".join(describe_command(rounds, number) for number in range(len(rounds))),
        eval_examples=max(e["eval_examples"] for each in rounds for e in evaluations(each.folder / "run")),
        curve=curve_table(rounds),
        heldout=heldout_table(rounds[-1]),
        seeds=report["settings"]["seeds"],
        downstream=downstream.table(report["tasks"]),
    )
    write_text(settings.model_dir / CARD_FILE, card)
    print(settings.model_dir / CARD_FILE)


def describe_text(last: Round) -> str:
    """The text: how many books, which are held out, and the documents."""
    folder = last.folder
    books = {part: expand_files(f"{folder}/books/{part}/*") for part in ("train", "heldout")}
    megabytes = {part: sum(path.stat().st_size for path in files) / 1e6 for part, files in books.items()}
    titles = "; ".join(path.stem.split("-", 1)[1].replace("__", ", ") for path in books["heldout"])
    flags = read_json_object(folder / "settings.json")
    documents = Path(flags["documents"]).stat().st_size / 1e6
    return (
        f"{len(books['train'])} English books whose copyright has expired ({megabytes['train']:.1f} MB), and the "
        f"docstrings of installed Python packages ({documents:.1f} MB). Held out: {len(books['heldout'])} books "
        f"({megabytes['heldout']:.1f} MB): {titles}."
    )


def summary(rounds: list[Round]) -> str:
    """Steps, tokens and hours of all runs in one sentence."""
    steps = sum(each.steps for each in rounds)
    tokens, hours = sum(each.tokens() for each in rounds), sum(each.hours for each in rounds)
    return f"{steps:,} steps, {tokens / 1e6:.0f} million tokens, {hours:.1f} hours of two CPU cores."


def runs_table(rounds: list[Round]) -> str:
    """A row for every phase of every run."""
    rows = []
    for number, each in enumerate(rounds, 1):
        rows += [
            (
                number,
                phase["max_seq_length"],
                f"{phase['num_train_steps']:,}",
                phase["train_batch_size"],
                each.settings["learning_rate"],
                f"{each.settings['num_warmup_steps']:,}",
                each.settings["seed"],
                f"{each.hours:.1f}",
            )
            for phase in each.settings["phases"]
        ]
    header = ("run", "T", "steps", "batch", "peak rate", "warm-up steps", "seed", "hours of the run")
    return markdown_table(header, rows)


def describe_command(rounds: list[Round], number: int) -> str:
    """The command of a run, as its settings were."""
    flags = read_json_object(rounds[number].folder / "settings.json")
    shown = {name: value for name, value in flags.items() if name not in ("books", "documents", "output")}
    if number:
        shown["init_checkpoint"] = f"small_en_{number}/{NAME}"
    words = [f"--{name}={value}" for name, value in shown.items() if value is not None]
    words.append(f"--output=small_en_{number + 1}")
    return f"python -m experiments.{NAME} --books='books/*.md' --documents=docstrings.txt " + " ".join(words)


def curve_table(rounds: list[Round]) -> str:
    """Evenly chosen evaluations over all runs; the last one is among them."""
    starts = accumulate((each.steps for each in rounds), initial=0)
    lines = [
        (start + line["step"], line)
        for start, each in zip(starts, rounds, strict=False)
        for line in evaluations(each.folder / "run")
    ]
    every = -(-len(lines) // CURVE_POINTS)
    chosen = lines[::-1][::every][::-1]
    rows = [
        (
            f"{step:,}",
            line["max_seq_length"],
            f"{line['eval_masked_lm_accuracy']:.3f}",
            f"{line['eval_sentence_order_accuracy']:.3f}",
        )
        for step, line in chosen
    ]
    return markdown_table(("step", "T", "masked-LM accuracy", "sentence-order accuracy"), rows)


def heldout_table(last: Round) -> str:
    """The evaluations of the finished model."""
    rows = [
        (
            line["max_seq_length"],
            f"{line['eval_examples']:,}",
            f"{line['eval_masked_lm_accuracy']:.3f}",
            f"{line['most_frequent_piece']:.3f}",
            f"{line['eval_sentence_order_accuracy']:.3f}",
        )
        for line in json.loads((last.folder / HELDOUT_FILE).read_text())["lengths"]
    ]
    header = ("T", "examples", "masked-LM accuracy", "most frequent piece", "sentence-order accuracy")
    return markdown_table(header, rows)


if __name__ == "__main__":
    raise SystemExit(program.run_with_settings(main, CardSettings, __doc__))
