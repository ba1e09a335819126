"""Compares the answers of portable models and SavedModels of every kind, on lines of text.

For example:

    python -m experiments.portable_agreement --text='de/*.txt,zh/*.txt,books_en/*.md' --lines=10000

Every kind is exported from one encoder, the fine-tuned kinds with heads of random weights, so large that the
answers differ between texts. Prints a table for each engine that is installed. Labels, spans, pieces and ids must
be equal, probabilities, scores, vectors and logits within 1e-4, null odds within 1e-3; otherwise the exit status
is 1. Where two classes are that close, decisions may differ: such rows are counted apart, as ties.
"""

import importlib.util
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from albert_cli import program
from benchmarks.report import markdown_table
from data_prep.errors import InputError, check_among
from data_prep.text.sources import expand_files
from experiments.tokenizer_agreement import spread_lines

TOLERANCE = 1e-4
TOLERANCES = {"null_odds": 1e-3}  # of outputs with larger values
BATCH = 100
LENGTH = 128  # tokens of an encoder's row
ENGINES = ("openvino", "onnxruntime")
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class AgreementSettings:
    """What is compared.

    Attributes:
      text: files with one text per line; globs and commas are allowed.
      lines: number of lines, spread evenly over the files.
      init_checkpoint: the pretrained model with the encoder.
      kinds: names of kinds. Default: all.
    """

    text: str
    lines: int = 10_000
    init_checkpoint: str = "albert_small_en"
    kinds: list[str] = field(default_factory=lambda: [*CASES])

    def __post_init__(self):
        check_among(CASES, "kinds", self.kinds)


@dataclass(frozen=True)
class Case:
    """A kind of export.

    Attributes:
      kind: the value of --kind.
      columns: its inputs; see `column_of`.
      task: the name of the class in albert_tf that is exported; None for a pretrained model.
      arguments: of the class.
      method: what is called, the model itself by default.
    """

    kind: str
    columns: tuple[str, ...] = ("text",)
    task: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    method: str = "__call__"


_LABELS = {"labels": ("small", "medium", "large")}
CASES = {
    "classifier": Case("classifier", task="TextClassifier", arguments=_LABELS),
    "classifier of pairs": Case(
        "classifier", ("text", "other"), "TextClassifier", arguments=_LABELS, method="pair"
    ),
    "several labels": Case("classifier", task="MultiLabelClassifier", arguments=_LABELS),
    "regression": Case("classifier", task="TextRegressor"),
    "token classification": Case(
        "token-classification", task="TokenClassifier", arguments={"labels": ("O", "B-X", "I-X")}
    ),
    "questions": Case("question-answering", ("other", "text"), "QuestionAnswering"),
    "questions without answers": Case(
        "question-answering", ("other", "text"), "QuestionAnswering", {"answerable": True}
    ),
    "multiple choice": Case("multiple-choice", ("text", "other", "options"), "MultipleChoice"),
    "fill-mask": Case("fill-mask", ("masked",)),
    "embedding": Case("embedding"),
    "encoder": Case("encoder", ("ids",)),
}


@dataclass
class Differences:
    """What two models answer differently.

    Attributes:
      rows: number of compared rows.
      other: rows with another label, span, piece or id, while the answer's probability differs by more than the
        tolerance or there is none.
      ties: rows with another one, while all floats of the row are within their tolerances.
      largest: output -> the largest difference of its floats; infinite if one is no number.
    """

    rows: int = 0
    other: int = 0
    ties: int = 0
    largest: dict[str, float] = field(default_factory=dict)

    def add(self, theirs: Arrays, ours: Arrays) -> None:
        """Compares a batch."""
        if theirs.keys() != ours.keys():
            raise SystemExit(f"The outputs differ: {sorted(theirs)} and {sorted(ours)}.")
        rows = len(next(iter(theirs.values())))
        close, same = np.ones(rows, bool), np.ones(rows, bool)
        for name, expected in theirs.items():
            found = ours[name]
            if found.shape != expected.shape:
                raise SystemExit(f"The shapes of {name} differ: {expected.shape} and {found.shape}.")
            if expected.dtype.kind == "f":
                distance = np.nan_to_num(np.abs(found - expected), nan=np.inf)
                difference = distance.reshape(rows, -1).max(axis=1, initial=0.0)
                self.largest[name] = max(self.largest.get(name, 0.0), float(difference.max()))
                close &= difference <= tolerance_of(name)
            else:
                same &= (found == expected).reshape(rows, -1).all(axis=1)
        self.rows += rows
        self.other += int(np.sum(~same & ~close))
        self.ties += int(np.sum(~same & close))

    @property
    def agrees(self) -> bool:
        """Whether all decisions are equal but for ties, and all floats within their tolerances."""
        return self.other == 0 and all(most <= tolerance_of(name) for name, most in self.largest.items())


def tolerance_of(output: str) -> float:
    """The largest difference of an output's floats that counts as equal."""
    return TOLERANCES.get(output, TOLERANCE)


def main(settings: AgreementSettings) -> None:
    """Compares all kinds on all engines."""
    lines = spread_lines(expand_files(settings.text), settings.lines)
    engines = [name for name in ENGINES if importlib.util.find_spec(name)]
    if not engines:
        raise InputError("No engine is installed: run pip install '.[openvino]' or '.[onnx]'.")
    found: dict[str, dict[str, Differences]] = {engine: {} for engine in engines}
    for name in settings.kinds:
        with tempfile.TemporaryDirectory() as folder:
            for engine, differences in compare(CASES[name], lines, engines, settings, Path(folder)).items():
                found[engine][name] = differences
        print(name, *(f"{engine}: {found[engine][name]}" for engine in engines), sep="\n  ", flush=True)
    for engine, rows in found.items():
        print(f"\n{engine}, {len(lines):,} lines\n\n{table(rows)}")
    if not all(differences.agrees for rows in found.values() for differences in rows.values()):
        raise SystemExit(1)


