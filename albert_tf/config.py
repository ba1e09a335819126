"""A model's configuration, and the configurations that the paper trained (Table 1)."""

import dataclasses
import difflib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from data_prep.errors import InputError
from data_prep.files import read_json_object, write_json
from data_prep.storage.paths import local_copy

CONFIG_FILE = "albert_config.json"  # the name that Google gave it

ParameterSharing = Literal["all", "attention", "ffn", "none"]
HiddenAct = Literal["gelu", "gelu_erf", "relu", "tanh", "linear"]

# Whole numbers from 1 to these, which no real model reaches: a file with more would use up all memory.
_LARGEST = {
    "vocab_size": 10_000_000,
    "embedding_size": 65_536,
    "hidden_size": 65_536,
    "num_hidden_layers": 1_000,
    "num_hidden_groups": 1_000,
    "inner_group_num": 100,
    "num_attention_heads": 4_096,
    "intermediate_size": 524_288,
    "max_position_embeddings": 1_048_576,
    "type_vocab_size": 1_000,
}
# Keys of Google's released files with the only value that ever worked; they do not describe the model.
_INERT = {
    "net_structure_type": 0,
    "gap_size": 0,
    "num_memory_blocks": 0,
    "down_scale_factor": 1,
    "layers_to_keep": [],
}

# Fields that every configuration file must give: defaults would silently be another model.
_SHAPE = (
    "vocab_size",
    "embedding_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
)

Remat = bool | Literal["activations", "layers"]  # what is recomputed in the backward pass
ResizePositions = bool | Literal["tile", "fresh"]  # how a position table is lengthened; True is "tile"


@dataclass(frozen=True)
class AlbertConfig:
    """Everything that determines the parameters and the computation of an ALBERT (or, unshared, a BERT).

    Attributes:
      vocab_size: V, the number of pieces.
      embedding_size: E, width of the factorized embeddings (paper, section 3.1).
      hidden_size: H, width of the layers. If E == H there is no projection between the two.
      num_hidden_layers: L, number of layers.
      num_hidden_groups: G, number of different layers if everything is shared; layer i uses group
        floor(i * G / L).
      inner_group_num: blocks (attention + feed-forward) inside each layer.
      num_attention_heads: N; each head has H / N dimensions.
      intermediate_size: F, width of the feed-forward part.
      hidden_act: "gelu" is the tanh approximation that Google's checkpoints were trained with,
        "gelu_erf" is the exact form, and the Chinese checkpoints use "relu". "tanh" and "linear" are the
        original's others; `from_dict` reads the original's spellings in any case, and "" as "linear".
      hidden_dropout_prob: dropout on embeddings, attention output and feed-forward output.
      attention_probs_dropout_prob: dropout on attention probabilities.
      max_position_embeddings: longest sequence.
      type_vocab_size: number of token types (segments); a model of one reads any type as 0.
      initializer_range: standard deviation of the truncated normal initializer.
      layer_norm_epsilon: added to the variance in every LayerNorm.
      parameter_sharing: which parts all layers share (paper, section 3.1 and Table 4).

    Raises:
      InputError: a value is out of range, or two values contradict each other.

    >>> config = AlbertConfig.from_preset("albert_base_v2")
    >>> config.hidden_size, config.num_hidden_layers
    (768, 12)
    """

    vocab_size: int = 30000
    embedding_size: int = 128
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_hidden_groups: int = 1
    inner_group_num: int = 1
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: HiddenAct = "gelu"
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_epsilon: float = 1e-12
    parameter_sharing: ParameterSharing = "all"

    def __post_init__(self):
        for name, largest in _LARGEST.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= largest:
                raise InputError(
                    f"`{name}` must be a whole number from 1 to {largest:,}. Received {_shown(value)}."
                )
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            if not _is_number(getattr(self, name)) or not 0 <= getattr(self, name) < 1:
                raise InputError(
                    f"`{name}` must be at least 0 and below 1. Received {_shown(getattr(self, name))}."
                )
        for name in ("initializer_range", "layer_norm_epsilon"):
            if not _is_number(getattr(self, name)) or not getattr(self, name) > 0:
                raise InputError(
                    f"`{name}` must be a number above 0. Received {_shown(getattr(self, name))}."
                )
        for name, choices in (
            ("hidden_act", get_args(HiddenAct)),
            ("parameter_sharing", get_args(ParameterSharing)),
        ):
            if getattr(self, name) not in choices:
                raise InputError(
                    f"`{name}` must be one of {', '.join(choices)}. Received {getattr(self, name)!r}."
                )
        if self.hidden_size % self.num_attention_heads:
            raise InputError(
                "`hidden_size` must be divisible by `num_attention_heads`. "
                f"Received {self.hidden_size} and {self.num_attention_heads}."
            )
        if self.num_hidden_groups > self.num_hidden_layers:
            raise InputError(
                "`num_hidden_groups` must not exceed `num_hidden_layers`. "
                f"Received {self.num_hidden_groups} and {self.num_hidden_layers}."
            )
        if self.num_hidden_groups > 1 and self.parameter_sharing != "all":
            raise InputError(
                "`num_hidden_groups` divides layers that share everything, so it needs "
                f'`parameter_sharing` "all". Received {self.num_hidden_groups} groups and '
                f"{self.parameter_sharing!r}."
            )

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "AlbertConfig":
        """Reads the keys of an `albert_config.json`; an unknown key is an error that names a similar field.

        Raises:
          InputError: a key is unknown, a value is out of range, or the file is Hugging Face's.
        """
        if theirs := _huggingface_key(values):
            raise InputError(
                f"This must be an {CONFIG_FILE}. It is a Hugging Face configuration, since it has `{theirs}`; "
                f"load the model's folder with --init_checkpoint or load_pretrained, or name an {CONFIG_FILE}."
            )
        fields = [field.name for field in dataclasses.fields(cls)]
        known = {}
        for key, value in values.items():
            if key in fields:
                known[key] = value
            elif key not in _INERT:
                similar = difflib.get_close_matches(key, fields, n=1)
                advice = (
                    f"Did you mean `{similar[0]}`?" if similar else f"The fields are {', '.join(fields)}."
                )
                raise InputError(f"`{key}` is not a field of an ALBERT configuration. {advice}")
            elif value != _INERT[key]:
                raise InputError(f"`{key}` can only be {_INERT[key]}. Received {value!r}.")
        if isinstance(activation := known.get("hidden_act"), str):
            known["hidden_act"] = activation.lower() or "linear"
        return cls(**known)

    @classmethod
    def from_json_file(cls, path: str | os.PathLike) -> "AlbertConfig":
        """Reads an `albert_config.json`, Google's or ours, also at an address."""
        values = read_json_object(local_copy(Path(path)))
        missing = [name for name in _SHAPE if name not in values]
        if missing and not _huggingface_key(values):
            raise InputError(
                f"{path} must give {', '.join(_SHAPE)}, since other values are another model. It lacks "
                f"{', '.join(missing)}."
            )
        try:
            return cls.from_dict(values)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None

    @classmethod
    def from_preset(cls, name: str, **changes) -> "AlbertConfig":
        """One of `PRESETS`, with fields changed by keyword: `from_preset("albert_base_v2", vocab_size=8000)`."""
        if name not in PRESETS:
            nearest = difflib.get_close_matches(name, PRESETS, n=1, cutoff=0.0)[0]
            raise InputError(
                f"There is no preset {name!r}. Did you mean {nearest!r}? All presets: {', '.join(PRESETS)}."
            )
        return cls.from_dict({**PRESETS[name], **changes})

    def to_dict(self) -> dict[str, Any]:
        """All fields, named as in the original `albert_config.json`."""
        return dataclasses.asdict(self)

    def to_json_file(self, path: str | os.PathLike) -> None:
        """Writes an `albert_config.json` for `from_json_file` and, unless it has `gelu_erf`, for the original."""
        write_json(path, self.to_dict())


