"""Writes the model card of albert_small_en from what its training and its fine-tuning measured.

For example, after two runs of experiments/albert_small_en.py, of which the second continues the first:

    python -m experiments.downstream --init_checkpoint=small_en_2/albert_small_en --output=downstream ...
    python -m experiments.albert_small_en_card --records small_en/record.json small_en_2/record.json \\
        --downstream=downstream/downstream.json --model_dir=albert_tf/models/albert_small_en

Every figure in the card comes from these files.
"""

from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from albert_cli import program
from albert_tf.checkpoints.card import CARD_FILE, markdown_table, weights_hash
from albert_tf.checkpoints.open_model import read
from albert_tf.parameters import count_parameters
from data_prep.files import read_json_object, write_text
from experiments import downstream
from experiments.albert_small_en import NAME

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
(`--masking=dynamic`), bfloat16 activations and float32 weights.

{summary}

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

{finetuned}

## Weights

Rounded to float16. The folder is a Hugging Face directory, which transformers reads, too. SHA-256 of the weights,
the same in every format: `{sha}`.
"""
FINETUNED = """By `experiments/downstream.py`, with one run for each seed, evaluated once, at the end of each
run, on the development sets. QNLI and SQuAD have only a fifth of theirs to evaluate on; the rest is
their training data. "Trivial" is the most frequent class; for STS-B, the share of common words; for
SQuAD, the context's first sentence; for RACE, the longest option. Where a score is near the trivial
one or below, the model has not learned the task: take a larger one.

{table}"""
NOT_FINETUNED = "Not yet measured with these weights."


@dataclass(frozen=True)
class CardSettings:
    """The flags.

    Attributes:
      records: record.json of each training (experiments/albert_small_en.py), in the order in which the model was
        trained.
      downstream: downstream.json of experiments/downstream.py. Default: the card says that nothing was measured.
      model_dir: folder of the model, whose README.md is written.
    """

    records: list[Path]
    model_dir: Path
    downstream: Path | None = None


def main(settings: CardSettings) -> None:
    records = [read_json_object(path) for path in settings.records]
    model = read(settings.model_dir)
    config = model.config
    card = CARD.format(
        name=NAME,
        parameters=count_parameters(config).pretrainer,
        L=config.num_hidden_layers,
        H=config.hidden_size,
        E=config.embedding_size,
        V=config.vocab_size,
        T=config.max_position_embeddings,
        text=describe_text(records[-1]["text"]),
        summary=summary(records),
        runs=runs_table(records),
        commands="\n".join(describe_command(records, number) for number in range(len(records))),
        eval_examples=max(line["eval_examples"] for record in records for line in record["evaluations"]),
        curve=curve_table(records),
        heldout=heldout_table(records[-1]["finished"]),
        finetuned=describe_finetuning(settings.downstream),
        sha=weights_hash(model),
    )
    write_text(settings.model_dir / CARD_FILE, card)
    print(settings.model_dir / CARD_FILE)


def describe_finetuning(file: Path | None) -> str:
    """The scores in a report of experiments/downstream.py."""
    if file is None:
        return NOT_FINETUNED
    return FINETUNED.format(table=downstream.table(downstream.read_rows(file)))


def describe_text(text: dict) -> str:
    """The text: how many books, which are held out, and the documents."""
    size = {part: f"{text[part]['bytes'] / 1e6:.1f} MB" for part in text}
    titles = "; ".join(stem.replace("__", ", ") for stem in text["heldout"]["files"])
    return (
        f"{text['books']['files']} English books that are out of copyright ({size['books']}), and the docstrings "
        f"of installed Python packages ({size['documents']}). Held out: {len(text['heldout']['files'])} books "
        f"({size['heldout']}): {titles}."
    )


def steps_of(record: dict) -> int:
    """Number of steps in all phases."""
    return sum(phase["num_train_steps"] for phase in record["phases"])


def tokens_of(record: dict) -> int:
    """Tokens read, padding included."""
    return sum(
        phase["num_train_steps"] * phase["train_batch_size"] * phase["max_seq_length"]
        for phase in record["phases"]
    )


def summary(records: list[dict]) -> str:
    """Steps, tokens and hours of all runs, and what they started from."""
    steps, tokens = sum(map(steps_of, records)), sum(map(tokens_of, records))
    hours = sum(record["hours"] * record["cores"] for record in records) / 2
    amount = f"{steps:,} steps ({tokens / 1e6:.0f} million tokens, {hours:.1f} hours of two CPU cores)"
    are_several, is_continued = len(records) > 1, bool(records[0]["flags"]["init_checkpoint"])
    runs = f"{len(records)} runs" if are_several else "run"
    sentences = [f"The {'last ' if is_continued else ''}{runs} took {amount}."]
    if is_continued:
        sentences.append(
            f"{'The first of them' if are_several else 'It'} continued an earlier version of this model, which "
            "the same program trained from scratch; that training's logs were not kept, and its steps are not "
            "counted here."
        )
    if are_several:
        sentences.append(
            "Each run but the first started from the model of the one before, with a new warm-up."
        )
    return " ".join(sentences)


def runs_table(records: list[dict]) -> str:
    """A row for every phase of every run."""
    rows = []
    for number, record in enumerate(records, 1):
        flags = record["flags"]
        rows += [
            (
                number,
                phase["max_seq_length"],
                f"{phase['num_train_steps']:,}",
                phase["train_batch_size"],
                flags["optimizer"],
                flags["learning_rate"],
                f"{int(flags['num_warmup_steps']):,}",
                flags["seed"],
                f"{record['hours']:.1f}, {record['cores']}",
            )
            for phase in record["phases"]
        ]
    header = (
        "run",
        "T",
        "steps",
        "batch",
        "optimizer",
        "peak rate",
        "warm-up steps",
        "seed",
        "hours and cores of the run",
    )
    return markdown_table(header, rows)


def describe_command(records: list[dict], number: int) -> str:
    """The command of a run, as its settings were."""
    flags = dict(records[number]["flags"])
    if flags["init_checkpoint"] or number:  # folders are named by number, wherever they were
        flags["init_checkpoint"] = f"small_en_{number}/{NAME}" if number else "earlier_version"
    words = [f"--{name}={value}" for name, value in flags.items() if value is not None]
    words.append(f"--output=small_en_{number + 1}")
    return f"python -m experiments.{NAME} --books='books/*.md' --documents=docstrings.txt " + " ".join(words)


def curve_table(records: list[dict]) -> str:
    """Evenly chosen evaluations over all runs; the last one is among them."""
    starts = accumulate(map(steps_of, records), initial=0)
    lines = [
        (start + line["step"], line)
        for start, record in zip(starts, records, strict=False)
        for line in record["evaluations"]
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


def heldout_table(lines: list[dict]) -> str:
    """The evaluations of the finished model."""
    rows = [
        (
            line["max_seq_length"],
            f"{line['eval_examples']:,}",
            f"{line['eval_masked_lm_accuracy']:.3f}",
            f"{line['most_frequent_piece']:.3f}",
            f"{line['eval_sentence_order_accuracy']:.3f}",
        )
        for line in lines
    ]
    header = ("T", "examples", "masked-LM accuracy", "most frequent piece", "sentence-order accuracy")
    return markdown_table(header, rows)


if __name__ == "__main__":
    raise SystemExit(program.run_with_settings(main, CardSettings, __doc__))
