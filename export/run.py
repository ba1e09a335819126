"""From a run's folder to a SavedModel."""

import json
from pathlib import Path

from albert_tf.training.checkpoints import CONFIG_FILE, MANIFEST_FILE, VOCABULARY_FILE, load_run
from export.savedmodel import check_destination, save_model


def export_run(model_dir: str | Path, output: str | Path) -> Path:
    """Exports the newest checkpoint of a run, with its vocabulary where the run has one.

    Returns:
      The folder of the SavedModel.

    Raises:
      InputError: there is no run in `model_dir`, or `output` holds something that is not an export.
    """
    model_dir, output = Path(model_dir), Path(output)
    check_destination(output)
    model = load_run(model_dir)
    vocabulary = model_dir / VOCABULARY_FILE
    save_model(
        model,
        output,
        config_file=model_dir / CONFIG_FILE,
        vocabulary=vocabulary if vocabulary.exists() else None,
        do_lower_case=_do_lower_case(model_dir),
    )
    return output


def _do_lower_case(model_dir: Path) -> bool:
    manifest = model_dir / MANIFEST_FILE
    if not manifest.exists():
        return True
    return bool(json.loads(manifest.read_text(encoding="utf-8"))["settings"]["do_lower_case"])
