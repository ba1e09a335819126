"""A pretraining example as text: its segments, its masked tokens and its label; or the sentences of a chunk."""

import numpy as np
from rich.console import Group
from rich.panel import Panel
from rich.text import Text

from data_prep.tokenizers.digit_comma import SPACE

LEGEND = "{word} became [MASK], {word=} stayed, {word→other} became another"
_STYLES = {"mask": "bold black on yellow", "kept": "bold black on green", "random": "bold white on red"}


def example_panel(example: dict[str, np.ndarray], pieces: tuple[str, ...], mask_id: int, title: str) -> Panel:
    """Formats an example, feature -> array [T], [P] or [1]: a box with a line for each segment.

    Masked pieces are in braces, and coloured on a terminal.

    >>> print(example_panel(example, tokenizer.pieces, tokenizer.mask_id, "train.tfrecord, example 0"))
    ╭─ train.tfrecord, example 0: in order, 10 tokens, 2 masked ─╮
    │ A  [CLS] she {lived} there . [SEP]                         │
    │ B  he {was→the} not . [SEP]                                │
    ╰────────────────────────────────────────────────────────────╯
    """
    length = int(example["input_mask"].sum())
    if "sentence_starts" in example:
        return _chunk_panel(example, length, pieces, title)
    originals = _originals(example)
    segments = [Text("A "), Text("B ")]
    for position in range(length):
        segment = segments[int(example["segment_ids"][position] != 0)]
        shown = int(example["input_ids"][position])
        segment.append_text(_piece(shown, originals.get(position), pieces, mask_id))
    label = "swapped" if example["next_sentence_labels"][0] else "in order"
    heading = Text(f"{title}: {label}, {length} tokens, {len(originals)} masked")
    return Panel(Group(*segments), title=heading, title_align="left")


def _chunk_panel(example: dict[str, np.ndarray], length: int, pieces: tuple[str, ...], title: str) -> Panel:
    """A box with a line for each sentence."""
    starts = example["sentence_starts"]
    sentences = np.split(example["input_ids"][:length], starts[starts != 0])
    lines = [
        Text(f"{number} " + "".join(pieces[i] for i in ids).replace(SPACE, " "))
        for number, ids in enumerate(sentences, start=1)
    ]
    heading = Text(f"{title}: {len(sentences)} sentences, {length} tokens, cut and masked in training")
    return Panel(Group(*lines), title=heading, title_align="left")


def _originals(example: dict[str, np.ndarray]) -> dict[int, int]:
    """Masked position -> original id."""
    if "masked_lm_ids" not in example:
        return {}
    used = example["masked_lm_weights"] > 0
    positions, ids = example["masked_lm_positions"][used], example["masked_lm_ids"][used]
    return dict(zip(positions.tolist(), ids.tolist(), strict=True))


def _piece(shown: int, original: int | None, pieces: tuple[str, ...], mask_id: int) -> Text:
    if original is None:
        piece = pieces[shown]
        return Text(" [SEP]" if piece == "[SEP]" else piece.replace(SPACE, " "))
    text = Text(" " if pieces[original].startswith(SPACE) else "")
    was, now = (pieces[i].replace(SPACE, "") or SPACE for i in (original, shown))
    if shown == mask_id:
        return text.append(f"{{{was}}}", _STYLES["mask"])
    if shown == original:
        return text.append(f"{{{was}=}}", _STYLES["kept"])
    return text.append(f"{{{was}→{now}}}", _STYLES["random"])