def _huggingface_key(values: dict[str, Any]) -> str | None:
    """A key that every config.json of Hugging Face has and no configuration of ours; None without it."""
    return next((key for key in ("model_type", "architectures") if key in values), None)


def _is_number(value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -1e30 < value < 1e30  # not NaN


def _shown(value) -> str:
    """A value for a message; Python refuses to print an integer of thousands of digits."""
    if isinstance(value, int) and value.bit_length() > 64:
        return f"an integer of {value.bit_length():,} bits"
    return repr(value)[:80]


_BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
_XLARGE = {"hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 8192}
_XXLARGE = {
    "hidden_size": 4096,
    "num_hidden_layers": 12,
    "num_attention_heads": 64,
    "intermediate_size": 16384,
}
_DROPOUT = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
_UNSHARED = {"parameter_sharing": "none", **_DROPOUT}

PRESETS: dict[str, dict[str, Any]] = {
    # Version 2 removed dropout everywhere; xxlarge was trained without it from the start.
    "albert_base_v1": {**_BASE, **_DROPOUT},
    "albert_large_v1": {**_LARGE, **_DROPOUT},
    "albert_xlarge_v1": {**_XLARGE, **_DROPOUT},
    "albert_xxlarge_v1": {**_XXLARGE},
    "albert_base_v2": {**_BASE},
    "albert_large_v2": {**_LARGE},
    "albert_xlarge_v2": {**_XLARGE},
    "albert_xxlarge_v2": {**_XXLARGE},
    # The paper's BERT rows: the same encoder with E = H and nothing shared.
    "bert_base": {**_BASE, **_UNSHARED, "embedding_size": 768},
    "bert_large": {**_LARGE, **_UNSHARED, "embedding_size": 1024},
}
