"""Checkpoints that are compared: read, named, and grouped as seeds of one model."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.lab.labels import Labelled, labelled
from albert_tf.parameters import count_parameters, distinct_layers
from albert_tf.pretrained.recognition import read
from albert_tf.pretrained.stored import StoredModel, check_vocabulary
from data_prep.errors import InputError
from data_prep.tokenizers.vocabulary import Vocabulary

# What may differ between seeds of one row.
_FREE = ("hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range")


@dataclass(frozen=True)
class Checkpoint:
    """One of the checkpoints to measure, as it was named and as it was read; with a vocabulary."""

    label: Labelled
    stored: StoredModel

    @property
    def vocabulary(self) -> Vocabulary:
        """Its own, or the one that was named for those without."""
        assert self.stored.vocabulary is not None
        return self.stored.vocabulary


def read_checkpoints(models: Sequence[str], fallback: Vocabulary | None) -> dict[str, list[Checkpoint]]:
    """Reads checkpoints of any format, with a vocabulary each.

    Args:
      models: PATH or NAME=PATH, as `labels.labelled` takes them.
      fallback: the vocabulary of those that come without theirs.

    Returns:
      Name -> its seeds, in the order of `models`.

    Raises:
      InputError: one cannot be read or has no vocabulary, or two of one name are of different shapes.
    """
    groups: dict[str, list[Checkpoint]] = {}
    for label in labelled(models):
        stored = _with_vocabulary(read(label.path), fallback, label.path)
        groups.setdefault(label.name, []).append(Checkpoint(label, stored))
    for name, group in groups.items():
        _check_same_shape(name, group)
    return groups


def sharing_of(config: AlbertConfig) -> str:
    """What the layers have in common, in words.

    >>> sharing_of(AlbertConfig(num_hidden_layers=4, num_hidden_groups=4))
    'nothing shared'
    """
    attentions, ffns = distinct_layers(config)
    if attentions == ffns == config.num_hidden_layers:
        return "nothing shared" if config.num_hidden_layers > 1 else "a single layer"
    if attentions == ffns:
        return "all shared" if attentions == 1 else f"shared in {attentions} groups"
    return "attention shared" if attentions == 1 else "feed-forward shared"


def described(group: Sequence[Checkpoint]) -> dict[str, Any]:
    """What results.json says of a row's checkpoints."""
    config = group[0].stored.config
    return {
        "paths": [each.label.path for each in group],
        "format": group[0].stored.format,
        "sharing": sharing_of(config),
        "layers": config.num_hidden_layers,
        "hidden_size": config.hidden_size,
        "embedding_size": config.embedding_size,
        "parameters": count_parameters(config).encoder,
    }


def _with_vocabulary(stored: StoredModel, fallback: Vocabulary | None, path: str) -> StoredModel:
    """The model with its own vocabulary, or else with the one that was named."""
    if stored.vocabulary is not None:
        return stored
    if fallback is None:
        raise InputError(
            f"The text becomes tokens by the checkpoint's vocabulary, and {path} comes without one. Name the "
            "SentencePiece model with --spm_model_file or the WordPiece vocab.txt with --vocab_file."
        )
    with_fallback = dataclasses.replace(stored, vocabulary=fallback)
    check_vocabulary(with_fallback)
    return with_fallback


def _check_same_shape(name: str, group: Sequence[Checkpoint]) -> None:
    first, *others = group
    shape = _shape(first)
    for other in others:
        different = [key for key, value in _shape(other).items() if shape[key] != value]
        if different:
            raise InputError(
                f"Checkpoints of one name, here {name}, are seeds of one model. Received {first.label.path} and "
                f"{other.label.path}, whose {', '.join(different)} differ; give them names, as in "
                "--model=NAME=PATH."
            )


def _shape(checkpoint: Checkpoint) -> dict[str, Any]:
    values = checkpoint.stored.config.to_dict()
    return {name: value for name, value in values.items() if name not in _FREE}
