"""The checkpoints of Figure 1: read, named, and grouped as seeds of one model."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albert_tf.checkpoints.open_model import read
from albert_tf.checkpoints.stored import StoredModel, check_vocabulary
from albert_tf.config import AlbertConfig
from albert_tf.lab.named_paths import NamedPath, parse_named_paths
from albert_tf.parameters import count_parameters, distinct_layers
from data_prep.errors import InputError, check_given_once
from data_prep.tokenizers.vocabulary import Vocabulary

# Configuration fields that may differ between seeds of one row.
_FREE_FIELDS = ("hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint to measure.

    Attributes:
      source: its path and name.
      stored: the model.
      vocabulary: its own, or the one for checkpoints without.
    """

    source: NamedPath
    stored: StoredModel
    vocabulary: Vocabulary


def read_checkpoints(models: Sequence[str], fallback: Vocabulary | None) -> dict[str, list[Checkpoint]]:
    """Reads checkpoints of any format, with a vocabulary each.

    Args:
      models: PATH or NAME=PATH, as for `parse_named_paths`.
      fallback: the vocabulary for checkpoints that have none.

    Returns:
      Name -> its seeds, in the order of `models`.

    Raises:
      InputError: one cannot be read, has no vocabulary or is given twice, or two with the same name have different
        shapes.
    """
    groups: dict[str, list[Checkpoint]] = {}
    sources = parse_named_paths(models)
    check_given_once("checkpoint", (Path(source.path).resolve() for source in sources))
    for source in sources:
        stored = read(source.path)
        vocabulary = stored.vocabulary or _checked_fallback(stored, fallback, source.path)
        groups.setdefault(source.name, []).append(Checkpoint(source, stored, vocabulary))
    for name, group in groups.items():
        _check_same_shape(name, group)
    return groups


def sharing_of(config: AlbertConfig) -> str:
    """The layers' parameter sharing in words.

    >>> sharing_of(AlbertConfig(num_hidden_layers=4, num_hidden_groups=4))
    'nothing shared'
    """
    attentions, ffns = distinct_layers(config)
    if attentions == ffns == config.num_hidden_layers:
        return "nothing shared" if config.num_hidden_layers > 1 else "a single layer"
    if attentions == ffns:
        return "all shared" if attentions == 1 else f"shared in {attentions} groups"
    return "attention shared" if attentions == 1 else "feed-forward shared"


def describe_checkpoints(group: Sequence[Checkpoint]) -> dict[str, Any]:
    """The description of a row's checkpoints in results.json."""
    config = group[0].stored.config
    return {
        "paths": [each.source.path for each in group],
        "format": group[0].stored.format,
        "sharing": sharing_of(config),
        "layers": config.num_hidden_layers,
        "hidden_size": config.hidden_size,
        "embedding_size": config.embedding_size,
        "parameters": count_parameters(config).encoder,
    }


def _checked_fallback(stored: StoredModel, fallback: Vocabulary | None, path: str) -> Vocabulary:
    """The vocabulary for checkpoints that have none, after a check that it fits this one."""
    if fallback is None:
        raise InputError(
            f"A checkpoint's vocabulary tokenizes the text, and {path} has none. Name a SentencePiece model with "
            "--spm_model_file or a WordPiece vocab.txt with --vocab_file."
        )
    check_vocabulary(dataclasses.replace(stored, vocabulary=fallback))
    return fallback


def _check_same_shape(name: str, group: Sequence[Checkpoint]) -> None:
    first, *others = group
    shape = _shape(first)
    for other in others:
        different = [key for key, value in _shape(other).items() if shape[key] != value]
        if different:
            raise InputError(
                f"Checkpoints with the same name, here {name}, must be seeds of one model. Received "
                f"{first.source.path} and {other.source.path}, whose {', '.join(different)} differ; name them "
                "with --model=NAME=PATH."
            )


def _shape(checkpoint: Checkpoint) -> dict[str, Any]:
    values = checkpoint.stored.config.to_dict()
    return {name: value for name, value in values.items() if name not in _FREE_FIELDS}
