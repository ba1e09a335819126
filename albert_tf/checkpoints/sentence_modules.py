"""Modules of sentence-transformers that make other vectors than the mean of an encoder's output."""

import re
from pathlib import Path
from typing import Any

from albert_tf.checkpoints.stored import read_optional_json
from data_prep.files import read_json

_MODULES_FILE = "modules.json"
_OLD_MODE = re.compile("pooling_mode_(.+)_tokens?")  # "pooling_mode_cls_token": true


def modules_beside_mean(folder: Path) -> tuple[str, ...]:
    """The modules of a sentence-transformers folder besides the encoder and the mean; () if there are none.

    Raises:
      InputError: modules.json or a module's config.json is not JSON.
    """
    path = folder / _MODULES_FILE
    modules = read_json(path) if path.exists() else ()
    rows = [module for module in modules if isinstance(module, dict)] if isinstance(modules, list) else []
    found = [_described(folder, module) for module in rows]
    return tuple(module for module in found if module not in ("Transformer", "Pooling (mean)"))


def _described(folder: Path, module: dict[str, Any]) -> str:
    """The name of a module's class, with the mode of pooling."""
    name = str(module.get("type")).rpartition(".")[2]
    if name != "Pooling":
        return name
    values = read_optional_json(folder / str(module.get("path")) / "config.json")
    old = [match[1] for key, value in values.items() if (match := _OLD_MODE.fullmatch(key)) and value]
    modes = values.get("pooling_mode", old or "mean")
    return f"Pooling ({', '.join(map(str, modes)) if isinstance(modes, list) else modes})"
