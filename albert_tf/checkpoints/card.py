"""The README.md that a conversion or an export writes: a model card, with metadata for the Hugging Face Hub."""

import hashlib
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import albert_tf
from albert_tf.checkpoints import archives
from albert_tf.checkpoints.run_files import CHECKPOINTS, MANIFEST_FILE, RESULTS_FILE, SETTINGS_FILE
from albert_tf.checkpoints.stored import Format, StoredModel, read_optional_json
from data_prep.files import file_sha256, visible_files

CARD_FILE = "README.md"
TITLES: dict[Format, str] = {
    "tf1": "TF1 checkpoint of google-research/albert",
    "huggingface": "Hugging Face directory",
    "kerashub": "KerasHub preset",
    "garden": "TF2 SavedModel of Model Garden",
    "run": "checkpoint of an albert_tf run",
    "keras": "Keras file of albert_tf",
    "export": "SavedModel of albert_tf",
}
# What the Hub calls the libraries that load a format.
LIBRARIES: dict[Format, str] = {"huggingface": "transformers", "kerashub": "keras-hub"}


@dataclass(frozen=True)
class Usage:
    """The parts of a README.md that depend on what was written.

    Attributes:
      title: the kind of files.
      command: the command that wrote them.
      example: Python that uses them in their folder.
      interface: a section on inputs and outputs, if the example does not show them.
      library: the Hub's name of the library that loads the files.
      pipeline: the Hub's name of what the files do. Default: what a pretrained model does.
      head: what the head in the files is for, in words; "" if they have none of a fine-tuned model.
    """

    title: str
    command: str
    example: str
    interface: str | None = None
    library: str = "albert_tf"
    pipeline: str | None = None
    head: str = ""


def write_card(
    folder: Path, source: str | Path, stored: StoredModel, usage: Usage, notes: Sequence[str], check: str
) -> None:
    """Writes README.md.

    Args:
      folder: the folder of the files.
      source: the model as the user named it.
      stored: the model as it was read.
      usage: how to use the files.
      notes: sentences on the model or the files.
      check: what was compared, and the difference.
    """
    weights = weights_hash(stored)  # of all that the source holds
    if not usage.head:
        stored = replace(stored, head=None)
    scores = _dev_scores(stored)
    sections = [
        _metadata(stored, usage, scores),
        f"# ALBERT: {usage.title}\n\n{written_by(usage.command)} of albert_tf {albert_tf.__version__}.",
        f"## Model\n\n{_model_summary(stored, usage.head)}"
        + ("\n" + "".join(f"\n- {note}" for note in notes) if notes else "")
        + f"\n\n{markdown_table(('field', 'value'), stored.config.to_dict().items())}",
        f"## Source\n\n`{source}`, a {TITLES[stored.format]}{_revision(stored)}.\n\n"
        + markdown_table(("file", "bytes", "sha256"), _source_files(source, stored))
        + f"\n\nSHA-256 of the weights, the same in every format: `{weights}`.",
        *([_scores_section(scores)] if scores else []),
        f"## Check\n\n{check[0].upper()}{check[1:]}.",
        *([usage.interface] if usage.interface else []),
        f"## Use\n\n{python_block(usage.example)}\n",
    ]
    (folder / CARD_FILE).write_text("\n\n".join(sections), encoding="utf-8")


@dataclass(frozen=True)
class _Scores:
    """The metrics of a fine-tuned model on its dev set."""

    task: str
    metrics: dict[str, float]


def _dev_scores(stored: StoredModel) -> _Scores | None:
    """The scores that a fine-tuning run of ours left beside its model, if any."""
    if stored.head is None or not stored.path.is_file():
        return None
    task = read_optional_json(stored.path.with_name(SETTINGS_FILE)).get("task")
    metrics = read_optional_json(stored.path.with_name(RESULTS_FILE)).get("dev")
    if not isinstance(task, str) or not isinstance(metrics, dict):
        return None
    scores = {name: value for name, value in metrics.items() if isinstance(value, int | float)}
    scores.pop("threshold", None)  # of null odds: a setting of the model
    return _Scores(task, scores)


