"""The README.md that a conversion leaves beside the files: what they are, where from, and how to use them."""

import hashlib
import importlib.metadata
import textwrap
from collections.abc import Sequence
from pathlib import Path

from albert_tf.pretrained import hub
from albert_tf.pretrained.stored import Format, StoredModel
from albert_tf.pretrained.verification import Comparison
from albert_tf.training.run_files import CHECKPOINTS, MANIFEST_FILE

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
_IDS = "[[2, 13, 1, 9, 3]]"
# Each runs in the folder of the files.
_EXAMPLES: dict[Format, str] = {
    "tf1": """
        import albert_tf, keras

        model = albert_tf.load_pretrained(".").model  # google-research/albert: --init_checkpoint=model.ckpt-best
        outputs = model.encoder({"input_ids": keras.ops.array(IDS)})
        print(outputs["sequence_output"].shape, outputs["pooled_output"].shape)
    """,
    "huggingface": """
        import torch
        from transformers import AlbertModel

        outputs = AlbertModel.from_pretrained(".")(torch.tensor(IDS))
        print(outputs.last_hidden_state.shape, outputs.pooler_output.shape)
    """,
    "keras": """
        import keras
        from albert_tf import AlbertPretrainer  # so that Keras knows the class

        model = keras.models.load_model("model.keras")
        outputs = model.encoder({"input_ids": keras.ops.array(IDS)})
        print(outputs["sequence_output"].shape, outputs["pooled_output"].shape)
    """,
    "kerashub": """
        import keras_hub, numpy as np

        ids = np.array(IDS)
        inputs = {"token_ids": ids, "padding_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)}
        outputs = keras_hub.models.AlbertBackbone.from_preset("./")(inputs)
        print(outputs["sequence_output"].shape, outputs["pooled_output"].shape)
    """,
}


def write_card(
    folder: Path,
    source: str | Path,
    stored: StoredModel,
    to: Format,
    notes: list[str],
    comparison: Comparison | None,
) -> None:
    """Writes the card of files in `folder` that were made from `source`, which was read as `stored`."""
    verified = comparison.sentence if comparison else "not verified (--noverify)"
    sections = [
        f"# ALBERT: {TITLES[to]}\n\nWritten by `albert convert` of albert_tf {version()}.",
        model_section(stored, notes),
        source_section(source, stored),
        check_section(verified),
        use_section(_EXAMPLES[to].replace("IDS", _IDS)),
    ]
    (folder / CARD_FILE).write_text("\n\n".join(sections), encoding="utf-8")


def model_section(stored: StoredModel, notes: Sequence[str]) -> str:
    """What the model is: its parameters, what there is to note, its configuration."""
    holds = ", ".join(("encoder", *stored.parts))
    return (
        f"## Model\n\n{_parameters(stored):,} parameters: {holds}. {_vocabulary(stored)}."
        + "".join(f"\n- {note}" for note in notes)
        + f"\n\n{table(('field', 'value'), stored.config.to_dict().items())}"
    )


def source_section(source: str | Path, stored: StoredModel) -> str:
    """Where the model is from, with the hashes of the files and of the weights."""
    return (
        f"## Source\n\n`{source}`, a {TITLES[stored.format]}{_revision(source, stored)}.\n\n"
        + table(("file", "bytes", "sha256"), _facts(source, stored))
        + f"\n\nSHA-256 of the weights, the same in every format: `{weights_hash(stored)}`."
    )


def check_section(sentence: str) -> str:
    """What was compared, and how far it lay apart."""
    return f"## Check\n\n{sentence[0].upper()}{sentence[1:]}."


def use_section(example: str) -> str:
    """Python to paste, which runs in the folder of the files."""
    return f"## Use\n\n```python\n{textwrap.dedent(example).strip()}\n```\n"


def weights_hash(stored: StoredModel) -> str:
    """SHA-256 over our names and the float32 bytes, in the order of the names."""
    digest = hashlib.sha256()
    for name, array in sorted(stored.weights.items()):
        digest.update(name.encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _vocabulary(stored: StoredModel) -> str:
    if stored.vocabulary is None:
        return "No vocabulary"
    kinds = {"sentencepiece": "a SentencePiece model", "wordpiece": "a WordPiece vocab.txt"}
    count = stored.vocabulary.count_pieces()
    case = "lower-cased" if stored.vocabulary.do_lower_case else "cased"
    return f"Vocabulary: {kinds[stored.vocabulary.kind]} of {count:,} pieces, {case}"


def _parameters(stored: StoredModel) -> int:
    return sum(array.size for array in stored.weights.values())


def version() -> str:
    """That of this library."""
    try:
        return importlib.metadata.version("albert-tf")
    except importlib.metadata.PackageNotFoundError:  # run from a checkout that was never installed
        return "(not installed)"


def _revision(source: str | Path, stored: StoredModel) -> str:
    """The commit, which names the folder in the Hub's cache."""
    return f" at commit {stored.path.name}" if str(source).startswith(hub.PREFIX) else ""


def _facts(source: str | Path, stored: StoredModel) -> list[tuple[str, str, str]]:
    """Name, size and hash of each file of the source: the archive, or the weights with what lies beside them."""
    if Path(source).is_file():
        files = [Path(source)]
    elif stored.path.is_dir():
        inside = (path for path in stored.path.rglob("*") if path.is_file())
        files = [path for path in inside if not _is_hidden(path.relative_to(stored.path))]
    else:
        files = list(stored.path.parent.glob(f"{stored.path.name}*"))
        folder = stored.path.parent
        if folder.name == CHECKPOINTS:
            files += folder.parent.glob(MANIFEST_FILE)
    return [(path.name, f"{path.stat().st_size:,}", _file_hash(path)) for path in sorted(files)]


def _is_hidden(path: Path) -> bool:
    """A clone's .git, above all."""
    return any(part.startswith(".") for part in path.parts)


def _file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def table(header: tuple[str, ...], rows) -> str:
    """A table in Markdown."""
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)