def compare(
    case: Case, lines: list[str], engines: Sequence[str], settings: AgreementSettings, folder: Path
) -> dict[str, Differences]:
    """Exports a kind both ways and compares all answers; a result for each engine."""
    import tensorflow as tf

    from albert_tf import load_portable
    from export.write import export_for_runtime, export_model

    source = settings.init_checkpoint
    if case.task:
        source = str(folder / "model.keras")
        save_with_random_head(case, settings.init_checkpoint, source)
    export_model(source, folder / "saved_model", case.kind)
    export_for_runtime(source, folder / "onnx", "onnx", kind=case.kind)
    loaded = tf.saved_model.load(str(folder / "saved_model"))
    portable = {engine: load_portable(folder / "onnx", engine=engine) for engine in engines}
    differences = {engine: Differences() for engine in engines}
    for columns in batches(case, lines, settings):
        theirs = as_arrays(saved_model_answers(loaded, case, columns))
        for engine, model in portable.items():
            differences[engine].add(theirs, as_arrays(getattr(model, case.method)(*columns)))
    return differences


def save_with_random_head(case: Case, init_checkpoint: str, file: str) -> None:
    """Saves a fine-tuned model whose head has random weights."""
    import albert_tf

    assert case.task
    model = getattr(albert_tf, case.task).from_pretrained(init_checkpoint, **case.arguments, seed=0)
    rng, encoder = np.random.default_rng(0), {id(weight) for weight in model.encoder.weights}
    for weight in model.trainable_variables:
        if id(weight) not in encoder:
            weight.assign(rng.normal(0, 0.3, weight.shape))
    model.save(file)


def batches(case: Case, lines: list[str], settings: AgreementSettings) -> Iterator[list]:
    """The columns of a kind's inputs, a batch of lines at a time."""
    encode = id_encoder(settings.init_checkpoint) if case.columns == ("ids",) else None
    for start in range(0, len(lines), BATCH):
        texts = lines[start : start + BATCH]
        yield [encode(texts)] if encode else [column_of(name, texts) for name in case.columns]


def column_of(name: str, texts: list[str]) -> list:
    """A column of inputs, made of lines.

    "text" is the lines; "other" those in reverse order, cut to 60 characters; "options" three for each line;
    "masked" the lines with a [MASK] in place of their middle word, or at the end.
    """
    if name == "text":
        return texts
    if name == "other":
        return [text[:60] for text in reversed(texts)]
    if name == "options":
        return [[text[:20], text[-20:], "neither"] for text in texts]
    assert name == "masked", name
    return [with_mask(text) for text in texts]


def with_mask(text: str) -> str:
    """The text with its middle word masked; a text of one word gets the mask behind it."""
    words = text.split(" ")
    if len(words) == 1:
        return f"{text} [MASK]"
    words[len(words) // 2] = "[MASK]"
    return " ".join(words)


def id_encoder(init_checkpoint: str):
    """A function of texts that returns the inputs of an encoder."""
    from albert_tf.checkpoints.open_model import open_model
    from albert_tf.tasks.hub_names import TEXT_INPUTS
    from albert_tf.tasks.texts.features import TextPreprocessor

    vocabulary = open_model(init_checkpoint).vocabulary
    assert vocabulary is not None
    preprocessor = TextPreprocessor(vocabulary, LENGTH)

    def encode(texts: list[str]) -> Arrays:
        rows = [features["input_ids"] for features in preprocessor.features(texts)]
        lengths = np.array([len(row) for row in rows])
        mask = (np.arange(lengths.max()) < lengths[:, None]).astype("int32")
        ids = np.zeros_like(mask)
        ids[mask > 0] = np.concatenate(rows)
        return dict(zip(TEXT_INPUTS, (ids, mask, np.zeros_like(ids)), strict=True))

    return encode


def saved_model_answers(loaded, case: Case, columns: list) -> dict:
    """The answers of a SavedModel to one batch."""
    import tensorflow as tf

    if case.kind == "encoder":
        names = ("sequence_output", "pooled_output", "sop_logits")
        return {name: array for name, array in loaded.sop(columns[0]).items() if name in names}
    return getattr(loaded, case.method)(*map(tf.constant, columns))


def as_arrays(outputs: dict) -> Arrays:
    """NumPy arrays, with TensorFlow's strings as Python's."""
    arrays = {name: np.asarray(value) for name, value in outputs.items()}
    return {name: decoded(array) if array.dtype == object else array for name, array in arrays.items()}


def decoded(array: np.ndarray) -> np.ndarray:
    """The array with bytes as strings."""
    values = [value.decode() if isinstance(value, bytes) else value for value in array.reshape(-1)]
    return np.array(values, object).reshape(array.shape)


def table(rows: dict[str, Differences]) -> str:
    """A Markdown table with a row for each kind."""
    return markdown_table(
        ("kind", "rows", "other answers", "ties", "largest difference"),
        [
            (
                name,
                f"{found.rows:,}",
                str(found.other),
                str(found.ties),
                ", ".join(f"{output} {most:.1e}" for output, most in found.largest.items()) or "none",
            )
            for name, found in rows.items()
        ],
    )


if __name__ == "__main__":
    sys.exit(program.run_with_settings(main, AgreementSettings, __doc__))