def _scores_section(scores: _Scores) -> str:
    rows = [
        (name, f"{value:,d}" if isinstance(value, int) else f"{value:.4f}")
        for name, value in scores.metrics.items()
    ]
    return f"## Scores\n\nOn the dev set of {scores.task}:\n\n{markdown_table(('metric', 'value'), rows)}"


def _metadata(stored: StoredModel, usage: Usage, scores: _Scores | None) -> str:
    """What the Hub reads at the top of a README.md, in YAML."""
    from huggingface_hub import EvalResult, ModelCardData

    pipeline = usage.pipeline or ("fill-mask" if "masked_lm" in stored.parts else "feature-extraction")
    results = scores and [
        EvalResult(
            task_type=pipeline,
            dataset_type=scores.task,
            dataset_name=scores.task,
            dataset_split="dev",
            metric_type=name,
            metric_value=value,
        )
        for name, value in scores.metrics.items()
        if name not in ("examples", "loss")
    ]
    data = ModelCardData(
        library_name=usage.library,
        pipeline_tag=pipeline,
        tags=["albert", "albert_tf"],
        model_name="ALBERT" if results else None,
        eval_results=results or None,
    )
    return f"---\n{data.to_yaml()}\n---"


def written_by(command: str) -> str:
    """The first words of a README.md, which mark its folder as written by a command."""
    return f"Written by `{command}`"


def markdown_table(header: tuple[str, ...], rows: Iterable[Sequence]) -> str:
    """A table in Markdown."""
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def python_block(code: str) -> str:
    """Code in Markdown."""
    return f"```python\n{textwrap.dedent(code).strip()}\n```"


def weights_hash(stored: StoredModel) -> str:
    """SHA-256 over our names and the float32 bytes, in the order of the names."""
    digest = hashlib.sha256()
    for name, array in sorted(stored.all_weights.items()):
        digest.update(name.encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _model_summary(stored: StoredModel, head: str) -> str:
    parameters = sum(array.size for array in stored.all_weights.values())
    parts = ["encoder", *stored.parts, *([f"head for {head}"] if head else [])]
    summary = f"{parameters:,} parameters: {', '.join(parts)}."
    if stored.vocabulary is None:
        return f"{summary} No vocabulary."
    kinds = {"sentencepiece": "a SentencePiece model", "wordpiece": "a WordPiece vocab.txt"}
    count = stored.vocabulary.count_pieces()
    normalization = stored.vocabulary.normalization
    case = "lower-cased" if normalization.do_lower_case else "cased"
    case += ", with accents" if normalization.keep_accents else ""
    return f"{summary} Vocabulary: {kinds[stored.vocabulary.kind]} of {count:,} pieces, {case}."


def _revision(stored: StoredModel) -> str:
    """The commit, which names the folder in the Hub's cache."""
    return f" at commit {stored.path.name}" if stored.path.parent.name == "snapshots" else ""


def _source_files(source: str | Path, stored: StoredModel) -> list[tuple[str, str, str]]:
    """Name, size and hash of each source file: the archive, the files of the folder, or those of the weights."""
    if str(source).endswith(archives.SUFFIXES) and Path(source).is_file():
        files = [Path(source)]
    elif stored.path.is_dir():
        files = visible_files(stored.path)
    elif stored.path.is_file():
        files = [stored.path]
    else:  # the prefix of a checkpoint
        folder = stored.path.parent
        files = [path for path in folder.iterdir() if path.name.startswith(f"{stored.path.name}.")]
        if folder.name == CHECKPOINTS:
            files += folder.parent.glob(MANIFEST_FILE)
    return [(path.name, f"{path.stat().st_size:,}", file_sha256(path)) for path in sorted(files)]
