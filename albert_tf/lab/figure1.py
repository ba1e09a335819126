"""Figure 1: how far each layer moves its input, in checkpoints of any format.

checkpoints --read--> stored models --windows--> ids (S,T) --layer_changes--> (L,3) a checkpoint --> rows
"""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from albert_tf.lab.checkpoints import described, read_checkpoints, sharing_of
from albert_tf.lab.environment import describe_environment
from albert_tf.lab.figure1_plot import plot_layers
from albert_tf.lab.figure1_rows import COLUMNS, comparisons, finding, rows_of
from albert_tf.lab.laboratory import make_folder
from albert_tf.lab.layer_changes import layer_changes
from albert_tf.lab.results import Plot, Results
from albert_tf.lab.running import write_results
from albert_tf.pretrained.own import build_model
from data_prep.errors import InputError
from data_prep.tasks.features import Tokenizer
from data_prep.text.documents import expand_files, read_documents
from data_prep.tokenizers.vocabulary import Vocabulary

NAME = "figure1"
PLOT_FILE = "figure1.png"


def figure1(
    models: Sequence[str],
    text: str,
    output: Path,
    *,
    vocab_file: str | None = None,
    do_lower_case: bool = True,
    max_seq_length: int = 512,
    num_sequences: int = 32,
    command: str = "",
    say: Callable[[str], None] = lambda line: None,
) -> Results:
    """Measures checkpoints and writes OUTPUT/figure1: results.json, results.md and a plot.

    Args:
      models: PATH or NAME=PATH of anything that `albert_tf.load_pretrained` reads. Paths of one name are seeds of
        one row; so are seed-1, seed-2, ... in one folder.
      text: files as `data_prep.text.documents.expand_files` takes them.
      output: the laboratory's folder.
      vocab_file: a SentencePiece model or vocab.txt, for checkpoints that come without theirs.
      do_lower_case: of `vocab_file`.
      max_seq_length: tokens of a sequence, [CLS] and [SEP] counted; fewer where a model has fewer positions.
      num_sequences: how many sequences are read, evenly spread over the text.
      command: as it was typed.
      say: takes lines on the progress.

    Raises:
      InputError: a checkpoint, the vocabulary or the text cannot be read, or they do not fit each other; then
        nothing has been written.
    """
    _check_numbers(models, max_seq_length, num_sequences)
    fallback = Vocabulary.read(vocab_file, do_lower_case) if vocab_file else None
    groups = read_checkpoints(models, fallback)
    checkpoints = [each for group in groups.values() for each in group]
    length = min(max_seq_length, *(each.stored.config.max_position_embeddings for each in checkpoints))
    files = expand_files(text)
    sentences = [sentence for document in read_documents(files, "prose") for sentence in document.sentences]

    windows = {
        vocabulary: make_windows(sentences, vocabulary.tokenizer(), length, num_sequences)
        for vocabulary in dict.fromkeys(each.vocabulary for each in checkpoints)
    }
    folder = output / NAME
    make_folder(folder)
    measured: dict[str, list[np.ndarray]] = {}
    for each in checkpoints:
        ids = windows[each.vocabulary]
        say(f"{each.label.name}: {each.label.path}, {len(ids)} sequences of {ids.shape[1]} tokens")
        changes = layer_changes(build_model(each.stored).encoder, ids)
        measured.setdefault(each.label.name, []).append(changes)

    sharing = {name: sharing_of(group[0].stored.config) for name, group in groups.items()}
    rows = rows_of(measured, sharing)
    found = comparisons(rows, sharing)
    settings = {
        "max_seq_length": length,
        "num_sequences": num_sequences,
        "texts": {file.name: _digest(file) for file in files if file.is_file()},
        "models": {name: described(group) for name, group in groups.items()},
    }
    plot_layers(measured, sharing, folder / PLOT_FILE)
    results = Results(
        NAME,
        "L2 distance and cosine similarity of each layer's input and output",
        "Figure 1",
        "Are the transitions from layer to layer smoother where layers share their parameters?",
        "",
        sorted({each.label.seed for each in checkpoints if each.label.seed is not None}),
        command,
        settings,
        describe_environment(),
        COLUMNS,
        rows,
        [Plot(PLOT_FILE, _caption(len(checkpoints) > len(groups)))],
        found,
        [finding(rows, sharing, found), *_notes(windows.values())],
    )
    write_results(folder, results)
    return results


def make_windows(
    sentences: Sequence[str], tokenizer: Tokenizer, length: int, num_sequences: int
) -> np.ndarray:
    """Sequences [CLS] text [SEP] without padding, evenly spread over a text.

    Args:
      sentences: of the text, in their order.
      tokenizer: with its vocabulary.
      length: T, of a sequence.
      num_sequences: how many, if there is text enough.

    Returns:
      int32 (S, T); (1, fewer than T) of a text that is shorter than one sequence.
    """
    tokens = np.concatenate([np.asarray(ids, np.int32) for ids in tokenizer.encode_batch(list(sentences))])
    if not len(tokens):
        raise InputError("The text must hold something that becomes tokens. Received a text without any.")
    width = min(length - 2, len(tokens))
    rows = tokens[: len(tokens) // width * width].reshape(-1, width)
    chosen = rows[np.arange(min(num_sequences, len(rows))) * len(rows) // min(num_sequences, len(rows))]
    return np.pad(
        chosen, ((0, 0), (1, 1)), constant_values=((0, 0), (tokenizer.cls_id, tokenizer.sep_id))
    ).astype(np.int32)


def _check_numbers(models: Sequence[str], max_seq_length: int, num_sequences: int) -> None:
    if not models:
        raise InputError("--model names a checkpoint, and may be given several times. Received none.")
    if max_seq_length < 3 or num_sequences < 1:
        raise InputError(
            "--max_seq_length must be at least 3 and --num_sequences at least 1. Received "
            f"{max_seq_length} and {num_sequences}."
        )


def _digest(file: Path) -> str:
    return "sha256:" + hashlib.sha256(file.read_bytes()).hexdigest()[:16]


def _caption(has_seeds: bool) -> str:
    bands = " Bands are one standard deviation over the seeds." if has_seeds else ""
    return (
        "L2 distance (left) and angle, which is the cosine similarity in degrees (right), of the input and the "
        f"output embedding of each layer, averaged over all tokens.{bands}"
    )


def _notes(windows: Any) -> list[str]:
    tokens = " or ".join(dict.fromkeys(f"{ids[:, 1:-1].size:,}" for ids in windows))
    return [
        f"Averages over {tokens} tokens of text; [CLS] and [SEP] are read but not counted.",
        "The rows without a layer's number are means over the layers. Zigzag is how far a layer's value lies "
        "outside the range of its two neighbours': 0 where a curve only rises or only falls.",
        "The paper draws BERT-large and ALBERT-large and prints no numbers; with shared parameters the "
        "transitions are smoother, both measures are lower, and they do not converge to 0.",
    ]
