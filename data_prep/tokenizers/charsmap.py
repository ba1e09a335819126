"""Reads and compiles SentencePiece's table of characters, the texts that a model's own normalization replaces."""

import io
import tempfile
from collections.abc import Mapping
from itertools import chain
from pathlib import Path

import numpy as np
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

SEPARATOR = "\ue000"  # a private-use character, which no rule combines with others
_MOST_PREFIXES = 1 << 22  # of keys; a damaged table may have any number
_RULE_WITHOUT_EFFECT = "ffff\tfffd\n"  # the trainer refuses an empty table


def charsmap_keys(charsmap: bytes) -> list[str]:
    """The texts that a table replaces: the keys of its double array (Darts).

    Args:
      charsmap: `precompiled_charsmap` of a model: the size of the array, the array of uint32, the replacements.

    Raises:
      ValueError: the array is damaged.
    """
    if not charsmap:
        return []
    units = np.frombuffer(charsmap, "<u4", int.from_bytes(charsmap[:4], "little") // 4, 4).astype(np.int64)
    places, labels, has_value = np.arange(len(units)), units & 0x800000FF, (units >> 8 & 1).astype(bool)
    # A unit is a child of those whose offset leads to it by its label, a byte.
    families, child_keys = places ^ (units >> 10) << ((units & (1 << 9)) >> 6), places ^ labels
    children = places[(labels > 0) & (labels < 256)]
    children = children[np.argsort(child_keys[children], kind="stable")]
    begins, ends = (np.searchsorted(child_keys[children], families, side) for side in ("left", "right"))
    keys, texts, nodes, seen = list[str](), [b""], np.zeros(1, np.int64), 0
    while texts:  # all prefixes of one length at a time
        seen += len(texts)
        if seen > _MOST_PREFIXES:  # keys share their ends in the array, so its size is no limit
            raise ValueError("the table of characters has too many keys")
        counts = ends[nodes] - begins[nodes]
        rows = np.repeat(np.arange(len(nodes)), counts)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        nodes = children[begins[nodes[rows]] + within]
        pairs = zip(rows.tolist(), labels[nodes].tolist(), strict=True)
        texts = [texts[row] + bytes((byte,)) for row, byte in pairs]
        keys += [texts[i].decode() for i in np.flatnonzero(has_value[nodes]).tolist()]
    return keys


def compiled_charsmap(table: Mapping[str, str]) -> bytes:
    """A table of texts and what replaces them, as the trainer of SentencePiece compiles it."""
    rules = "".join(
        "\t".join(" ".join(f"{ord(character):x}" for character in text) for text in item) + "\n"
        for item in table.items()
        if item[0] != item[1]
    )
    with tempfile.TemporaryDirectory() as folder:
        path, model = Path(folder, "rules.tsv"), io.BytesIO()
        path.write_text(rules or _RULE_WITHOUT_EFFECT, encoding="utf-8")
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["a"]),
            model_writer=model,
            model_type="char",
            vocab_size=5,
            normalization_rule_tsv=str(path),
            minloglevel=2,
        )
    return sentencepiece_model_pb2.ModelProto.FromString(
        model.getvalue()
    ).normalizer_spec.precompiled_charsmap


def all_characters() -> list[str]:
    """Every character that a table may replace, without the one that separates them in a text."""
    codes = chain(range(1, 0xD800), range(0xE000, 0xFFFE), range(0x10000, 0x30000), range(0xE0000, 0xE0200))
    return [chr(code) for code in codes if code != ord(SEPARATOR)]
