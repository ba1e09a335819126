"""Files for tiny fine-tuning runs: a checkpoint, and data of each kind."""

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from albert_tf.checkpoints.stored import StoredModel
from albert_tf.checkpoints.tf1 import write_tf1
from albert_tf.config import AlbertConfig
from data_prep.tokenizers.vocabulary import Vocabulary
from tests.albert_tf.checkpoints.random_models import random_weights
from tests.story import OBJECTS, SUBJECTS, VERBS

CONFIG = AlbertConfig(
    vocab_size=104,
    embedding_size=10,
    hidden_size=24,
    num_hidden_layers=2,
    num_attention_heads=3,
    intermediate_size=36,
    max_position_embeddings=64,
)


def write_checkpoint(
    folder: Path, vocabulary_file: Path | None, seed: int = 0, config: AlbertConfig = CONFIG
) -> Path:
    """Writes a pretrained model with random weights, and the vocabulary if given."""
    folder.mkdir(parents=True)
    vocabulary = Vocabulary("sentencepiece", vocabulary_file.read_bytes()) if vocabulary_file else None
    weights = random_weights(config, seed=seed)
    write_tf1(StoredModel("run", Path("nowhere"), config, weights, vocabulary), folder)
    return folder


def sentences(number: int, seed: int) -> list[str]:
    """Sentences from the words of the vocabulary's training text."""
    rng = np.random.default_rng(seed)
    return [" ".join(str(rng.choice(part)) for part in (SUBJECTS, VERBS, OBJECTS)) for _ in range(number)]


def write_classes(path: Path, number: int, seed: int) -> Path:
    """Writes a CSV of texts; the label is whether the lighthouse occurs."""
    texts = sentences(number, seed)
    return _write_csv(path, "label", [(text, "light" if "lighthouse" in text else "dark") for text in texts])


def write_stars(path: Path, number: int, seed: int) -> Path:
    """Writes a CSV of texts; the label is 1 to 3, most often 3."""
    texts = sentences(number, seed)
    return _write_csv(
        path,
        "label",
        [(text, "1" if "lighthouse" in text else "2" if "captain" in text else "3") for text in texts],
    )


def write_topics(path: Path, number: int, seed: int) -> Path:
    """Writes a CSV of texts with two labels, one or none, separated by semicolons."""
    topics = ("lighthouse", "captain")
    texts = sentences(number, seed)
    return _write_csv(
        path, "labels", [(text, "; ".join(topic for topic in topics if topic in text)) for text in texts]
    )


def _write_csv(path: Path, column: str, rows: Sequence[tuple[str, str]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", column), *rows])
    return path


def write_questions(path: Path, number: int, seed: int, *, impossible: bool) -> Path:
    """Writes SQuAD's JSON; the questions ask for the subject of a sentence."""
    questions = []
    for i, text in enumerate(sentences(number, seed)):
        subject = next(subject for subject in SUBJECTS if text.startswith(subject))
        without = impossible and i % 3 == 0
        answer = [] if without else [{"text": subject, "answer_start": 0}]
        question = {"id": f"{seed}-{i}", "question": "who " + text.removeprefix(subject), "answers": answer}
        questions.append({"context": text + " .", "qas": [{**question, "is_impossible": without}]})
    path.write_text(json.dumps({"version": "v2.0", "data": [{"title": "t", "paragraphs": questions}]}))
    return path


def write_choices(path: Path, number: int, seed: int) -> Path:
    """Writes JSON lines; the right option is the object of a sentence."""
    rng = np.random.default_rng(seed)
    lines = []
    for text in sentences(number, seed):
        options = rng.permutation(OBJECTS)[:3].tolist()
        right = next((i for i, option in enumerate(options) if text.endswith(option)), 0)
        options[right] = next(option for option in OBJECTS if text.endswith(option))
        lines.append({"passage": text, "question": "what was it ?", "options": options, "label": right})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def write_words(path: Path, number: int, seed: int) -> Path:
    """Writes CoNLL columns; subjects are persons."""
    lines = []
    for text in sentences(number, seed):
        subject = next(subject for subject in SUBJECTS if text.startswith(subject)).split()
        words = text.split()
        labels = ["B-PER" if i == 0 else "I-PER" for i in range(len(subject))]
        labels += ["O"] * (len(words) - len(subject))
        lines += [f"{word} {label}\n" for word, label in zip(words, labels, strict=True)] + ["\n"]
    path.write_text("".join(lines))
    return path


def write_scores(path: Path, number: int, seed: int) -> Path:
    """Writes a TSV of pairs of texts and their number of common words."""
    first, second = sentences(number, seed), sentences(number, seed + 1)
    rows = [f"{a}\t{b}\t{len(set(a.split()) & set(b.split()))}\n" for a, b in zip(first, second, strict=True)]
    path.write_text("sentence1\tsentence2\tscore\n" + "".join(rows))
    return path


@dataclass(frozen=True)
class FinetuningFiles:
    """A checkpoint, and data of each kind."""

    folder: Path
    checkpoint: Path

    def flags(self, output_dir: Path, kind: str = "classification", **changes) -> list[str]:
        """The command line of a run of 12 short steps."""
        evaluates, predicts = changes.get("do_eval", True), changes.get("do_predict")
        suffix = {
            "classification": "csv",
            "ordinal-classification": "csv",
            "multi-label-classification": "csv",
            "regression": "tsv",
            "squad2.0": "json",
            "question-answering": "json",
            "multiple-choice": "jsonl",
            "token-classification": "conll",
        }[kind]
        flags = {
            "task": kind,
            "train_file": self.folder / f"{kind}-train.{suffix}",
            "dev_file": self.folder / f"{kind}-dev.{suffix}" if evaluates else None,
            "test_file": self.folder / f"{kind}-test.{suffix}" if predicts else None,
            "init_checkpoint": self.checkpoint,
            "output_dir": output_dir,
            "do_train": True,
            "do_eval": True,
            "train_batch_size": 4,
            "eval_batch_size": 8,
            "max_seq_length": 64,
            "label_separator": ";" if kind == "multi-label-classification" else None,
            "max_query_length": 24 if kind in ("squad2.0", "question-answering") else None,
            "doc_stride": 16 if kind in ("squad2.0", "question-answering") else None,
            "learning_rate": 0.001,
            "num_train_steps": 12,
            "num_warmup_steps": 3,
            "save_checkpoints_steps": 4,
            "log_steps": 3,
            "dropout": 0.1,
            **changes,
        }
        return ["finetune", *(f"--{name}={value}" for name, value in flags.items() if value is not None)]


def write_files(folder: Path, vocabulary_file: Path) -> FinetuningFiles:
    """Data of all kinds, and the checkpoint."""
    for role, number, seed in (("train", 30, 0), ("dev", 18, 100), ("test", 10, 200)):
        write_classes(folder / f"classification-{role}.csv", number, seed)
        write_stars(folder / f"ordinal-classification-{role}.csv", number, seed)
        write_topics(folder / f"multi-label-classification-{role}.csv", number, seed)
        write_scores(folder / f"regression-{role}.tsv", number, seed)
        write_questions(folder / f"squad2.0-{role}.json", number, seed, impossible=True)
        write_questions(folder / f"question-answering-{role}.json", number, seed, impossible=False)
        write_choices(folder / f"multiple-choice-{role}.jsonl", number, seed)
        write_words(folder / f"token-classification-{role}.conll", number, seed)
    return FinetuningFiles(folder, write_checkpoint(folder / "checkpoint", vocabulary_file))
