"""Changes to the files of a portable model after which their hashes are right again."""

import json
from pathlib import Path
from typing import Any

from albert_tf.runtime.portable_folder import FACTS_FILE
from data_prep.files import file_sha256


def seal(folder: Path) -> None:
    """Writes the SHA-256 of the files that portable.json lists into it, if it is still a manifest."""
    try:
        manifest = json.loads((folder / FACTS_FILE).read_text())
        files = manifest["files"]
        for name in files:
            if (folder / name).is_file():
                files[name] = file_sha256(folder / name)
        (folder / FACTS_FILE).write_text(json.dumps(manifest))
    except (OSError, ValueError, TypeError, KeyError, RecursionError):  # the manifest itself was changed
        return


def change_facts(folder: Path, **changes: Any) -> None:
    """Replaces facts in portable.json."""
    manifest = json.loads((folder / FACTS_FILE).read_text())
    manifest["facts"] |= changes
    (folder / FACTS_FILE).write_text(json.dumps(manifest))


def list_file(folder: Path, name: str) -> None:
    """Adds a file to portable.json."""
    manifest = json.loads((folder / FACTS_FILE).read_text())
    manifest["files"][name] = ""
    (folder / FACTS_FILE).write_text(json.dumps(manifest))
    seal(folder)


def change_config(folder: Path, **changes: Any) -> None:
    """Replaces fields of the configuration."""
    path = folder / "albert_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    seal(folder)
